"""Mending: a damaged file is put aside under a name of its own, and what can be told of it written anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..exceptions import RecordError
from .atomic import atomic_write, free_name, sync_directory
from .epoch_log import EPOCHS_FILE, read_epochs
from .record import TRIAL_FILE, EpochRecord, TrialRecord, write_trial
from .strict_json import read_json


def put_aside(path: Path, why: str = "damaged") -> Path:
    """Rename what is damaged, or lost to another process, a file or a directory; return its new name."""
    aside = free_name(path, why)
    path.rename(aside)
    sync_directory(path.parent)
    return aside


def mend_trial(directory: Path, known: TrialRecord | None, metric: str) -> str:
    """Mend the record of a trial that `read_trial` refuses, and say what was damaged and what is left.

    A trial that has ended keeps every epoch that reads; what steered the search is known of the others too.
    An open trial keeps what is before the damage, and trains the rest again. One whose params nobody knows
    begins anew.

    Args:
        directory: the trial's own.
        known: what its study keeps of it.
        metric: that is optimised.
    """
    told, said = _told(directory / TRIAL_FILE), []
    if told is None and known is None:
        return (
            f"{directory / TRIAL_FILE} is damaged: the trial begins anew, kept is {put_aside(directory).name}"
        )
    if told is None and known is not None:
        said.append(f"{directory / TRIAL_FILE} is damaged, kept as {put_aside(directory / TRIAL_FILE).name}")
        if known.state.finished:
            write_trial(directory, known)
    ended = next((one for one in (known, told) if one is not None and one.state.finished), None)
    try:
        read_epochs(directory)
    except RecordError as err:
        whole, left = _mend_epochs(directory / EPOCHS_FILE, None if ended is None else _epochs(ended, metric))
        said.append(f"{err}: {left} epochs are left, kept is {whole.name}")
    return "; ".join(said)


def _epochs(ended: TrialRecord, metric: str) -> Sequence[EpochRecord]:
    """The epochs that are known of a trial; at least the picked one."""
    if ended.epochs or ended.epoch is None or ended.value is None:
        return ended.epochs
    return [EpochRecord(ended.epoch, {metric: ended.value})]


def _mend_epochs(path: Path, known: Sequence[EpochRecord] | None) -> tuple[Path, int]:
    lines = [_epoch(line) for line in path.read_bytes().split(b"\n")[:-1]]
    kept = [record for record in (lines if known else lines[: lines.index(None)]) if record is not None]
    there = {record.epoch for record in kept}
    attempt = max((record.attempt for record in kept), default=1)
    kept += [replace(record, attempt=attempt) for record in known or () if record.epoch not in there]
    kept.sort(key=lambda record: (record.attempt, record.epoch))
    whole = put_aside(path)
    with atomic_write(path) as file:
        file.writelines(f"{record.to_line()}\n".encode() for record in kept)
    return whole, len({record.epoch for record in kept})


def _epoch(line: bytes) -> EpochRecord | None:
    try:
        return EpochRecord.from_line(line.decode())
    except (RecordError, UnicodeDecodeError):
        return None  # the caller puts it aside and says so


def _told(path: Path) -> TrialRecord | None:
    """What a trial's own file says of it but for the epochs; None if it does not read."""
    try:
        return TrialRecord.from_json(read_json(path.read_bytes()))
    except (ValueError, RecordError):
        return None
