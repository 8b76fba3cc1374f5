"""Schedulers by name judge the current value in the direction of the metric."""

from __future__ import annotations

import math
from contextlib import suppress
from types import SimpleNamespace

import optuna
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

from hpometrics.backends.optuna.pruners import make_pruner
from hpometrics.backends.optuna.reporter import OptunaReporter
from hpometrics.backends.ray.reporter import earlier_reports
from hpometrics.backends.ray.schedulers import (
    RAY_SCHEDULERS,
    EndedTrial,
    Settled,
    Unpaused,
    make_scheduler,
)
from hpometrics.backends.ray.session import EPOCHS as EPOCHS_DONE, NUMBER
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, DirectionError
from hpometrics.metrics.features import Binary
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.run import Run


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


def test_a_warmup_is_a_number():
    """Of epochs, not a text."""
    with pytest.raises(ConfigError, match="warmup of median must be a number of epochs, got '3'"):
        make_scheduler({"median": {"warmup": "3"}}, MINIMIZE)


@pytest.mark.parametrize("name", ["asha", "hyperband"])
def test_halving_needs_the_number_of_epochs(name):
    """Tune's default of 100 would cut longer runs in silence."""
    with pytest.raises(ConfigError, match="set epochs="):
        make_scheduler(name, MINIMIZE)
    assert make_scheduler(name, MINIMIZE, 9).metric == "value"
    assert name in RAY_SCHEDULERS


EPOCHS = 9
FLAT, RISING, FALLING, LOW = (0.5, 0.5), (0.9, 0.9), (0.95, 0.2), (0.1, 0.1)
"""The value of a trial up to a rung and from there on; none lies between the best two at a rung."""
TABLE = [FLAT, RISING, FALLING, LOW, (0.97, 0.97), (0.98, 0.15), (0.05, 0.05), (0.99, 0.99)]


def curve(values: tuple[float, float], second: int) -> list[float]:
    """The values of a trial; the second rung is the first that has the later one."""
    return [values[epoch + 1 >= second] for epoch in range(EPOCHS)]


def trained_on_optuna(spec: object, curves: list[list[float]]) -> list[int]:
    """How many epochs each trial trains, one trial after the other."""
    study = optuna.create_study(direction="maximize", pruner=make_pruner(spec, EPOCHS))
    for values in curves:
        trial = study.ask()
        reporter = OptunaReporter(trial)
        with suppress(optuna.TrialPruned):
            for epoch, value in enumerate(values):
                reporter.report(epoch, value, value, {"auc": value}, final=epoch + 1 == EPOCHS)
    return [len(one.intermediate_values) for one in study.trials]


def ended_trial(number: int, values: list[float]) -> EndedTrial:
    """A trial that has ended after these epochs."""
    epochs = tuple(EpochRecord(epoch, {"auc": value}) for epoch, value in enumerate(values))
    record = TrialRecord(number, {}, TrialState.COMPLETE, epochs=epochs)
    return EndedTrial(record, earlier_reports(record, "auc", MAXIMIZE, {}))


def trained_on_ray(spec: object, curves: list[list[float]], ended: int = 0) -> list[int]:
    """The same by a scheduler of Ray; so many of the first trials ended in a fit before."""
    trained: list[int] = []
    scheduler = Settled(make_scheduler(spec, MAXIMIZE, EPOCHS))
    controller = SimpleNamespace(get_live_trials=list)
    for number, values in enumerate(curves):
        if ended and number == ended:
            earlier = [ended_trial(one, curves[one][:count]) for one, count in enumerate(trained)]
            scheduler = Settled(make_scheduler(spec, MAXIMIZE, EPOCHS), earlier=earlier)
        trial = Trial("trial", stub=True, config={NUMBER: number})
        scheduler.on_trial_add(controller, trial)
        for done, value in enumerate(values, start=1):
            report = {EPOCHS_DONE: done, "value": value}
            if scheduler.on_trial_result(controller, trial, report) == TrialScheduler.STOP:
                break
        scheduler.on_trial_complete(controller, trial, report)
        trained.append(done)
    return trained


@pytest.mark.parametrize(("least", "eta"), [(1, 3), (2, 2), (1, 2), (3, 3)])
def test_rungs_are_after_the_same_epochs_on_both_backends(least, eta):
    """After `min_epochs`, and eta times as many."""
    curves = [curve(values, least * eta) for values in TABLE]
    spec = {"asha": {"min_epochs": least, "eta": eta}}
    second = min(least * eta, EPOCHS)
    expected = [EPOCHS, EPOCHS, second, least, EPOCHS, second, least, EPOCHS]
    assert trained_on_ray(spec, curves) == expected
    assert trained_on_optuna(spec, curves) == expected


def test_an_epoch_of_an_earlier_fit_without_a_batch_is_not_judged():
    """A run that validates in every second epoch; with other epochs as the worst its mean would be -1e300."""
    run = Run(metric="accuracy", output=Binary(), defaults=False)
    for epoch in run.epochs(4):
        if epoch % 2:
            run.update(probabilities=[0.9, 0.2], target=[1, 0])
    record = TrialRecord(0, {}, TrialState.COMPLETE, epochs=run.history)
    reports = earlier_reports(record, "accuracy", MAXIMIZE, {})
    assert [(one[EPOCHS_DONE], one["value"]) for one in reports] == [(2, 1.0), (4, 1.0)]
    judged = earlier_reports(record, "accuracy", MAXIMIZE, {"accuracy": MAXIMIZE})
    assert [one[EPOCHS_DONE] for one in judged] == [2, 4]


@pytest.mark.parametrize("spec", [{"asha": {"min_epochs": 2, "eta": 2}}, {"median": {"min_trials": 2}}])
def test_trials_of_earlier_fits_count(spec):
    """A search that goes on stops the trials that it would have stopped at once."""
    curves = [curve(values, 4) for values in TABLE]
    at_once = trained_on_ray(spec, curves)
    assert len({*at_once}) > 1
    for ended in range(1, len(curves)):
        assert trained_on_ray(spec, curves, ended) == at_once
