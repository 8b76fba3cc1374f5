"""A trial of a RayObjective's Tuner whose worker is lost goes on in another; one that raises fails."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from foreign_files import tune_state_since
from forked import Forked
from matrix import EXHAUSTIVE
from ray import tune
from ray.exceptions import ActorDiedError, NodeDiedError, OutOfMemoryError, RayTaskError
from ray.train._internal.session import _TrainingResult
from ray.train._internal.storage import StorageContext
from ray.tune.error import TuneError
from ray.tune.experiment import Trial

from hpometrics.backends.ray._internals import endure, goes_on
from hpometrics.backends.ray.objective import RayObjective
from hpometrics.backends.ray.pbt import TrialLog
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import RunError
from hpometrics.records.epoch_log import read_trial
from hpometrics.records.recovery import MOST_DEATHS, Losses
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported
from hpometrics.space.dimensions import Choice

pytestmark = pytest.mark.ray

LOSS = Reported("loss", MINIMIZE)
LOSSES = (0.5, 0.2, 0.2, 0.3)
EPOCHS = len(LOSSES)
PBT = {"pbt": {"mutate": ["level"], "perturbation_interval": 2, "quantile_fraction": 0}}
DIED = f"its process died {MOST_DEATHS} times in epoch 1; did it have enough memory?"


def make_train() -> Any:
    """A train function that travels to Ray's workers by value, as a user's script does."""

    class Steps:
        """What the trainable has learned: how many epochs it has trained."""

        def __init__(self) -> None:
            self.done = 0

        def state_dict(self):
            return {"done": self.done}

        def load_state_dict(self, state):
            self.done = state["done"]

    def end(how: str) -> None:
        """End the process, or raise."""
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "exit":
            os._exit(1)
        while how == "hold":
            signal.pause()
        raise RuntimeError("out of luck")

    def train(config: dict[str, Any], run: Any) -> None:
        """Note each epoch; the first trial ends its process at an epoch for each file `end-...` of that."""
        folder, steps = Path(config["folder"]), Steps()
        if config["kept"]:
            run.restore(steps=steps)
        for epoch in run.epochs():
            with (folder / "ledger").open("a") as ledger:
                ledger.write(json.dumps([config["level"], epoch]) + "\n")
            left = sorted(folder.glob(f"end-{epoch}-*"))
            if config["level"] == 0 and left:
                left[0].unlink()
                end(left[0].suffix[1:])
            run.log(loss=config["level"] + LOSSES[epoch])
            steps.done += 1
            if config["kept"]:
                run.checkpoint(steps=steps)

    return train


def plan_ends(folder: Path, how: str, *epochs: int) -> None:
    """Let the first trial end its process in these epochs, one after another."""
    for number, epoch in enumerate(epochs):
        (folder / f"end-{epoch}-{number}.{how}").touch()


def make_objective(folder: Path, kept: bool = True, directory: Path | None = None) -> RayObjective:
    """A search of two trials."""
    space = {"level": Choice([0, 1]), "folder": str(folder), "kept": kept}
    checkpoints = "best" if kept else "none"
    return RayObjective(
        make_train(), space, metric=LOSS, epochs=EPOCHS, directory=directory, checkpoints=checkpoints
    )


def fit(folder: Path, objective: RayObjective, scheduler: Any = None, **settings: Any) -> tune.ResultGrid:
    """Fit one trial for each level, one after another."""
    config = tune.RunConfig(name="own", storage_path=str(folder), verbose=0, **settings)
    points = [{"level": 0}, {"level": 1}]
    most = None if scheduler == PBT else 1
    tuner = objective.tuner(2, points=points, max_concurrent=most, run_config=config, scheduler=scheduler)
    return tuner.fit()


def ledger(folder: Path, level: int = 0) -> list[int]:
    """The epochs of a trial that were trained."""
    lines = map(json.loads, (folder / "ledger").read_text().splitlines())
    return [epoch for trained, epoch in lines if trained == level]


def check_whole(results: tune.ResultGrid, objective: RayObjective) -> None:
    """Check that there are two trials without an error, and each epoch of them once."""
    assert [result.error for result in results] == [None, None]
    by_number = {result.config["number"]: result for result in results}
    assert [by_number[number].metrics["picked"] for number in (0, 1)] == [0.2, 1.2]
    assert [by_number[number].metrics["training_iteration"] for number in (0, 1)] == [EPOCHS, EPOCHS]
    for result in results:
        assert list(result.metrics_dataframe["epoch"]) == [0, 1, 2, 3]
    assert sorted(results.get_dataframe()["config/number"]) == [0, 1]
    assert results.get_best_result().config["number"] == objective.best(results).trial == 0
    records = objective.records(results)
    assert [record.state for record in records] == [TrialState.COMPLETE] * 2
    assert [[one.epoch for one in record.epochs] for record in records] == [[0, 1, 2, 3]] * 2
    assert [list(trial.intermediate_values.values()) for trial in objective.study.trials] == [
        list(LOSSES),
        [1 + loss for loss in LOSSES],
    ]


@pytest.mark.parametrize("recorded", [False, True], ids=["tune", "directory"])
@pytest.mark.parametrize(
    ("how", "at", "kept"),
    [
        ("kill", 2, True),
        ("exit", 2, False),
        pytest.param("kill", 0, True, marks=EXHAUSTIVE),
        pytest.param("exit", 0, False, marks=EXHAUSTIVE),
        pytest.param("kill", 3, False, marks=EXHAUSTIVE),
        pytest.param("exit", 3, True, marks=EXHAUSTIVE),
    ],
)
def test_a_worker_that_is_lost_once_costs_nothing(ray_cluster, tmp_path, how, at, kept, recorded):
    """Its trial goes on after its last checkpoint, or from the start, and counts once everywhere."""
    plan_ends(tmp_path, how, at)
    objective = make_objective(tmp_path, kept, tmp_path / "search" if recorded else None)
    results = fit(tmp_path, objective)
    assert ledger(tmp_path) == [*range(at + 1), *range(at if kept else 0, EPOCHS)]
    assert ledger(tmp_path, 1) == [*range(EPOCHS)]
    check_whole(results, objective)
    if recorded:
        record = read_trial(tmp_path / "search/trials/0000")
        assert (record.state, record.failed_attempts) == (TrialState.COMPLETE, ())


@pytest.mark.parametrize(
    "scheduler",
    [PBT, *(pytest.param(name, marks=EXHAUSTIVE) for name in ("asha", "hyperband", "median"))],
    ids=["pbt", "asha", "hyperband", "median"],
)
def test_a_scheduler_hears_nothing_of_a_lost_worker(ray_cluster, tmp_path, scheduler):
    """It judges each epoch once, and a population waits for the trial that goes on."""
    plan_ends(tmp_path, "kill", 0, 2, 3)
    objective = make_objective(tmp_path, directory=tmp_path / "search")
    results = fit(tmp_path, objective, scheduler)
    assert ledger(tmp_path) == [0, 0, 1, 2, 2, 3, 3]
    assert [result.error for result in results] == [None, None]
    first, second = objective.records(results)
    assert [one.epoch for one in first.epochs] == [0, 1, 2, 3]
    assert second.state in (TrialState.COMPLETE, TrialState.PRUNED)


def die_and_fit(address: str, folder: str) -> None:
    """Fit in a process of its own, which is killed after the worker was lost."""
    import ray

    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "0"  # Tune writes its state at once, not every ten seconds
    ray.init(address, log_to_driver=False)
    fit(Path(folder), make_objective(Path(folder)))


def test_a_restored_tuner_goes_on_after_losses(ray_cluster, tmp_path):
    """Its driver was killed after one loss; another one costs nothing either."""
    plan_ends(tmp_path, "kill", 1)
    plan_ends(tmp_path, "hold", 2)
    driver = Forked(tmp_path, die_and_fit, ray_cluster, str(tmp_path), prints=tmp_path)
    held = (tmp_path / "ledger").exists
    assert driver.waits_for(lambda: held() and 2 in ledger(tmp_path)), (tmp_path / "err").read_text()
    assert driver.killed_when(lambda: tune_state_since(tmp_path / "ledger", tmp_path / "own"))
    plan_ends(tmp_path, "kill", 2, 3)
    (result,) = make_objective(tmp_path).restore(tmp_path / "own").fit()
    assert result.error is None
    assert ledger(tmp_path) == [0, 1, 1, 2, 2, 2, 3, 3]
    assert list(result.metrics_dataframe["epoch"]) == [0, 1, 2, 3]
    assert (result.metrics["picked"], result.metrics["training_iteration"]) == (0.2, EPOCHS)


@pytest.mark.parametrize("recorded", [False, pytest.param(True, marks=EXHAUSTIVE)])
def test_deaths_do_not_add_up_while_the_trial_gets_further(ray_cluster, tmp_path, recorded):
    """One that dies more often than is allowed, each time at another epoch, ends well."""
    plan_ends(tmp_path, "kill", 0, 0, 1, 2, 2, 3)
    objective = make_objective(tmp_path, directory=tmp_path / "search" if recorded else None)
    results = fit(tmp_path, objective)
    assert ledger(tmp_path) == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    check_whole(results, objective)


@pytest.mark.parametrize("recorded", [False, True], ids=["tune", "directory"])
@pytest.mark.parametrize("kept", [True, pytest.param(False, marks=EXHAUSTIVE)])
def test_a_trial_that_ends_its_process_each_time_fails_in_our_words(ray_cluster, tmp_path, recorded, kept):
    """After as many deaths as in a sweep; Ray's notice stands in no record, result or study."""
    plan_ends(tmp_path, "kill", *[1] * 9)
    objective = make_objective(tmp_path, kept, tmp_path / "search" if recorded else None)
    results = fit(tmp_path, objective)
    assert ledger(tmp_path).count(1) == MOST_DEATHS
    assert len(results) == 2 and results.num_errors == 1
    (failed,) = (result for result in results if result.error is not None)
    assert str(failed.error) == DIED
    first, second = objective.records(results)
    assert (first.state, first.reason) == (TrialState.FAILED, DIED)
    assert second.state is TrialState.COMPLETE
    assert [trial.state.name for trial in objective.study.trials] == ["FAIL", "COMPLETE"]
    assert objective.best(results).trial == 1
    if recorded:
        record = read_trial(tmp_path / "search/trials/0000")
        assert (record.state, record.reason) == (TrialState.FAILED, DIED)


