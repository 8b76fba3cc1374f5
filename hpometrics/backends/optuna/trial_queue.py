"""Slots: the trials that a study is to have, each taken by one worker, new or from one that died."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import optuna
from filelock import FileLock, Timeout
from optuna.pruners import HyperbandPruner
from optuna.trial import Trial, TrialState

from ...records.atomic import make_private
from .begun_trials import FIXED, Draw, add_begun, as_begun, draw_first, live
from .open_trials import OpenTrial, open_trials
from .samplers import draws_alone
from .storage import exclusive, is_lockable
from .study_lock import repeats_turn

Take = Callable[[int], bool]
Release = Callable[[int], object]


def _keep(number: int) -> None:
    """Release nothing; the default where trials are not locked."""


@repeats_turn
def reserve(study: optuna.Study, total: int, points: Sequence[Mapping[str, Any]] = ()) -> int:
    """Fill the study up to `total` trials with waiting slots and return how many were added.

    Args:
        study: one process at a time adds to it.
        total: all trials that shall be, whatever their state; a study that has them gets none.
        points: stored points (see `Space.encode`) for the first trials; the rest is drawn when claimed.
    """
    with exclusive(study._storage, study.study_name):
        present = len(study.get_trials(deepcopy=False))
        for number in range(present, total):
            if not is_lockable(study._storage) and len(study.get_trials(deepcopy=False)) >= total:
                break  # others have added slots meanwhile
            study.enqueue_trial(dict(points[number]) if number < len(points) else {})
        return max(0, total - present)


@repeats_turn
def claim(
    study: optuna.Study,
    take: Take | None = None,
    total: int = 0,
    points: Sequence[Mapping[str, Any]] = (),
    draw: Draw | None = None,
    release: Release = _keep,
) -> Trial | None:
    """Take the next waiting slot for this worker alone, or else a new one; None when there is none.

    Of a database Optuna reads each slot that waits anew whenever it looks at the trials, and a pruner looks
    at them after every epoch; so a slot that none has to know of before is best added as it is taken.

    Args:
        study: slots that wait there come from `reserve`.
        take: called with a trial's number before it is claimed; False leaves it to others. A worker locks the
            trial's directory here, so that nobody takes the trial for an orphan.
        total: a study that has fewer trials gets a new one if no slot waits.
        points: see `reserve`.
        draw: where a new one needs nobody else's trials for it, it draws its params before it is added.
        release: gives up what was taken and then turned out to be another's.
    """
    with exclusive(study._storage, study.study_name):
        return _slot(study, *open_trials(study), take, total, points, draw, release)


def reclaim(study: optuna.Study, take: Take, release: Release = _keep) -> Trial | None:
    """Take a running trial whose worker died, to go on under its own number; None when there is none.

    Args:
        study: of the sweep.
        take: called with the number of a running trial: True if this worker now holds the lock that the
            trial's worker would hold if it lived.
        release: gives the lock up of a trial that has ended since.
    """
    return _orphan(study, open_trials(study)[1], take, release)


@repeats_turn
def reclaim_or_claim(
    study: optuna.Study,
    take_orphan: Take,
    take: Take,
    total: int = 0,
    points: Sequence[Mapping[str, Any]] = (),
    draw: Draw | None = None,
    release: Release = _keep,
) -> tuple[Trial | None, bool]:
    """Take a trial as `reclaim` does, or else as `claim` does; one look at the study serves both.

    Returns:
        The trial, and whether its worker died.
    """
    with exclusive(study._storage, study.study_name):
        count, left = open_trials(study)
        orphan = _orphan(study, left, take_orphan, release)
        if orphan is not None:
            return orphan, True
        return _slot(study, count, left, take, total, points, draw, release), False


def with_point(study: optuna.Study, trial: Trial, point: Mapping[str, Any]) -> Trial:
    """Give a claimed trial the point of its number; processes that nothing locks add slots at once."""
    if study._storage.get_trial(trial._trial_id).system_attrs.get(FIXED) == point:
        return trial
    study._storage.set_trial_system_attr(trial._trial_id, FIXED, dict(point))
    return Trial(study, trial._trial_id)


def _orphan(study: optuna.Study, left: Sequence[OpenTrial], take: Take, release: Release) -> Trial | None:
    for running in left:
        if running.state is TrialState.RUNNING and take(running.number):
            trial = _got(running.number, release, partial(_still_running, study, running.trial_id))
            if trial is not None:
                return trial
    return None


def _still_running(study: optuna.Study, trial_id: int) -> Trial | None:
    """Return the trial, or None if it finished just before its lock was released."""
    now = study._storage.get_trial(trial_id)
    return _live_trial(study, trial_id) if now.state is TrialState.RUNNING else None


def _slot(
    study: optuna.Study,
    number: int,
    left: Sequence[OpenTrial],
    take: Take | None,
    total: int,
    points: Sequence[Mapping[str, Any]],
    draw: Draw | None,
    release: Release,
) -> Trial | None:
    """Claim a slot that waits, or else add the trial of the next number.

    On SQLite two processes that claim one at once can both turn it to running.
    """
    for waiting in left:
        if waiting.state is TrialState.WAITING and (take is None or take(waiting.number)):
            trial = _got(waiting.number, release, partial(_claimed, study, waiting.trial_id))
            if trial is not None:
                return trial
    if number >= total or not (take is None or take(number)):
        return None
    added: list[Trial] = []

    def add() -> Trial | None:
        point = points[number] if number < len(points) else None
        added.append(_begun(study, number, point, draw))
        return added[0] if added[0].number == number else None

    trial = _got(number, release, add)
    if trial is not None:
        return trial
    (other,) = added  # who does not lock the study has added one meanwhile
    return other if take is None or take(other.number) else None


def _got(number: int, release: Release, get: Callable[[], Trial | None]) -> Trial | None:
    """Return the trial that `get` gives for a locked number; release the lock if it gives None or raises."""
    trial = None
    try:
        trial = get()
    finally:
        if trial is None:
            release(number)
    return trial


def _claimed(study: optuna.Study, trial_id: int) -> Trial | None:
    try:
        claimed = study._storage.set_trial_state_values(trial_id, TrialState.RUNNING)
    except optuna.exceptions.UpdateFinishedTrialError:
        return None  # another worker claimed and finished it
    return _live_trial(study, trial_id) if claimed else None


def _begun(study: optuna.Study, number: int, point: Mapping[str, Any] | None, draw: Draw | None) -> Trial:
    """Add a trial that runs to those that there are, with the params of a point if one is given.

    It draws first where nothing of the storage has a part in that. One that gets another number after all, as
    who does not lock the study has added one, keeps what it drew.
    """
    shown = isinstance(study.pruner, HyperbandPruner)  # it shows a sampler a study of its own making
    begun = as_begun(number, point)
    if draw is not None and not shown and draws_alone(study.sampler):
        draw_first(study, begun, draw)
    trial_id = add_begun(study, begun)
    stored_id = study._storage.get_trial_id_from_study_id_trial_number(study._study_id, number)
    if shown or stored_id != trial_id:
        return _live_trial(study, trial_id)
    study._thread_local.cached_all_trials = None  # see `_live_trial`
    return live(study, begun)


def _live_trial(study: optuna.Study, trial_id: int) -> Trial:
    study.get_trials(deepcopy=False)  # what Optuna has not read of a database, it cannot add params to
    study._thread_local.cached_all_trials = None  # as Study.ask does: samplers see what others finished
    return Trial(study, trial_id)


class HeldTrials:
    """The trials that this process works on, each locked by a file, which the system unlocks if it dies.

    A lock outlives its trial, since the thread tells the study the result only afterwards. Another object of
    the thread may take over a lock that rests: in a notebook, a traceback keeps an objective alive that
    Ctrl-C has ended, and the next objective must not wait for it.

    Args:
        folder: of the locks.
        total: trials of a higher number are left alone; None takes any.
    """

    def __init__(self, folder: Path, total: int | None = None) -> None:
        self._folder, self._total = folder, total
        make_private(folder)
        self._held: dict[int, FileLock] = {}

    _resting: ClassVar[WeakSet[FileLock]] = WeakSet()

    @property
    def held(self) -> list[int]:
        """The trials that this process works on."""
        return list(self._held)

    def take(self, number: int) -> bool:
        """Lock a trial; False if it is another's, or beyond the total."""
        if self._total is not None and number >= self._total:
            return False
        lock = FileLock(self._folder.resolve() / f"{number:04d}", blocking=False, is_singleton=True)
        if lock.is_locked:
            if lock not in self._resting:  # this thread is at work on it
                return False
            lock.release()  # a file of this name may be a new one, if the directory was removed since
        try:
            lock.acquire()
        except Timeout:
            return False
        self._resting.discard(lock)
        self._held[number] = lock
        return True

    def is_at_work(self, number: int) -> bool:
        """Whether a trial is locked and not over."""
        return number in self._held and self._held[number] not in self._resting

    def rest(self, number: int) -> None:
        """Mark a trial as over; its lock stays until `release`, or until this thread takes it again."""
        if number in self._held:
            self._resting.add(self._held[number])

    def release(self, number: int) -> None:
        """Unlock a trial."""
        lock = self._held.pop(number)
        self._resting.discard(lock)
        lock.release()
