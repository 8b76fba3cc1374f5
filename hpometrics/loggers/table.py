"""The values of an epoch as rows per task, printed as ParlAI prints them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from .._formatting import Readable, html_table, number, shape_of
from .._text import printable
from ..direction import ARROWS, Direction
from ..metrics.registry.names import SPLITS
from ..metrics.registry.scope import ALL_TASKS, VALIDATION
from ..records._files import atomic_write, writing
from ..records.trial_record import EpochRecord, Reading, place_text
from .registry import Standing

_INDENT = "   "
_ROUNDED = 1000  # from here on to a whole number

REPORT_FILE = "report.txt"


@lru_cache(maxsize=4096)
def split_name(name: str) -> tuple[str, str, str]:
    """Split the name of a value: its split, its task (`all` without one), and the rest.

    Whatever stands before the last slash is the task, so that names of other values have one too.

    >>> split_name("test:convai2/intent.f1(average=macro)")
    ('test', 'convai2', 'intent.f1(average=macro)')
    >>> split_name("hits@1")
    ('validation', 'all', 'hits@1')
    """
    front, bracket, params = name.partition("(")
    split, colon, rest = front.partition(":")
    if not colon or split not in SPLITS:
        split, rest = VALIDATION, front
    task, _, metric = rest.rpartition("/")
    return split, task or ALL_TASKS, f"{metric}{bracket}{params}"


def splits_of(values: Mapping[str, Reading]) -> list[str]:
    """Return the splits that have values, validation first."""
    splits = {split_name(name)[0] for name in values}
    return sorted(splits, key=lambda split: (split != VALIDATION, SPLITS.index(split)))


def rows_by_task(values: Mapping[str, Reading], split: str = VALIDATION) -> dict[str, dict[str, Reading]]:
    """Arrange the values of a split by task and metric: first the row `all`, then the tasks by name.

    >>> rows_by_task({"b/ppl": 3.0, "a/ppl": 1.0, "ppl": 2.0, "train:ppl": 1.5})
    {'all': {'ppl': 2.0}, 'a': {'ppl': 1.0}, 'b': {'ppl': 3.0}}
    """
    rows: dict[str, dict[str, Reading]] = {}
    for name, value in values.items():
        of, task, metric = split_name(name)
        if of == split:
            rows.setdefault(task, {})[metric] = value
    return {task: rows[task] for task in sorted(rows, key=lambda task: (task != ALL_TASKS, task))}


def nice_report(values: Mapping[str, Reading | Readable], width: int | None = None) -> str:
    """Print the values of an epoch as a table: a row per task, a column per metric, both by name.

    If other splits than validation have values, each has a table under its name.

    Args:
        values: by name, as in `EpochRecord.values`, or additive values as `aggregate_named_reports` returns;
            one that is too large for a number prints as `inf`.
        width: of a terminal, at which the columns are broken; None never breaks them.

    >>> print(nice_report({"loss": 5.078, "exs": 8416, "a/loss": 5.288, "b/loss": math.nan}))
            exs  loss
       all 8416 5.078
       a        5.288
       b          nan
    """
    readings = {name: _reading(value) for name, value in values.items()}
    tables = {split: _table(rows_by_task(readings, split), width) for split in splits_of(readings)}
    if tables.keys() <= {VALIDATION}:
        return "".join(tables.values())
    return "\n".join(f"{split}:\n{table}" for split, table in tables.items())


def history_html(
    history: Sequence[EpochRecord], directions: Mapping[str, Direction], picked: int | None, title: str
) -> str:
    """Return the epochs of a run as a table for a notebook, a row each, with a star at the picked one.

    >>> history_html([EpochRecord(0, {"loss": 0.5})], {"loss": Direction.MINIMIZE}, 0, "Run").count("<tr>")
    2
    """
    names = list(dict.fromkeys(name for one in history for name in one.values))
    steps = any(one.step is not None for one in history)
    head = ("step" if steps else "epoch", *(f"{name}{ARROWS[directions.get(name)]}" for name in names))
    rows = [
        (
            f"{one.place}{' *' if one.epoch == picked else ''}",
            *(number(one.values.get(name)) for name in names),
        )
        for one in history
    ]
    return html_table([head, *rows], title)


def cell(value: Reading | None) -> str:
    """Print a value as ParlAI does: four digits, no zero before the point, no digits after it from 1000 on.

    A missing value is blank, nan is `nan`, a curve or a matrix is its shape.

    >>> cell(0.5), cell(1.0), cell(0.0001239), cell(-0.32), cell(69.75421), cell(12345.6)
    ('.5000', '1', '.0001239', '-.32', '69.75', '12346')
    """
    if value is None:
        return ""
    if isinstance(value, list):
        return shape_of(value)
    if isinstance(value, int):
        return str(value)
    text = f"{value:.0f}" if abs(value) >= _ROUNDED else f"{value:.4g}"
    if text.startswith("0."):
        return text[1:].ljust(5, "0")
    return text.replace("-0.", "-.", 1)


def _reading(value: Reading | Readable) -> Reading:
    if not isinstance(value, Readable):
        return value
    try:
        return value.value()
    except OverflowError:  # of the exponential of a loss, as a perplexity of one's own takes it
        return math.inf


def _table(rows: Mapping[str, Mapping[str, Reading]], width: int | None) -> str:
    metrics = sorted({metric for row in rows.values() for metric in row})
    columns = [_column(metric, [row.get(metric) for row in rows.values()]) for metric in metrics]
    labels: list[list[str]] = []
    if rows.keys() != {ALL_TASKS}:
        names = [printable(task) for task in rows]
        wide = max(map(len, names))
        labels = [[label.ljust(wide) for label in ("", *names)]]
    room = math.inf if width is None else width - len(_INDENT) - sum(len(label[0]) + 1 for label in labels)
    blocks = _blocks(columns, room)
    return "\n".join(_format_columns([*labels, *block], last=block is blocks[-1]) for block in blocks)


def _format_columns(columns: Sequence[Sequence[str]], last: bool) -> str:
    lines = [(_INDENT + " ".join(cells)).rstrip() for cells in zip(*columns, strict=True)]
    if not last:
        lines[0] += "  \\"
    return "\n".join(lines)


def _column(metric: str, values: Sequence[Reading | None]) -> list[str]:
    texts = [f" {printable(metric)}", *map(cell, values)]
    wide = max(map(len, texts))
    return [text.rjust(wide) for text in texts]


def _blocks(columns: Sequence[list[str]], room: float) -> list[list[list[str]]]:
    """Break columns where a line is full; a line that another follows needs room for its mark."""
    blocks: list[list[list[str]]] = [[]]
    used = 0
    for column in columns:
        wide = len(column[0]) + 1
        mark = 1 if column is columns[-1] else 2
        if blocks[-1] and used + wide + mark > room:
            blocks.append([])
            used = 0
        blocks[-1].append(column)
        used += wide
    return blocks


def epoch_text(record: EpochRecord, seconds: float, width: int | None = None) -> str:
    """Print an epoch: a line with its number and the time so far, then its report.

    >>> print(epoch_text(EpochRecord(3, {"loss": 0.25}), 12.25))
    epoch:3 time:12.2s
        loss
       .2500
    """
    place = place_text(record.epoch, record.step).replace(" ", ":")
    return f"{place} time:{seconds:.1f}s\n{nice_report(record.values, width)}"


class TableLogger:
    """Appends every epoch to `report.txt`; a run that resumes writes its earlier epochs first.

    Args:
        directory: the trial's own.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / REPORT_FILE
        self._seconds = 0.0

    def begin(self, run: Standing) -> None:
        """Write the epochs before a restart."""
        seconds = list(accumulate(record.seconds for record in run.history))
        self._seconds = seconds[-1] if seconds else 0.0
        texts = map(epoch_text, run.history, seconds)
        with atomic_write(self.path, sync=False) as file:
            file.write("".join(f"{text}\n" for text in texts).encode())

    def epoch(self, run: Standing) -> None:
        """Append an epoch."""
        record = run.history[-1]
        self._seconds += record.seconds
        with writing(self.path), self.path.open("a", encoding="utf8") as file:
            file.write(f"{epoch_text(record, self._seconds)}\n")

    def end(self, run: Standing) -> None:
        """Do nothing: the file is complete."""
