"""Hits of ranked lists: how many of the relevant items are in the first k, and how early."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...objective import MAXIMIZE
from ..features import RANKING
from ..ranking.lists import Cut
from ..ranking_metric import ListMetric
from ..registry import register_metric


@register_metric("precision", [RANKING], aliases=["retrieval_precision"])
class RankingPrecision(ListMetric):
    """Share of the first k items that are relevant, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of hits@k / k; a list shorter than k is divided by k as well.
    Source: Herlocker et al. 2004, ACM TOIS 22(1).

    >>> import torch
    >>> metric = RankingPrecision(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # one of two
    0.5
    """

    objective = MAXIMIZE
    family = "hits"

    def values(self, cut: Cut) -> Tensor:
        """Divide hits by k."""
        return cut.found / cut.k


@register_metric("recall", [RANKING], aliases=["retrieval_recall"])
class RankingRecall(ListMetric):
    """Share of a user's relevant items that are among the first k, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of hits@k / relevant, or with `capped=true` hits@k / min(relevant, k).
    Source: Herlocker et al. 2004, ACM TOIS 22(1); capped: Liang et al. 2018, WWW.

    >>> import torch
    >>> metric = RankingRecall(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # one of two
    0.5
    """

    objective = MAXIMIZE
    family = "hits"

    def __init__(self, k: int, capped: bool = False, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.capped = capped

    def values(self, cut: Cut) -> Tensor:
        """Divide hits by what could be found."""
        return cut.found / (cut.best_found if self.capped else cut.relevant)
