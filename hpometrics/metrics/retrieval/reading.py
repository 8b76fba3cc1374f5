"""Parsing and checks of the arguments of a ranking update: scores, items, users, target and queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host, send_to
from ..batch import as_tensor
from ..features import Ranking
from .factors import FactorScores
from .interactions import Interactions, PaddedInteractions
from .relevance import DenseRelevance, Relevance, SparseRelevance
from .scoring import GivenScores, Scoring
from .side_data import SideData

_OTHER = ("probabilities", "predictions", "target_probabilities")


def check_queries(feature: Ranking, users: Any, items: Any) -> None:
    """Check that users, seen items and sampling are used only where pairs of query and document allow it.

    Raises:
        MetricInputError: rows have both queries and users, or items without ids are to be masked or drawn.
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
    """Arrange pairs as a row for each query, in the order in which queries first occur.

    Arguments by query, such as weights, are in this order too. The shape depends on the values of `queries`,
    which are read: if they are on a device, this synchronizes.

    Args:
        scores: (pairs,).
        target: (pairs,) grades.
        queries: (pairs,) the number of each pair's query; all pairs of a query are in one batch.
        items: (pairs,) the item of each pair, if documents have item ids.

    Returns:
        Scores (queries, longest), padded with -inf; grades, padded with 0; the number of each query; items,
        padded with -1, or None.

    Raises:
        MetricInputError: the arguments do not have one entry per pair each, or have a wrong type.
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
    parts = [part for part in (scores, grades, numbers, ids) if part is not None]
    if any(part.ndim != 1 or len(part) != len(numbers) for part in parts):
        labels = ("scores", "target", "queries", "items")[: len(parts)]
        shapes = [str(tuple(part.shape)) for part in parts]
        raise MetricInputError(
            f"{_format_list(labels)} have an entry per pair each, got {_format_list(shapes)}"
        )
    names, row, counts = _group_queries(numbers)
    shape = len(names), int(counts.max()) if len(counts) else 0
    positions = send_to(row * shape[1] + _places_in_rows(row, counts), scores.device)

    def wide(values: Tensor, behind: float) -> Tensor:
        values = send_to(values, scores.device)
        return values.new_full(shape, behind).view(-1).index_copy_(0, positions, values).view(shape)

    return wide(scores, -torch.inf), wide(grades, 0), names, None if ids is None else wide(ids, -1)


def _group_queries(numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distinct queries by first occurrence, the row of each pair, and the pairs of each query."""
    names, row, counts = torch.unique(numbers, return_inverse=True, return_counts=True)
    positions = torch.arange(len(row), device=row.device)
    first = row.new_full(names.shape, len(row)).scatter_reduce_(0, row, positions, "amin")
    order = first.argsort()
    return names[order], order.argsort()[row], counts[order]


def _places_in_rows(row: Tensor, counts: Tensor) -> Tensor:
    """Return the number of pairs of its row before each pair, (pairs,) int64."""
    order = row.argsort(stable=True)
    first = counts.cumsum(0) - counts
    inside = torch.arange(len(row), device=row.device) - first[row[order]]
    return torch.empty_like(row).index_copy_(0, order, inside)


