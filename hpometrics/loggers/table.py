"""TableLogger: `report.txt`, a table of values per epoch, as one reads a training log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from ..records.atomic import atomic_write, writing
from ..records.trial_record import EpochRecord
from .base import Standing
from .report import nice_report

REPORT_FILE = "report.txt"


def epoch_text(record: EpochRecord, seconds: float, width: int | None = None) -> str:
    """Print an epoch: a line with its number and the time so far, then its report.

    >>> print(epoch_text(EpochRecord(3, {"loss": 0.25}), 12.25))
    epoch:3 time:12.2s
        loss
       .2500
    """
    return f"epoch:{record.epoch} time:{seconds:.1f}s\n{nice_report(record.values, width)}"


def epoch_texts(history: Sequence[EpochRecord]) -> list[str]:
    """Print every epoch of a run."""
    seconds = accumulate(record.seconds for record in history)
    return [epoch_text(record, so_far) for record, so_far in zip(history, seconds, strict=True)]


class TableLogger:
    """Appends every epoch to `report.txt`; a run that goes on begins it with the epochs it has.

    Args:
        directory: the trial's own.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / REPORT_FILE
        self._seconds = 0.0

    def begin(self, run: Standing) -> None:
        """Write the epochs before a restart."""
        self._seconds = sum(record.seconds for record in run.history)
        with atomic_write(self.path, sync=False) as file:
            file.write("".join(f"{text}\n" for text in epoch_texts(run.history)).encode())

    def epoch(self, run: Standing) -> None:
        """Append an epoch."""
        record = run.history[-1]
        self._seconds += record.seconds
        with writing(self.path), self.path.open("a", encoding="utf8") as file:
            file.write(f"{epoch_text(record, self._seconds)}\n")

    def end(self, run: Standing) -> None:
        """Leave the file as it is."""
