"""Trials whose process died: taken up where they were left, unless it dies at the same epoch too often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import optuna
from optuna.trial import TrialState as OptunaState

from ..backends.optuna.study import count_reported_epochs, shared_record, tell, write_shared
from ..backends.optuna.trial_queue import reclaim, reclaim_or_claim
from ..exceptions import RecordError
from ..records.epoch_log import read_trial
from ..records.recovery import MOST_DEATHS, Deaths, Repair, StudyTrial, find_repair, format_deaths, put_aside
from ..records.trial_record import TrialRecord, TrialState, write_trial
from ..results.run_directory import RunDirectory
from ..results.significance import read_verdict
from ..run.trial import machine
from ..run.trials import epochs_in
from .context import Job
from .leases import TrialLocks
from .study import read_study, restore_study, study_file

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
    epochs = max(count_reported_epochs(trial), epochs_in(home, record))
    deaths = Deaths(*trial.user_attrs.get(_DEATHS, ())).another(epochs)
    trial.set_user_attr(_DEATHS, tuple(deaths))
    if deaths.times >= MOST_DEATHS:
        record = replace(record, state=TrialState.FAILED, reason=format_deaths(deaths.times, epochs))
    write_trial(home, record)
    return record


def mend(job: Job) -> Iterator[str]:
    """Mend the directory of a job, which no other run works in, and say each thing that was done.

    Raises:
        ConfigError: something is damaged, and a worker is at work.
        NewerFormatError: a newer version of this package has gone on with a trial.
    """
    home = job.directory
    known = read_study(job)
    are_lost = not home.numbers()
    found = [_find_repair(job, number, (known or {}).get(number)) for number in _numbers(job, known or {})]
    repairs = [repair for repair in found if repair is not None]
    if repairs:
        home.check_no_worker()
    yield from home.remarks
    lines = [repair().replace(str(home.path), str(home.label)) for repair in repairs]
    yield from [_format_lost(job, len(lines))] if are_lost and lines else lines
    job.arrange_grid()
    restored = restore_study(job, known)
    if restored is not None:
        yield restored
    yield from _mend_verdict(home)


def _format_lost(job: Job, count: int) -> str:
    """Describe in one line what is left of trials that were all lost."""
    name = job.directory.named(job.directory.trials)
    fate = f"they are written again as the study has them, of their epochs {job.resolved.metric} alone"
    return f"{name} has lost all {count} trials: {fate}"


def _mend_verdict(home: RunDirectory) -> Iterator[str]:
    """Rename a damaged verdict, so that it is drawn again."""
    try:
        read_verdict(home)
    except RecordError:
        aside = put_aside(home.verdict).name
        yield f"{home.named(home.verdict)} is damaged, kept as {aside}: it is drawn again"


def _numbers(job: Job, known: Mapping[int, StudyTrial]) -> list[int]:
    """The trials that have a directory, or should have one: of a study of machines, they have others."""
    ended = (number for number, trial in known.items() if trial.record.state.finished)
    return sorted({*(ended if study_file(job) is not None else ()), *job.directory.numbers()})


def _find_repair(job: Job, number: int, known: StudyTrial | None) -> Repair | None:
    """Examine a trial; one of a study of machines may have ended elsewhere, and is gathered from there."""
    directory, metric = job.directory.trial(number), job.resolved.metric
    if study_file(job) is None and find_repair(directory, None, metric) is None:
        return None
    return find_repair(directory, known, metric, job.plan.space)


_FINISHED = (OptunaState.COMPLETE, OptunaState.PRUNED, OptunaState.FAIL)


class Gathering:
    """Writes the trials of a study that the directory of a job does not have; one that leads tells of each.

    Args:
        job: of this process.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._here: set[int] = set()

    def gather(self, study: optuna.Study) -> None:
        """Take in what has ended since the last time.

        Raises:
            RecordError: the storage holds a record that does not read.
        """
        for trial in study.get_trials(deepcopy=False, states=_FINISHED):
            if trial.number not in self._here:
                self._here.add(trial.number)
                self._take_in(trial)

    def _take_in(self, trial: optuna.trial.FrozenTrial) -> None:
        directory = self._job.directory.trial(trial.number)
        known = read_trial(directory)
        record = shared_record(trial)
        if record is None or (known is not None and known.state.finished):
            return
        if known is not None:
            put_aside(directory, "lost")  # begun here, before another process took it
        write_shared(directory, record)
        if self._job.leads:
            self._job.note(record)
