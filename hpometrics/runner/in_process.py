"""A sweep in one process: slots of an Optuna study, claimed beside other processes and run one by one."""

from __future__ import annotations

import sys
from contextlib import closing

import optuna

from ..backends.optuna.storage import is_lockable
from ..backends.optuna.trial_queue import claim, with_point
from ..config.storage_url import is_shared, storage_of
from ..records.recovery import put_aside
from .context import Job
from .gathering import Gathering
from .leases import TrialLeases
from .reclaim import take_up, take_up_or_claim
from .study import has_open_trials, is_over, opened_study, reserve_slots
from .trial_locks import TrialLocks


def run_in_process(job: Job, verbose: bool = False) -> None:
    """Run trials until the budget is used up.

    Args:
        job: what to do.
        verbose: let Optuna write its own log.

    Raises:
        BaseException: what stopped the trial at work, once it is recorded as interrupted.
        DiskError: the record or the study cannot be written.
    """
    with closing(_locks(job)) as locks, opened_study(job, locks, verbose) as study:
        elsewhere = Gathering(job) if locks.shared and job.gathers else None
        while not is_over(study, job):
            trial = _next(study, job, locks)
            if elsewhere is not None:
                elsewhere.gather(study)
            if trial is not None:
                _run(trial, study, job, locks)
            elif locks.shared and has_open_trials(study, job):
                locks.pause()  # others are at the last trials; one of them may die
            elif job.plan.trials is not None:
                break
        if elsewhere is not None:
            elsewhere.gather(study)


def _locks(job: Job) -> TrialLocks:
    settings = job.plan.config.backend.optuna
    if settings is None or not is_shared(storage_of(job.plan.config.backend)):
        return TrialLocks(job.directory, job.plan.trials)
    return TrialLeases(job.directory, job.plan.trials, settings.heartbeat)


def _next(study: optuna.Study, job: Job, locks: TrialLocks) -> optuna.Trial | None:
    """Take a trial that a dead process has left, or else the next one.

    Optuna reads each slot that waits anew at each look, so a slot is added as it is taken. A storage that
    cannot be locked gets all slots at once: of several that add one, each may add one too many.
    """
    if not locks.shared or is_lockable(study._storage):
        total = sys.maxsize if job.plan.trials is None else job.plan.trials
        return take_up_or_claim(study, job, locks, total)
    orphan = take_up(study, job, locks)
    if orphan is not None:
        return orphan
    points = job.plan.points
    reserve_slots(study, job)
    trial = claim(study, locks.take, release=locks.release)
    if trial is None or trial.number >= len(points):
        return trial
    return with_point(study, trial, points[trial.number])


def _run(trial: optuna.Trial, study: optuna.Study, job: Job, locks: TrialLocks) -> None:
    """Run a trial that this process has taken, and tell how it ended, unless another has taken it since."""
    reporter = locks.begin(trial)
    record, error = job.trials.run(job.plan.space.suggest(trial), reporter)
    told = locks.tell(study, trial, record)
    if not told:
        put_aside(job.directory.trial(trial.number), "lost")
    locks.release(trial.number)
    if told:
        job.note(record)
    if not record.state.finished and error is not None:
        raise error
