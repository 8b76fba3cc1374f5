"""Measure a file of predictions in one pass over its rows (labels in words take one more)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ..exceptions import MetricInputError
from ..metrics._derive import derivable
from ..metrics.collection import MetricCollection
from ..metrics.features import CATEGORY, LOGITS, PROBABILITIES, OutputFeature, parse_feature
from ..metrics.registry.index import all_entries
from .array_files import Npz
from .batches import batches
from .choice import choose
from .formats import find_refusal, format_in_columns, open_source
from .labels import Labels, read_labels
from .report import ALL, Measured, Value
from .roles import Roles, logits_alone, read_roles
from .source import MEMORY, PredictionsError, Source

_OWN = {"texts", "references"}  # the columns of predictions and target have them


@dataclass(frozen=True)
class Request:
    """A request to measure a file.

    Args:
        file: the file of predictions.
        output: the output of the model; an npz file may state it itself, under the key `output`.
        metrics: names and groups.
        weights: the column of weights; by default, `sample_weight`.
        by: the column of tasks, by default `task`: a line of values for each, and one for all.
        memory: the limit in GiB for the columns that are read at once: all of an npz file, a row group of
            Parquet.
    """

    file: Path
    output: str | None = None
    metrics: tuple[str, ...] = ("default",)
    weights: str | None = None
    by: str | None = None
    memory: float = MEMORY


def measure_file(request: Request) -> Measured:
    """Measure the predictions in a file.

    Raises:
        PredictionsError: the file cannot be measured; the message names file, row and column.
        UnknownMetricError, MetricNameError: a metric does not exist for the output.
    """
    source = open_source(request.file, request.memory)
    output = _output(request, source)
    extras = {extra for entry in all_entries(output.type) for extra in entry.extras} - _OWN
    roles = read_roles(source, output.type, request.weights, request.by, extras)
    if derivable(PROBABILITIES, frozenset({LOGITS}), output):
        roles = logits_alone(roles)
    choice = choose(request.metrics, output, roles, source)
    wanted_extras = choice.extras(output)
    roles = replace(roles, extras=tuple(extra for extra in roles.extras if extra in wanted_extras))
    labels = read_labels(source, roles, output)
    output = _with_classes(output, roles, labels)
    for batch in islice(batches(source, roles, labels, output), 1):
        choice = choice.without_refused(output, batch.tensors, source)
    read_rows: Counter[str] = Counter()
    collections = _update_collections(
        MetricCollection(choice.names, output), source, roles, labels, read_rows
    )
    rows = {task: collection.rows for task, collection in collections.items()}
    return Measured(
        file=str(request.file),
        output=str(output),
        rows=rows,
        unlabeled={task: read_rows[task] - count for task, count in rows.items() if read_rows[task] > count},
        values={task: list(_values(collection, labels)) for task, collection in collections.items()},
        labels=labels.names,
        unused=roles.unused,
        left_out=choice.left_out,
    )


def _output(request: Request, source: Source) -> OutputFeature:
    output = request.output or (source.read_fact("output") if isinstance(source, Npz) else None)
    if output is None:
        raise PredictionsError(
            f"{request.file}: the file does not say what the model predicts; give --output, "
            "such as --output category"
        )
    return parse_feature(output)


def _with_classes(output: OutputFeature, roles: Roles, labels: Labels) -> OutputFeature:
    """Return a category with the number of classes, if the file states it."""
    if output.type != CATEGORY or getattr(output, "num_classes", None) is not None or not labels.names:
        return output
    return replace(output, num_classes=len(labels.names))  # type: ignore[call-arg]  # a category has it


def _update_collections(
    empty: MetricCollection, source: Source, roles: Roles, labels: Labels, read_rows: Counter[str]
) -> dict[str, MetricCollection]:
    """Return an updated collection for each task, and count its rows; that for all is merged from them."""
    by_task: dict[str, MetricCollection] = {}
    for batch in batches(source, roles, labels, empty.output):
        tasks = [ALL] if batch.tasks is None else sorted(set(batch.tasks))
        if batch.tasks is not None and ALL in tasks:
            raise PredictionsError(
                f"{source.path}: a task cannot be called {ALL!r}, which is what all are together"
            )
        for task in tasks:
            collection = by_task.setdefault(task, empty.fresh())
            read_rows[task] += len(batch.rows_of(task))
            try:
                collection.update(**batch.of(task))
            except MetricInputError as err:
                error = find_refusal(source, batch, task, empty)
                raise error or PredictionsError(
                    f"{source.place(batch.first)} or after: {format_in_columns(str(err))}"
                ) from err
    if roles.task is None:
        return by_task or {ALL: empty}
    whole, read_rows[ALL] = empty.fresh(), read_rows.total()
    for collection in by_task.values():
        whole.merge(collection)
    return {**dict(sorted(by_task.items())), ALL: whole}


def _values(collection: MetricCollection, labels: Labels) -> Iterator[Value]:
    """Compute the values; a value per class is named by its label, a cell of a table by its indices."""
    for name, value in collection.compute().items():
        for part, number in _parts(value, labels):
            reason = collection.reasons.get(name) if number != number else None
            yield Value(f"{name}{part}", collection.objective_of(name), number, reason)


def _parts(value: Tensor, labels: Labels) -> Iterator[tuple[str, float]]:
    if value.ndim == 0:
        yield "", float(value)
        return
    if value.shape == (len(labels.names),):
        places: Iterable[str] = labels.names
    else:
        places = (", ".join(map(str, place)) for place in np.ndindex(value.shape))
    numbers: list[Any] = value.flatten().tolist()
    yield from ((f"[{place}]", float(number)) for place, number in zip(places, numbers, strict=True))
