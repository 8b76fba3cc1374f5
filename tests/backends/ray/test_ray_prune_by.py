"""`prune_by` on Ray: what a scheduler judges where there are several objectives."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler

from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.ray.objective import RayObjective
from hpometrics.backends.ray.reporter import earlier_reports
from hpometrics.backends.ray.schedulers import DominanceScheduler, EndedTrial, Settled, make_scheduler
from hpometrics.backends.ray.session import EPOCHS, JUDGED, NUMBER, UNJUDGED
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.run import Reported
from hpometrics.selection.rules import DominanceRule
from hpometrics.space.dimensions import Float

BOTH = {"auc": MAXIMIZE, "cost": MINIMIZE}
METRICS = [Reported("auc", "maximize"), Reported("cost", "minimize")]
FACTS: dict[str, Any] = {
    "metric": METRICS,
    "track": [Reported("loss", "minimize")],
    "epochs": 4,
    "seed": 3,
}
SPACE = {"x": Float(0, 1), "y": Float(0, 1)}


def make_train() -> Any:
    """The larger x, the better from epoch to epoch; the larger y, the dearer."""

    def train(params, run):
        for epoch in run.epochs():
            auc = params["x"] * (1 - 0.5 ** (epoch + 1))
            run.log(auc=auc, cost=params["y"], loss=float("nan") if params["x"] > 0.97 else 1 - auc)

    return train


@pytest.mark.ray
@pytest.mark.parametrize(
    ("prune_by", "pruner"), [("dominance", {"percentile": {"percentile": 30}}), ("loss", "median")]
)
def test_a_trial_is_stopped_on_ray_as_on_optuna(ray_cluster, prune_by, pruner):
    """One trial after the other: by dominance the same trials."""
    objective = RayObjective(make_train(), SPACE, **FACTS, prune_by=prune_by)
    results = objective.tuner(14, scheduler=pruner, sampler="random", max_concurrent=1).fit()
    records = objective.records(results)
    pruned = [one for one in records if one.state is TrialState.PRUNED]
    assert 0 < len(pruned) < 14
    assert not {one.trial for one in objective.front(results)} & {one.number for one in pruned}
    if prune_by == "loss":
        return
    other = OptunaObjective(make_train(), SPACE, **FACTS, prune_by=prune_by)
    study = other.create_study(pruner=pruner, sampler="random")
    other.optimize(study, 14)
    assert [(one.params, one.state) for one in records] == [
        (one.params, one.state) for one in other.records(study)
    ]


def judged(scheduler: Settled, number: int, epoch: int, **values: Any) -> str:
    """The decision of a scheduler on a report of a trial."""
    trial: Any = SimpleNamespace(config={NUMBER: number}, metric_analysis={})
    return scheduler.on_trial_result(None, trial, {EPOCHS: epoch + 1, **values})


def test_earlier_trials_count_for_dominance():
    """Those that an earlier fit has left on disk and that did not fail; one that fails counts no longer."""
    epochs = tuple(EpochRecord(epoch, {"auc": 0.9, "cost": 1.0}) for epoch in range(2))
    states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAILED, TrialState.FAILED)
    records = [TrialRecord(number, {}, state, epochs=epochs) for number, state in enumerate(states)]
    ended = [EndedTrial(one, earlier_reports(one, "auc", MAXIMIZE, BOTH)) for one in records]
    scheduler = Settled(DominanceScheduler(DominanceRule(min_trials=3), BOTH), earlier=ended)
    good, worse = Trial("own", stub=True, config={NUMBER: 4}), Trial("own", stub=True, config={NUMBER: 5})
    scheduler.on_trial_add(None, good)
    assert scheduler.on_trial_result(None, good, {EPOCHS: 1, "auc": 0.9, "cost": 1.0}) == "CONTINUE"
    report = {EPOCHS: 1, "auc": math.nan, "cost": 2.0}
    assert scheduler.on_trial_result(None, worse, report) == FIFOScheduler.STOP
    scheduler.on_trial_error(None, good)
    assert scheduler.on_trial_result(None, worse, report) == FIFOScheduler.CONTINUE


def test_a_scheduler_judges_the_metric_in_its_direction():
    """By the key of its value, whatever the first objective's direction is."""
    scheduler = make_scheduler("asha", MINIMIZE, epochs=4, key=JUDGED)
    assert isinstance(scheduler, AsyncHyperBandScheduler) and scheduler.metric == JUDGED
    objective = RayObjective(make_train(), SPACE, **FACTS, prune_by="loss")
    assert objective._scheduler("asha").metric == JUDGED


def test_an_epoch_that_cannot_be_judged_goes_on():
    """A value that was not measured is not the worst one."""
    scheduler = Settled(DominanceScheduler(DominanceRule(min_trials=1), BOTH))
    good, bad = {"auc": 0.9, "cost": 1.0}, {"auc": math.nan, "cost": math.nan}
    assert [judged(scheduler, 0, epoch, **good) for epoch in range(2)] == ["CONTINUE"] * 2
    assert judged(scheduler, 1, 0, **bad, **{UNJUDGED: True}) == "CONTINUE"
    assert judged(scheduler, 1, 1, **bad) == "STOP"


@pytest.mark.parametrize(
    ("prune_by", "scheduler", "text"),
    [
        ("loss", None, "prune_by: loss needs a scheduler that uses it, such as scheduler: median"),
        ("dominance", "asha", "as median or percentile does; asha does not"),
        ("loss", {"pbt": {"mutate": ["x"]}}, "pbt never stops a trial; leave prune_by out"),
        ("dominance", AsyncHyperBandScheduler(), "AsyncHyperBandScheduler does not"),
    ],
)
def test_what_cannot_judge_is_refused(prune_by, scheduler, text):
    """Before Ray starts."""
    objective = RayObjective(make_train(), SPACE, **FACTS, prune_by=prune_by)
    with pytest.raises(ConfigError, match=text):
        objective.tuner(2, scheduler=scheduler)
