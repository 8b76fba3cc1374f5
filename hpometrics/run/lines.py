"""Example lines: one example as plain JSON: target, prediction, scores and what the user says of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .._redaction import excerpt
from ..exceptions import MetricInputError
from ..metrics._derive import class_dim, derivable
from ..metrics.batch import Outputs
from ..metrics.features import BINARY, LOGITS, PREDICTIONS, PROBABILITIES, TEXT
from ..metrics.retrieval.ranking_batch import RankingBatch
from ..records.readings import to_json

Line = dict[str, Any]

MOST_CLASSES = 100
"""Scores of more classes are left out of a line, which then says so."""


def lines_of(batch: Outputs) -> list[Line]:
    """Tell all about each row of a batch, which is few rows: target, prediction, and what was given.

    Scores of more than 100 classes are left out, and `left_out` says so; all else is as it was given.

    >>> from hpometrics.metrics.features import Category
    >>> lines_of(Outputs(Category(), logits=[[0.5, 1.5, 0.0]], target=[1]))
    [{'target': 1, 'prediction': 1, 'logits': [0.5, 1.5, 0.0]}]
    """
    told = _ranking(batch) if isinstance(batch, RankingBatch) else dict(_told(batch))
    scores, left_out = _scores(batch)
    columns = {**told, **scores}
    rows = [{name: values[row] for name, values in columns.items()} for row in range(len(batch))]
    return [{**row, "left_out": left_out} for row in rows] if left_out else rows


def entry_of(examples: Any, row: int) -> Any:
    """Return what the user says of a row, as plain JSON.

    Raises:
        MetricInputError: strict JSON cannot hold it.
    """
    entry = examples[row]
    entry = entry.tolist() if isinstance(entry, (Tensor, np.ndarray, np.generic)) else entry
    try:
        json.dumps(entry, allow_nan=False)
    except (TypeError, ValueError) as err:
        raise MetricInputError(
            f"examples= are what strict JSON holds (a text, a number, a list, a mapping), got "
            f"{type(entry).__name__} {excerpt(entry, 60)} in row {row}: {err}"
        ) from None
    return entry


def check_entries(examples: Any, rows: int) -> None:
    """Refuse what is not one entry per row.

    Raises:
        MetricInputError: naming what came.
    """
    listed = isinstance(examples, (Sequence, Tensor, np.ndarray)) and not isinstance(examples, (str, bytes))
    if not listed or len(examples) != rows:
        came = f"{len(examples)} of them" if listed else type(examples).__name__
        raise MetricInputError(f"examples= has one entry per row, the batch has {rows} rows; got {came}")


def _told(batch: Outputs) -> Iterator[tuple[str, list[Any]]]:
    if batch.has_target or "target" in batch.records:
        yield "target", _plain(batch.answer)
    if batch.soft is not None:
        yield "target_probabilities", _plain(batch.soft)
    if PREDICTIONS in batch.records:
        yield "prediction", _plain(batch.records[PREDICTIONS])
    elif derivable(PREDICTIONS, frozenset(batch.given), batch.feature):
        yield "prediction", _plain(batch.predictions)
    for extra in ("texts", "references"):
        if batch.feature.type == TEXT and extra in batch.extras:  # beside token ids
            yield extra, _plain(list(batch.extras[extra]))


def _ranking(batch: RankingBatch) -> dict[str, list[Any]]:
    """Relevant items, and the best ones as deep as a metric has looked."""
    right = batch.relevant_items
    rows, items = right.row_of.tolist(), right.items.tolist()
    relevant: list[list[int]] = [[] for _ in range(len(batch))]
    for row, item in zip(rows, items, strict=True):
        relevant[row].append(item)
    best = [[item for item in row if item >= 0] for row in batch.lists.items.tolist()]
    users = {} if batch.users is None else {"user": batch.users.tolist()}
    return {**users, "target": relevant, "prediction": best}


def _scores(batch: Outputs) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """The scores that were given, by row, and why some are not written."""
    written, left_out = {}, {}
    for kind in (LOGITS, PROBABILITIES):
        given = batch.given.get(kind)
        if given is None:
            continue
        one = batch.feature.type == BINARY or given.ndim < 2
        classes = 1 if one else given.shape[class_dim(batch.feature)]
        if classes > MOST_CLASSES:
            left_out[kind.value] = f"{classes} classes; those of at most {MOST_CLASSES} are written"
        else:
            written[kind.value] = _plain(given)
    return written, left_out


def _plain(value: Any) -> Any:
    """Plain JSON: lists for tensors, null for a number that is not finite."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return to_json(value.tolist()) if _may_be_odd(value) else value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return finite_or_none(value) if isinstance(value, float) else value


def finite_or_none(value: float) -> float | None:
    """The number, or null in the place of one that strict JSON cannot hold."""
    return value if math.isfinite(value) else None


def _may_be_odd(value: Any) -> bool:
    return value.dtype.is_floating_point if isinstance(value, Tensor) else value.dtype.kind == "f"


def host(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Copy tensors of a device to the host; what else there is stays."""
    return {name: x.detach().cpu() if isinstance(x, Tensor) else x for name, x in tensors.items()}
