"""A search in Python goes on in its directory or its storage, and no other process works on its trials."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from pathlib import Path
from threading import Barrier, get_ident

import optuna
import pytest
import torch
from forked import LONG, Forked
from level_search import LOSS, SPACE, level, objective_of
from optuna.trial import TrialState as OptunaState

from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import RecordError
from hpometrics.records.epoch_log import read_trial
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported
from hpometrics.space.dimensions import Float


def search_on(folder: Path, storage: str | None, killed: int | None, trials: int, seed: int = 3) -> None:
    """A search of its own process, which ends itself by SIGKILL in the second epoch of a trial."""

    def train(params, run):
        number, weights = int(run.directory.name), torch.nn.Linear(1, 1)
        run.restore(weights=weights)
        for epoch in run.epochs(3):
            with (folder / "trained").open("a") as lines:
                lines.write(f"{number} {epoch}\n")
            if (epoch, number) == (1, killed):
                os.kill(os.getpid(), signal.SIGKILL)
            run.log(loss=params["level"] + epoch)
            run.checkpoint(weights=weights)

    objective = OptunaObjective(train, {"level": Float(0, 1)}, metric=LOSS, directory=folder / "s", seed=seed)
    opened = None if storage is None else f"sqlite:///{folder / storage}"
    study = objective.create_study(storage=opened, study_name="s", load_if_exists=True)
    objective.optimize(study, n_trials=trials)


@pytest.mark.parametrize("storage", [None, "study.db"], ids=["in memory", "sqlite"])
def test_a_search_in_python_goes_on_as_a_sweep_does(storage, tmp_path):
    """After a SIGKILL in a trial: the total stands, no trial stays open, no closed epoch is trained again."""
    assert Forked(tmp_path, search_on, tmp_path, storage, 2, 4).ended() == -signal.SIGKILL
    for _ in range(2):  # the second time nothing is left to do
        assert Forked(tmp_path, search_on, tmp_path, storage, None, 4).ended() == 0
    trained = (tmp_path / "trained").read_text().split("\n")[:-1]
    want = [f"{trial} {epoch}" for trial in range(4) for epoch in range(3)]
    assert sorted(trained) == sorted([*want, "2 1"])  # the epoch that was cut off
    records = [read_trial(tmp_path / "s" / "trials" / f"{number:04d}") for number in range(4)]
    assert [record.state for record in records] == [TrialState.COMPLETE] * 4
    if storage:
        study = optuna.load_study(storage=f"sqlite:///{tmp_path / storage}", study_name="s")
        assert [trial.state for trial in study.trials] == [OptunaState.COMPLETE] * 4


@pytest.mark.filterwarnings("ignore:seeded trials overlap")
def test_trials_that_wait_are_begun_before_a_total_is_reached(tmp_path):
    """Enqueued ones are the next to run, not some that there are already; a second call adds what is left."""
    objective = objective_of(directory=tmp_path, seed=1)
    study = objective.create_study()
    for value in (0.1, 0.2, 0.3):
        study.enqueue_trial({"level": value})
    objective.optimize(study, n_trials=3)
    assert [trial.params["level"] for trial in study.trials] == [0.1, 0.2, 0.3]
    objective.optimize(study, n_trials=5, n_jobs=2)
    assert [trial.state for trial in study.trials] == [OptunaState.COMPLETE] * 5


def test_a_copy_of_an_objective_at_work_works_on_no_trial(tmp_path):
    """As one that is sent to another process: it has no lock, so the trial is another's to it."""
    objective = objective_of(directory=tmp_path, seed=1)
    assert objective._take(0)
    copied = pickle.loads(pickle.dumps(objective))
    with pytest.raises(RecordError, match="another process is running trial 0"):
        copied.optimize(copied.create_study(), n_trials=1)
    objective._unlock(get_ident())
    study = copied.create_study()
    copied.optimize(study, n_trials=1)
    assert study.best_trial.number == 0


