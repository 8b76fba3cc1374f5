"""Reading: what an update of a ranking was given, checked and brought to scores, candidates and relevance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host, sent
from ..batch import as_tensor
from ..features import Ranking
from .factors import FactorScores
from .interactions import Interactions, Padded
from .relevance import DenseRelevance, Relevance, SparseRelevance
from .scoring import GivenScores, Scoring
from .side_data import SideData


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


_OTHER = ("probabilities", "predictions", "target_probabilities")


def read_scores(logits: Any, scores: Any, others: dict[str, Any]) -> Tensor | None:
    """The scores under either of their names; None where there are none.

    Raises:
        MetricInputError: they are given twice, or another output is given, which a ranking does not have.
    """
    for name in _OTHER:
        if others.pop(name, None) is not None:
            what = "grades, no soft labels" if name.startswith("target") else "scores and no other output"
            raise MetricInputError(f"a ranking has {what}; got {name}=")
    if logits is not None and scores is not None:
        raise MetricInputError("scores are given twice, as logits= and as scores=; leave one out")
    given = logits if scores is None else scores
    return None if given is None else as_tensor(given, "scores=")


def read_scoring(scores: Tensor | None, user_factors: Any, item_factors: Any, items: Any) -> Scoring:
    """Where the scores of the batch come from.

    Raises:
        MetricInputError: neither scores nor both factors, or of shapes that do not belong together.
    """
    given = {"scores": scores, "user_factors": user_factors, "item_factors": item_factors}
    told = [name for name, value in given.items() if value is not None]
    if told not in (["scores"], ["user_factors", "item_factors"]):
        raise MetricInputError(
            "a ranking is measured by scores=, (users, items), or by user_factors= and item_factors=; got "
            + (" and ".join(told) or "none of them")
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
    near = sent(as_tensor(items, "items="), users.device).long()
    return FactorScores(users, catalogue, near.masked_fill(near >= len(catalogue), -1))


def read_num_items(scoring: Scoring, side: SideData, *, whole: bool) -> int | None:
    """The size of the catalogue; None where candidates alone are scored and nothing else shows it.

    Args:
        scoring: the scores.
        side: the side data.
        whole: whether the columns are the items of the catalogue.

    Raises:
        MetricInputError: scores and side data are of different numbers of items.
    """
    scored, stated = scoring.shape[1] if whole else scoring.num_items, side.num_items
    if None not in (stated, scored) and stated != scored:
        raise MetricInputError(
            f"scores are of {scored} items, the catalogue has {stated}; of candidates alone, pass items="
        )
    return stated if scored is None else scored


def read_items(items: Tensor, shape: tuple[int, int], num_items: int | None) -> Tensor:
    """The item of each column of each row, -1 where a place only fills up.

    Raises:
        MetricInputError: another shape than that of the scores, or an id out of range.
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
    """What is relevant; beside it the target itself where it is dense, else as many zeros as it has rows.

    Args:
        target: grades, in any form.
        scoring: the scores.
        items: the item of each score; None where columns are items.
        feature: the output, which says what grades mean.
        num_items: the size of the catalogue, where it is known.

    Raises:
        MetricInputError: none is given, or it does not belong to the scores.
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
    if odd is not None:  # which the policy for such values is for
        odd = sent(odd, scoring.device)
        entries = entries.where(entries.sizes.isfinite())
    sparse = partial(_sparse, items=items, width=width, like=zeros)
    return _of_entries(entries, sparse, threshold, void, odd), zeros


def _of_entries(
    entries: Interactions,
    sparse: Callable[..., SparseRelevance],
    threshold: float,
    void: float | None,
    odd: Tensor | None,
) -> SparseRelevance:
    """Tell entries apart by their grades; what few metrics ask for is looked for when they do."""
    every = torch.ones(1, dtype=torch.bool, device=entries.items.device)
    wanted = every if entries.grades is None else entries.grades > threshold
    left = None if void is None else entries.sizes == void

    def refused() -> SparseRelevance:
        others = ~wanted if left is None else ~wanted & ~left
        return sparse(entries.where(others.expand(len(entries.items))))

    unjudged = None if left is None else lambda: sparse(entries.where(left))
    relevant = entries if entries.grades is None else entries.where(wanted)
    return sparse(relevant, refused=refused, unjudged=unjudged, odd=odd)


def beside(entries: Interactions, like: Tensor) -> Interactions:
    """Return entries where a tensor is: to a device they go as a table, counted before they leave."""
    return entries if on_host(like) else Padded.unpacked(entries).to(like.device)


def _sparse(
    entries: Interactions,
    items: Tensor | None,
    width: int,
    like: Tensor,
    **further: Any,
) -> SparseRelevance:
    entries = beside(entries, like)
    own = entries if items is None else placed(entries, items)
    return SparseRelevance(own, width, entries.counts, named=entries, **further)


def read_users(users: Any, rows: int) -> Tensor:
    """The number of the user of each row.

    Raises:
        MetricInputError: not one whole number per row.
    """
    numbers = as_tensor(users, "users=")
    if tuple(numbers.shape) != (rows,) or (rows and numbers.is_floating_point()):
        raise MetricInputError(
            f"users are whole numbers, one per row, shape ({rows},); got {numbers.dtype} of "
            f"{tuple(numbers.shape)}"
        )
    return numbers.long()


def read_seen(side: SideData, users: Tensor | None, width: int) -> Interactions:
    """The seen items of each row, of scores over `width` items.

    Raises:
        MetricInputError: users are not given, or one of them is not known; or an item has no score.
    """
    most = side.derived("last seen", lambda own: int(own.seen.items.max()) if len(own.seen.items) else -1)
    if most >= width:
        raise MetricInputError(f"seen has items up to {most}, the scores are of items 0..{width - 1}")
    return side.seen_by(known_users(users, len(side.seen), "seen", "seen items are masked"))


def known_users(users: Tensor | None, number: int, name: str, why: str) -> Tensor:
    """Return the users if side data knows them all.

    Raises:
        MetricInputError: users are not given, or one of them is not known.
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
    """What must hold of ids on a device, and whether it does not; those on the host are looked at when read.

    Args:
        items: what was given as the item of each column.
        num_items: the size of the catalogue, where it is known.
        users: the number of the user of each row.
        number: of how many users it is known what they have seen, where that is masked.
    """
    if items is not None and not on_host(near := as_tensor(items, "items=")):
        most = torch.iinfo(torch.int64).max if num_items is None else num_items
        yield _range_of_items(num_items), ((near < -1) | (near > most)).any()
    if number is not None and users is not None and not on_host(users):
        yield f"seen has users 0..{number - 1}", ((users < 0) | (users >= number)).any()


