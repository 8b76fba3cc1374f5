"""Mending a run directory: what is damaged is put aside and said, what is left of it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..exceptions import RecordError
from ..records.recovery import Repair, StudyTrial, find_repair, put_aside
from ..results.run_directory import RunDirectory
from ..results.significance import read_verdict
from .context import Job
from .study import read_study, restore_study, study_file


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
