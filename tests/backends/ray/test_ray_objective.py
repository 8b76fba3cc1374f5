from __future__ import annotations

import json
import math
import os
from typing import Any

import optuna
import pytest
import ray
from optuna.trial import TrialState as OptunaState
from ray import tune
from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
)

from hpometrics.backends.optuna.samplers import make_sampler
from hpometrics.backends.ray.objective import RayObjective
from hpometrics.backends.ray.reporter import StoppedByTune, TuneReporter
from hpometrics.backends.ray.session import check_resources
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import ConfigError, DirectionError, NoFiniteValueError, RunError
from hpometrics.records.epoch_log import read_trial
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported, Run
from hpometrics.space.dimensions import Choice, Float, Int
from hpometrics.space.draws import derive_seed
from hpometrics.space.space import Space

LOSS = Reported("loss", MINIMIZE)
EPOCHS = 4


def make_train() -> Any:
    """A train function that travels to Ray's workers by value, as a user's script does."""

    def train(params, run):
        """Each epoch's loss is the level; the last epoch is much worse, as after a divergence."""
        for epoch in run.epochs():
            if params["fault"] == "raise" and epoch == 1:
                raise RuntimeError("shape mismatch")
            if params["fault"] == "break" and epoch == 2:
                break
            loss = math.nan if params["fault"] == "nan" else params["level"]
            run.log(loss=loss + 5.0 * (epoch == 3), level=run.params["level"], own_seed=run.seed)

    return train


SPACE = {"level": Float(0, 1), "fault": Choice(["none", "raise", "nan", "break", "good"])}
POINTS = [
    {"level": 0.2, "fault": "none"},
    {"level": 0.1, "fault": "none"},
    {"level": 0.9, "fault": "none"},
    {"level": 0.8, "fault": "nan"},
    {"level": 0.05, "fault": "raise"},
    {"level": 0.07, "fault": "break"},
]


@pytest.fixture(scope="module")
def swept(ray_started, tmp_path_factory):
    """One sweep under ASHA, trials one after the other, with a record on disk."""
    directory = tmp_path_factory.mktemp("ray")
    objective = RayObjective(
        make_train(),
        SPACE,
        metric=LOSS,
        epochs=EPOCHS,
        directory=directory,
        seed=7,
        loggers=["table", "tensorboard"],
    )
    tuner = objective.tuner(
        len(POINTS),
        scheduler={"asha": {"min_epochs": 1, "eta": 2}},
        points=POINTS,
        max_concurrent=1,
    )
    return objective, tuner.fit()


@pytest.mark.ray
def test_asha_stops_the_trial_that_is_worse_by_its_values(swept):
    """The third loses to the first two at an early rung: pruned, neither failed nor complete."""
    objective, results = swept
    worse = objective.records(results)[2]
    assert worse.state is TrialState.PRUNED
    assert len(worse.epochs) < EPOCHS and "Tune stopped trial 2" in worse.reason
    assert objective.study.trials[2].state is OptunaState.PRUNED


@pytest.mark.ray
def test_the_searcher_is_told_the_picked_value(swept):
    """The second trial ends at 5.1 after a best of 0.1: the study has 0.1, the reports the current values."""
    objective, _ = swept
    second = objective.study.trials[1]
    assert (second.state, second.value) == (OptunaState.COMPLETE, 0.1)
    assert second.intermediate_values == {0: 0.1, 1: 0.1, 2: 0.1, 3: 5.1}


@pytest.mark.ray
def test_no_trial_is_left_running(swept):
    """What raised has failed, what diverged is stopped as in Optuna, what broke off its loop is complete."""
    objective, results = swept
    records = objective.records(results)
    assert [r.state.value for r in records] == [
        "complete",
        "complete",
        "pruned",
        "pruned",
        "failed",
        "complete",
    ]
    assert records[4].reason == "RuntimeError: shape mismatch"
    assert "Tune stopped trial 3 after epoch 0" in records[3].reason
    assert [record.reason for record in records if record.state is TrialState.COMPLETE] == [None] * 3
    assert objective.study.trials[4].user_attrs["hpometrics:reason"] == records[4].reason


@pytest.mark.ray
def test_params_received_are_params_recorded(swept):
    """What the run had, what Tune had, what the study and the record have: the same."""
    objective, results = swept
    assert [dict(record.params) for record in objective.records()] == POINTS
    assert [trial.params for trial in objective.study.trials] == POINTS
    assert [result.config["params"] for result in results] == POINTS
    for record in objective.records():
        assert all(epoch.values["level"] == record.params["level"] for epoch in record.epochs)


