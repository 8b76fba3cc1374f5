"""Trials whose process died: taken up where they were left, unless it dies at the same epoch too often."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import optuna

from ..backends.optuna.study import tell
from ..backends.optuna.trial_queue import reclaim, reclaim_or_claim
from ..records.deaths import MOST_DEATHS, Deaths, format_deaths
from ..records.epoch_log import read_trial
from ..records.trial_record import TrialRecord, TrialState, write_trial
from ..run.conditions import machine
from ..run.trials import epochs_in
from .context import Job
from .trial_locks import TrialLocks

_DEATHS = "hpometrics:deaths"  # how often in a row its process died, and how many epochs it had by then


def take_up(study: optuna.Study, job: Job, locks: TrialLocks) -> optuna.Trial | None:
    """Take a trial whose process died, to go on with it; None when there is none."""
    while trial := reclaim(study, locks.take_orphan, locks.release):
        if _goes_on(trial, study, job, locks):
            return trial
    return None


def take_up_or_claim(study: optuna.Study, job: Job, locks: TrialLocks, total: int) -> optuna.Trial | None:
    """Take a trial whose process died, else a slot; None when there is neither. It is one look at the study.

    Args:
        study: of the job.
        job: what the trial is of.
        locks: see `reclaim` and `claim`.
        total: see `claim`.
    """
    while True:
        trial, died = reclaim_or_claim(
            study,
            locks.take_orphan,
            locks.take,
            total,
            job.plan.points,
            job.plan.space.suggest,
            locks.release,
        )
        if trial is None or not died or _goes_on(trial, study, job, locks):
            return trial


def _goes_on(trial: optuna.Trial, study: optuna.Study, job: Job, locks: TrialLocks) -> bool:
    """Say whether there is something left to do of a trial whose process died; if not, its end is told.

    One that had written its end is told of to the study. One whose process died `MOST_DEATHS` times without a
    further epoch in between has failed: as far as can be known its params end the process, for example by
    asking for more memory than there is. A restart of the machine ends every process, whatever its params.
    """
    record = read_trial(job.directory.trial(trial.number))
    if record is None and locks.shared and trial.params:  # its process died elsewhere
        record = TrialRecord(trial.number, job.plan.space.suggest(trial), TrialState.RUNNING)
    if record is not None and record.state is TrialState.RUNNING and not _restarted_since(record):
        record = after_death(trial, record, job.directory.trial(trial.number))
    if record is None or not record.state.finished:
        return True
    tell(study, trial, record)
    locks.release(trial.number)
    job.note(record)
    return False


def _restarted_since(record: TrialRecord) -> bool:
    """Check whether this machine was restarted after the last process of a trial began on it."""
    now, before = machine(), record.machine
    if now is None or before is None:
        return False
    return now != before and now.rpartition(" ")[0] == before.rpartition(" ")[0]


def after_death(trial: optuna.Trial, record: TrialRecord, home: Path) -> TrialRecord:
    """Count that a process died at an open trial, and write and return its record.

    Args:
        trial: of the study, which keeps the count.
        record: of the trial; it has failed once its process died `MOST_DEATHS` times at one epoch.
        home: of the record.
    """
    epochs = max(len(trial._cached_frozen_trial.intermediate_values), epochs_in(home, record))
    deaths = Deaths(*trial.user_attrs.get(_DEATHS, ())).another(epochs)
    trial.set_user_attr(_DEATHS, tuple(deaths))
    if deaths.times >= MOST_DEATHS:
        record = replace(record, state=TrialState.FAILED, reason=format_deaths(deaths.times, epochs))
    write_trial(home, record)
    return record
