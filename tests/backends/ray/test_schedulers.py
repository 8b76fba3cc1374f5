"""Schedulers by name judge the current value in the direction of the metric."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    ResourceChangingScheduler,
    TrialScheduler,
)

from hpometrics.backends.ray.schedulers import RAY_SCHEDULERS, Unpaused, make_scheduler
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, DirectionError


def test_schedulers_judge_the_current_value_in_the_metrics_direction():
    """By name or as an object, a fresh one each time; time is the epoch."""
    asha = make_scheduler({"asha": {"eta": 3}}, MAXIMIZE, epochs=9)
    assert isinstance(asha, AsyncHyperBandScheduler)
    assert (asha.metric, asha._metric_op, asha._max_t, asha._time_attr) == ("value", 1.0, 9, "epochs")
    median = make_scheduler({"median": {"warmup": 2, "min_trials": 4}}, MINIMIZE)
    assert isinstance(median, Unpaused) and isinstance(median.scheduler, MedianStoppingRule)
    assert median.metric == "value"
    median = median.scheduler
    assert (median._grace_period, median._min_samples_required, median._worst) == (3, 4, math.inf)
    assert isinstance(make_scheduler(None, MINIMIZE), FIFOScheduler)
    mine = AsyncHyperBandScheduler(mode="max")
    taken = make_scheduler(mine, MAXIMIZE)
    assert taken is not mine and taken.metric == "value" and mine.metric is None


class Polite(FIFOScheduler):
    """A scheduler that pauses every trial after every epoch."""

    def on_trial_result(self, tune_controller, trial, result):
        return self.PAUSE


@pytest.mark.parametrize(
    "spec",
    ["none", "asha", "hyperband", "median", MedianStoppingRule(), Polite()],
    ids=lambda spec: spec if isinstance(spec, str) else type(spec).__name__,
)
def test_no_scheduler_pauses_a_trial(spec):
    """A pause ends a process, and its trial is trained again."""
    scheduler = make_scheduler(spec, MINIMIZE, epochs=9)
    waiting, trial = Trial("a", stub=True), Trial("b", stub=True)
    controller = SimpleNamespace(get_live_trials=lambda: [waiting])
    scheduler.on_trial_add(controller, trial)
    told = [{"epochs": epoch, "time_total_s": 99.0 * epoch, "value": 0.5} for epoch in range(1, 9)]
    decisions = {scheduler.on_trial_result(controller, trial, report) for report in told}
    assert decisions == {TrialScheduler.CONTINUE}


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        ("ashaa", ConfigError, "'ashaa' is not a scheduler; did you mean 'asha'"),
        ({"asha": {"max_t": 3}}, ConfigError, "scheduler 'asha' has no argument 'max_t'"),
        (
            {"asha": {"min_epochs": 20}},
            ConfigError,
            "min_epochs of asha must be at most the number of epochs",
        ),
        (AsyncHyperBandScheduler(metric="f1", mode="min"), DirectionError, "has metric='f1'; leave it out"),
        (AsyncHyperBandScheduler(mode="max"), DirectionError, "must be minimized, but the .* has mode='max'"),
        (HyperBandScheduler(), ConfigError, "a HyperBandScheduler pauses trials, .* use 'hyperband',"),
        (HyperBandForBOHB(), ConfigError, "a HyperBandForBOHB pauses trials"),
        (
            ResourceChangingScheduler(PopulationBasedTraining(hyperparam_mutations={"lr": [1, 2]})),
            ConfigError,
            "cannot change the trials of a PopulationBasedTraining; set base_scheduler to one that never "
            "pauses",
        ),
        (ResourceChangingScheduler(HyperBandScheduler()), ConfigError, "a HyperBandScheduler pauses trials"),
        (
            ResourceChangingScheduler(AsyncHyperBandScheduler(mode="max")),
            DirectionError,
            "must be minimized, but the .* has mode='max'",
        ),
        (MedianStoppingRule(hard_stop=False), ConfigError, "with hard_stop=False resumes"),
        ({"median": {"hard_stop": False}}, ConfigError, "with hard_stop=False resumes"),
    ],
)
def test_a_scheduler_that_cannot_be_is_refused(spec, error, text):
    """Tune drops unknown arguments in silence; we do not."""
    with pytest.raises(error, match=text):
        make_scheduler(spec, MINIMIZE, epochs=9)


@pytest.mark.parametrize("name", ["asha", "hyperband"])
def test_halving_needs_the_number_of_epochs(name):
    """Tune's default of 100 would cut longer runs in silence."""
    with pytest.raises(ConfigError, match="set epochs="):
        make_scheduler(name, MINIMIZE)
    assert make_scheduler(name, MINIMIZE, 9).metric == "value"
    assert name in RAY_SCHEDULERS
