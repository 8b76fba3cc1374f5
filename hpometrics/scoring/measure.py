"""Measure a file of predictions in one pass over its rows (labels take one more), and report the values."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._formatting import aligned, json_text
from .._redaction import excerpt
from .._text import printable
from ..direction import ARROWS, Direction
from ..exceptions import MetricInputError
from ..loggers.csv import csv_text
from ..metrics._derive import derivable
from ..metrics.collection import MetricCollection
from ..metrics.features import LOGITS, PROBABILITIES, TEXT, InputType, parse_feature
from ..metrics.registry.groups import expand, group_named
from ..metrics.registry.index import metric_names
from ..metrics.registry.lookup import FoundMetric, find_metric
from ..metrics.registry.names import MetricName
from ..metrics.registry.register import get_metric
from ..metrics.registry.scope import ALL_TASKS
from .columns import WORDS, Predictions, Roles, missing_column, read_roles, scores_hint
from .files import MEMORY, PredictionsError, Table, open_table

WEIGHT = "sample_weight"
_KEYWORD = re.compile(rf"\b({'|'.join(WORDS)})=")


@dataclass(frozen=True)
class Measured:
    """The values of a file: for each task (or for `all` alone), by name, in the order of the metrics.

    `rows` are the numbers of rows that count; `unlabeled` those without a label, which do not count. A value
    is nan if it is undefined; `reasons` says why.
    """

    file: str
    output: str
    rows: dict[str, int]
    unlabeled: dict[str, int]
    labels: tuple[str, ...]
    unused: tuple[str, ...]
    left_out: tuple[str, ...]
    directions: dict[str, Direction | None]
    values: dict[str, dict[str, float]]
    reasons: dict[str, dict[str, str]]


def measure_file(
    path: Path,
    output: str | None = None,
    metrics: Iterable[str] = ("default",),
    *,
    weights: str | None = None,
    by: str | None = None,
    memory: float = MEMORY,
) -> Measured:
    """Measure the predictions in a file.

    Args:
        path: the file.
        output: the output of the model; an npz file may state it itself, under the key `output`.
        metrics: names and groups.
        weights: the column of weights; by default, `sample_weight`.
        by: the column of tasks, by default `task`: a line of values for each, and one for all.
        memory: the limit in GiB for the columns that are read at once.

    Raises:
        PredictionsError: the file cannot be measured; the message names file, row and column.
        UnknownMetricError, MetricNameError: a metric does not exist for the output.
    """
    opened = open_predictions(path, output, metrics, weights=weights, by=by, tasks=True, memory=memory)
    predictions, table = opened.predictions.with_labels(), opened.predictions.table
    names, left_out, unread = opened.metrics, opened.left_out, opened.unread
    collections, read = _update_collections(predictions, MetricCollection(names, predictions.output))
    directions, values, reasons = _compute(collections, predictions.labels)
    used = {column for role in opened.roles.values() for column in role.values()}
    used |= {*predictions.others.values(), predictions.task or "", "output"}
    return Measured(
        file=str(path),
        output=str(predictions.output),
        rows={task: collection.rows for task, collection in collections.items()},
        unlabeled={task: read[task] - c.rows for task, c in collections.items() if read[task] > c.rows},
        labels=predictions.labels,
        unused=(*unread, *(column for column in table.columns if column not in used)),
        left_out=tuple(left_out),
        directions=directions,
        values=values,
        reasons=reasons,
    )


class Opened(NamedTuple):
    """A file whose columns have roles, and the metrics that it serves."""

    predictions: Predictions
    metrics: list[MetricName]
    left_out: list[str]
    """The metrics of groups that it cannot serve, with the reason."""
    unread: list[str]
    """Columns that have a role and are not read, with the reason."""
    roles: Roles
    """All columns that have a role."""


def open_predictions(
    path: Path,
    output: str | None,
    metrics: Iterable[str],
    *,
    weights: str | None = None,
    by: str | None = None,
    tasks: bool = False,
    memory: float = MEMORY,
) -> Opened:
    """Open a file of predictions: its columns have roles, its labels have no numbers yet.

    Args:
        path: the file.
        output: the output of the model; an npz file may state it itself, under the key `output`.
        metrics: names and groups.
        weights: the column of weights; by default, `sample_weight`.
        by: the column of tasks, by default `task`.
        tasks: whether rows have tasks.
        memory: the limit in GiB for the columns that are read at once.

    Raises:
        PredictionsError: the file cannot be measured.
        UnknownMetricError, MetricNameError: a metric does not exist for the output.
    """
    table = open_table(path, memory)
    output = output or table.read_output()
    if output is None:
        raise table.error("the output of the model is unknown; set --output, for example --output category")
    feature = parse_feature(output)
    all_roles = roles = read_roles(table, feature.type)
    unread: list[str] = []
    if {LOGITS, PROBABILITIES} <= roles.keys() and derivable(PROBABILITIES, frozenset({LOGITS}), feature):
        unread = [f"{column} (the logits are read)" for column in roles[PROBABILITIES].values()]
        roles = {keyword: role for keyword, role in roles.items() if keyword != PROBABILITIES}
    weight = _optional(table, weights, WEIGHT, "--weights")
    task = _optional(table, by, "task", "--by") if tasks else None
    predictions = Predictions(table, feature, roles, task, {} if weight is None else {WEIGHT: weight})
    names, left_out = _choose(metrics, predictions)
    entries = [entry for name in names for entry in find_metric(name, feature.type).entries]
    extras = {extra for entry in entries for extra in entry.extras}
    extras -= {"texts", "references"}  # they are columns of roles
    others = predictions.others | {column: column for column in table.columns if column in extras}
    return Opened(replace(predictions, others=others), names, left_out, unread, all_roles)


def _optional(table: Table, requested: str | None, usual: str, option: str) -> str | None:
    """Return the column of an option: the requested one, else the usual one, if there is one."""
    if requested is not None and requested not in table.columns:
        raise missing_column(table, requested, option)
    return requested or (usual if usual in table.columns else None)


def _choose(words: Iterable[str], predictions: Predictions) -> tuple[list[MetricName], list[str]]:
    """Return the metrics, and those of groups that the file cannot serve, with the reason."""
    table, output = predictions.table, predictions.output
    names: dict[MetricName, None] = {}
    left_out = []
    for word in words:
        group = "words" if word == "default" and output.type == TEXT else word
        is_group = group_named(group, output.type) is not None
        for member in expand([group], output):
            metric = find_metric(str(member), output.type)
            obstacle, remedy = _obstacle(metric, predictions)
            if not obstacle:
                names[metric.name] = None
            elif is_group:
                left_out.append(f"{metric.name} ({obstacle})")
            else:
                raise table.error(f"{metric.name} {obstacle}{remedy}")
    if not names:
        why = (
            f"none of the metrics can be measured: {'; '.join(left_out)}."
            if left_out
            else "no metric is named;"
        )
        listing = f"`hpometrics metrics list --feature {output.type}`"
        raise table.error(f"{why} {listing} lists all {len(metric_names(output.type))}")
    return list(names), left_out


def _obstacle(metric: FoundMetric, predictions: Predictions) -> tuple[str, str]:
    """Return why the file cannot serve a metric, and a remedy; both are empty if it can."""
    outputs = frozenset(InputType(keyword) for keyword in predictions.roles if keyword != "target")
    entry = metric.entries[0]
    needs = [extra for extra in entry.needs if extra not in predictions.table.columns]
    if not derivable(metric.inputs, outputs, predictions.output):
        needs.insert(0, metric.inputs)
    elif predictions.output.type == TEXT and "texts" not in entry.extras:
        return (
            "reads token ids",
            ", but the file has texts; use the metrics of the group 'words', which read texts",
        )
    if needs:
        columns = excerpt(", ".join(predictions.table.columns), 500)
        hint = scores_hint(predictions.table) if needs == [metric.inputs] else ""
        remedy = f", but no column contains them; the columns are {columns}{hint and '.' + hint}"
        return f"reads {', '.join(needs)}", remedy
    weight = predictions.others.get(WEIGHT)
    if weight is not None and not get_metric(metric.name, predictions.output).takes_weights:
        return "does not support weights", (
            f", but the column {weight!r} contains weights; leave out the metric or the weights: the "
            f"option --weights, or the column {WEIGHT}"
        )
    return "", ""


def _update_collections(
    predictions: Predictions, empty: MetricCollection
) -> tuple[dict[str, MetricCollection], Counter[str]]:
    """Return a collection for each task and, merged from them, for all; and the rows that were read."""
    collections: defaultdict[str, MetricCollection] = defaultdict(empty.fresh)
    read: Counter[str] = Counter()
    for first, rows_by_task, tensors in predictions.batches():
        for task, rows in rows_by_task.items():
            read[task] += len(rows)
            try:
                collections[task].update(**(select_rows(tensors, rows) if len(rows_by_task) > 1 else tensors))
            except MetricInputError as err:
                raise _refusal(err, predictions.table, first, rows, tensors, empty) from err
    if predictions.task is None:
        return collections or {ALL_TASKS: empty}, read
    whole, read[ALL_TASKS] = empty.fresh(), read.total()
    for collection in collections.values():
        whole.merge(collection)
    return {**dict(sorted(collections.items())), ALL_TASKS: whole}, read


def _refusal(
    err: MetricInputError,
    table: Table,
    first: int,
    rows: np.ndarray,
    tensors: Mapping[str, Any],
    empty: MetricCollection,
) -> PredictionsError:
    """Return the error that names the first row with which the rows up to it are refused."""

    def complaint(some: np.ndarray) -> str:
        try:
            empty.fresh().update(**select_rows(tensors, some))
        except MetricInputError as err:
            return str(err)
        return ""

    last = bisect_left(range(len(rows)), True, key=lambda index: bool(complaint(rows[: index + 1])))
    if last == len(rows):  # only with rows of earlier batches
        place, why = f"{table.place(first)} or after", str(err)
    else:
        place = table.place(first + int(rows[last]))
        why = complaint(rows[last : last + 1]) or complaint(rows[: last + 1])
    return PredictionsError(f"{place}: {_KEYWORD.sub(lambda match: f'{WORDS[match[1]][0]} columns', why)}")


def select_rows(columns: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Return the arguments of `update` for some of the rows; they are arrays, tensors or lists."""
    return {name: _select(column, rows) for name, column in columns.items()}