@pytest.mark.ray
def test_a_worker_knows_the_seed_of_its_run(swept):
    """That of the record: a function of the search's seed and the number of the trial."""
    objective, results = swept
    for record in objective.records(results):
        assert record.seed == derive_seed(7, record.number)
        assert {epoch.number("own_seed") for epoch in record.epochs} == {record.seed}


@pytest.mark.ray
def test_workers_log_as_a_process_does(swept):
    """Each trial's own directory has its logs, of as many epochs as its record."""
    objective, results = swept
    for record in objective.records(results):
        home = objective.trials.directory_of(record.number)
        told = json.loads((home / ".trainstats").read_text())
        assert len(told["valid_reports"]) == len(record.epochs)
        assert (told["final_valid_report"] is None) == (record.state is not TrialState.COMPLETE)
        assert (home / "report.txt").read_text().count("epoch:") == len(record.epochs)
        assert len(list(home.glob("events.out.tfevents.*"))) == 1


@pytest.mark.ray
def test_the_best_has_the_values_of_its_epoch(swept):
    """The least loss of a complete trial, with all that was measured in that epoch."""
    objective, results = swept
    best = objective.best(results)
    assert (best.trial, best.value, best.epoch) == (5, 0.07, 0)
    assert best.values == {"loss": 0.07, "level": 0.07, "own_seed": derive_seed(7, 5)}
    assert (best.metric, best.direction) == ("loss", MINIMIZE)


@pytest.mark.ray
def test_records_on_disk_agree_with_the_study(swept):
    """Each trial's own directory holds its epochs and its end, written before Tune was told."""
    objective, results = swept
    for record in objective.records(results):
        assert record.epochs[0].values["level"] == record.params["level"]
        assert record.seed == objective.trials.seed_of(record.number)
        assert (objective.trials.directory_of(record.number) / "trial.json").exists()


def make_stubborn() -> Any:
    """A train function that is no good guest; it travels to Ray's workers by value."""

    def train(params, run):
        import sys
        import time

        try:
            for epoch in run.epochs():
                if params["how"] == "exit" and epoch == 1:
                    sys.exit(0)
                run.log(loss=math.nan if params["how"] == "nan" else params["level"], process=os.getpid())
        except SystemExit:
            if params["how"] != "swallow":
                raise
        finally:
            if params["how"] == "slow":
                time.sleep(3)  # longer than Tune waits before it gives an actor up

    return train


@pytest.mark.ray
def test_no_trial_is_lost_to_the_one_before_it(ray_cluster, tmp_path):
    """Train swallows the stop, ends slowly, exits, is nan throughout: each trial has its end, on disk too."""
    ends = [
        (0.2, "none", "complete"),
        (0.3, "swallow", "pruned"),
        (0.4, "slow", "pruned"),
        (0.1, "exit", "failed"),
        (0.9, "nan", "pruned"),
        (0.05, "none", "complete"),
    ]
    space = {"level": Float(0, 1), "how": Choice(["none", "swallow", "slow", "exit", "nan"])}
    objective = RayObjective(make_stubborn(), space, metric=LOSS, epochs=EPOCHS, directory=tmp_path, seed=7)
    points = [{"level": level, "how": how} for level, how, _ in ends]
    asha = {"asha": {"min_epochs": 1, "eta": 2}}
    results = objective.tuner(len(ends), scheduler=asha, points=points, max_concurrent=1).fit()
    records = objective.records(results)
    assert [record.state.value for record in records] == [state for *_, state in ends]
    assert [record.params for record in records] == points
    assert records[3].reason == "SystemExit: 0"
    assert math.isnan(records[4].epochs[0].values["loss"])
    assert math.isnan(objective.study.trials[4].intermediate_values[0])
    for record in records:
        written = read_trial(objective.trials.directory_of(record.number))
        assert (written.state, written.epochs[-1].epoch) == (record.state, len(record.epochs) - 1)
    assert len(records[0].epochs) == EPOCHS  # where ASHA stops every trial
    first, *others = [record.epochs[0].values["process"] for record in records]
    assert others[:3] == [first] * 3  # a process trains one trial after another, until one fails in it
    assert others[3] == others[4] != first


