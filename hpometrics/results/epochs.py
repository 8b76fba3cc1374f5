"""The epochs of a trial as tables, from its record alone; neither torch nor a backend is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from .._text import printable
from ..exceptions import ConfigError
from ..loggers.table import epoch_text, split_name
from ..records.trial_record import EpochRecord, TrialRecord
from .leaderboard import word
from .run_directory import RunDirectory


def epochs_text(
    directory: Path,
    trial: int,
    epoch: int | None = None,
    *,
    every: bool = False,
    split: str | None = None,
    width: int | None = None,
) -> str:
    """Return the values of a trial: the table of its picked epoch, of another one, or of all.

    Args:
        directory: the run directory.
        trial: the number of the trial.
        epoch: the epoch, counted from 0; by default, the picked one, or the last while none is picked.
        every: whether to show all epochs.
        split: the only split to show.
        width: see `nice_report`.

    Raises:
        ConfigError: there is no such trial, no such epoch, or no value of that split.
        RecordError: one of the trial's files is damaged.
    """
    record = _trial(RunDirectory(directory), trial)
    where = f"{directory}: trial {trial}"
    chosen = None if every else _chosen(record, epoch, where)
    lines = [f"trial {trial}  {word(record.state)}  {_picked(record)}"]
    seconds = accumulate(one.seconds for one in record.epochs)
    for one, so_far in zip(record.epochs, seconds, strict=True):
        epoch_record = _of_split(one, split)
        if epoch_record.values and chosen in (None, one.epoch):
            lines += [epoch_text(epoch_record, so_far, width), *_reasons(epoch_record)]
    if len(lines) == 1:
        raise ConfigError(f"{where} has no {split} values{'' if every else f' in epoch {chosen}'}")
    return "\n".join(lines)


def _trial(home: RunDirectory, number: int) -> TrialRecord:
    record = home.record(number)
    if record is None:
        numbers = ", ".join(str(record.number) for record in home.records())
        raise ConfigError(f"{home.path}: has no trial {number}; there are {numbers or 'none'}")
    if not record.epochs:
        raise ConfigError(f"{home.path}: trial {number} ({record.state.value}) has no epoch yet")
    return record


def _chosen(record: TrialRecord, epoch: int | None, where: str) -> int:
    last = record.epochs[-1].epoch
    if epoch is None:
        return last if record.epoch is None else record.epoch
    if epoch not in [one.epoch for one in record.epochs]:
        raise ConfigError(f"{where} has no epoch {epoch}; there are 0 to {last}")
    return epoch


def _of_split(record: EpochRecord, split: str | None) -> EpochRecord:
    values = {name: value for name, value in record.values.items() if split in (None, split_name(name)[0])}
    return replace(record, values=values)


def _picked(record: TrialRecord) -> str:
    count = len(record.epochs)
    epochs = f"{count} epoch{'' if count == 1 else 's'}"
    return (
        f"{epochs}, none picked yet" if record.epoch is None else f"{epochs}, picked is epoch {record.epoch}"
    )


def _reasons(record: EpochRecord) -> Iterator[str]:
    """Return the reasons of nan values."""
    for name, reason in record.reasons.items():
        if name in record.values:
            yield printable(f"   {name} is nan: {reason}")