def _select(column: Any, rows: np.ndarray) -> Any:
    if isinstance(column, Tensor):
        return column[torch.from_numpy(rows).to(column.device)]
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]


def _compute(
    collections: Mapping[str, MetricCollection], labels: tuple[str, ...]
) -> tuple[dict[str, Direction | None], dict[str, dict[str, float]], dict[str, dict[str, str]]]:
    """Return the directions by name, and by task and name the values and the reasons why some are nan."""
    directions: dict[str, Direction | None] = {}
    values: dict[str, dict[str, float]] = {task: {} for task in collections}
    reasons: dict[str, dict[str, str]] = {task: {} for task in collections}
    for task, collection in collections.items():
        for name, value in collection.compute().items():
            for part, number in _parts(value, labels):
                directions[f"{name}{part}"] = collection.direction_of(name)
                values[task][f"{name}{part}"] = number
                if math.isnan(number) and name in collection.reasons:
                    reasons[task][f"{name}{part}"] = collection.reasons[name]
    return directions, values, reasons


def _parts(value: Tensor, labels: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    """Return the numbers of a value: one per class has its label, a cell of a table its indices."""
    if value.ndim == 0:
        yield "", float(value)
        return
    is_per_class = value.shape == (len(labels),)
    places = labels if is_per_class else [", ".join(map(str, place)) for place in np.ndindex(value.shape)]
    for place, number in zip(places, value.flatten().tolist(), strict=True):
        yield f"[{place}]", float(number)


def report(measured: Measured, form: str = "text") -> str:
    """Return the values in the form `text`, `json` or `csv`."""
    return {"text": _text, "json": _json, "csv": _csv}[form](measured)


def _text(measured: Measured) -> str:
    count = measured.unlabeled.get(ALL_TASKS, 0)
    notes = {
        "classes": ", ".join(f"{label} = {number}" for number, label in enumerate(measured.labels)),
        "no label": f"{count} more {'row, which counts' if count == 1 else 'rows, which count'} for nothing",
        "not used": ", ".join(measured.unused),
        "left out": ", ".join(measured.left_out),
    }
    lines = [f"{measured.file}   output {measured.output}   {measured.rows[ALL_TASKS]} rows"]
    lines += [f"{word:<8}   {note}" for word, note in notes.items() if note and (count or word != "no label")]
    undefined = [
        f" {name}{f' of {task}' if len(measured.values) > 1 else ''} is undefined: {reason}"
        for task, reasons in measured.reasons.items()
        for name, reason in reasons.items()
    ]
    return "\n".join([*map(printable, lines), "", _table(measured), *map(printable, undefined)])


def _table(measured: Measured) -> str:
    """Return a line per task; one per metric if there is one task, or if curves differ in their points."""
    values, rows = measured.values, measured.rows
    arrows = {name: ARROWS[direction] for name, direction in measured.directions.items()}
    if len(values) > 1 and len({tuple(of_task) for of_task in values.values()}) == 1:
        head = ["task", "rows", *(f"{name}{arrows[name]}" for name in values[ALL_TASKS])]
        lines = [[task, str(rows[task]), *map(_digits, of_task.values())] for task, of_task in values.items()]
        return _aligned([head, *lines])
    tables = []
    for task, of_task in values.items():
        lines = [[name, arrows[name].strip() or "-", _digits(number)] for name, number in of_task.items()]
        title = f"{printable(task)}   {rows[task]} rows\n" if len(values) > 1 else ""
        tables.append(title + _aligned([["metric", "better", "value"], *lines], align="<"))
    return "\n\n".join(tables)


def _aligned(lines: Iterable[Iterable[str]], align: str = ">") -> str:
    return aligned([[printable(text) for text in line] for line in lines], align)


def _digits(number: float) -> str:
    """Return a number with eight digits; a dash if it is undefined."""
    return "-" if math.isnan(number) else f"{number:.8g}"


def _json(measured: Measured) -> str:
    finite = {
        task: {name: number if math.isfinite(number) else None for name, number in values.items()}
        for task, values in measured.values.items()
    }
    undefined = {
        task: {
            name: measured.reasons[task].get(name, f"the value is {number}")
            for name, number in values.items()
            if not math.isfinite(number)
        }
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
        "objectives": {name: measured.directions[name] for name in measured.values[ALL_TASKS]},
        "values": finite,
        "undefined": {task: reasons for task, reasons in undefined.items() if reasons},
    }
    return json_text(document)


def _csv(measured: Measured) -> str:
    head = ("task", "rows", "metric", "objective", "value", "reason")
    rows = [
        (
            task,
            measured.rows[task],
            name,
            measured.directions[name],
            None if math.isnan(number) else number,
            measured.reasons[task].get(name),
        )
        for task, values in measured.values.items()
        for name, number in values.items()
    ]
    return csv_text([head, *rows]).rstrip("\n")