def _format_list(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def read_scores(logits: Any, scores: Any, others: dict[str, Any]) -> Tensor | None:
    """Return the scores from either of their arguments; None if there are none.

    Raises:
        MetricInputError: both are present, or another output is, which a ranking does not have.
    """
    for name in _OTHER:
        if others.pop(name, None) is not None:
            what = "grades, no soft labels" if name.startswith("target") else "scores and no other output"
            raise MetricInputError(f"a ranking has {what}; got {name}=")
    if logits is not None and scores is not None:
        raise MetricInputError("scores are given twice, as logits= and as scores=; leave one out")
    values = logits if scores is None else scores
    return None if values is None else as_tensor(values, "scores=")


def read_scoring(scores: Tensor | None, user_factors: Any, item_factors: Any, items: Any) -> Scoring:
    """Return the source of the scores of the batch.

    Raises:
        MetricInputError: there are neither scores nor both factors, or their shapes do not match.
    """
    arguments = {"scores": scores, "user_factors": user_factors, "item_factors": item_factors}
    present = [name for name, value in arguments.items() if value is not None]
    if present not in (["scores"], ["user_factors", "item_factors"]):
        raise MetricInputError(
            "a ranking is measured by scores=, (users, items), or by user_factors= and item_factors=; got "
            + (" and ".join(present) or "none of them")
        )
    if scores is not None:
        if scores.ndim != 2 or scores.is_complex() or not scores.is_floating_point():
            whole = scores.ndim == 2 and not scores.is_complex()
            raise MetricInputError(
                f"scores are real numbers of shape (users, items), got {scores.dtype} {tuple(scores.shape)}"
                + ("; if these are scores and no ids of items, pass them as floats" if whole else "")
            )
        return GivenScores(scores)
    users, catalogue = as_tensor(user_factors, "user_factors="), as_tensor(item_factors, "item_factors=")
    if users.ndim != 2 or catalogue.ndim != 2 or users.shape[1] != catalogue.shape[1]:
        raise MetricInputError(
            "user_factors are (users, d) and item_factors (items, d), got "
            f"{tuple(users.shape)} and {tuple(catalogue.shape)}"
        )
    if users.is_complex() or catalogue.is_complex():
        raise MetricInputError(f"factors are real numbers, got {users.dtype} and {catalogue.dtype}")
    if items is None:
        return FactorScores(users, catalogue)
    near = send_to(as_tensor(items, "items="), users.device).long()
    return FactorScores(users, catalogue, near.masked_fill(near >= len(catalogue), -1))


def read_num_items(scoring: Scoring, side: SideData, *, whole: bool) -> int | None:
    """Return the size of the catalogue; None if only candidates are scored and nothing shows it.

    Args:
        scoring: the scores.
        side: the side data.
        whole: whether the columns are the items of the catalogue.

    Raises:
        MetricInputError: scores and side data have different numbers of items.
    """
    from_scores, from_side = scoring.shape[1] if whole else scoring.num_items, side.num_items
    if None not in (from_side, from_scores) and from_side != from_scores:
        raise MetricInputError(
            f"scores are of {from_scores} items, the catalogue has {from_side}; of candidates alone, pass "
            "items="
        )
    return from_side if from_scores is None else from_scores


def read_items(items: Tensor, shape: tuple[int, int], num_items: int | None) -> Tensor:
    """Return the item of each column of each row, -1 for padding.

    Raises:
        MetricInputError: the shape is not that of the scores, or an id is out of range.
    """
    if tuple(items.shape) != shape or items.is_floating_point():
        raise MetricInputError(
            f"items name the item of each score, whole numbers of shape {shape}; got {items.dtype} of "
            f"{tuple(items.shape)}"
        )
    items = items.long()
    if not on_host(items):  # see `stray_ids`
        items = items.clamp(min=-1)
    elif items.numel():
        low, high = (int(x) for x in items.aminmax())
        if low < -1 or (num_items is not None and high > num_items):
            raise MetricInputError(f"{_range_of_items(num_items)}; got values from {low} to {high}")
    return items if num_items is None else items.masked_fill(items >= num_items, -1)


def _range_of_items(num_items: int | None) -> str:
    return f"items lie in 0..{'' if num_items is None else num_items - 1}, or are -1 for none"


def read_target(
    target: Any, scoring: Scoring, items: Tensor | None, feature: Ranking, num_items: int | None
) -> tuple[Relevance, Tensor]:
    """Return the relevance, and the target itself if it is dense, otherwise a zero for each row.

    Args:
        target: grades, in any form.
        scoring: the scores.
        items: the item of each score; None where columns are items.
        feature: the output, which defines which grades are relevant.
        num_items: the size of the catalogue, where it is known.

    Raises:
        MetricInputError: there is no target, or it does not match the scores.
    """
    if target is None:
        raise MetricInputError("an update needs target=, what is relevant to each row; got scores alone")
    (rows, width), threshold, void = scoring.shape, feature.relevance_threshold, feature.unjudged
    if isinstance(target, np.ndarray) or (isinstance(target, Tensor) and target.layout is torch.strided):
        dense = as_tensor(target, "target=")
        if tuple(dense.shape) != (rows, width):
            raise MetricInputError(
                f"the target of scores of shape {(rows, width)} has the same shape, or is sparse; "
                f"got {tuple(dense.shape)}"
            )
        if dense.is_complex():
            raise MetricInputError(f"grades of a target are real numbers, got {dense.dtype}")
        if dense.device != scoring.device:
            raise MetricInputError(
                f"scores are on {scoring.device}, the target on {dense.device}; move one of them"
            )
        if items is not None:
            dense = dense.masked_fill(items < 0, 0)
        return DenseRelevance(dense, threshold, void), dense
    entries = Interactions.of(target, "target", num_items, finite=False)
    if len(entries) != rows:
        raise MetricInputError(f"the target has an entry per row, {rows} by the scores; got {len(entries)}")
    zeros, odd = torch.zeros(rows, device=scoring.device), entries.odd_rows
    if odd is not None:  # handled by the policy for non-finite values
        odd = send_to(odd, scoring.device)
        entries = entries.where(entries.sizes.isfinite())
    sparse = partial(_sparse, items=items, width=width, like=zeros)
    return _split_entries(entries, sparse, threshold, void, odd), zeros


def _split_entries(
    entries: Interactions,
    sparse: Callable[..., SparseRelevance],
    threshold: float,
    void: float | None,
    odd: Tensor | None,
) -> SparseRelevance:
    """Split entries by their grades; refused and unjudged ones only when a metric reads them."""
    every = torch.ones(1, dtype=torch.bool, device=entries.items.device)
    is_relevant = every if entries.grades is None else entries.grades > threshold
    is_unjudged = None if void is None else entries.sizes == void

    def refused() -> SparseRelevance:
        others = ~is_relevant if is_unjudged is None else ~is_relevant & ~is_unjudged
        return sparse(entries.where(others.expand(len(entries.items))))

    unjudged = None if is_unjudged is None else lambda: sparse(entries.where(is_unjudged))
    relevant = entries if entries.grades is None else entries.where(is_relevant)
    return sparse(relevant, refused=refused, unjudged=unjudged, odd=odd)


def _sparse(
    entries: Interactions,
    items: Tensor | None,
    width: int,
    like: Tensor,
    **further: Any,
) -> SparseRelevance:
    entries = beside(entries, like)
    own = entries if items is None else columns_of_items(entries, items)
    return SparseRelevance(own, width, entries.counts, by_id=entries, **further)


def read_users(users: Any, rows: int) -> Tensor:
    """Return the number of the user of each row.

    Raises:
        MetricInputError: they are not one whole number per row.
    """
    ids = as_tensor(users, "users=")
    if tuple(ids.shape) != (rows,) or (rows and ids.is_floating_point()):
        raise MetricInputError(
            f"users are whole numbers, one per row, shape ({rows},); got {ids.dtype} of {tuple(ids.shape)}"
        )
    return ids.long()


def read_seen(side: SideData, users: Tensor | None, width: int) -> Interactions:
    """Return the seen items of each row, for scores over `width` items.

    Raises:
        MetricInputError: users are missing or out of range, or a seen item has no score.
    """
    most = side.derived("last seen", lambda own: int(own.seen.items.max()) if len(own.seen.items) else -1)
    if most >= width:
        raise MetricInputError(f"seen has items up to {most}, the scores are of items 0..{width - 1}")
    return side.seen_by(known_users(users, len(side.seen), "seen", "seen items are masked"))


def known_users(users: Tensor | None, number: int, name: str, why: str) -> Tensor:
    """Return the users after checking that side data has an entry for each of them.

    Raises:
        MetricInputError: users are missing or out of range.
    """
    if users is None:
        raise MetricInputError(f"{why} by user; pass users=, the user of each row")
    if on_host(users) and len(users):
        low, high = (int(x) for x in users.aminmax())
        if low < 0 or high >= number:
            raise MetricInputError(f"{name} has users 0..{number - 1}, got users from {low} to {high}")
    return users


def stray_ids(
    items: Any, num_items: int | None, users: Tensor | None, number: int | None
) -> Iterator[tuple[str, Tensor]]:
    """Yield rules for ids on a device, each with a flag that is true if it is broken.

    Args:
        items: the argument `items`.
        num_items: the size of the catalogue, where it is known.
        users: the number of the user of each row.
        number: the number of users with seen items, where these are masked.
    """
    if items is not None and not on_host(near := as_tensor(items, "items=")):
        most = torch.iinfo(torch.int64).max if num_items is None else num_items
        yield _range_of_items(num_items), ((near < -1) | (near > most)).any()
    if number is not None and users is not None and not on_host(users):
        yield f"seen has users 0..{number - 1}", ((users < 0) | (users >= number)).any()


def beside(entries: Interactions, like: Tensor) -> Interactions:
    """Return entries on the device of a tensor; they are sent as a table, whose size is known on the host."""
    return entries if on_host(like) else PaddedInteractions.from_packed(entries).to(like.device)


def columns_of_items(entries: Interactions, items: Tensor) -> Interactions:
    """Replace item ids by columns of each row's candidates, and drop items that are not candidates."""
    rows, width = items.shape
    if not items.numel() or not len(entries.items):
        return entries.where(torch.zeros(len(entries.items), dtype=torch.bool, device=items.device))
    if on_host(items):
        items, entries = _renumber_large(items, entries)
    most = torch.maximum(items.amax(), entries.items.amax()) + 2
    first = torch.arange(rows, device=items.device).unsqueeze(1) * most
    ordered, order = (first + items + 1).view(-1).sort()
    keys = entries.row_of * most + entries.items + 1
    indices = torch.searchsorted(ordered, keys).clamp(max=len(ordered) - 1)
    return entries.renumbered(torch.where(ordered[indices] == keys, order[indices] % width, -1))


def _renumber_large(items: Tensor, entries: Interactions) -> tuple[Tensor, Interactions]:
    """Renumber ids, in their order, if their product with rows exceeds 64 bits, as for hashes."""
    if (max(int(items.max()), int(entries.items.max())) + 2) * (len(items) + 1) < 2**63:
        return items, entries
    every = torch.cat([items.reshape(-1), entries.items, items.new_full((1,), -1)])
    numbers = torch.unique(every, return_inverse=True)[1] - 1  # no item, -1, comes first and stays -1
    split = items.numel()
    return numbers[:split].view(items.shape), entries.renumbered(numbers[split:-1])
