"""A sweep in one process: slots of an Optuna study, claimed beside other processes and run one by one."""

from __future__ import annotations

import sys

from ..search.optuna_backend import OptunaReporter, claim, tell
from .job import Job
from .reclaiming import take_up
from .studies import TrialLocks, is_over, opened_study


def run_in_process(job: Job, verbose: bool = False) -> None:
    """Run trials until the budget is used up.

    Args:
        job: what to do.
        verbose: let Optuna write its own log.

    Raises:
        BaseException: what stopped the trial at work, once it is recorded as interrupted.
        DiskError: the record or the study cannot be written.
    """
    locks = TrialLocks(job.directory, job.plan.trials)
    total = sys.maxsize if job.plan.trials is None else job.plan.trials
    with opened_study(job, locks, verbose) as study:
        while not is_over(study, job):
            trial = take_up(study, job, locks) or claim(study, locks.take, total, job.plan.points)
            if trial is None:
                break
            record, error = job.trials.run(job.plan.space.suggest(trial), OptunaReporter(trial))
            tell(study, trial, record)
            locks.release(trial.number)
            job.note(record)
            if not record.state.finished and error is not None:
                raise error
