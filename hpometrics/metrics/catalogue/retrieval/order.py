"""Ranking metrics of how early relevant items come, whatever their grades."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricInputError
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric, WholeMetric
from ...retrieval.lists import Cut

_LEVELS = 10  # eleven levels of recall, 0.0 to 1.0

Norm = Literal["min", "n", "hits"]


class HitOrderMetric(ListMetric):
    """Base class of metrics of how early relevant items come."""

    direction = MAXIMIZE
    family = "order"


@register_metric(
    "mrr",
    [RANKING],
    aliases=["MRR", "mean_reciprocal_rank", "retrieval_mrr", "recip_rank", "reciprocal_rank", "RR"],
)
class MeanReciprocalRank(HitOrderMetric):
    """Mean over users of 1 over the rank of the first relevant item, 0 where it lies behind k.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of 1 / rank of the first hit; without k of the whole ranking.
    Deviates: trec_eval, ranx and torchmetrics count users without a relevant item as 0, as
        `Ranking(empty="neg")`.
    Source: Voorhees 1999, TREC-8.

    >>> import torch
    >>> metric = MeanReciprocalRank(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, 0.5]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute().item()  # (1 + 1 / 2) / 2
    0.75
    """

    reads = "hits"

    def __init__(self, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)

    def values(self, cut: Cut) -> Tensor:
        """Divide 1 by the place of the first hit, where it lies within k."""
        first = cut.lists.product(cut.lists.marks, cut.lists.places.reciprocal()).amax(1, keepdim=True)
        return first * (first >= cut.k.reciprocal())


@register_metric(
    "map",
    [RANKING],
    aliases={
        "AP": "map(norm=n)",
        "MAP": "map",
        "mean_average_precision": "map",
        "retrieval_map": "map(norm=hits)",
        "map_cut": "map(norm=n)",
    },
)
class MeanAveragePrecision(HitOrderMetric):
    """Mean over users of the precision at the ranks of their relevant items.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of the sum, over relevant items among the first k, of hits@rank / rank; divided
        by min(relevant, k), with `norm=n` by relevant, with `norm=hits` by those found (0 where none is).
        Without k, over the whole ranking.
    Deviates: the divisor is min(relevant, k) in WarpRec and RecBole, relevant in trec_eval and ranx, and
        those found in torchmetrics. One list of 10 then has 0.031, 0.016 and 0.214. trec_eval, ranx and
        torchmetrics count users without a relevant item as 0, as `Ranking(empty="neg")`.
    Source: Harman 1992, TREC-1; Buckley & Voorhees 2000, SIGIR.

    >>> import torch
    >>> metric = MeanAveragePrecision(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> round(metric.compute().item(), 4)  # (1 / 1 + 2 / 3) / 2
    0.8333
    """

    reads = "hits"

    def __init__(self, k: int | None = None, norm: Norm = "min", **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.norm = norm

    def values(self, cut: Cut) -> Tensor:
        """Add up precision at the hits."""
        lists = cut.lists
        total = cut.sum(lists.product(lists.marks, lists.found), lists.places.reciprocal())
        if self.norm == "hits":
            return total / cut.found.clamp(min=1)
        return total / (cut.relevant if self.norm == "n" else cut.best_found)


@register_metric("mar", [RANKING], aliases=["MAR", "mean_average_recall"])
class MeanAverageRecall(HitOrderMetric):
    """Mean over users of the sum of the recall at the ranks of the hits, over the most hits possible.

    The order does not matter: h hits among the first k give h (h + 1) / (2 n min(n, k)), of n relevant items.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, higher is better, (min(n, k) + 1) / (2 n) for an ideal list; nan when no
        user has a relevant item.
    Formula: mean over users of the sum, over relevant items among the first k, of hits@rank / relevant;
        divided by min(relevant, k).
    Deviates: Elliot averages recall@1, recall@2 to recall@k, which depends on the order. pycocotools' average
        recall is over overlaps of boxes, not ranks.
    Source: WarpRec, `MAR`.

    >>> import torch
    >>> metric = MeanAverageRecall(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # 1 of 2 at the first rank, over min(2, 2)
    0.25
    """

    family = "relevance"
    reads = "hits"

    def values(self, cut: Cut) -> Tensor:
        """Add up recall at the hits."""
        lists = cut.lists
        return cut.sum(lists.marks * lists.found) / cut.relevant / cut.best_found


@register_metric("r_precision", [RANKING], aliases=["retrieval_r_precision", "rprec", "Rprec", "RPrec"])
class RPrecision(HitOrderMetric, WholeMetric):
    """Share of relevant items among as many as there are relevant ones, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of hits@R / R, where R items are relevant to the user.
    Deviates: trec_eval, ranx and torchmetrics count users without a relevant item as 0, as
        `Ranking(empty="neg")`.
    Source: Craswell 2009, Encyclopedia of Database Systems.

    >>> import torch
    >>> metric = RPrecision()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # one of the first two
    0.5
    """

    def values(self, cut: Cut) -> Tensor:
        """Count the hits that come early enough."""
        return cut.sum(cut.lists.hits & (cut.lists.places <= cut.relevant)) / cut.relevant


@register_metric("interpolated_precision", [RANKING], aliases=["iprec_at_recall"])
class InterpolatedPrecision(HitOrderMetric, WholeMetric):
    """Best precision at any rank that has found at least a share of the relevant items, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.

    Raises:
        MetricInputError: recall lies outside [0, 1].
    Formula: mean over users of the largest hits@k / k among all k with hits@k >= recall * relevant, 0 where
        none has; without `recall` the mean of this at 0.0, 0.1, ... 1.0 (eleven-point average precision).
    Deviates: trec_eval asks for int(recall * relevant + 0.9) found, by which 2 of 3 are a recall of 0.7.
    Source: Manning, Raghavan & Schuetze 2008, Introduction to Information Retrieval.

    >>> import torch
    >>> metric = InterpolatedPrecision(recall=1.0)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 1]]))
    >>> round(metric.compute().item(), 4)  # both are found at rank 3
    0.6667
    """

    def __init__(self, recall: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if recall is not None and not 0 <= recall <= 1:
            raise MetricInputError(f"interpolated_precision: recall must be in [0, 1], got {recall!r}")
        self.recall = recall

    def values(self, cut: Cut) -> Tensor:
        """Average over the levels, or take the one."""
        levels = [level / _LEVELS for level in range(_LEVELS + 1)] if self.recall is None else [self.recall]
        precision = torch.where(cut.lists.hits, cut.lists.found / cut.lists.places, 0.0)
        best = [_best(cut, precision, level) for level in levels]
        return torch.stack(best).mean(0)


def _best(cut: Cut, precision: Tensor, level: float) -> Tensor:
    """Return the best precision at a hit with enough found, (rows, 1)."""
    enough = cut.lists.found >= level * cut.relevant - 1e-9
    return torch.where(enough, precision, 0.0).amax(1, keepdim=True)
