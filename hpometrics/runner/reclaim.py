"""Recovery of trials whose process died: they are resumed, unless the process dies at one epoch too often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import optuna
from optuna.trial import TrialState as OptunaState

from ..backends.optuna._internals import local_copy_of
from ..backends.optuna.fresh_study import write_rows
from ..backends.optuna.study import shared_record, tell, write_shared
from ..backends.optuna.trial_queue import reclaim_or_claim
from ..exceptions import NewerFormatError, RecordError
from ..records.epoch_log import read_trial
from ..records.recovery import (
    MOST_DEATHS,
    Deaths,
    Loss,
    Repair,
    StudyTrial,
    find_repair,
    format_deaths,
    format_loss,
    quarantine,
)
from ..records.trial_record import TrialRecord, TrialState, write_trial
from ..results.confirmation import read_confirmation
from ..results.run_directory import RunDirectory
from ..results.verdict import read_verdict
from ..run.trial import machine
from ..run.trials import epochs_in
from .context import SweepContext
from .leases import LocalOwnership
from .study import read_study, restore_study, study_file

_DEATHS = "hpometrics:deaths"  # how often in a row the process died, and the number of epochs by then
_FINISHED = (OptunaState.COMPLETE, OptunaState.PRUNED, OptunaState.FAIL)


def claim_stale_or_next(
    study: optuna.Study, context: SweepContext, ownership: LocalOwnership, total: int, starts: bool = True
) -> optuna.Trial | None:
    """Claim a trial whose process died, to resume it, else a slot; return None if there is neither.

    Args:
        study: the study of the sweep.
        context: the context of the sweep.
        ownership: the trials of this process.
        total: see `claim`.
        starts: whether a trial may start; those that have begun resume in any case, also one that waits in a
            study which was made again.
    """

    def take_begun(number: int) -> bool:
        return context.has_begun(number) and ownership.take(number)

    while True:
        trial, died = reclaim_or_claim(
            study,
            ownership.take_stale,
            ownership.take if starts else take_begun,
            total,
            context.plan.points,
            context.plan.space.suggest,
            ownership.release,
        )
        if trial is None or not died or _can_resume(trial, study, context, ownership):
            return trial


def _can_resume(
    trial: optuna.Trial, study: optuna.Study, context: SweepContext, ownership: LocalOwnership
) -> bool:
    """Return whether a trial whose process died can be resumed; if not, write its result to the study.

    A trial that has written its result is only added to the study. A trial whose process died `MOST_DEATHS`
    times without a further epoch in between has failed, because its params probably end the process, for
    example by using too much memory. A restart of the machine does not count, because it ends every process.
    """
    record = read_trial(context.directory.trial(trial.number))
    if record is None:
        record = ownership.find_record(trial, context.plan.space)
    if record is not None and record.state is TrialState.RUNNING and not _restarted_since(record):
        home = context.directory.trial(trial.number)
        record = after_death(trial, record, home, lambda text: context.say(f"trial {trial.number}: {text}"))
    if record is None or not record.state.finished:
        return True
    tell(study, trial, record)
    ownership.release(trial.number)
    context.note(record)
    return False


def _restarted_since(record: TrialRecord) -> bool:
    """Check whether this machine was restarted after the last process of a trial began on it."""
    now, before = machine(), record.machine
    if now is None or before is None:
        return False
    return now != before and now.rpartition(" ")[0] == before.rpartition(" ")[0]


def after_death(
    trial: optuna.Trial, record: TrialRecord, home: Path, say: Callable[[str], None]
) -> TrialRecord:
    """Count the death of a process that worked on a trial, and write and return the record of the trial.

    Args:
        trial: the trial of the study, which stores the count.
        record: its record, which fails after `MOST_DEATHS` deaths at one epoch.
        home: the directory of the record.
        say: called with a line on the death if the trial continues.
    """
    epochs = max(len(local_copy_of(trial).intermediate_values), epochs_in(home, record))
    deaths = Deaths(*trial.user_attrs.get(_DEATHS, ())).another(epochs)
    trial.set_user_attr(_DEATHS, tuple(deaths))
    if deaths.times >= MOST_DEATHS:
        record = replace(record, state=TrialState.FAILED, reason=format_deaths(deaths.times, epochs))
    else:
        say(format_loss(Loss.PROCESS, epochs, deaths.times))
    write_trial(home, record)
    return record


def recover(context: SweepContext) -> tuple[list[str], list[TrialRecord]]:
    """Repair the run directory of a sweep, which no other run works in.

    Returns:
        A line for each repair, and the records of the trials after all repairs.

    Raises:
        ConfigError: something is damaged, and a worker is at work.
        NewerFormatError: a newer version of this package has resumed a trial.
    """
    home = context.directory
    trials = read_study(context)
    are_lost = not home.numbers()
    by_number = trials or {}
    candidates = (
        _find_repair(context, number, by_number.get(number)) for number in _numbers(context, by_number)
    )
    repairs = [repair for repair in candidates if repair is not None]
    repairs += find_fresh_repairs(home, context.resolved.metric)
    if repairs:
        home.check_no_worker()
    lines = [repair().replace(str(home.path), str(home.label)) for repair in repairs]
    if are_lost and lines:
        lines = [_format_lost(context, len(lines))]
    records = home.records()
    context.arrange_grid(records)
    restored = restore_study(context, trials, records)
    if restored is not None and not home.is_extended:  # then it was put aside to be made again
        lines.append(restored)
    derived = ((home.verdict, read_verdict, "drawn"), (home.confirmation, read_confirmation, "made"))
    for path, read, again in derived:
        try:
            read(home)
        except NewerFormatError:
            raise
        except RecordError:
            aside = quarantine(path).name
            lines.append(f"{home.display_path(path)} is damaged, kept as {aside}: it is {again} again")
    return home.remarks + lines, records


def find_fresh_repairs(home: RunDirectory, metric: str) -> list[Repair]:
    """Return the repairs of contenders' fresh runs; one whose record is lost is trained again."""
    runs = (path for path in home.path.glob("trials/*/confirm/*") if path.name.isdecimal() and path.is_dir())
    return [repair for path in sorted(runs) if (repair := find_repair(path, None, metric)) is not None]


