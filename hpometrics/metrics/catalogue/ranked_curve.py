"""Precision against recall of a ranking: the best of one where the other is at least as much."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ...objective import MAXIMIZE
from ..features import RANKING
from ..ranking.lists import Cut
from ..ranking_metric import ListMetric
from ..registry import register_metric

_LEVELS = 10  # eleven levels of recall, 0.0 to 1.0


@register_metric("interpolated_precision", [RANKING], aliases=["iprec_at_recall"])
class InterpolatedPrecision(ListMetric):
    """Best precision at any rank that has found at least a share of the relevant items, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.

    Raises:
        MetricInputError: recall lies outside [0, 1].
    Formula: mean over users of the largest hits@k / k among all k with hits@k >= recall * relevant, 0 where
        none has; without `recall` the mean of this at 0.0, 0.1, ... 1.0 (eleven-point average precision).
    Deviates: trec_eval rounds `recall * relevant` up only from a tenth on, which its eleven levels never
        meet; ranx does as here.
    Source: Manning, Raghavan & Schuetze 2008, Introduction to Information Retrieval.

    >>> import torch
    >>> metric = InterpolatedPrecision(recall=1.0)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 1]]))
    >>> round(metric.compute().item(), 4)  # both are found at rank 3
    0.6667
    """

    objective = MAXIMIZE
    family = "order"

    def __init__(self, recall: float | None = None, **kwargs: Any) -> None:
        super().__init__(None, **kwargs)
        if recall is not None and not 0 <= recall <= 1:
            raise MetricInputError(f"interpolated_precision: recall lies in [0, 1], got {recall!r}")
        self.recall = recall

    def values(self, cut: Cut) -> Tensor:
        """Average over the levels, or take the one."""
        levels = [level / _LEVELS for level in range(_LEVELS + 1)] if self.recall is None else [self.recall]
        precision = torch.where(cut.lists.hits, cut.lists.found / cut.lists.places, 0.0)
        best = [_best(cut, precision, level) for level in levels]
        return torch.stack(best).mean(0)


@register_metric("recall_at_precision", [RANKING], aliases=["retrieval_recall_at_fixed_precision"])
class RankingRecallAtPrecision(ListMetric):
    """Largest recall among lists of 1 to k items whose precision is at least so much, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; 0 for a user none of whose lists is precise enough.
    Formula: mean over users of the largest hits@j / relevant among all j up to k with
        hits@j / j >= min_precision; without k of the whole ranking.
    Source: torchmetrics, `RetrievalRecallAtFixedPrecision`, whose `max_k` is k.

    >>> import torch
    >>> metric = RankingRecallAtPrecision(min_precision=0.6)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # precision is 1, 1 / 2, 2 / 3
    1.0
    """

    objective = MAXIMIZE
    family = "order"

    def __init__(self, min_precision: float, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.min_precision = min_precision

    def values(self, cut: Cut) -> Tensor:
        """Take the last hit that comes soon enough."""
        lists = cut.lists
        fine = lists.hits & (lists.found / lists.places >= self.min_precision)
        return cut.last(torch.where(fine, lists.found, 0.0).cummax(1).values) / cut.relevant


def _best(cut: Cut, precision: Tensor, level: float) -> Tensor:
    """The best precision at a hit with enough found, (rows, 1)."""
    enough = cut.lists.found >= level * cut.relevant - 1e-9
    return torch.where(enough, precision, 0.0).amax(1, keepdim=True)