@pytest.mark.ray
def test_a_sweep_goes_on_to_its_total(ray_cluster, tmp_path):
    """A study that has its trials gets no more; a larger total adds the difference."""
    objective = RayObjective(make_train(), SPACE, metric=LOSS, epochs=1, seed=7, directory=tmp_path)
    good = {"fault": "good"}
    study = optuna.create_study(sampler=make_sampler("random", 7))
    objective.tuner(2, study=study, points=[good] * 3).fit()
    with pytest.raises(RunError, match="already has all its trials"):
        objective.tuner(2, study=study)
    results = objective.tuner(3, study=study, points=[good] * 3).fit()
    assert [r.number for r in objective.records(results)] == [2]
    assert [t.state for t in study.trials] == [OptunaState.COMPLETE] * 3
    assert len({t.params["level"] for t in study.trials}) == 3


@pytest.mark.ray
def test_a_tuner_of_your_own(ray_cluster, tmp_path):
    """`Run(TuneReporter(), ...)` in a trainable, `space.to_ray()` and the metric and mode that Tune knows."""
    space = Space({"model": Choice({"small": {"depth": 2}, "large": {"depth": 6}}), "k": 3})
    metric = LOSS

    def trainable(config):
        params = space.decode(config)
        run = Run(TuneReporter(), metric=metric)
        for epoch in run.epochs(2):
            run.log(loss=params["depth"] + params["k"] + epoch)

    config = tune.TuneConfig(metric="loss", mode="min", num_samples=2)
    tuner = tune.Tuner(
        trainable,
        param_space=space.to_ray(),
        tune_config=config,
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    for result in tuner.fit():
        depth = 2 if result.config["model"] == "small" else 6
        assert (result.metrics["loss"], result.metrics["picked"]) == (depth + 4, depth + 3)
        assert (result.metrics["epochs"], result.metrics["final"]) == (2, True)


@pytest.mark.ray
def test_what_contradicts_the_metric_is_refused(ray_cluster):
    """A mode, a scheduler's mode, a study's direction, more CPUs than there are: before the first trial."""
    objective = RayObjective(make_train(), SPACE, metric=LOSS, epochs=4)
    with pytest.raises(DirectionError, match="loss must be minimized; leave mode='max' out"):
        objective.tuner(1, mode="max")
    with pytest.raises(DirectionError, match="but the AsyncHyperBandScheduler has mode='max'"):
        objective.tuner(1, scheduler=AsyncHyperBandScheduler(mode="max"))
    with pytest.raises(DirectionError, match="loss must be minimized, but the study 's' is set to maximize"):
        objective.tuner(1, study=optuna.create_study(direction="maximize", study_name="s"))
    with pytest.raises(ConfigError, match=r"requests cpu: 8, but the largest machine of .* has 2"):
        objective.tuner(1, resources={"cpu": 8})
    with pytest.raises(ConfigError, match=r"the study .* has its own sampler; leave sampler out"):
        objective.tuner(1, study=optuna.create_study(), sampler="gp")
    with pytest.raises(RunError, match="this objective has no records yet;"):
        RayObjective(make_train(), SPACE, metric=LOSS).records()


@pytest.mark.ray
@pytest.mark.parametrize("on_disk", [True, False], ids=["disk", "memory"])
def test_trials_that_validate_every_second_epoch_end_as_others_do(ray_cluster, tmp_path, on_disk):
    """The picked epoch has its own number, and a scheduler that stops a trial prunes it."""

    def train(params, run):
        for epoch in run.epochs():
            if epoch % 2:
                run.log(loss=params["level"] + abs(epoch - 3))

    home = tmp_path if on_disk else None
    objective = RayObjective(train, {"level": Float(0, 1)}, metric=LOSS, epochs=6, directory=home)
    points = [{"level": 0.1}, {"level": 0.9}]
    median = {"median": {"min_trials": 1, "warmup": 2}}
    objective.tuner(2, scheduler=median, points=points, max_concurrent=1).fit()
    first, second = objective.records()
    assert (first.state, first.value, first.epoch) == (TrialState.COMPLETE, 0.1, 3)
    assert (second.state, second.value, second.epoch) == (TrialState.PRUNED, 0.9, 3)


def test_one_machine_of_a_cluster_must_have_all_that_a_trial_requests(monkeypatch):
    """Its processes are on one machine, so Ray would wait for ever; a machine that is gone does not count."""
    sizes = [(2, 2, True), (8, 0, True), (8, 8, False)]
    nodes = [{"Alive": alive, "Resources": {"CPU": cpu, "GPU": gpu}} for cpu, gpu, alive in sizes]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    check_resources({"cpu": 2, "gpu": 2})
    check_resources({"cpu": 8, "gpu": 0})
    with pytest.raises(ConfigError, match=r"requests gpu: 4, but the largest machine of .* has 2"):
        check_resources({"cpu": 1, "gpu": 4})
    with pytest.raises(ConfigError, match=r"requests seat: 1, but the largest machine of .* has 0"):
        check_resources({"seat": 1})
    with pytest.raises(ConfigError, match=r"cpu: 8, gpu: 1, but no machine of .* has all of them"):
        check_resources({"cpu": 8, "gpu": 1})


def test_nothing_is_reported_after_a_stop(monkeypatch):
    """Tune listens no more, so another report would wait for ever; the stop is an exit without an error."""
    reports = []

    def report(values, checkpoint=None):
        reports.append(values)
        raise SystemExit(0)

    monkeypatch.setattr(tune, "report", report)
    reporter = TuneReporter(3)
    for text in ("stopped trial 3 after epoch 0 at 0.5", "stopped trial 3 before epoch 1"):
        with pytest.raises(StoppedByTune, match=text) as stop:
            reporter.report(len(reports), 0.5, 0.5, {}, final=False)
        assert stop.value.code == 0
    assert reporter.stopped and len(reports) == 1


def test_a_metric_may_not_be_called_as_tune_calls_its_own():
    """A value called `done` would end the trial."""
    with pytest.raises(RunError, match="Ray Tune reserves the name 'done'; log"):
        Run(TuneReporter(), metric=Reported("done", MINIMIZE))


def test_the_domains_of_ray_mean_the_same():
    """Ints inclusive at both ends, steps counted from low, bounds literal."""
    domains = Space(
        {
            "n": Int(1, 3),
            "s": Int(1, 9, step=4),
            "x": Float(0.1, 1.0, step=0.4),
            "u": Float(0.5, 0.75),
            "g": Float(1e-4, 1e-1, log=True),
            "h": Int(1, 4, log=True),
            "c": Choice(["a", None, True]),
            "k": 3,
        }
    ).to_ray()
    drawn = {name: [d.sample() for _ in range(200)] for name, d in domains.items() if name != "k"}
    assert (set(drawn["n"]), set(drawn["s"]), set(drawn["x"])) == ({1, 2, 3}, {1, 5, 9}, {0.1, 0.5, 0.9})
    assert set(drawn["h"]) == {1, 2, 3, 4} and set(drawn["c"]) == {"a", None, True}
    assert all(0.5 <= u <= 0.75 for u in drawn["u"]) and all(1e-4 <= g <= 1e-1 for g in drawn["g"])
    assert domains["k"] == 3


@pytest.mark.ray
def test_ray_is_told_to_leave_the_directory_alone(ray_cluster):
    """Relative paths in train mean what they mean elsewhere, and nothing is sent to anybody."""
    names = ("RAY_CHDIR_TO_TRIAL_DIR", "RAY_USAGE_STATS_ENABLED")
    there = ray.remote(lambda: [os.environ.get(name) for name in names])
    assert ray.get(there.remote()) == ["0", "0"]


def test_no_best_says_what_there_was():
    """A study without a complete trial has no best."""
    objective = RayObjective(make_train(), SPACE, metric=LOSS)
    objective.study = optuna.create_study()
    with pytest.raises(NoFiniteValueError, match="none has started"):
        objective.best()


def test_repeats_on_ray_want_a_directory():
    """Tune hears of the first repeat alone; the mean is in the record of the trial."""
    with pytest.raises(RunError, match="repeats on Ray need a record for each trial; set directory="):
        RayObjective(make_train(), SPACE, metric=LOSS, repeats=2)


@pytest.mark.ray
def test_results_of_tune_are_confirmed(swept):
    """By trainings in this process; the best two are the same under every seed, so the better one wins."""
    objective, results = swept
    settled = objective.confirm(results, top=2, repeats=3)
    assert settled.best.trial == objective.best(results).trial and settled.state == "decided"
    assert [len(one.values) for one in settled.contenders] == [3, 3]
