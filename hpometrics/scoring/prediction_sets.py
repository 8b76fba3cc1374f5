"""The predictions of several models on the same rows, and the row values of a metric of them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._formatting import plural
from .._redaction import excerpt
from ..exceptions import ConfigError
from ..metrics._validation import batch_of, counting_rows
from ..metrics.collection import MetricCollection
from ..metrics.features import RANKING, Category, Number, OutputFeature
from ..metrics.registry.names import MetricName
from ..metrics.registry.register import get_metric
from ..metrics.row_values.row_meter import NoRowValuesError, RowMeter
from ..selection.model_rows import ModelRows
from ..selection.two_way import ids_of_rows, numbered
from .columns import Predictions, missing_column, text_of_label
from .files import MEMORY, Table, open_table
from .measure import WEIGHT, open_predictions, select_rows

ID = "id"
"""The column by which the rows of several files are joined."""

_ROWS = 1 << 15  # of a batch
_WHOLE = re.compile(r"\A([+-]?[0-9]{1,15})\.0+\Z")
_LISTED = 5


@dataclass(frozen=True)
class PredictionSet:
    """The predictions of one training of a model, and the target.

    Args:
        place: where it comes from, for messages.
        output: the output of the model.
        values: the arguments of `update`, row by row; of row values that come from elsewhere, these.
        ids: what identifies each row; None where only their order does.
        clusters: (rows,) what each row belongs to, if rows are clustered.
    """

    place: str
    output: OutputFeature
    values: Mapping[str, Any]
    ids: tuple[Any, ...] | None = None
    clusters: tuple[Any, ...] | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.values.values())))

    def select(self, rows: Sequence[int]) -> PredictionSet:
        """Return some of the rows."""
        chosen = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            values=select_rows(self.values, chosen),
            ids=None if self.ids is None else tuple(self.ids[row] for row in rows),
            clusters=None if self.clusters is None else tuple(self.clusters[row] for row in rows),
        )

    def batches(self) -> Iterable[dict[str, Any]]:
        """Return the arguments of several updates."""
        for start in range(0, self.rows, _ROWS):
            yield {name: column[start : start + _ROWS] for name, column in self.values.items()}


def read_sets(
    paths: Sequence[Path],
    output: str | None,
    metrics: Sequence[str],
    *,
    weights: str | None = None,
    by: str | None = None,
    row_id: str | None = None,
    memory: float = MEMORY,
) -> list[PredictionSet]:
    """Read files of predictions, with one number for each label in all of them.

    Args:
        paths: the files.
        output: the output of the model; an npz file may state it itself.
        metrics: what is to be measured.
        weights: the column of weights; by default, `sample_weight`.
        by: the column of clusters.
        row_id: the column by which rows are joined; by default, `id`, if each file has one.
        memory: the limit in GiB for columns that are read at once.

    Raises:
        PredictionsError: a file cannot be measured; the message names file, row and column.
    """
    opened = [
        open_predictions(path, output, metrics, weights=weights, memory=memory).predictions for path in paths
    ]
    labeled = _with_same_labels([one.with_labels() for one in opened])
    join = row_id or (ID if all(ID in one.table.columns for one in labeled) else None)
    return [
        PredictionSet(
            str(one.table.path),
            one.output,
            _whole_columns(one),
            None if join is None else _names(one.table, join),
            None if by is None else _names(one.table, by),
        )
        for one in labeled
    ]


def read_row_values(
    paths: Sequence[Path], column: str, *, by: str | None = None, row_id: str | None = None, memory: float
) -> list[PredictionSet]:
    """Read a column of numbers whose mean is compared, such as scores of answers.

    Args:
        paths: the files.
        column: its name.
        by: the column of clusters.
        row_id: the column by which rows are joined; by default, `id`, if each file has one.
        memory: the limit in GiB for columns that are read at once.

    Raises:
        PredictionsError: a file has no such column, or a cell is not a finite number.
    """
    tables = [open_table(path, memory) for path in paths]
    join = row_id or (ID if all(ID in table.columns for table in tables) else None)
    return [
        PredictionSet(
            str(table.path),
            Number(),
            {"values": _number_column(table, column)},
            None if join is None else _names(table, join),
            None if by is None else _names(table, by),
        )
        for table in tables
    ]


def align(sets: Sequence[PredictionSet]) -> tuple[list[PredictionSet], list[str]]:
    """Return sets of the same rows in the same order, and a line for the rows that are left out.

    Rows are joined by their ids, or stand in one order.

    Raises:
        ConfigError: rows cannot be joined, or have other targets.
    """
    notes: list[str] = []
    if all(one.ids is not None for one in sets):
        sets, notes = _joined(sets)
        how = "the same id"
    else:
        how = "the same position (add a column id if the order differs)"
        if len({one.rows for one in sets}) > 1:
            counts = ", ".join(f"{one.place} {one.rows}" for one in sets)
            raise ConfigError(
                f"the numbers of rows differ: {counts}; add a column id to each file to join them"
            )
    for other in sets[1:]:
        _check_companions(sets[0], other)
    for other in sets[1:] if "target" in sets[0].values else ():
        row = _first_difference(sets[0].values["target"], other.values["target"])
        if row is not None:
            raise ConfigError(
                f"{sets[0].place} and {other.place} have different targets in rows with {how}, first in "
                f"{'row ' + str(row + 1) if sets[0].ids is None else f'the row with id {sets[0].ids[row]!r}'}"
            )
    return list(sets), notes


def _check_companions(one: PredictionSet, other: PredictionSet) -> None:
    """Raise unless rows weigh the same in two sets and are in the same clusters."""
    if (WEIGHT in one.values) != (WEIGHT in other.values):
        owner, lacking = (one, other) if WEIGHT in one.values else (other, one)
        raise ConfigError(
            f"{owner.place} has weights, but {lacking.place} has none; use the same weights in all files"
        )
    pairs = {"weights": (one.values.get(WEIGHT, []), other.values.get(WEIGHT, []))}
    if one.clusters is not None and other.clusters is not None:
        pairs["clusters"] = [*one.clusters], [*other.clusters]
    for what, (first, second) in pairs.items():
        row = _first_difference(first, second) if len(first) else None
        if row is not None:
            raise ConfigError(
                f"{one.place} and {other.place} have different {what}, first in row {row + 1} of {one.place}"
            )


def model_rows(one: PredictionSet, metric: str, own_rows: bool = True) -> ModelRows:
    """Return the row values of a metric.

    Args:
        one: the predictions.
        metric: its name.
        own_rows: use the values of the rows themselves where their mean is the value.

    Raises:
        ConfigError: the metric has no row values, or rows are clustered and its row values are of groups.
        MetricInputError: it cannot be measured.
    """
    collection = MetricCollection([MetricName.parse(metric)], one.output)
    meter = RowMeter(get_metric(metric, one.output), most_rows=sys.maxsize, own_rows=own_rows)
    for batch in one.batches():
        collection.update(**batch)
        meter.add(batch_of(one.output, **batch))
    (value,) = collection.compute().values()
    if value.ndim:
        raise ConfigError(
            f"{metric} has {value.numel()} values; compare a single value, such as a mean over classes"
        )
    if not torch.isfinite(value):
        reason = next(iter(collection.reasons.values()), "it has no finite value")
        raise ConfigError(f"{one.place}: {metric} is undefined: {reason}")
    try:
        rows = meter.close(float(value))
    except NoRowValuesError as err:
        raise ConfigError(f"{metric} cannot be compared row by row: {err}") from err
    if one.clusters is not None and (not rows.of_single_rows or len(rows.values) < collection.rows):
        why = "with weights " if WEIGHT in one.values else ""
        raise ConfigError(
            f"{metric} {why}has no value for a single row, so rows cannot be clustered; leave out the "
            "clusters, or compare another metric"
        )
    return ModelRows(one.place, rows.values[None], rows.method, collection.rows, rows.positive)


def cluster_numbers(one: PredictionSet) -> NDArray[np.int64] | None:
    """Return the cluster of each row that counts as a number from 0; None if rows are not clustered."""
    if one.clusters is None:
        return None
    counts = np.concatenate([_counting(one.output, batch) for batch in one.batches()])
    return numbered([cluster for cluster, does in zip(one.clusters, counts, strict=True) if does])


def as_column(values: Any) -> Any:
    """Return values by row as an update reads them: an array or a tensor, or a list of what is no number."""
    if isinstance(values, Tensor):
        return values.detach()
    if isinstance(values, (list, tuple)) and values and isinstance(values[0], (str, Mapping, Tensor)):
        return list(values)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths
        return list(values)
    if not array.ndim:
        raise ConfigError(f"the predictions of a model need one value per row, got {excerpt(values, 60)}")
    return array.tolist() if array.dtype.kind in "OUS" else array


def as_clusters(values: Any) -> tuple[Any, ...]:
    """Return the cluster of each row.

    Raises:
        ConfigError: it is not one text or number for each row.
    """
    cells = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(cells, (list, tuple)):
        raise ConfigError(f"by must contain the cluster of each row, got {excerpt(values, 60)}")
    try:
        return tuple(ids_of_rows(cells))
    except ValueError as err:
        raise ConfigError(str(err)) from None


def _counting(output: OutputFeature, batch: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which rows of a batch count."""
    rows = len(batch["target"])
    counts = None if output.type == RANKING else counting_rows(batch_of(output, **batch))
    return np.ones(rows, dtype=bool) if counts is None else counts.numpy(force=True)