def test_threads_leave_no_lock_behind(tmp_path):
    """Each thread of a pool locks its trials; the thread that has called for them unlocks the last ones."""
    objective = objective_of(directory=tmp_path)
    objective.optimize(objective.create_study(), n_trials=8, n_jobs=4)
    locks = [path for path in (tmp_path / ".locks").iterdir() if path.is_file()]
    assert len(locks) == 8
    for path in locks:
        with path.open() as file:
            flock(file, LOCK_EX | LOCK_NB)


def test_a_resumed_trial_runs_as_a_new_one_does(tmp_path):
    """`catch` may be a list, callbacks see the trial, and one of them may stop the study."""

    def train(params, run):
        raise ValueError("no luck")

    seen = []

    def stop(study, trial):
        seen.append((trial.number, trial.state))
        study.stop()

    objective = objective_of(train, directory=tmp_path)
    study = objective.create_study()
    study.ask()
    objective.optimize(study, n_trials=3, catch=[ValueError], callbacks=[stop])
    assert seen == [(0, OptunaState.FAIL)] and len(study.trials) == 1
    objective.optimize(study, n_trials=3, catch=[ValueError])
    assert len(study.trials) == 3


def test_another_seed_in_a_directory_says_what_to_do(tmp_path):
    """It would draw other params for trials that are there."""
    search_on(tmp_path, None, None, 1)
    with pytest.raises(
        RecordError, match="another seed, space or sampler drew it; use another directory for this search,"
    ):
        search_on(tmp_path, None, None, 1, seed=4)


@pytest.mark.parametrize("recorded", [False, True], ids=["study", "directory"])
def test_another_seed_in_a_storage_says_what_to_do(tmp_path, recorded):
    """As for `hpometrics run`: no trial of another stream stands among those that are there."""
    storage = f"sqlite:///{tmp_path / 'study.db'}"

    def search(seed: int | None, total: int) -> optuna.Study:
        directory = tmp_path / "search" if recorded else None
        objective = OptunaObjective(level, SPACE, metric=LOSS, directory=directory, seed=seed)
        study = objective.create_study(storage=storage, study_name="s", load_if_exists=True)
        objective.optimize(study, n_trials=total)
        return study

    search(7, 1)
    for other in (8, None):
        with pytest.raises(
            RecordError, match=f"with seed '7', but seed is '{other}' now; create another study, or use"
        ):
            search(other, 2)
    assert len(search(7, 2).trials) == 2


class StuckSampler(optuna.samplers.RandomSampler):
    """A sampler that never draws the first trial, which the storage has by then; again it draws all."""

    def __init__(self, asked: Path) -> None:
        super().__init__(seed=1)
        self._asked = asked

    def before_trial(self, study, trial):
        if not self._asked.exists():
            self._asked.touch()
            time.sleep(LONG)


def search_beside(folder: Path, trials: int) -> None:
    """One of several processes that optimize a study together."""
    objective = objective_of(directory=folder / "s")
    study = objective.create_study(
        storage=f"sqlite:///{folder / 'study.db'}",
        study_name="s",
        load_if_exists=True,
        sampler=StuckSampler(folder / "asked"),
    )
    objective.optimize(study, n_trials=trials)


def test_a_trial_that_another_process_has_just_asked_for_is_not_taken(tmp_path):
    """Between Optuna's `ask` and the lock of the trial; where its process is dead, it is."""
    first = Forked(tmp_path, search_beside, tmp_path, 1)
    assert first.waits_for((tmp_path / "asked").exists)
    search_beside(tmp_path, 2)
    study = optuna.load_study(storage=f"sqlite:///{tmp_path / 'study.db'}", study_name="s")
    assert [trial.state.name for trial in study.trials] == ["RUNNING", "COMPLETE"]
    first.killed()
    search_beside(tmp_path, 2)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE"]


def test_two_processes_never_work_on_one_trial_of_a_directory(tmp_path):
    """The second is told so before it trains; what a live process works on is not taken for left behind."""
    objective = OptunaObjective(level, SPACE, metric=LOSS, directory=tmp_path)
    other = OptunaObjective(level, SPACE, metric=LOSS, directory=tmp_path)
    study = objective.create_study()
    objective(study.ask())
    with ThreadPoolExecutor(1) as elsewhere:  # a lock is a thread's
        begun = elsewhere.submit(other, other.create_study().ask())
        with pytest.raises(
            RecordError,
            match=r"another process is running trial 0 in .*; use a separate directory for each study,",
        ):
            begun.result()
    objective(study.ask())
    with pytest.raises(RecordError, match="another seed"):
        other(other.create_study().ask())


