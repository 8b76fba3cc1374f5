"""EpochLog writes `epochs.jsonl`, one line per epoch, on disk before the next epoch begins."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ..exceptions import NewerFormatError, RecordError
from ._files import EPOCHS_LIMIT, make_private, read_lines, read_whole, writing
from ._json import read_json
from .trial_record import TRIAL_FILE, EpochRecord, TrialRecord, check_trial_format

EPOCHS_FILE = "epochs.jsonl"
STATISTICS_FILE = "statistics.jsonl"
Fsync = Literal["epoch", "trial"]

_TAIL = 1 << 16  # bytes of the end of a file that are looked at together


class EpochLog:
    """The epochs of one trial in its directory; opening it ends a last line that a crash left torn.

    The line is cut off, or completed where only its end is missing.

    Args:
        directory: the trial's own; made if it is missing.
        fsync: `epoch` forces each line to the disk, `trial` leaves that to `close`. A process that is killed
            loses no line either way; a power cut may lose those of the trial. Use `trial` if an epoch takes
            less than some 20 milliseconds, of which the disk would take most.

    Raises:
        RecordError: a line other than the last is damaged; the message names file and line.
        NewerFormatError: a newer version has written a line.
    """

    def __init__(self, directory: Path, fsync: Fsync = "epoch") -> None:
        if fsync not in ("epoch", "trial"):
            raise RecordError(f"fsync must be 'epoch' or 'trial', got {fsync!r}")
        make_private(directory)
        self.path = directory / EPOCHS_FILE
        self._fsync = fsync
        written = _read_all(self.path)
        with writing(self.path):
            _complete_line(self.path)
            cut_torn_line(self.path)
        self.attempt = 1 + max((record.attempt for record in written), default=0)
        with writing(self.path):
            self._file = self.path.open("ab")
        self._waits = False  # lines that are not on the disk

    def append(self, record: EpochRecord) -> EpochRecord:
        """Write one epoch as part of this attempt and return it as written.

        Raises:
            DiskError: it cannot be written.
        """
        record = record if record.attempt == self.attempt else replace(record, attempt=self.attempt)
        self._waits = True
        with writing(self.path):
            self._file.write(f"{record.to_line()}\n".encode())
            self._file.flush()
            if self._fsync == "epoch":
                self._force()
        return record

    def read(self) -> tuple[EpochRecord, ...]:
        """Return the epochs that count, in order: see `read_epochs`."""
        return current_epochs(_read_all(self.path))

    def close(self) -> None:
        """Force what is not there yet to the disk and close the file.

        Raises:
            DiskError: it cannot be written.
        """
        if self._file.closed:
            return
        with writing(self.path), self._file as file:
            file.flush()
            if self._waits:
                self._force()

    def _force(self) -> None:
        os.fsync(self._file.fileno())
        self._waits = False


def read_epochs(directory: Path) -> tuple[EpochRecord, ...]:
    """Return the epochs of a trial that count, in order; none if it wrote none.

    An attempt that restarted at an epoch voids what earlier attempts wrote from that epoch on.

    Raises:
        RecordError: a line is damaged.
    """
    return current_epochs(_read_all(directory / EPOCHS_FILE))


def read_trial(directory: Path) -> TrialRecord | None:
    """Return the record of the trial in a directory with its epochs; None if there is none yet.

    Raises:
        RecordError: a file of it is damaged; the message names it.
        NewerFormatError: a newer version has written it.
    """
    path = directory / TRIAL_FILE
    try:
        content = read_json(read_whole(path))
    except FileNotFoundError:
        return None
    except ValueError as err:
        raise RecordError(f"{path}: is not valid JSON: {err}") from err
    check_trial_format(content, path)
    epochs = current_epochs(_read_all(directory / EPOCHS_FILE))
    try:
        return TrialRecord.from_json(content, epochs, directory)
    except RecordError as err:
        raise RecordError(f"{path}: {err}") from err


def current_epochs(records: list[EpochRecord]) -> tuple[EpochRecord, ...]:
    """Return the epochs that count of those of all attempts, in order; see `read_epochs`."""
    first: dict[int, int] = {}  # of each attempt, the epoch at which it began
    for record in records:
        first.setdefault(record.attempt, record.epoch)
    current: list[EpochRecord] = []
    for record in sorted(records, key=lambda record: record.attempt):
        if any(attempt > record.attempt and record.epoch >= start for attempt, start in first.items()):
            continue  # of an older attempt, even if its process wrote it later
        while current and current[-1].epoch >= record.epoch:
            current.pop()
        current.append(record)
    return tuple(current)


def _read_all(path: Path) -> list[EpochRecord]:
    records: list[EpochRecord] = []
    with suppress(FileNotFoundError):
        for number, line in enumerate(read_lines(path, EPOCHS_LIMIT), 1):
            try:
                records.append(EpochRecord.from_line(line.removesuffix(b"\n").decode(), f"{path}:{number}"))
            except (RecordError, UnicodeDecodeError) as err:
                if line.endswith(b"\n"):  # otherwise it is still being written
                    raise RecordError(f"{path}:{number}: {err}") from err
    return records


def _is_epoch(line: bytes) -> bool:
    try:
        EpochRecord.from_line(line.decode())
    except NewerFormatError:
        return True
    except (RecordError, UnicodeDecodeError):
        return False
    return True


def _complete_line(path: Path) -> None:
    """End a last line that lacks nothing but its end."""
    if path.exists() and _is_epoch(read_whole(path, EPOCHS_LIMIT).split(b"\n")[-1]):
        with path.open("ab") as file:
            file.write(b"\n")


def cut_torn_line(path: Path) -> None:
    """Cut off what a crash wrote after the last whole line of a file, if the file exists."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = whole = file.seek(0, os.SEEK_END)
        while whole > 0:
            begin = max(0, whole - _TAIL)
            file.seek(begin)
            end = file.read(whole - begin).rfind(b"\n") + 1
            whole = begin + end
            if end:
                break
        if whole < size:
            file.truncate(whole)
