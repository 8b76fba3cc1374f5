"""Queries: pairs of query and document one behind another, put side by side as lists of candidates."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..features import Ranking
from ..outputs import as_tensor


def check_queries(feature: Ranking, users: Any, items: Any) -> None:
    """Make sure that nothing beside the queries says which row or which item a pair is.

    Raises:
        MetricInputError: something does.
    """
    if users is not None or items is not None:
        raise MetricInputError("queries= say which row a pair is in; leave out users= and items=")
    if feature.seen is not None or feature.num_negatives is not None:
        raise MetricInputError(
            "documents of queries are not numbered, so that none is masked as seen or drawn; leave "
            "out seen= and num_negatives= of the output, or give scores by row with items="
        )


def side_by_side(scores: Tensor | None, target: Any, queries: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Turn pairs into a row for each query, in the order in which queries first come.

    Args:
        scores: (pairs,).
        target: (pairs,) grades.
        queries: (pairs,) the number of each pair's query; all pairs of a query are in one batch.

    Returns:
        Scores (queries, longest), filled up with -inf; grades, filled up with 0; the number of each query.

    Raises:
        MetricInputError: the three do not have one entry per pair.
    """
    if scores is None or target is None:
        raise MetricInputError(
            "queries= go with scores= and target=, one entry per pair of query and document"
        )
    grades, numbers = as_tensor(target), as_tensor(queries).long()
    if not (scores.ndim == grades.ndim == numbers.ndim == 1 and len(scores) == len(grades) == len(numbers)):
        raise MetricInputError(
            f"scores, target and queries have an entry per pair each, got {tuple(scores.shape)}, "
            f"{tuple(grades.shape)} and {tuple(numbers.shape)}"
        )
    names, row, counts = torch.unique(numbers, return_inverse=True, return_counts=True)
    order = row.argsort(stable=True)
    start = counts.cumsum(0) - counts
    place = torch.arange(len(row), device=row.device) - start[row[order]]
    width = int(counts.max()) if len(counts) else 0
    wide = scores.new_full((len(names), width), -torch.inf)
    wide[row[order], place] = scores[order]
    graded = grades.new_zeros(len(names), width)
    graded[row[order], place] = grades[order]
    return wide, graded, names
