"""A sweep in this process: slots of an Optuna study, claimed and run one after the other."""

from __future__ import annotations

import traceback

import optuna

from ..search.optuna_backend import OptunaReporter, claim, reclaim, tell
from ..search.record import TrialRecord, TrialState
from .job import Job
from .studies import TrialLocks, opened_study, reserve_slots
from .writer import write_text


def run_in_process(job: Job, verbose: bool = False) -> None:
    """Run trials until the budget is used up.

    Args:
        job: what to do.
        verbose: let Optuna write its own log.

    Raises:
        BaseException: what stopped the trial at work, once it is recorded as interrupted.
    """
    locks = TrialLocks(job.directory, job.plan.trials)
    with opened_study(job, locks, verbose) as study:
        while not job.over:
            reserve_slots(study, job)
            trial = reclaim(study, locks.take) or claim(study, locks.take)
            if trial is None:
                break
            record, error = _run(job, trial)
            tell(study, trial, record)
            locks.release(trial.number)
            job.note(record)
            if not record.state.finished and error is not None:
                raise error


def _run(job: Job, trial: optuna.Trial) -> tuple[TrialRecord, BaseException | None]:
    record, error = job.trials.run(job.plan.space.suggest(trial), OptunaReporter(trial))
    if record.state is TrialState.FAILED and error is not None:
        text = "".join(traceback.format_exception(error))
        write_text(job.directory.trial(trial.number) / "error.txt", text)
    return record, error
