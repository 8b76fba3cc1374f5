"""Overlap of ranked lists with ideal ones: how many items the first 1, 2, ... of both have in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricInputError
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric
from ...retrieval.lists import Cut, Lists
from ...retrieval.ranking_batch import RankingBatch


@register_metric("compat", [RANKING], aliases=["Compat", "compatibility"])
class Compatibility(ListMetric):
    """Rank-biased overlap of a list with the ideal list that is nearest to it, averaged over users.

    An ideal list holds the relevant items, those of the highest grade first; of equal grades those come first
    that do so in the ranking. Without k, of the whole ranking.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.

    Raises:
        MetricInputError: p does not lie between 0 and 1.
    Formula: mean over users of the sum over depths d of p^(d - 1) times the items that the first d of both
        have in common / d, divided by the same of two ideal lists, or with `normalize=false` by the sum of
        p^(d - 1); d goes on to the end of the longer list, and to k
    Deviates: ir_measures puts relevant items that are not ranked among the others as if their score were 0;
        here they come behind them. The paper's own script ends at depth 1000.
    Source: Clarke, Vtyurina & Smucker 2021, ACM TOIS 39(1); overlap: Webber, Moffat & Zobel 2010, ACM TOIS
        28(4).

    >>> import torch
    >>> metric = Compatibility(k=2, p=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 0]]))
    >>> metric.compute().item()  # (0 + 0.5 * 1 / 2) / (1 + 0.5 * 1 / 2)
    0.2
    """

    objective = MAXIMIZE
    family = "order"

    def __init__(self, k: int | None = None, p: float = 0.95, normalize: bool = True, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        if not 0 < p < 1:
            raise MetricInputError(f"compat: p is a probability between 0 and 1, both excluded, got {p!r}")
        self.p, self.normalize = p, normalize

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Count each item from the depth on at which both lists have it."""
        lists, most = cut.lists, cut.best_found.long()
        depth = torch.maximum(batch.listed(cut).long(), most)
        places = torch.arange(1, 1 + max(batch.width, lists.depth), device=most.device, dtype=torch.float64)
        upto = torch.nn.functional.pad((self.p ** (places - 1) / places).cumsum(0), (1, 0))
        both = torch.maximum(lists.places, _ideal_places(lists)).clamp(max=len(upto))  # at depths that count
        met = upto[both.long() - 1].masked_fill(~lists.hits, torch.inf)
        columns = [(upto[deepest].unsqueeze(1) - met).clamp(min=0).sum(1) for deepest in depth.unbind(1)]
        if not self.normalize:
            return torch.stack(columns, dim=1) / self._series(depth)
        return torch.stack(columns, dim=1) / (self._series(most) + most * (upto[depth] - upto[most]))

    def _series(self, terms: Tensor) -> Tensor:
        """The sum of the first so many powers of p."""
        return (1 - self.p ** terms.double()) / (1 - self.p)


def _ideal_places(lists: Lists) -> Tensor:
    """The ranks of items in the ideal list, where equal grades keep their order, (rows, depth) int64."""
    best, order = lists.grades.sort(dim=1, descending=True, stable=True)
    falling = -lists.grades
    earlier = order.argsort(1) - torch.searchsorted(-best, falling)
    return 1 + earlier + torch.searchsorted(-lists.ideal, falling)
