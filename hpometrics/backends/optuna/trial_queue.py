"""Slots: the trials that a study is to have, each taken by one worker, new or from one that died."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from weakref import WeakSet

import optuna
from filelock import FileLock, Timeout
from optuna.distributions import BaseDistribution
from optuna.pruners import HyperbandPruner
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from ...records._files import make_private
from .database import repeated, repeats_turn
from .samplers import draws_alone
from .storage import exclusive, is_lockable

Draw = Callable[[Trial], object]
"""Draws the params of a trial from it; see `Space.suggest`."""

FIXED = "fixed_params"  # what Optuna calls the params of an enqueued trial
_NOWHERE = -1  # the id of a trial that no storage has


def as_begun(number: int, point: Mapping[str, Any] | None = None) -> FrozenTrial:
    """A trial that has just begun, as a storage will have it; with the params of a point if one is given."""
    return FrozenTrial(
        number=number,
        trial_id=_NOWHERE,
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


def draw_first(study: optuna.Study, begun: FrozenTrial, draw: Draw) -> None:
    """Draw the params of a trial that its storage does not have yet: it is added with them, in one visit."""
    draw(Trial(_view(study, begun), _NOWHERE))


def add_begun(study: optuna.Study, begun: FrozenTrial) -> int:
    """Add it to the storage and return its id."""
    template = begun if begun.params or begun.system_attrs else None
    begun._trial_id = study._storage.create_new_trial(study._study_id, template)
    return begun._trial_id


def live(study: optuna.Study, begun: FrozenTrial) -> Trial:
    """The trial to work with, once the storage has it."""
    trial = Trial(_view(study, begun), begun._trial_id)
    trial.study, trial.storage = study, study._storage
    return trial


def _view(study: optuna.Study, known: FrozenTrial) -> Any:
    view: Any = copy(study)
    view._storage = _Knowing(study._storage, known)
    return view


class _Knowing:
    """A storage beside one trial of it that it is not asked for."""

    def __init__(self, storage: BaseStorage, known: FrozenTrial) -> None:
        self._storage, self._known = storage, known

    def get_trial(self, trial_id: int) -> FrozenTrial:
        return self._known if trial_id == self._known._trial_id else self._storage.get_trial(trial_id)

    def set_trial_param(self, trial_id: int, name: str, value: float, distribution: BaseDistribution) -> None:
        """Of a trial that is drawn first: its own copy is given the param."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


class OpenTrial(NamedTuple):
    """A trial that waits or runs."""

    number: int
    trial_id: int
    state: TrialState


def open_trials(study: optuna.Study) -> tuple[int, list[OpenTrial]]:
    """Count the trials of a study and give those that wait or run, by number.

    Of a database Optuna reads all that the trial that ended last has, in seven statements; here are two.
    """
    backend = getattr(study._storage, "_backend", None)
    if isinstance(backend, RDBStorage):
        return repeated(backend, partial(_in_database, backend, study._study_id))
    trials = study.get_trials(deepcopy=False)
    left = [one for one in trials if not one.state.is_finished()]
    return len(trials), [OpenTrial(one.number, one._trial_id, one.state) for one in left]


def _in_database(backend: RDBStorage, study_id: int) -> tuple[int, list[OpenTrial]]:
    import sqlalchemy  # a sweep in memory has no tables
    from optuna.storages._rdb.models import TrialModel as Model

    of_study = Model.study_id == study_id
    newest = sqlalchemy.select(Model.number).where(of_study).order_by(Model.trial_id.desc()).limit(1)
    found = (
        sqlalchemy.select(Model.number, Model.trial_id, Model.state)
        .where(of_study, Model.state.in_((TrialState.RUNNING, TrialState.WAITING)))
        .order_by(Model.number)
    )
    with backend.engine.connect() as connection:
        last = connection.execute(newest).scalar()  # numbers have no gap, and to count takes a scan
        return 0 if last is None else last + 1, [OpenTrial(*row) for row in connection.execute(found)]


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
