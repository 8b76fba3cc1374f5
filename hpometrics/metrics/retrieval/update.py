"""The parsed and checked arguments of one update of a ranking, in whatever form they came."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import send_to
from ..batch import as_tensor, rows_of
from ..features import OutputFeature, Ranking
from .candidates import sample_candidates
from .interactions import Interactions
from .reading import (
    beside,
    check_queries,
    columns_of_items,
    read_items,
    read_num_items,
    read_scores,
    read_scoring,
    read_seen,
    read_target,
    read_users,
    side_by_side,
    stray_ids,
)
from .relevance import DenseRelevance, Relevance, SparseRelevance, may_be_odd, odd_rows
from .scoring import GivenScores, Scoring
from .side_data import SideData


@dataclass(frozen=True, eq=False)
class Update:
    """Rows of scores, with the relevant items of each and the items excluded from its ranking.

    Attributes:
        scoring: the source of the scores, rows over columns.
        side: the side data of the output.
        num_items: the size of the catalogue; None if it is unknown, or if documents without ids are scored.
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
            raise MetricInputError(f"a batch of rankings is of Ranking(), got {feature}")
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
            extras={name: rows_of(value, which, len(self.target)) for name, value in self.extras.items()},
            **{name: value[which] for name, value in own.items() if value is not None},
        )

    def scored(self, scoring: Scoring, weight: Tensor) -> Update:
        """Return the same rows with other scores and weights."""
        return replace(self, scoring=scoring, weight=weight)

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
