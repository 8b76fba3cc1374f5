"""CsvLogger writes `epochs.csv`: a line per epoch and a column per value, for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .._text import printable
from ..records._files import atomic_write, writing
from ..records.trial_record import EpochRecord, numbers_of
from .registry import Standing

_FORMULA = ("=", "+", "-", "@", "\t", "\r")

CSV_FILE = "epochs.csv"


def cell(value: Any) -> Any:
    """Format a value for a CSV file: lists, mappings and booleans as JSON, a text on one line.

    A text that begins a formula is quoted.

    >>> cell(0.5), cell("=1+1"), cell([1, 2]), cell(True)
    (0.5, "'=1+1", '[1, 2]', 'true')
    """
    if isinstance(value, (dict, list, bool)):
        return json.dumps(value)
    if isinstance(value, str):
        return f"'{printable(value)}" if value.startswith(_FORMULA) else printable(value)
    return value


class CsvLogger:
    """Appends every epoch to `epochs.csv`; a nan is written as `nan`, a value that an epoch lacks is empty.

    Values that are more than one number are left out. When an epoch brings a value that none before it had,
    or the run resumes after a kill, the file is written anew, so that every line has all columns.

    Args:
        directory: the trial's own.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / CSV_FILE
        self._names: dict[str, None] = {}

    def begin(self, run: Standing) -> None:
        """Write the epochs before a restart."""
        self._names = dict.fromkeys(name for record in run.history for name in numbers_of(record.values))
        self._write_anew(run.history)

    def epoch(self, run: Standing) -> None:
        """Append an epoch."""
        new = numbers_of(run.history[-1].values).keys() - self._names.keys()
        if new or len(run.history) == 1:  # which says whether steps are counted
            self._names |= dict.fromkeys(name for name in run.history[-1].values if name in new)
            self._write_anew(run.history)
            return
        with writing(self.path), self.path.open("a", encoding="utf8", newline="") as file:
            file.write(csv_text([self._row(run.history[-1])]))

    def end(self, run: Standing) -> None:
        """Do nothing: the file is complete."""

    def _write_anew(self, history: Sequence[EpochRecord]) -> None:
        with atomic_write(self.path, sync=False) as file:
            step = ["step"] if history and history[-1].step is not None else []
            heads = ["epoch", *step, "seconds", *self._names]
            file.write(csv_text([heads, *map(self._row, history)]).encode())

    def _row(self, record: EpochRecord) -> list[object]:
        numbers = numbers_of(record.values)
        step = [] if record.step is None else [record.step]
        values = [numbers.get(name) for name in self._names]
        return [record.epoch, *step, round(record.seconds, 6), *values]


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as the text of a CSV file, each value as `cell` formats it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()