def _format_lost(context: SweepContext, count: int) -> str:
    """Describe in one line what remains of trials that were all lost."""
    name = context.directory.display_path(context.directory.trials)
    fate = f"they are restored from the study, which has only {context.resolved.metric} of each epoch"
    return f"{name} has lost all {count} trials: {fate}"


def _numbers(context: SweepContext, trials: Mapping[int, StudyTrial]) -> list[int]:
    """Return the trials that have a directory or should have one; in a shared study, only those that have."""
    finished = (number for number, trial in trials.items() if trial.record.state.finished)
    return sorted({*(finished if study_file(context) is not None else ()), *context.directory.numbers()})


def _find_repair(context: SweepContext, number: int, trial: StudyTrial | None) -> Repair | None:
    """Return the repair that a trial needs; one that ended elsewhere is collected from a shared study."""
    directory, metric = context.directory.trial(number), context.resolved.metric
    if study_file(context) is None and find_repair(directory, None, metric) is None:
        return None
    return find_repair(directory, trial, metric, context.plan.space)


class RecordCollector:
    """A writer of records that a study has and the run directory lacks; the leading process reports them.

    Args:
        context: the context of the sweep.
        ownership: the trials of this process.
    """

    def __init__(self, context: SweepContext, ownership: LocalOwnership) -> None:
        self._context, self._ownership = context, ownership
        self._numbers: set[int] = set()

    def collect(self, study: optuna.Study) -> None:
        """Write the records of the trials that have ended since the last call.

        Raises:
            RecordError: the storage holds a record that cannot be parsed.
        """
        for trial in study.get_trials(deepcopy=False, states=_FINISHED):
            if trial.number not in self._numbers and self._collect_trial(trial):
                self._numbers.add(trial.number)

    def _collect_trial(self, trial: optuna.trial.FrozenTrial) -> bool:
        """Write the record of a trial; return False until a process here knows that it lost the trial."""
        directory = self._context.directory.trial(trial.number)
        local = read_trial(directory)
        record = shared_record(trial)
        if record is None or (local is not None and local.state.finished):
            return True
        if local is not None:  # it was started here, before another process took it
            if not self._ownership.take(trial.number):
                return False
            if directory.exists():
                quarantine(directory, "lost")
            self._ownership.release(trial.number)
        write_rows(directory, trial)
        write_shared(directory, record)
        if self._context.leads:
            self._context.note(record)
        return True