@pytest.mark.parametrize("earlier", [True, False], ids=["kept", "gone"])
def test_a_cell_of_a_notebook_that_ctrl_c_has_ended_runs_again(tmp_path, earlier):
    """The traceback keeps the first objective alive, and its trial goes on in the second one."""
    presses = iter([KeyboardInterrupt])
    seen: list[int] = []

    def train(params, run):
        run.restore()
        for epoch in run.epochs(3):
            seen.append(epoch)
            if epoch == 1 and (press := next(presses, None)):
                raise press
            run.log(loss=params["level"] + epoch)
            run.checkpoint()

    def cell() -> OptunaObjective:
        objective = OptunaObjective(
            train, SPACE, metric=Reported("loss", MINIMIZE), directory=tmp_path, seed=3
        )
        study = objective.create_study()
        kept.append(objective)
        study.optimize(objective, n_trials=2)
        return objective

    kept: list[OptunaObjective] = []
    with pytest.raises(KeyboardInterrupt):
        cell()
    if not earlier:
        kept.clear()
    cell()
    assert seen == [0, 1, 1, 2, 0, 1, 2]
    cell()  # and again, of two recorded trials
    assert seen == [0, 1, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("anew", [True, False])
def test_a_trial_is_locked_anew_in_a_directory_that_was_removed(tmp_path, anew):
    """The lock of an earlier cell is on a file that is gone, so that it would keep out nobody."""
    home = tmp_path / "digits"

    def train(params, run):
        level(params, run)
        with pytest.raises(BlockingIOError), (home / ".locks" / "0000").open() as file:
            flock(file, LOCK_EX | LOCK_NB)

    first = objective_of(train, directory=home)
    first.create_study().optimize(first, n_trials=1)
    shutil.rmtree(home)
    second = objective_of(train, directory=home) if anew else first
    second.create_study().optimize(second, n_trials=1)


def test_threads_that_begin_at_once_keep_their_locks(tmp_path):
    """Each first lock made an object to keep locks; of two the one that came later kept its own alone."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for attempt in range(40):
            objective, together = objective_of(directory=tmp_path / str(attempt)), Barrier(4)

            def begin(number: int, objective=objective, together=together) -> None:
                together.wait()
                assert objective._take(number)

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(begin, range(4)))
            assert sorted(objective._locks.numbers) == [0, 1, 2, 3]
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("place", ["taken", "taken/below"])
def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path, place):
    """Before the first trial trains, and by its name."""
    (tmp_path / "taken").write_text("")
    objective = OptunaObjective(level, SPACE, metric=LOSS, directory=tmp_path / place)
    for start in (
        lambda study: study.optimize(objective, n_trials=1),
        partial(objective.optimize, n_trials=1),
    ):
        with pytest.raises(RecordError, match=r"/taken: is a file, but a directory is needed"):
            start(objective.create_study())


def test_a_trial_that_ctrl_c_has_ended_goes_on(tmp_path):
    """It stays open in the study, as in a sweep, and is the first that is taken on."""
    presses = iter([KeyboardInterrupt, None, None])

    def train(params, run):
        for epoch in run.epochs(2):
            if epoch == 1 and (pressed := next(presses)):
                raise pressed
            run.log(loss=params["level"])

    objective = OptunaObjective(train, SPACE, metric=LOSS, directory=tmp_path, seed=1)
    study = objective.create_study()
    with pytest.raises(KeyboardInterrupt):
        objective.optimize(study, n_trials=2)
    assert [trial.state for trial in study.trials] == [OptunaState.RUNNING]
    objective.optimize(study, n_trials=2)
    assert [trial.state for trial in study.trials] == [OptunaState.COMPLETE] * 2
