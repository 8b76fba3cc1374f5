from __future__ import annotations

import re
from warnings import catch_warnings

import optuna
import pytest
from optuna.distributions import FloatDistribution

from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.optuna.study import check_origin
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import RecordError
from hpometrics.run import Reported
from hpometrics.space.dimensions import Choice, Float, Int
from hpometrics.space.space import Space

SPACE = Space({"lr": Float(0, 1), "depth": Int(1, 8, log=True), "kind": Choice(["a", "b"])})


def train(params, run):
    """The loss is the rate."""
    for _ in run.epochs(1):
        run.log(loss=params["lr"])


def made_by_hand(params, metric: str | None = None) -> optuna.Study:
    """A study with one finished trial that no objective of ours has run."""
    study = optuna.create_study(study_name="digits")
    kinds = {name: FloatDistribution(-10, 10) for name in params}
    study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=0.5))
    if metric is not None:
        with catch_warnings(action="ignore", category=optuna.exceptions.ExperimentalWarning):
            study.set_metric_names([metric])
    return study


def test_each_difference_of_two_spaces_is_told():
    """What changed, what is new and what is gone; `extend` accepts and notes it."""
    study = optuna.create_study(study_name="digits")
    check_origin(study, ["loss"], SPACE)
    check_origin(study, ["loss"], SPACE)
    other = Space({"lr": Float(0, 1, log=False), "depth": Int(1, 4), "width": Int(8, 64, step=8)})
    message = (
        "the study 'digits' was made with another space:\n"
        "  space.depth: int(low=1, high=8, log=true, step=1) -> int(low=1, high=4, step=1)\n"
        '  space.kind: choice(options=["a", "b"]) -> (not there)\n'
        "  space.width: (not there) -> int(low=8, high=64, step=8)\n"
        "create another study"
    )
    with pytest.raises(RecordError, match=re.escape(message)):
        check_origin(study, ["loss"], other)
    check_origin(study, ["loss"], other, extend=True)
    check_origin(study, ["loss"], other)


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (
            made_by_hand({"lr": 0.5}),
            r"1 finished trials that do not say which metric .*\['loss'\]\) says",
        ),
        (made_by_hand({"lr": 0.5}, "mae"), "the study 'digits' is of mae, not of loss; create another one"),
        (made_by_hand({"lr": 5.0}, "loss"), r"trial 0 of .*'digits' is of another space: space.lr: must lie"),
        (made_by_hand({"rate": 0.5}, "loss"), "another space: space.rate: no such param"),
        (made_by_hand({}, "loss"), "another space: space.lr: is missing"),
    ],
)
def test_a_study_made_by_hand_is_taken_only_for_what_it_says(study, message):
    """Trials of another metric or space would be compared with ours."""
    objective = OptunaObjective(train, {"lr": Float(0, 1)}, metric=Reported("loss", MINIMIZE))
    with pytest.raises(RecordError, match=message):
        study.optimize(objective, n_trials=1)


def test_a_study_made_by_hand_goes_on_where_it_fits():
    """Its trials lie in the space, and its metric has the same name; those that only wait say nothing."""
    objective = OptunaObjective(train, {"lr": Float(0, 1)}, metric=Reported("loss", MINIMIZE))
    study = made_by_hand({"lr": 0.25}, "loss")
    study.enqueue_trial({"lr": 0.75})
    study.optimize(objective, n_trials=2)
    assert [trial.value for trial in study.trials[:2]] == [0.5, 0.75]
