"""The study of a run directory: opened as it was left, with a slot per trial and a lock per worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import optuna
from filelock import FileLock, Timeout
from optuna.trial import TrialState as OptunaState

from ..exceptions import ConfigError
from ..search.atomic import make_private
from ..search.optuna_backend import (
    check_study,
    close_storage,
    make_pruner,
    make_sampler,
    open_storage,
    open_study,
    reclaim,
    reserve,
    storing,
    study_records,
    tell,
)
from ..search.optuna_restore import is_sound, put_aside_study, restore
from ..search.record import TrialRecord, TrialState
from ..search.study_origin import check_origin
from .directory import RunDirectory
from .job import Job

_OPEN = (OptunaState.WAITING, OptunaState.RUNNING)


class TrialLocks:
    """Locks on trials: who holds one works on it; when its process dies, the system frees it.

    Args:
        directory: of the run.
        total: trials of a higher number are left alone; None takes any.
    """

    def __init__(self, directory: RunDirectory, total: int | None) -> None:
        self._folder, self._total = directory.locks, total
        self._held: dict[int, FileLock] = {}

    @property
    def held(self) -> list[int]:
        """The trials that this process works on."""
        return list(self._held)

    def take(self, number: int) -> bool:
        """Lock a trial; False if it is another's, or beyond the total."""
        if self._total is not None and number >= self._total:
            return False
        make_private(self._folder)
        lock = FileLock(self._folder / f"{number:04d}", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            return False
        self._held[number] = lock
        return True

    def release(self, number: int) -> None:
        """Give a trial up."""
        self._held.pop(number).release()


@contextmanager
def opened_study(job: Job, locks: TrialLocks, verbose: bool = False) -> Iterator[optuna.Study]:
    """Open the study of a job's directory, new or as it was left; Optuna's own log is for the verbose.

    Raises:
        HpometricsError: a sampler or pruner is not well formed, or the stored study is about something else.
        DiskError: at any time, the study cannot be read or written.
    """
    with _opened(job, verbose) as study:
        _tell_the_finished(study, job, locks)
        yield study


def restore_study(job: Job) -> str | None:
    """Make a study that is damaged, or does not know what has finished, again from the records of trials.

    Returns:
        What was done; None where nothing had to be.

    Raises:
        ConfigError: a worker is at work on a trial of it.
    """
    path, records = job.directory.study, job.directory.records()
    damaged = path.exists() and not is_sound(path)
    if not damaged and (not records or _knows(job, records)):
        return None
    job.directory.check_no_worker()
    aside = f"; the old one is kept as {put_aside_study(path).name}" if path.exists() else ""
    with _opened(job) as study:
        restore(study, records, job.plan.space, job.plan.points)
    return f"{path} was {'damaged' if damaged else 'not that of the trials'}, made again from them{aside}"


def reserve_slots(study: optuna.Study, job: Job) -> None:
    """Add the slots that are missing; where only time or target end the sweep, one at a time."""
    total = job.plan.trials
    if total is None:
        there = study.get_trials(deepcopy=False)
        total = len(there) + all(trial.state is not OptunaState.WAITING for trial in there)
    reserve(study, total, job.plan.points)


def has_open_trials(study: optuna.Study, job: Job) -> bool:
    """Say whether a trial of the budget waits, or was left by a worker."""
    left = study.get_trials(deepcopy=False, states=_OPEN)
    return any(job.plan.trials is None or trial.number < job.plan.trials for trial in left)


def is_over(study: optuna.Study, job: Job) -> bool:
    """Say whether trials of any process have reached `budget.target`, or used up `budget.failures`."""
    budget = job.plan.config.budget
    if job.over:
        return True
    if budget.failures is not None:
        failed = study.get_trials(deepcopy=False, states=(OptunaState.FAIL,))
        if job.fails(len(failed)):
            return True
    return budget.target is not None and any(map(job.reaches, study_records(study)))


def known_trials(job: Job) -> dict[int, TrialRecord]:
    """What the study keeps of the trials that have begun; nothing if it is damaged."""
    path = job.directory.study
    if not path.exists() or not is_sound(path):
        return {}
    with _opened(job) as study:
        return {one.number: one for one in study_records(study) if one.state is not TrialState.WAITING}


@contextmanager
def _opened(job: Job, verbose: bool = False) -> Iterator[optuna.Study]:
    optuna.logging.set_verbosity(optuna.logging.INFO if verbose else optuna.logging.WARNING)
    with storing():
        storage = open_storage("memory" if _in_memory(job) else job.directory.study)
        try:
            yield _study(job, storage)
        finally:
            close_storage(storage)


def _knows(job: Job, records: Sequence[TrialRecord]) -> bool:
    """Say whether the study has every trial of the records, and begun those that are finished."""
    if not _in_memory(job) and not job.directory.study.exists():
        return False
    with _opened(job) as study:
        states = [trial.state for trial in study.get_trials(deepcopy=False)]
    return all(
        record.number < len(states)
        and not (record.state.finished and states[record.number] is OptunaState.WAITING)
        for record in records
    )


def _study(job: Job, storage: optuna.storages.BaseStorage) -> optuna.Study:
    plan, search = job.plan, job.plan.config.search
    optimised = job.resolved.optimised
    on_ray = plan.config.backend.name == "ray"  # there a scheduler stops trials
    pruner = None if on_ray or search.pruner is None else search.pruner.spec
    study = open_study(
        storage,
        plan.name,
        optimised,
        make_sampler(plan.sampler_spec, search.seed),
        make_pruner(pruner, plan.config.budget.epochs),
    )
    check_study(study, optimised)
    check_origin(study, list(optimised), plan.space, extend=job.extend)
    return study


def _in_memory(job: Job) -> bool:
    settings = job.plan.config.backend.optuna
    if settings is None or settings.storage != "memory":
        return False
    if job.directory.records():
        path = job.directory.path
        raise ConfigError(f"{path}: has trials that storage: memory has forgotten; --fresh starts over")
    return True


def _tell_the_finished(study: optuna.Study, job: Job, locks: TrialLocks) -> None:
    """Tell the study of trials whose worker died after it wrote their end, before it told."""
    finished = {record.number: record for record in job.directory.records() if record.state.finished}
    if finished and max(finished) >= len(study.get_trials(deepcopy=False)):
        raise ConfigError(
            f"{job.directory.study} does not know the {len(finished)} finished trials beside it: "
            "hpometrics run makes them known to it"
        )
    while trial := reclaim(study, lambda number: number in finished and locks.take(number)):
        tell(study, trial, finished[trial.number])
        locks.release(trial.number)