def _with_same_labels(files: Sequence[Predictions]) -> list[Predictions]:
    """Return files in which each label has one number.

    Raises:
        PredictionsError: files have columns of other classes, or labels and numbers.
    """
    labels = [one.labels for one in files]
    if len(set(labels)) == 1:
        return list(files)
    scores = any(keyword in one.roles for one in files for keyword in ("probabilities", "logits"))
    if scores or () in labels:
        odd = next(one for one in files if one.labels != labels[0])
        first, other = (", ".join(one.labels) or "numbers" for one in (files[0], odd))
        raise odd.table.error(
            f"its classes are {excerpt(other, 200)}, but those of {files[0].table.path} are "
            f"{excerpt(first, 200)}"
        )
    union = tuple(sorted({label for one in labels for label in one}))
    return [replace(one, labels=union, output=_of_classes(one.output, len(union))) for one in files]


def _of_classes(output: OutputFeature, count: int) -> OutputFeature:
    return replace(output, num_classes=count) if isinstance(output, Category) else output


def _whole_columns(one: Predictions) -> dict[str, Any]:
    """Return all rows of a file as the arguments of one update.

    Raises:
        PredictionsError: the file has no rows.
    """
    parts: dict[str, list[Any]] = {}
    for _, _, values in one.batches():
        for name, column in values.items():
            parts.setdefault(name, []).append(column)
    if not parts:
        raise one.table.error("has no rows")
    return {name: _concatenated(name, columns, one.ignored) for name, columns in parts.items()}


