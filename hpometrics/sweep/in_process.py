"""A sweep in this process: slots of an Optuna study, claimed and run one after the other."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import optuna
from filelock import FileLock, Timeout

from ..search.epoch_log import read_trial
from ..search.optuna_backend import (
    OptunaReporter,
    check_study,
    claim,
    close_storage,
    make_pruner,
    make_sampler,
    open_storage,
    open_study,
    reclaim,
    reserve,
    tell,
)
from ..search.record import TrialRecord, TrialState
from .directory import RunDirectory
from .job import Job
from .writer import write_text

_OPEN = (optuna.trial.TrialState.WAITING, optuna.trial.TrialState.RUNNING)


def run_in_process(job: Job, verbose: bool = False) -> None:
    """Run trials until the budget is used up.

    Args:
        job: what to do.
        verbose: let Optuna write its own log.

    Raises:
        BaseException: what stopped the trial at work, once it is recorded as interrupted.
    """
    optuna.logging.set_verbosity(optuna.logging.INFO if verbose else optuna.logging.WARNING)
    locks = TrialLocks(job.directory, job.plan.trials)
    with opened_study(job) as study:
        _reserve(study, job)
        while not job.over:
            trial = reclaim(study, locks.take) or claim(study, locks.take)
            if trial is None:
                break
            record, error = _run(job, trial)
            tell(study, trial, record)
            locks.release(trial.number)
            job.note(record)
            if not record.state.finished and error is not None:
                raise error
            _reserve(study, job)


@contextmanager
def opened_study(job: Job) -> Iterator[optuna.Study]:
    """Open the study of a job's directory, new or as it was left.

    Raises:
        HpometricsError: a sampler or pruner is not well formed, or the stored study is about something else.
    """
    plan, search = job.plan, job.plan.config.search
    sampler = make_sampler("random" if plan.sampler == "list" else _spec(search.sampler, "tpe"), search.seed)
    pruner = make_pruner(_spec(search.pruner, "none"), plan.config.budget.epochs)
    in_memory = plan.config.backend.optuna is not None and plan.config.backend.optuna.storage == "memory"
    storage = open_storage("memory" if in_memory else job.directory.study)
    name, metric, objective = plan.name, job.resolved.metric, job.resolved.objective
    try:
        study = open_study(storage, name, metric, objective, sampler, pruner)
        check_study(study, metric, objective, {"space": plan.space.fingerprint()}, extend=job.extend)
        yield study
    finally:
        close_storage(storage)


class TrialLocks:
    """Locks on trials: who holds one works on it; when its process dies, the system frees it.

    Args:
        directory: of the run.
        total: trials of a higher number are left alone; None takes any.
    """

    def __init__(self, directory: RunDirectory, total: int | None) -> None:
        self._folder, self._total = directory.path / ".locks", total
        self._held: dict[int, FileLock] = {}

    def take(self, number: int) -> bool:
        """Lock a trial; False if it is another's, or beyond the total."""
        if self._total is not None and number >= self._total:
            return False
        self._folder.mkdir(exist_ok=True)
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


def _reserve(study: optuna.Study, job: Job) -> None:
    """Add the slots that are missing; where only time or target end the sweep, one at a time."""
    total = job.plan.trials
    if total is None:
        present = study.get_trials(deepcopy=False)
        total = len(present) + (not any(trial.state in _OPEN for trial in present))
    reserve(study, total, job.plan.points)


def _run(job: Job, trial: optuna.Trial) -> tuple[TrialRecord, BaseException | None]:
    directory = job.directory.trial(trial.number)
    earlier = read_trial(directory)
    if earlier is not None and earlier.state.finished:
        return earlier, None  # its worker died between writing this and telling the study
    record, error = job.trials.run(job.plan.space.suggest(trial), OptunaReporter(trial))
    if record.state is TrialState.FAILED and error is not None:
        write_text(directory / "error.txt", "".join(traceback.format_exception(error)))
    return record, error


def _spec(plugin: object, default: str) -> object:
    return getattr(plugin, "spec", default)