def placed(entries: Interactions, items: Tensor) -> Interactions:
    """Turn item ids into the columns of each row's candidates; what is no candidate has no column."""
    rows, width = items.shape
    if not items.numel() or not len(entries.items):
        return entries.where(torch.zeros(len(entries.items), dtype=torch.bool, device=items.device))
    if on_host(items):
        items, entries = _small(items, entries)
    most = torch.maximum(items.amax(), entries.items.amax()) + 2
    first = torch.arange(rows, device=items.device).unsqueeze(1) * most
    ordered, order = (first + items + 1).view(-1).sort()
    wanted = entries.row_of * most + entries.items + 1
    near = torch.searchsorted(ordered, wanted).clamp(max=len(ordered) - 1)
    return entries.named(torch.where(ordered[near] == wanted, order[near] % width, -1))


def _small(items: Tensor, entries: Interactions) -> tuple[Tensor, Interactions]:
    """Number ids anew, in their order, where a product of them and rows exceeds 64 bits, as of hashes."""
    if (max(int(items.max()), int(entries.items.max())) + 2) * (len(items) + 1) < 2**63:
        return items, entries
    every = torch.cat([items.reshape(-1), entries.items, items.new_full((1,), -1)])
    numbers = torch.unique(every, return_inverse=True)[1] - 1  # no item, -1, comes first and stays -1
    split = items.numel()
    return numbers[:split].view(items.shape), entries.named(numbers[split:-1])
