"""The study of a run directory: opened as it was left, with a slot per trial and a lock per worker."""

from __future__ import annotations

from collections.abc import Iterator
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
    study_records,
    tell,
)
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
    """
    optuna.logging.set_verbosity(optuna.logging.INFO if verbose else optuna.logging.WARNING)
    storage = open_storage("memory" if _in_memory(job) else job.directory.study)
    try:
        study = _study(job, storage)
        _tell_the_finished(study, job, locks)
        yield study
    finally:
        close_storage(storage)


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


def has_reached_target(study: optuna.Study, job: Job) -> bool:
    """Say whether a trial of any process has reached `budget.target`."""
    return job.plan.config.budget.target is not None and any(map(job.reaches, study_records(study)))


def _study(job: Job, storage: optuna.storages.BaseStorage) -> optuna.Study:
    plan, search = job.plan, job.plan.config.search
    metric, objective = job.resolved.metric, job.resolved.objective
    on_ray = plan.config.backend.name == "ray"  # there a scheduler stops trials
    pruner = None if on_ray or search.pruner is None else search.pruner.spec
    study = open_study(
        storage,
        plan.name,
        metric,
        objective,
        make_sampler(plan.sampler_spec, search.seed),
        make_pruner(pruner, plan.config.budget.epochs),
    )
    check_study(study, metric, objective)
    check_origin(study, [metric], plan.space, extend=job.extend)
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
            "put the file back, or start over with --fresh"
        )
    while trial := reclaim(study, lambda number: number in finished and locks.take(number)):
        tell(study, trial, finished[trial.number])
        locks.release(trial.number)
