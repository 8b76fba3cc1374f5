"""What a user gives a RayObjective's Tuner stays theirs, and what Tune gives back answers."""

from __future__ import annotations

import os
import signal
from copy import deepcopy
from functools import partial
from logging import getLogger
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import optuna
import pytest
from forked import Forked
from matrix import EXHAUSTIVE
from ray import tune
from ray.tune.logger import JsonLoggerCallback

from hpometrics._imports import environment
from hpometrics.backends.ray.objective import RayObjective, _name_of
from hpometrics.backends.ray.session import LEFT_BY_RAY, signal_handlers
from hpometrics.backends.ray.trainable import Course
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.run import Reported
from hpometrics.space.dimensions import Float

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
SPACE = {"level": Float(0, 1)}
LEVELS = (0.4, 0.1, 0.7)
EPOCHS = 4
PBT = {"pbt": {"mutate": ["level"], "perturbation_interval": 2}}


def make_descend() -> Any:
    """A train function that travels to Ray's workers by value, as a user's script does."""

    class Steps:
        """What the function has learned: how many epochs it has trained."""

        def __init__(self) -> None:
            self.done = 0

        def state_dict(self):
            return {"done": self.done}

        def load_state_dict(self, state):
            self.done = state["done"]

    def descend(params, run):
        """The score is the level at the second epoch, and further from 0.5 than that in the others."""
        steps, away = Steps(), 1 if run.spec.direction == "minimize" else -1
        run.restore(steps=steps)
        for _ in run.epochs():
            run.log(score=params["level"] + away * abs(steps.done - 1))
            steps.done += 1
            run.checkpoint(steps=steps)

    return descend


class Counted(tune.Callback):
    """A user's callback."""

    def __init__(self) -> None:
        self.reports = 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        """Count a report."""
        self.reports += 1


def process() -> tuple[dict[str, str], list[Any]]:
    """What a fit must leave alone: the environment and the signal handlers."""
    return dict(os.environ), [signal.getsignal(number) for number in SIGNALS]


def make_objective(directory: Path | None, direction: Any = MINIMIZE) -> RayObjective:
    """A search for the least or the greatest level."""
    score = Reported("score", direction)
    return RayObjective(make_descend(), SPACE, metric=score, epochs=EPOCHS, directory=directory, seed=5)


def fit(objective: RayObjective, run_config: tune.RunConfig | None, scheduler: Any = None) -> tune.ResultGrid:
    """Fit one trial for each level."""
    points = [{"level": level} for level in LEVELS]
    most = None if scheduler == PBT else 1
    tuner = objective.tuner(
        len(LEVELS), points=points, scheduler=scheduler, run_config=run_config, max_concurrent=most
    )
    return tuner.fit()


@pytest.fixture
def own(tmp_path, monkeypatch) -> tune.RunConfig:
    """The settings of a user whose environment turns no logger off."""
    monkeypatch.delenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", raising=False)
    config = tune.CheckpointConfig(num_to_keep=2)
    path = str(tmp_path / "own")
    return tune.RunConfig(storage_path=path, verbose=0, callbacks=[Counted()], checkpoint_config=config)


@pytest.mark.ray
@pytest.mark.parametrize("scheduler", [None, pytest.param(PBT, marks=EXHAUSTIVE)], ids=["none", "pbt"])
@pytest.mark.parametrize("direction", [MINIMIZE, pytest.param(MAXIMIZE, marks=EXHAUSTIVE)])
@pytest.mark.parametrize("given", [True, False], ids=["settings", "no settings"])
def test_the_results_of_an_objective_answer(ray_cluster, tmp_path, own, given, direction, scheduler):
    """The best result and the data frame are those of the picked values, whoever configures the run."""
    search = make_objective(tmp_path / "search", direction)
    before = process()
    results = fit(search, own if given else None, scheduler)
    assert process() == before
    best = results.get_best_result()
    assert best.config["number"] == search.best(results).trial
    assert best.metrics["picked"] == search.best(results).value
    table = results.get_dataframe()
    assert sorted(table["config/number"]) == [0, 1, 2]
    assert all(len(result.metrics_dataframe) == EPOCHS for result in results)
    searched = [trial.value for trial in search.study.trials]
    assert searched == [result.metrics["picked"] for result in results]


