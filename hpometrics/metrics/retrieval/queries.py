"""Queries: pairs of query and document one behind another, put side by side as lists of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import sent
from ..batch import as_tensor
from ..features import Ranking


def check_queries(feature: Ranking, users: Any, items: Any) -> None:
    """Make sure that nothing is asked for that pairs of query and document cannot tell.

    Raises:
        MetricInputError: rows are named twice, or items are to be masked or drawn that have no number.
    """
    if users is not None:
        raise MetricInputError("queries= say which row a pair is in; leave out users=")
    if items is None and (feature.seen is not None or feature.num_negatives is not None):
        raise MetricInputError(
            "documents of queries are not numbered, so that none is masked as seen or drawn; leave out seen= "
            "and num_negatives= of the output, or give the item of each pair as items="
        )


def side_by_side(
    scores: Tensor | None, target: Any, queries: Any, items: Any = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Turn pairs into a row for each query, in the order in which queries first come.

    What is given by query, such as weights, is in this order too. How many queries there are, and how long
    the longest is, only `queries` tell: on the host nobody waits for it, on a device they are waited for.

    Args:
        scores: (pairs,).
        target: (pairs,) grades.
        queries: (pairs,) the number of each pair's query; all pairs of a query are in one batch.
        items: (pairs,) the item of each pair, if documents are numbered.

    Returns:
        Scores (queries, longest), filled up with -inf; grades, filled up with 0; the number of each query;
        items, filled up with -1, or None.

    Raises:
        MetricInputError: they do not have one entry per pair, or are no numbers of their kind.
    """
    if scores is None or target is None:
        raise MetricInputError(
            "queries= go with scores= and target=, one entry per pair of query and document"
        )
    grades, numbers = as_tensor(target, "target="), as_tensor(queries, "queries=")
    if numbers.is_floating_point() and numbers.numel():
        raise MetricInputError(f"queries are whole numbers, the query of each pair; got {numbers.dtype}")
    if not scores.is_floating_point():
        raise MetricInputError(f"scores of pairs are real numbers, got {scores.dtype}")
    numbers = numbers.long()
    ids = None if items is None else as_tensor(items, "items=")
    if ids is not None and not ids.is_floating_point():  # floats are refused where items are read
        ids = ids.long()
    given = [part for part in (scores, grades, numbers, ids) if part is not None]
    if any(part.ndim != 1 or len(part) != len(numbers) for part in given):
        told, shapes = ("scores", "target", "queries", "items"), [str(tuple(part.shape)) for part in given]
        raise MetricInputError(
            f"{_listed(told[: len(given)])} have an entry per pair each, got {_listed(shapes)}"
        )
    names, row, counts = _told_apart(numbers)
    shape = len(names), int(counts.max()) if len(counts) else 0
    places = sent(row * shape[1] + _places_in_rows(row, counts), scores.device)

    def wide(values: Tensor, behind: float) -> Tensor:
        values = sent(values, scores.device)
        return values.new_full(shape, behind).view(-1).index_copy_(0, places, values).view(shape)

    return wide(scores, -torch.inf), wide(grades, 0), names, None if ids is None else wide(ids, -1)


def _told_apart(numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The number of each query, in the order in which they first come; the row and the pairs of each."""
    names, row, counts = torch.unique(numbers, return_inverse=True, return_counts=True)
    places = torch.arange(len(row), device=row.device)
    first = row.new_full(names.shape, len(row)).scatter_reduce_(0, row, places, "amin")
    order = first.argsort()
    return names[order], order.argsort()[row], counts[order]


def _places_in_rows(row: Tensor, counts: Tensor) -> Tensor:
    """How many pairs of its row stand before each pair, (pairs,) int64."""
    order = row.argsort(stable=True)
    first = counts.cumsum(0) - counts
    inside = torch.arange(len(row), device=row.device) - first[row[order]]
    return torch.empty_like(row).index_copy_(0, order, inside)


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
