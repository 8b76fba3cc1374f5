"""The record of a trial in a shared storage: every epoch's line and how the trial ended, as attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from optuna.trial import FrozenTrial, Trial

from ...records._files import EPOCHS_LIMIT, open_regular
from ...records.atomic import atomic_write, make_private
from ...records.epoch_log import EPOCHS_FILE, current_epochs
from ...records.trial_record import EpochRecord, TrialRecord, write_trial
from .long_attributes import get_attribute, put_attribute
from .study import PREFIX, RESULT

OWNER = f"{PREFIX}owner"
"""Which process works on a trial, and the id of its run directory."""
BEAT = f"{PREFIX}beat"
"""Counts while the owner lives."""


class EpochSender:
    """Copies the lines of a trial's `epochs.jsonl` into its attributes, each once.

    Args:
        trial: in a shared storage.
        path: of the file; it grows while the trial is trained.
        owner: the process that writes it; what another one has left of the trial stays apart.
    """

    def __init__(self, trial: Trial, path: Path, owner: str) -> None:
        self._trial, self._path, self._owner = trial, path, owner
        self._sent = 0

    def send(self) -> None:
        """Copy what is new."""
        with open_regular(self._path, EPOCHS_LIMIT) as file:
            file.seek(self._sent)
            new = file.read()
        for line in new[: new.rfind(b"\n") + 1].splitlines(keepends=True):
            record = EpochRecord.from_line(line.decode())
            put_attribute(self._trial.set_user_attr, _key(self._owner, record.epoch), line.decode().strip())
            self._sent += len(line)


def shared_record(trial: FrozenTrial) -> TrialRecord | None:
    """Read the record of a finished trial; None of one that was told without.

    Raises:
        RecordError: an attribute is damaged.
        NewerFormatError: a newer version of this package has trained it.
    """
    told = get_attribute(trial.user_attrs, RESULT)
    if told is None:
        return None
    record = TrialRecord.from_json({**told, "number": trial.number}, current_epochs(list(_epochs(trial))))
    return replace(record, checkpoint=None)  # it is where the trial was trained


def write_shared(directory: Path, record: TrialRecord) -> None:
    """Write a trial's own files as the process that trained it has them."""
    make_private(directory)
    with atomic_write(directory / EPOCHS_FILE) as file:
        file.writelines(f"{epoch.to_line()}\n".encode() for epoch in record.epochs)
    write_trial(directory, record)


def _epochs(trial: FrozenTrial) -> Iterator[EpochRecord]:
    owner = trial.user_attrs.get(OWNER, [""])[0]
    front = _key(owner, 0)[:-1]
    numbers = sorted(int(key.removeprefix(front)) for key in trial.user_attrs if key.startswith(front))
    for number in numbers:
        line = get_attribute(trial.user_attrs, _key(owner, number))
        yield EpochRecord.from_line(line, f"trial {trial.number} of the study")


def _key(owner: str, epoch: int) -> str:
    return f"{PREFIX}epoch:{owner}:{epoch}"
