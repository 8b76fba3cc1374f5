"""Item totals: how often each item is relevant to a user, or could have been recommended to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ..batch import Outputs
from ..retrieval.ranking_batch import RankingBatch
from .cutoffs import rankings_in
from .statistic import Reduction, Statistic
from .tally import tally


class ItemTotals(Statistic):
    """How many users each item is relevant to, or was on offer to; no lists are read.

    On offer is what has a score above -inf and is not masked: of a sampled evaluation the candidates.

    Args:
        of: `relevant` or `offered`.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"counts": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: Literal["relevant", "offered"]) -> None:
        super().__init__(of=of)

    def check(self, batch: Outputs) -> None:
        """Make sure that the size of the catalogue is known.

        Raises:
            MetricInputError: it is not.
        """
        self._size(batch)

    def update(self, batch: Outputs) -> None:
        """Count the items of each user."""
        ranked = rankings_in(batch)
        count = _relevant if self.params["of"] == "relevant" else _offered
        self.add(counts=count(ranked, ranked.weights, self._size(batch)))

    @property
    def counts(self) -> Tensor:
        """How many users each item has, (items,) float64."""
        return self._state["counts"]

    def _size(self, batch: Outputs) -> int:
        return rankings_in(batch).num_items


def _relevant(batch: RankingBatch, weights: Tensor, size: int) -> Tensor:
    entries = batch.relevant_items
    return tally(entries.items, entries.real(weights[entries.row_of]), size)


def _offered(batch: RankingBatch, weights: Tensor, size: int) -> Tensor:
    counts = torch.zeros(size, dtype=torch.float64, device=weights.device)
    for start, scores in batch.tiles():
        rows = slice(start, start + len(scores))
        offered = (scores > -torch.inf).double()
        if batch.items is None:
            counts += weights[rows] @ offered
        else:
            ids = batch.items[rows].clamp(min=0).view(-1)
            counts += tally(ids, (offered * weights[rows].unsqueeze(1)).view(-1), size)
    return counts