def test_a_stored_copy_of_the_log_replaces_no_newer_file(ray_cluster, tmp_path):
    """Tune stores one now and then, and fetches it whenever a trial goes on."""
    storage = StorageContext(str(tmp_path / "stored"), "own", trial_dir_name="first")
    trial = Trial("train", stub=True, config={"number": 0}, storage=storage)
    trial.init_local_path()
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    trial.on_checkpoint(_TrainingResult(tune.Checkpoint(str(checkpoint)), {"training_iteration": 1}))
    stored, file = Path(storage.trial_fs_path) / "result.json", Path(trial.local_path) / "result.json"
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.write_text('{"epochs": 1}\n{"epo')
    log = TrialLog()
    for epoch in (1, 2, 3):
        log.log_trial_result(epoch, trial, {"epochs": epoch})
    log.log_trial_start(trial)
    for epoch in (3, 4):
        log.log_trial_result(epoch, trial, {"epochs": epoch})
    log.log_trial_end(trial)
    assert [json.loads(line)["epochs"] for line in file.read_text().splitlines()] == [1, 2, 3, 4]


@pytest.mark.parametrize("deaths", [0, 1])
def test_an_exception_fails_a_trial_at_once(ray_cluster, tmp_path, deaths):
    """Also in a trial that went on after the loss of its worker."""
    plan_ends(tmp_path, "kill", *[1] * deaths)
    plan_ends(tmp_path, "raise", 2)
    objective = make_objective(tmp_path, directory=tmp_path / "search" if deaths else None)
    results = fit(tmp_path, objective)
    assert ledger(tmp_path) == [0, 1, *[1] * deaths, 2]
    (failed,) = (result for result in results if result.error is not None)
    assert "out of luck" in str(failed.error)
    assert [record.state for record in objective.records(results)] == [
        TrialState.FAILED,
        TrialState.COMPLETE,
    ]