@pytest.mark.ray
@pytest.mark.parametrize("scheduler", [None, pytest.param(PBT, marks=EXHAUSTIVE)], ids=["none", "pbt"])
def test_the_settings_of_a_user_hold(ray_cluster, tmp_path, own, scheduler):
    """Its callback hears every report, Tune's own loggers write, and no object of the user is changed."""
    before, (counted,) = deepcopy(own.checkpoint_config), own.callbacks
    results = fit(make_objective(tmp_path / "search"), own, scheduler)
    assert own.callbacks == [counted] and own.checkpoint_config == before and own.name is None
    assert counted.reports == len(LEVELS) * EPOCHS
    for result in results:
        names = {path.name.partition(".tfevents")[0] for path in Path(result.path).iterdir()}
        assert {"result.json", "progress.csv", "events.out"} <= names
        assert Path(result.path).parent.name.startswith("descend_")
        assert Path(result.path).name.startswith("descend_")
        assert Path(result.path).parents[1] == tmp_path / "own"


def test_what_ray_changes_in_a_process_is_put_back():
    """However it ends: variables that were set or not, those that Ray sets, and the handlers of signals."""
    os.environ["SET_BEFORE"] = "mine"
    before = process()
    with (
        pytest.raises(KeyError),
        environment({"SET_BEFORE": "1", "NOT_SET": "1"}, LEFT_BY_RAY),
        signal_handlers(),
    ):
        assert (os.environ["SET_BEFORE"], os.environ["NOT_SET"]) == ("1", "1")
        os.environ["PYTHONBREAKPOINT"] = "ray.util.rpdb.set_trace"
        for number in SIGNALS:
            signal.signal(number, handle)
        raise KeyError
    assert process() == before
    del os.environ["SET_BEFORE"]


def search_alone(folder: str) -> None:
    """Start Ray, and fit, in a process of its own that has handlers of its own."""
    os.chdir(folder)
    del os.environ["RAY_ADDRESS"]
    for number in SIGNALS:
        signal.signal(number, handle)
    before = process()
    objective = make_objective(None)
    tuner = objective.tuner(1, points=[{"level": 0.5}], resources={"cpu": 1})
    before[0]["RAY_AUTH_MODE"] = "token"  # of the Ray that runs, and that child processes may join
    assert process() == before
    (result,) = tuner.fit()
    assert process() == before
    Path("value").write_text(str(result.metrics["picked"]))


def handle(number: int, frame: Any) -> None:
    """Handle a signal as a user does."""


@EXHAUSTIVE
def test_ray_leaves_the_process_that_starts_it_alone(tmp_path, monkeypatch):
    """Neither the start of Ray nor a fit changes the environment or a signal handler."""
    monkeypatch.setenv("RAY_ADDRESS", "")
    child = Forked(tmp_path, search_alone, str(tmp_path), prints=tmp_path)
    assert child.ended() == 0, (tmp_path / "err").read_text()
    assert (tmp_path / "value").read_text() == "0.5"


@pytest.mark.ray
def test_optuna_announces_no_study_that_the_user_has_not_made(ray_cluster, tmp_path):
    """The study in memory is the objective's own matter, and Optuna is as loud as before afterwards."""
    log, logger, before = BufferingHandler(100), getLogger("optuna"), optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO)
    logger.addHandler(log)
    try:
        make_objective(tmp_path).tuner(1)
        assert log.buffer == []
        optuna.create_study()
    finally:
        logger.removeHandler(log)
        optuna.logging.set_verbosity(before)
    assert ["A new study created in memory" in record.getMessage() for record in log.buffer] == [True]


@pytest.mark.ray
def test_an_experiment_is_named_after_its_function(ray_cluster, tmp_path):
    """Or as it is called; what a folder could not be called is replaced."""
    objective = make_objective(tmp_path)
    assert objective._trainable("a b/c", Course()).__name__ == "a_b_c"
    names = [_name_of(train) for train in (make_descend(), partial(make_descend()), lambda params, run: 0)]
    assert names == ["descend", "descend", "lambda"]


@pytest.mark.parametrize(("kept", "most"), [(2, 4), (6, 6), (None, None)])
def test_a_population_keeps_the_states_that_it_needs(tmp_path, kept, most):
    """At least four of each member, more where the user wants them, in a copy of the user's settings."""
    config = tune.CheckpointConfig(num_to_keep=kept)
    given = tune.RunConfig(callbacks=[JsonLoggerCallback()], checkpoint_config=config)
    settings = make_objective(tmp_path)._run_config(given, 2)
    assert settings.checkpoint_config.num_to_keep == most
    assert (given.checkpoint_config, config.num_to_keep) == (config, kept)
    assert [type(one).__name__ for one in settings.callbacks] == ["MemberLog"]
    assert [type(one) for one in given.callbacks] == [JsonLoggerCallback]
