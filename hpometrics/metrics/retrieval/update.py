"""The arguments of one update of a ranking, in whatever form they came: parsed and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..._formatting import listed
from ...exceptions import MetricInputError
from .._device import on_host, send_to
from ..batch import as_tensor, select_rows
from ..features import OutputFeature, Ranking
from .candidates import sample_candidates
from .interactions import Interactions, beside, columns_of_items
from .relevance import DenseRelevance, Relevance, SparseRelevance, may_be_odd, odd_rows
from .scoring import FactorScores, GivenScores, Scoring
from .side_data import SideData, known_users, read_users

_OTHER = ("probabilities", "predictions", "target_probabilities")


@dataclass(frozen=True, eq=False)
class Update:
    """Rows of scores, with the relevant items of each and the items excluded from its ranking.

    Attributes:
        scoring: the source of the scores, rows over columns.
        side: the side data of the output.
        num_items: the size of the catalog; None if it is unknown, or if documents without ids are scored.
        relevance: the relevant items of each row.
        target: the target if it is dense, otherwise a zero for each row.
        items: (rows, columns) the item of each column, -1 for none; None where columns are items.
        users: (rows,) the number of each user, or None.
        hidden: the columns of each row that are excluded from the ranking, or None.
        weight: (rows,) float64, or None.
        extras: all other keyword arguments.
        strays: rules for ids on a device, and for each a flag that is true if an id breaks it.
    """

    scoring: Scoring
    side: SideData
    num_items: int | None
    relevance: Relevance
    target: Tensor
    items: Tensor | None
    users: Tensor | None
    hidden: Interactions | None
    weight: Tensor | None
    extras: dict[str, Any]
    strays: tuple[tuple[str, Tensor], ...] = ()

    @classmethod
    def of(
        cls,
        feature: OutputFeature,
        *,
        logits: Any = None,
        scores: Any = None,
        target: Any = None,
        items: Any = None,
        users: Any = None,
        queries: Any = None,
        indexes: Any = None,
        user_factors: Any = None,
        item_factors: Any = None,
        sample_weight: Any = None,
        **extras: Any,
    ) -> Self:
        """Parse the keyword arguments of an update; `RankingBatch` describes them.

        Raises:
            MetricInputError: they do not describe a batch of rankings.
        """
        if not isinstance(feature, Ranking):
            raise MetricInputError(f"a batch of rankings needs the output Ranking(), got {feature}")
        logit_scores = read_scores(logits, scores, extras)
        queries = indexes if queries is None else queries
        if queries is not None:
            check_queries(feature, users, items)
            logit_scores, target, users, items = side_by_side(logit_scores, target, queries, items)
        scoring = read_scoring(logit_scores, user_factors, item_factors, items)
        size = None
        if queries is None or items is not None:  # else columns are documents without item ids
            side = SideData.of(feature, scoring.device)
            size = read_num_items(scoring, side, whole=queries is None and items is None)
        update = cls._parse(feature, scoring, size, target, items, users, sample_weight, extras)
        if feature.num_negatives is None or update.items is not None:
            return update
        return update._sample(feature, feature.num_negatives, users)

    def only(self, which: Tensor) -> Update:
        """Return the rows with these indices."""
        own = {name: getattr(self, name) for name in ("items", "users", "weight")}
        return replace(
            self,
            scoring=self.scoring.only(which),
            relevance=self.relevance.only(which),
            target=self.target[which],
            hidden=None if self.hidden is None else self.hidden.rows(which),
            extras={name: select_rows(value, which, len(self.target)) for name, value in self.extras.items()},
            **{name: value[which] for name, value in own.items() if value is not None},
        )

    def without_scores(self, counts: Tensor, weight: Tensor | None) -> Update:
        """Return rows over no columns, with so many relevant items each, for existing lists."""
        rows, device = len(counts), counts.device
        none = Interactions(torch.zeros(rows + 1, dtype=torch.int64, device=device), counts[:0])
        return replace(
            self, scoring=GivenScores(torch.empty(rows, 0, device=device)), weight=weight,
            relevance=SparseRelevance(none, 0, counts), target=counts, users=None, hidden=None, extras={},
            items=None if self.items is None else self.items.new_empty(rows, 0),
        )  # fmt: skip

    @classmethod
    def _parse(
        cls,
        feature: Ranking,
        scoring: Scoring,
        size: int | None,
        target: Any,
        items: Any,
        users: Any,
        weight: Any,
        extras: dict[str, Any],
    ) -> Self:
        (rows, width), device = scoring.shape, scoring.device
        side = SideData.of(feature, device)
        users = None if users is None else read_users(users, rows)
        masks = feature.seen is not None and items is None  # candidates are the caller's choice
        strays = tuple(stray_ids(items, size, users, len(side.seen) if masks else None))
        if items is not None:
            items = send_to(read_items(as_tensor(items, "items="), scoring.shape, size), device)
        relevance, target = read_target(target, scoring, items, feature, size)
        hidden = read_seen(side, users, width) if masks else None
        users = None if users is None else send_to(users, device)
        weight = None if weight is None else send_to(as_tensor(weight, "sample_weight="), device).double()
        return cls(scoring, side, size, relevance, target, items, users, hidden, weight, extras, strays)

    def _sample(self, feature: Ranking, num_negatives: int, users: Any) -> Self:
        """Draw candidates on the host and score only these; inputs on a device synchronize."""
        device, width = self.scoring.device, self.scoring.shape[1]
        numbers = None if users is None else read_users(users, len(self.target)).cpu()
        seen_items = None if self.hidden is None else read_seen(SideData.of(feature), numbers, width).packed()
        candidates = sample_candidates(
            self.relevance.entries.packed(),
            width,
            num_negatives,
            seen=seen_items,
            users=numbers,
            seed=feature.seed,
        )
        items, target = send_to(candidates.items, device), send_to(candidates.target, device)
        # a relevant item may have been seen
        hidden = None if seen_items is None else beside(columns_of_items(seen_items, candidates.items), items)
        odd = odd_rows(self.target) if may_be_odd(self.target) else self.relevance.odd
        relevance, scoring = DenseRelevance(target, 0.0, odd=odd), self.scoring.of(items)
        return replace(self, scoring=scoring, relevance=relevance, target=target, items=items, hidden=hidden)


def check_queries(feature: Ranking, users: Any, items: Any) -> None:
    """Check that users, seen items and sampling are used only where pairs of query and document allow it.

    Raises:
        MetricInputError: rows have both queries and users, or items without ids are to be masked or drawn.
    """
    if users is not None:
        raise MetricInputError("queries= already assign each pair to a row; leave out users=")
    if items is None and (feature.seen is not None or feature.num_negatives is not None):
        raise MetricInputError(
            "documents of queries have no numbers, so they cannot be masked as seen or sampled; leave out "
            "seen= and num_negatives= of the output, or pass the item of each pair as items="
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
        raise MetricInputError("queries= needs scores= and target=, one entry per pair of query and document")
    grades, numbers = as_tensor(target, "target="), as_tensor(queries, "queries=")
    if numbers.is_floating_point() and numbers.numel():
        raise MetricInputError(f"queries must be whole numbers, the query of each pair; got {numbers.dtype}")
    if not scores.is_floating_point():
        raise MetricInputError(f"scores of pairs must be real numbers, got {scores.dtype}")
    numbers = numbers.long()
    ids = None if items is None else as_tensor(items, "items=")
    if ids is not None and not ids.is_floating_point():  # floats are refused where items are read
        ids = ids.long()
    parts = [part for part in (scores, grades, numbers, ids) if part is not None]
    if any(part.ndim != 1 or len(part) != len(numbers) for part in parts):
        labels = ("scores", "target", "queries", "items")[: len(parts)]
        shapes = [str(tuple(part.shape)) for part in parts]
        raise MetricInputError(f"{listed(labels)} must have one entry per pair, got {listed(shapes)}")
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


def read_scores(logits: Any, scores: Any, others: dict[str, Any]) -> Tensor | None:
    """Return the scores from either of their arguments; None if there are none.

    Raises:
        MetricInputError: both are present, or another output is, which a ranking does not have.
    """
    for name in _OTHER:
        if others.pop(name, None) is not None:
            what = "grades, not soft labels" if name.startswith("target") else "scores and no other output"
            raise MetricInputError(f"a ranking needs {what}; got {name}=")
    if logits is not None and scores is not None:
        raise MetricInputError("scores were passed twice, as logits= and as scores=; leave one out")
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
            "a ranking needs scores=, (users, items), or user_factors= and item_factors=; got "
            + (" and ".join(present) or "none of them")
        )
    if scores is not None:
        if scores.ndim != 2 or scores.is_complex() or not scores.is_floating_point():
            whole = scores.ndim == 2 and not scores.is_complex()
            raise MetricInputError(
                f"scores must be real numbers of shape (users, items), got {scores.dtype} "
                f"{tuple(scores.shape)}"
                + ("; if these are scores, not item ids, pass them as floats" if whole else "")
            )
        return GivenScores(scores)
    users, catalogue = as_tensor(user_factors, "user_factors="), as_tensor(item_factors, "item_factors=")
    if users.ndim != 2 or catalogue.ndim != 2 or users.shape[1] != catalogue.shape[1]:
        raise MetricInputError(
            "user_factors must be (users, d) and item_factors (items, d), got "
            f"{tuple(users.shape)} and {tuple(catalogue.shape)}"
        )
    if users.is_complex() or catalogue.is_complex():
        raise MetricInputError(f"factors must be real numbers, got {users.dtype} and {catalogue.dtype}")
    if items is None:
        return FactorScores(users, catalogue)
    near = send_to(as_tensor(items, "items="), users.device).long()
    return FactorScores(users, catalogue, near.masked_fill(near >= len(catalogue), -1))


def read_num_items(scoring: Scoring, side: SideData, *, whole: bool) -> int | None:
    """Return the size of the catalog; None if only candidates are scored and nothing shows it.

    Args:
        scoring: the scores.
        side: the side data.
        whole: whether the columns are the items of the catalog.

    Raises:
        MetricInputError: scores and side data have different numbers of items.
    """
    from_scores, from_side = scoring.shape[1] if whole else scoring.num_items, side.num_items
    if None not in (from_side, from_scores) and from_side != from_scores:
        raise MetricInputError(
            f"there are scores of {from_scores} items, but the catalog has {from_side}; if these are "
            "candidates, pass items="
        )
    return from_side if from_scores is None else from_scores


def read_items(items: Tensor, shape: tuple[int, int], num_items: int | None) -> Tensor:
    """Return the item of each column of each row, -1 for padding.

    Raises:
        MetricInputError: the shape is not that of the scores, or an id is out of range.
    """
    if tuple(items.shape) != shape or items.is_floating_point():
        raise MetricInputError(
            f"items must name the item of each score, as whole numbers of shape {shape}; got {items.dtype} "
            f"of {tuple(items.shape)}"
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
    return f"items must be in 0..{'' if num_items is None else num_items - 1}, or -1 for none"


def read_target(
    target: Any, scoring: Scoring, items: Tensor | None, feature: Ranking, num_items: int | None
) -> tuple[Relevance, Tensor]:
    """Return the relevance, and the target itself if it is dense, otherwise a zero for each row.

    Args:
        target: grades, in any form.
        scoring: the scores.
        items: the item of each score; None where columns are items.
        feature: the output, which defines which grades are relevant.
        num_items: the size of the catalog, where it is known.

    Raises:
        MetricInputError: there is no target, or it does not match the scores.
    """
    if target is None:
        raise MetricInputError("an update needs target=, the relevant items of each row; got scores only")
    (rows, width), threshold, void = scoring.shape, feature.relevance_threshold, feature.unjudged
    if isinstance(target, np.ndarray) or (isinstance(target, Tensor) and target.layout is torch.strided):
        dense = as_tensor(target, "target=")
        if tuple(dense.shape) != (rows, width):
            raise MetricInputError(
                f"the target of scores of shape {(rows, width)} must have the same shape or be sparse; got "
                f"{tuple(dense.shape)}"
            )
        if dense.is_complex():
            raise MetricInputError(f"grades of a target must be real numbers, got {dense.dtype}")
        if dense.device != scoring.device:
            raise MetricInputError(
                f"scores are on {scoring.device}, the target on {dense.device}; move one of them"
            )
        if items is not None:
            dense = dense.masked_fill(items < 0, 0)
        return DenseRelevance(dense, threshold, void), dense
    entries = Interactions.of(target, "target", num_items, finite=False)
    if len(entries) != rows:
        raise MetricInputError(
            f"the target must have one entry per row, {rows} by the scores; got {len(entries)}"
        )
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


def read_seen(side: SideData, users: Tensor | None, width: int) -> Interactions:
    """Return the seen items of each row, for scores over `width` items.

    Raises:
        MetricInputError: users are missing or out of range, or a seen item has no score.
    """
    most = side.derived("last seen", lambda own: int(own.seen.items.max()) if len(own.seen.items) else -1)
    if most >= width:
        raise MetricInputError(f"seen has items up to {most}, but the scores are for items 0..{width - 1}")
    return side.seen_by(known_users(users, len(side.seen), "seen", "seen items are masked"))


def stray_ids(
    items: Any, num_items: int | None, users: Tensor | None, number: int | None
) -> Iterator[tuple[str, Tensor]]:
    """Yield rules for ids on a device, each with a flag that is true if it is broken.

    Args:
        items: the argument `items`.
        num_items: the size of the catalog, where it is known.
        users: the number of the user of each row.
        number: the number of users with seen items, where these are masked.
    """
    if items is not None and not on_host(near := as_tensor(items, "items=")):
        most = torch.iinfo(torch.int64).max if num_items is None else num_items
        yield _range_of_items(num_items), ((near < -1) | (near > most)).any()
    if number is not None and users is not None and not on_host(users):
        yield f"seen has users 0..{number - 1}", ((users < 0) | (users >= number)).any()