@pytest.mark.parametrize(
    ("failure", "trained"),
    [
        (tune.FailureConfig(max_failures=1), [0, 1, 1]),
        pytest.param(tune.FailureConfig(max_failures=-1), [0, *[1] * 6, 2, 3], marks=EXHAUSTIVE),
        pytest.param(tune.FailureConfig(fail_fast=True), [0, 1], marks=EXHAUSTIVE),
    ],
    ids=["once", "always", "fail fast"],
)
def test_the_failure_config_of_a_user_holds(ray_cluster, tmp_path, failure, trained):
    """Tune counts failures of every kind then."""
    plan_ends(tmp_path, "kill", *[1] * 5)
    fit(tmp_path, make_objective(tmp_path), failure_config=failure)
    assert ledger(tmp_path) == trained


def test_a_tuner_can_let_none_go_on(ray_cluster, tmp_path):
    """The first death is the end of a trial then; a number that makes no sense is refused."""
    plan_ends(tmp_path, "kill", 1)
    objective = make_objective(tmp_path)
    with pytest.raises(RunError, match="most_deaths must be a whole number of at least 1, got 0"):
        objective.tuner(1, most_deaths=0)
    config = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    (result,) = objective.tuner(1, points=[{"level": 0}], most_deaths=1, run_config=config).fit()
    assert str(result.error) == DIED.replace(f"{MOST_DEATHS} times", "once")
    assert ledger(tmp_path) == [0, 1]


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (OutOfMemoryError("the memory monitor of Ray"), True),
        (NodeDiedError("gone"), True),
        (ActorDiedError(), True),
        (RayTaskError("train", "Traceback", RuntimeError("out of luck")), False),
        (TuneError("a scheduler raised"), False),
    ],
    ids=["memory", "node", "actor", "raised", "tune"],
)
def test_which_errors_of_tune_are_losses(ray_cluster, tmp_path, error, again):
    """What ends a process; not what a worker or Tune itself raises, also after a loss."""
    storage = StorageContext(str(tmp_path), "own", trial_dir_name="first")
    trial = Trial("train", stub=True, config={"number": 0}, storage=storage)
    trial.init_local_path()
    losses = Losses(lambda number: 0, most=9)
    assert endure(trial, losses) and not endure(trial, Losses(lambda number: 0))
    for _ in range(2):
        trial.handle_error(ActorDiedError())
        assert goes_on(trial)
    trial.handle_error(error)
    assert goes_on(trial) is again
    raised = {0: "RuntimeError: out of luck"} if isinstance(error, RayTaskError) else {}
    assert losses.reasons == raised
