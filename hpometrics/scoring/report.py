"""The values of a file as a table, as JSON or as CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from .._formatting import aligned
from .._text import printable
from ..direction import ARROWS, Direction
from ..loggers.csv import cell
from .labels import format_labels

ALL = "all"


@dataclass(frozen=True)
class Value:
    """The value of one metric; nan if it is undefined, with the reason."""

    name: str
    objective: Direction | None
    number: float
    reason: str | None = None


@dataclass(frozen=True)
class Measured:
    """The values of a file: for each task (or for `all` alone), in the order of the metrics.

    `rows` are the numbers of rows that count; `unlabeled` those without a label, which do not count.
    """

    file: str
    output: str
    rows: dict[str, int]
    values: dict[str, list[Value]]
    unlabeled: dict[str, int] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def report(measured: Measured, form: str = "text") -> str:
    """Return the values in the form `text`, `json` or `csv`."""
    return {"text": _text, "json": _json, "csv": _csv}[form](measured)


def _text(measured: Measured) -> str:
    measured = _printable(measured)
    lines = [f"{measured.file}   output {measured.output}   {measured.rows[ALL]} rows"]
    notes = {
        "classes": format_labels(measured.labels),
        "no label": _unlabeled(measured),
        "not used": ", ".join(measured.unused),
        "left out": ", ".join(measured.left_out),
    }
    lines += [f"{word:<8}   {note}" for word, note in notes.items() if note]
    lines += ["", _table(measured) if _is_even(measured) else _columns(measured)]
    lines += [f" {line}" for line in _undefined(measured)]
    return "\n".join(lines)


def _unlabeled(measured: Measured) -> str:
    """Return how many rows do not count because they have no label."""
    count = measured.unlabeled.get(ALL, 0)
    return (
        f"{count} more {'row, which counts' if count == 1 else 'rows, which count'} for nothing"
        if count
        else ""
    )


def _printable(measured: Measured) -> Measured:
    """Escape characters in names, labels and tasks that would break a line of the table."""
    return replace(
        measured,
        file=printable(measured.file),
        rows={printable(task): rows for task, rows in measured.rows.items()},
        unlabeled={printable(task): rows for task, rows in measured.unlabeled.items()},
        values={
            printable(task): [replace(value, name=printable(value.name)) for value in values]
            for task, values in measured.values.items()
        },
        labels=tuple(map(printable, measured.labels)),
        unused=tuple(map(printable, measured.unused)),
    )


def _is_even(measured: Measured) -> bool:
    """Return whether there are several tasks with the same value names; curves differ in their points."""
    names = {tuple(value.name for value in values) for values in measured.values.values()}
    return len(measured.values) > 1 and len(names) == 1


def _columns(measured: Measured) -> str:
    """Return the tasks one below the other."""
    if len(measured.values) == 1:
        return _column(measured.values[ALL])
    parts = [
        f"{task}   {measured.rows[task]} rows\n{_column(values)}" for task, values in measured.values.items()
    ]
    return "\n\n".join(parts)


def _column(values: list[Value]) -> str:
    """Return a line per metric."""
    rows = [(v.name, ARROWS[v.objective].strip() or "-", _digits(v.number)) for v in values]
    return aligned([("metric", "better", "value"), *rows], align="<")


def _table(measured: Measured) -> str:
    """Return a line per task."""
    heads = [f"{value.name}{ARROWS[value.objective]}" for value in measured.values[ALL]]
    rows = [
        (task, str(measured.rows[task]), *(_digits(value.number) for value in values))
        for task, values in measured.values.items()
    ]
    return aligned([("task", "rows", *heads), *rows])


def _undefined(measured: Measured) -> Iterator[str]:
    for task, values in measured.values.items():
        where = f" of {task}" if len(measured.values) > 1 else ""
        yield from (f"{value.name}{where} is undefined: {value.reason}" for value in values if value.reason)


def _digits(number: float) -> str:
    """Return a number with eight digits; a dash if it is undefined."""
    return "-" if math.isnan(number) else f"{number:.8g}"


def _json(measured: Measured) -> str:
    values = {
        task: {value.name: value.number if math.isfinite(value.number) else None for value in values}
        for task, values in measured.values.items()
    }
    reasons = {
        task: {value.name: _reason(value) for value in values if not math.isfinite(value.number)}
        for task, values in measured.values.items()
    }
    document = {
        "file": measured.file,
        "output": measured.output,
        "rows": measured.rows,
        "unlabelled": measured.unlabeled,
        "labels": measured.labels,
        "unused": measured.unused,
        "left_out": measured.left_out,
        "objectives": {v.name: v.objective and v.objective.value for v in measured.values[ALL]},
        "values": values,
        "undefined": {task: why for task, why in reasons.items() if why},
    }
    return json.dumps(document, indent=1)


def _reason(value: Value) -> str:
    """Return why JSON has no number for a value."""
    return value.reason or f"the value is {value.number}"


def _csv(measured: Measured) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("task", "rows", "metric", "objective", "value", "reason"))
    for task, values in measured.values.items():
        for v in values:
            number = "" if math.isnan(v.number) else repr(v.number)
            row = (cell(task), measured.rows[task], cell(v.name), v.objective or "", number, v.reason or "")
            writer.writerow(row)
    return text.getvalue().rstrip("\n")
