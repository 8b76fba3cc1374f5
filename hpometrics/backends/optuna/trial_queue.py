"""The queue of a study: trials that wait, run or have lost their worker, each claimed by one worker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import optuna
from filelock import FileLock, Timeout
from optuna.distributions import BaseDistribution
from optuna.pruners import HyperbandPruner
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from ...records._files import make_private
from ._internals import (
    backend_of,
    database_models,
    forget_trials,
    set_trial_id,
    storage_of,
    study_id_of,
    trial_id_of,
    with_storage,
)
from .database import repeated, repeats_turn
from .samplers import draws_alone
from .storage import exclusive_study, is_lockable, opened_copy, search_names

Draw = Callable[[Trial], object]
"""Draws the params of a trial from it; see `Space.suggest`."""
Take = Callable[[int], bool]
Release = Callable[[int], object]

FIXED = "fixed_params"  # Optuna's name for the params of an enqueued trial
_NO_ID = -1  # the id of a trial that is in no storage


def _release_nothing(number: int) -> None:
    """Release nothing; the default where trials are not locked."""


@repeats_turn
def reserve(study: optuna.Study, total: int, points: Sequence[Mapping[str, Any]] = ()) -> int:
    """Enqueue trials until the study has `total` of them, and return how many were added.

    Args:
        study: one process at a time adds to it.
        total: the number of all trials, whatever their state; a study that has them gets none.
        points: stored points (see `Space.encode`) for the first trials; the others are drawn when claimed.
    """
    with exclusive_study(study):
        present = len(study.get_trials(deepcopy=False))
        for number in range(present, total):
            if not is_lockable(study) and len(study.get_trials(deepcopy=False)) >= total:
                break  # other processes have added trials meanwhile
            study.enqueue_trial(dict(points[number]) if number < len(points) else {})
        return max(0, total - present)


@repeats_turn
def claim(
    study: optuna.Study,
    take: Take | None = None,
    total: int = 0,
    points: Sequence[Mapping[str, Any]] = (),
    draw: Draw | None = None,
    release: Release = _release_nothing,
) -> Trial | None:
    """Claim the next waiting trial for this worker alone, or else add a new one; None when there is none.

    Of a database Optuna reads each waiting trial anew whenever it reads the trials, and a pruner reads them
    after every epoch. So a trial that no other process has to know of before is added when it is claimed.

    Args:
        study: trials that wait there come from `reserve`.
        take: called with a trial's number before it is claimed; False leaves it to others. A worker locks the
            trial's directory here, so that no other worker takes the trial for an orphan.
        total: a study that has fewer trials gets a new one if none waits.
        points: see `reserve`.
        draw: draws the params of a new trial before it is added, where this needs no other trials.
        release: releases what was taken and then turned out to be another worker's.
    """
    with exclusive_study(study):
        return _claim_next(study, *open_trials(study), take, total, points, draw, release)


def reclaim(study: optuna.Study, take: Take, release: Release = _release_nothing) -> Trial | None:
    """Claim a running trial whose worker died, to resume it under its number; None when there is none.

    Args:
        study: the study of the sweep.
        take: called with the number of a running trial: True if this worker now has the lock that the trial's
            worker would have if it lived.
        release: releases the lock of a trial that has ended since.
    """
    return _reclaim_next(study, open_trials(study)[1], take, release)


@repeats_turn
def reclaim_or_claim(
    study: optuna.Study,
    take_orphan: Take,
    take: Take,
    total: int = 0,
    points: Sequence[Mapping[str, Any]] = (),
    draw: Draw | None = None,
    release: Release = _release_nothing,
) -> tuple[Trial | None, bool]:
    """Claim a trial as `reclaim` does, or else as `claim` does; the study is read once for both.

    Returns:
        The trial, and whether its worker died.
    """
    with exclusive_study(study):
        count, trials = open_trials(study)
        orphan = _reclaim_next(study, trials, take_orphan, release)
        if orphan is not None:
            return orphan, True
        return _claim_next(study, count, trials, take, total, points, draw, release), False


@repeats_turn
def add_point(
    study: optuna.Study, point: Mapping[str, Any], total: int | None, points: Sequence[Mapping[str, Any]]
) -> int | None:
    """Enqueue a stored point before what the sampler draws, and return the number of its trial.

    None if the trials of the budget have all begun, or have points of their own.

    Args:
        study: other processes may be at work on it.
        point: see `Space.encode`; the sampler draws what it leaves open.
        total: the budget; None without a limit.
        points: those of the first trials, see `reserve`.
    """
    storage = storage_of(study)
    with exclusive_study(study):
        count, trials = open_trials(study)
        for waiting in trials:
            drawn = waiting.state is TrialState.WAITING and waiting.number >= len(points)
            if drawn and not storage.get_trial(waiting.trial_id).system_attrs.get(FIXED):
                storage.set_trial_system_attr(waiting.trial_id, FIXED, dict(point))
                return waiting.number
        if total is not None and max(count, len(points)) >= total:
            return None
        for number in range(count, len(points)):
            study.enqueue_trial(dict(points[number]))
        study.enqueue_trial(dict(point))
        return max(count, len(points))


class Ask(NamedTuple):
    """When a trial was asked for and told, and which of its params were given.

    Args:
        point: the stored params that the sampler did not draw.
        began: when it was asked for; None while it waits.
        ended: when its result was told, on the same clock; None before that.
    """

    point: Mapping[str, Any]
    began: datetime | None
    ended: datetime | None


def read_asks(path: Path) -> dict[int, Ask]:
    """Return the asks of the trials of the search in the file of a study, by number.

    Raises:
        RecordError: the file cannot be read as a storage.
    """
    with opened_copy(path) as storage:
        studies = [optuna.load_study(study_name=name, storage=storage) for name in search_names(storage)]
        trials = [trial for study in studies for trial in study.get_trials(deepcopy=False)]
    return {
        one.number: Ask(one.system_attrs.get(FIXED) or {}, one.datetime_start, one.datetime_complete)
        for one in trials
    }


def with_point(study: optuna.Study, trial: Trial, point: Mapping[str, Any]) -> Trial:
    """Return a claimed trial with the point of its number: processes without a lock add trials at once."""
    storage, trial_id = storage_of(study), trial_id_of(trial)
    if storage.get_trial(trial_id).system_attrs.get(FIXED) == point:
        return trial
    storage.set_trial_system_attr(trial_id, FIXED, dict(point))
    return Trial(study, trial_id)


def _reclaim_next(
    study: optuna.Study, trials: Sequence[OpenTrial], take: Take, release: Release
) -> Trial | None:
    for running in trials:
        if running.state is TrialState.RUNNING and take(running.number):
            trial = _claim_locked(running.number, release, partial(_resume, study, running.trial_id))
            if trial is not None:
                return trial
    return None


def _claim_next(
    study: optuna.Study,
    number: int,
    trials: Sequence[OpenTrial],
    take: Take | None,
    total: int,
    points: Sequence[Mapping[str, Any]],
    draw: Draw | None,
    release: Release,
) -> Trial | None:
    """Claim a trial that waits, or else add the trial of the next number.

    On SQLite two processes that claim one trial at once can both set it to running.
    """
    for waiting in trials:
        if waiting.state is TrialState.WAITING and (take is None or take(waiting.number)):
            trial = _claim_locked(waiting.number, release, partial(_start, study, waiting.trial_id))
            if trial is not None:
                return trial
    if number >= total or not (take is None or take(number)):
        return None
    added: list[Trial] = []

    def add() -> Trial | None:
        point = points[number] if number < len(points) else None
        added.append(_add(study, number, point, draw))
        return added[0] if added[0].number == number else None

    trial = _claim_locked(number, release, add)
    if trial is not None:
        return trial
    (other,) = added  # a process that does not lock the study has added one meanwhile
    return other if take is None or take(other.number) else None


def _claim_locked(number: int, release: Release, get: Callable[[], Trial | None]) -> Trial | None:
    """Return the trial that `get` returns for a locked number; if it returns None or raises, unlock it."""
    trial = None
    try:
        trial = get()
    finally:
        if trial is None:
            release(number)
    return trial


def _resume(study: optuna.Study, trial_id: int) -> Trial | None:
    """Return the trial, or None if it finished just before its lock was released."""
    now = storage_of(study).get_trial(trial_id)
    return _live_trial(study, trial_id) if now.state is TrialState.RUNNING else None


def _start(study: optuna.Study, trial_id: int) -> Trial | None:
    """Set a waiting trial to running; return None if another worker was faster."""
    try:
        is_ours = storage_of(study).set_trial_state_values(trial_id, TrialState.RUNNING)
    except optuna.exceptions.UpdateFinishedTrialError:
        return None  # another worker claimed and finished it
    return _live_trial(study, trial_id) if is_ours else None


def _live_trial(study: optuna.Study, trial_id: int) -> Trial:
    study.get_trials(deepcopy=False)  # Optuna adds no params to a trial that it has not read from a database
    forget_trials(study)  # as Study.ask does: samplers see what others finished
    return Trial(study, trial_id)


class OpenTrial(NamedTuple):
    """A trial that waits or runs."""

    number: int
    trial_id: int
    state: TrialState


def open_trials(study: optuna.Study) -> tuple[int, list[OpenTrial]]:
    """Return the number of all trials of a study, and those that wait or run, by number.

    From a database Optuna reads all that the trial that ended last has, in seven statements; here are two.
    """
    backend = backend_of(storage_of(study))
    if isinstance(backend, RDBStorage):
        return repeated(backend, partial(_read_open_trials, backend, study_id_of(study)))
    trials = study.get_trials(deepcopy=False)
    unfinished = [one for one in trials if not one.state.is_finished()]
    return len(trials), [OpenTrial(one.number, trial_id_of(one), one.state) for one in unfinished]


def _read_open_trials(backend: RDBStorage, study_id: int) -> tuple[int, list[OpenTrial]]:
    import sqlalchemy  # needed for a database alone

    model, _ = database_models()
    of_study = model.study_id == study_id
    newest = sqlalchemy.select(model.number).where(of_study).order_by(model.trial_id.desc()).limit(1)
    unfinished = (
        sqlalchemy.select(model.number, model.trial_id, model.state)
        .where(of_study, model.state.in_((TrialState.RUNNING, TrialState.WAITING)))
        .order_by(model.number)
    )
    with backend.engine.connect() as connection:
        last = connection.execute(newest).scalar()  # numbers have no gap, and to count takes a scan
        return 0 if last is None else last + 1, [OpenTrial(*row) for row in connection.execute(unfinished)]


def _add(study: optuna.Study, number: int, point: Mapping[str, Any] | None, draw: Draw | None) -> Trial:
    """Add a running trial to a study, with the params of a point if there is one.

    The params are drawn first where the storage has no part in that. A trial that gets another number after
    all, since a process that does not lock the study has added one, keeps what it drew.
    """
    is_filtered = isinstance(study.pruner, HyperbandPruner)  # it gives a sampler a study of its own making
    new = new_trial(number, point)
    if draw is not None and not is_filtered and draws_alone(study.sampler):
        draw_first(study, new, draw)
    trial_id = _store(study, new)
    stored_id = storage_of(study).get_trial_id_from_study_id_trial_number(study_id_of(study), number)
    if is_filtered or stored_id != trial_id:
        return _live_trial(study, trial_id)
    forget_trials(study)  # see `_live_trial`
    trial = Trial(with_storage(study, _StorageWith(storage_of(study), new)), trial_id)
    trial.study, trial.storage = study, storage_of(study)
    return trial


def new_trial(number: int, point: Mapping[str, Any] | None = None) -> FrozenTrial:
    """Return a running trial as a storage will have it; with the params of a point if there is one."""
    return FrozenTrial(
        number=number,
        trial_id=_NO_ID,
        state=TrialState.RUNNING,
        value=None,
        datetime_start=datetime.now(),
        datetime_complete=None,
        params={},
        distributions={},
        user_attrs={},
        system_attrs={} if point is None else {FIXED: dict(point)},
        intermediate_values={},
    )


def draw_first(study: optuna.Study, new: FrozenTrial, draw: Draw) -> None:
    """Draw the params of a trial before its storage has it: it is added with them, in one visit."""
    draw(Trial(with_storage(study, _StorageWith(storage_of(study), new)), _NO_ID))


def _store(study: optuna.Study, new: FrozenTrial) -> int:
    """Add a trial to the storage and return its id."""
    template = new if new.params or new.system_attrs else None
    trial_id = storage_of(study).create_new_trial(study_id_of(study), template)
    set_trial_id(new, trial_id)
    return trial_id


class _StorageWith:
    """A storage, with one trial that it does not have yet or need not be asked for."""

    def __init__(self, storage: BaseStorage, trial: FrozenTrial) -> None:
        self._inner, self._trial = storage, trial

    def get_trial(self, trial_id: int) -> FrozenTrial:
        return self._trial if trial_id == trial_id_of(self._trial) else self._inner.get_trial(trial_id)

    def set_trial_param(self, trial_id: int, name: str, value: float, distribution: BaseDistribution) -> None:
        """Write nothing: the trial itself gets the param from Optuna."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class TrialFileLocks:
    """The trials that this process works on, each locked by a file, which the system unlocks if it dies.

    A lock outlives its trial, since the thread tells the study the result only afterwards. Another object of
    the thread may take over a lock that rests: in a notebook, a traceback keeps an objective alive that
    Ctrl-C has ended, and the next objective must not wait for it. Any thread may release a lock.

    Args:
        folder: the folder of the locks.
        total: trials of a higher number are not taken; None takes any.
    """

    _taking: ClassVar[Lock] = Lock()  # two threads that take one lock at once would both have it
    _resting: ClassVar[WeakKeyDictionary[FileLock, int]] = WeakKeyDictionary()  # each with its thread

    def __init__(self, folder: Path, total: int | None = None) -> None:
        self._folder, self._total = folder, total
        make_private(folder)
        self._locks: dict[int, FileLock] = {}

    @property
    def numbers(self) -> list[int]:
        """The numbers of the trials that this process works on."""
        return list(self._locks)

    def take(self, number: int) -> bool:
        """Lock a trial; return False if another process has it, or it is beyond the total."""
        if self._total is not None and number >= self._total:
            return False
        path = self._folder.resolve() / f"{number:04d}"
        with self._taking:
            lock = FileLock(path, blocking=False, is_singleton=True, thread_local=False)
            if lock.is_locked:
                if self._resting.get(lock) != get_ident():  # this process is at work on it
                    return False
                lock.release()  # a file of this name may be a new one, if the directory was removed since
            try:
                lock.acquire()
            except Timeout:
                return False
            self._resting.pop(lock, None)
            self._locks[number] = lock
        return True

    def is_at_work(self, number: int) -> bool:
        """Return whether a trial is locked and not over."""
        return number in self._locks and self._locks[number] not in self._resting

    def rest(self, number: int) -> None:
        """Mark a trial as over; its lock stays until `release`, or until this thread takes it again."""
        if number in self._locks:
            self._resting[self._locks[number]] = get_ident()

    def release(self, number: int) -> None:
        """Unlock a trial."""
        lock = self._locks.pop(number)
        self._resting.pop(lock, None)
        lock.release()


class Participant:
    """This process among those that ask one study for trials, each of which holds the lock of a file.

    Args:
        folder: the folder of these locks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._locks = folder, TrialFileLocks(folder)
        self._own = next(filter(self._locks.take, itertools.count()))

    def alone(self) -> bool:
        """Return whether no other process asks the study for trials."""
        others = {int(path.name) for path in self._folder.iterdir() if path.name.isdecimal()} - {self._own}
        for number in others:
            if not self._locks.take(number):
                return False
            self._locks.release(number)
        return True

    def leave(self) -> None:
        """Unlock the file: this process asks for no more trials."""
        self._locks.release(self._own)
