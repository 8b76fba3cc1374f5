"""A search by the level of a trial, which any process can import."""

from __future__ import annotations

from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.direction import MINIMIZE
from hpometrics.run import Reported
from hpometrics.space.dimensions import Float

LOSS = Reported("loss", MINIMIZE)
SPACE = {"level": Float(0, 1), "k": 3}


def level(params, run):
    """Each epoch's loss is the level; the last of four is much worse."""
    for epoch in run.epochs(4):
        run.log(loss=params["level"] + 5.0 * (epoch == 3), seen=run.params["level"])


def objective_of(train=level, **facts) -> OptunaObjective:
    """An objective over the level."""
    return OptunaObjective(train, SPACE, **{"metric": LOSS, **facts})