def _concatenated(name: str, columns: Sequence[Any], ignored: int | None) -> Any:
    if isinstance(columns[0], list):
        return [value for column in columns for value in column]
    if columns[0].ndim < 2 or len({column.shape[1:] for column in columns}) == 1:
        return np.concatenate(columns)
    width = max(column.shape[1] for column in columns)  # lists of tokens, each chunk as long as its longest
    padding = (0 if ignored is None else ignored) if name == "target" else 0
    return np.concatenate(
        [
            np.pad(column, ((0, 0), (0, width - column.shape[1])), constant_values=padding)
            for column in columns
        ]
    )


def _number_column(table: Table, column: str) -> NDArray[np.float64]:
    if column not in table.columns:
        raise missing_column(table, column, "what is compared")
    values = np.concatenate([np.empty(0), *(chunk[column] for chunk in table.chunks((), [column]))])
    if not len(values):
        raise table.error("has no rows")
    if values.ndim > 1:
        raise table.error(
            f"column {column!r} holds {values.shape[1]} numbers per row; a row value must be a single number"
        )
    if not np.isfinite(values).all():
        row = int((~np.isfinite(values)).argmax())
        raise table.error(f"column {column!r} is empty or not a finite number; leave such rows out", row)
    return values


def _names(table: Table, column: str) -> tuple[str, ...]:
    """Return the cells of a column of ids or clusters as texts; the number 1 is that of the text 1, or 1.0.

    Raises:
        PredictionsError: there is no such column, or a cell is empty or a list.
    """
    if column not in table.columns:
        raise missing_column(table, column, "what rows are joined or grouped by")
    names: list[str] = []
    for chunk in table.chunks([column], ()):
        for cell in chunk[column].tolist():
            name = "" if isinstance(cell, (list, dict)) else text_of_label(cell)
            if not name:
                problem = f"holds {excerpt(cell, 40)}" if isinstance(cell, (list, dict)) else "is empty"
                raise table.error(
                    f"column {column!r} {problem}; it must name each row by text or a number", len(names)
                )
            names.append(_WHOLE.sub(r"\1", name))
    return tuple(names)


def _joined(sets: Sequence[PredictionSet]) -> tuple[list[PredictionSet], list[str]]:
    """Return the rows whose id is in each set, in the order of the first."""
    places = [_places(one) for one in sets]
    common = [name for name in places[0] if all(name in other for other in places[1:])]
    if not common:
        raise ConfigError(f"no id is in each of {', '.join(one.place for one in sets)}")
    joined = [one.select([rows[name] for name in common]) for one, rows in zip(sets, places, strict=True)]
    notes = [
        f"left out: {plural(one.rows - len(common), 'row')} of {one.place}, because their ids are not in "
        "all files"
        for one in sets
        if one.rows > len(common)
    ]
    return joined, notes


def _places(one: PredictionSet) -> dict[Any, int]:
    ids = one.ids or ()
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        some = ", ".join(repr(name) for name in twice[:_LISTED])
        raise ConfigError(f"{one.place}: {plural(len(twice), 'id')} used by more than one row: {some}")
    return {name: row for row, name in enumerate(ids)}


def _first_difference(a: Any, b: Any) -> int | None:
    """Return the first row in which two targets differ."""
    if isinstance(a, list) or isinstance(b, list):
        return next((row for row, (one, other) in enumerate(zip(a, b, strict=True)) if one != other), None)
    first, second = (_array(column).reshape(len(column), -1) for column in (a, b))
    if first.shape != second.shape:
        return 0
    differ = ((first != second) & ~((first != first) & (second != second))).any(axis=1)
    return int(differ.argmax()) if differ.any() else None


def _array(column: Any) -> NDArray[Any]:
    return column.numpy(force=True) if isinstance(column, Tensor) else np.asarray(column)
