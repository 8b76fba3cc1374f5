"""Ranking metrics that count the relevant items among the first k, in any order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricInputError
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric, TopKMetric
from ...retrieval.lists import Cut
from ...retrieval.ranking_batch import RankingBatch
from ...statistics.statistic import Statistic
from ...statistics.user_values import Reads, UserMeans


class FoundMetric(ListMetric):
    """Base class of functions of the number of relevant items that a list has."""

    direction = MAXIMIZE
    family = "relevance"


@register_metric("precision", [RANKING], aliases=["Precision", "P", "retrieval_precision"])
class RankingPrecision(FoundMetric):
    """Share of the first k items that are relevant, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of hits@k / k; with `shown=true` hits@k / min(k, length of the list), and 0 where
        there is no list.
    Deviates: RecTools and torchmetrics' `adaptive_k` divide by the number of candidates where it is below k,
        as `shown=true`. ranx, ir_measures and torchmetrics count users without a relevant item as 0, which
        is `Ranking(empty="neg")`.
    Source: Herlocker et al. 2004, ACM TOIS 22(1).

    >>> import torch
    >>> metric = RankingPrecision(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # one of two
    0.5
    """

    reads: Reads = "hits"

    def __init__(self, k: int, shown: bool = False, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.shown = shown
        self.reads = "lists" if shown else "hits"

    def values(self, cut: Cut) -> Tensor:
        """Divide hits by k, or by what is shown."""
        return cut.found / (cut.lengths.clamp(min=1) if self.shown else cut.k)


@register_metric("recall", [RANKING], aliases=["Recall", "R", "retrieval_recall"])
class RankingRecall(FoundMetric):
    """Share of a user's relevant items that are among the first k, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of hits@k / relevant, or with `capped=true` hits@k / min(relevant, k).
    Deviates: ranx, ir_measures and torchmetrics count users without a relevant item as 0 (`empty="neg"`);
        papers on variational autoencoders print the capped value under the plain name.
    Source: Herlocker et al. 2004, ACM TOIS 22(1); capped: Liang et al. 2018, WWW.

    >>> import torch
    >>> metric = RankingRecall(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # one of two
    0.5
    """

    reads = "hits"

    def __init__(self, k: int, capped: bool = False, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.capped = capped

    def values(self, cut: Cut) -> Tensor:
        """Divide hits by what could be found."""
        return cut.found / (cut.best_found if self.capped else cut.relevant)


@register_metric(
    "hit_rate", [RANKING], aliases=["Hit", "HitRate", "hits", "retrieval_hit_rate", "success", "Success"]
)
class HitRate(FoundMetric):
    """Share of users who find a relevant item among the first k.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: users with a hit among the first k / users with a relevant item
    Deviates: ranx, ir_measures (`Success`) and torchmetrics count users without a relevant item as 0
        (`empty="neg"`); RecBole's `Hit` is this one.
    Source: Deshpande & Karypis 2004, ACM TOIS 22(1).

    >>> import torch
    >>> metric = HitRate(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, 0.5]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute().item()  # the first of two users
    0.5
    """

    reads = "hits"

    def values(self, cut: Cut) -> Tensor:
        """Check whether there is a hit."""
        return (cut.found > 0).double()


class _WeighedHits(FoundMetric):
    """The weighted harmonic mean of precision and recall of a user, whose beta a subclass gives."""

    beta: float
    reads = "hits"

    def values(self, cut: Cut) -> Tensor:
        """Divide hits, written without the two shares, so that no hit is 0."""
        weight = self.beta**2
        return (1 + weight) * cut.found / (cut.k + weight * cut.relevant)


@register_metric("f1", [RANKING], aliases=["F1"])
class RankingF1(_WeighedHits):
    """Harmonic mean of precision@k and recall@k of a user, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of 2 precision recall / (precision + recall); 0 where both are 0.
    Deviates: the harmonic mean of the averaged precision and recall is another number; WarpRec's `F1` adds up
        from one evaluation to the next.
    Source: van Rijsbergen 1979, Information Retrieval.

    >>> import torch
    >>> metric = RankingF1(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> round(metric.compute().item(), 4)  # precision 1 / 2, recall 1
    0.6667
    """

    beta = 1.0


@register_metric("fbeta", [RANKING])
class RankingFBeta(_WeighedHits):
    """Weighted harmonic mean of precision@k and recall@k of a user, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of (1 + beta^2) precision recall / (beta^2 precision + recall); 0 where both are
        0. With a beta above 1 recall weighs more.
    Source: van Rijsbergen 1979, Information Retrieval.

    >>> import torch
    >>> metric = RankingFBeta(k=2, beta=2.0)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> round(metric.compute().item(), 4)  # 5 * 0.5 * 1 / (4 * 0.5 + 1)
    0.8333
    """

    def __init__(self, k: int, beta: float, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.beta = beta


@register_metric("fall_out", [RANKING], aliases=["retrieval_fall_out"])
class FallOut(ListMetric):
    """Share of what is not relevant to a user that is among the first k, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 0 is best; nan when no user has both a relevant item and another.
    Formula: mean over users of others among the first k / others, of those that are ranked.
    Deviates: torchmetrics counts users without a relevant item too, and one for whom all is relevant as 1.
    Source: van Rijsbergen 1979, Information Retrieval.

    >>> import torch
    >>> metric = FallOut(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute().item()  # one of two
    0.5
    """

    direction = MINIMIZE
    family = "relevance"
    void = "no user has both a relevant and an irrelevant item"

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Divide by the items that are ranked and not relevant; nan where there are none."""
        misses = batch.lists.of_valid(self.values(batch.lists.cut(cutoffs)))
        others = batch.others.unsqueeze(1)
        return torch.where(others > 0, misses / others, torch.nan)

    def values(self, cut: Cut) -> Tensor:
        """Count what is shown and not relevant."""
        return cut.lengths - cut.found


@register_metric("recall_at_precision", [RANKING], aliases=["retrieval_recall_at_fixed_precision"])
class RankingRecallAtPrecision(TopKMetric):
    """Largest recall of lists of 1 to k items, of one length for all users, whose precision suffices.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best, 0 where no length is precise enough; nan when no user has a
        relevant item.

    Raises:
        MetricInputError: min_precision lies outside [0, 1].
    Formula: max of recall@j over all j up to k with precision@j >= min_precision, both averaged over users.
    Source: torchmetrics, `RetrievalRecallAtFixedPrecision`, whose `max_k` is k.

    >>> import torch
    >>> metric = RankingRecallAtPrecision(k=3, min_precision=0.6)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # precision is 1, 1 / 2, 2 / 3
    1.0
    """

    direction = MAXIMIZE
    family = "relevance"

    def __init__(self, k: int, min_precision: float, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        if not 0 <= min_precision <= 1:
            raise MetricInputError(
                f"recall_at_precision: min_precision must be in [0, 1], got {min_precision!r}"
            )
        self.min_precision = min_precision

    def statistics(self) -> dict[str, Statistic]:
        """Keep both shares at each length, together with whoever measures them as well."""
        lengths = tuple(range(1, self.k + 1))
        return {
            "precision": UserMeans("precision", RankingPrecision(self.k).of_batch, lengths),
            "recall": UserMeans("recall", RankingRecall(self.k).of_batch, lengths),
        }

    def compute(self) -> Tensor:
        """Return the value at the best length; nan with a reason where no user has a relevant item."""
        precision, recall = (
            torch.stack([self.statistic(UserMeans, name).mean(length) for length in range(1, self.k + 1)])
            for name in ("precision", "recall")
        )
        if bool(recall.isnan().any()):
            return self.undefined("no user has a relevant item")
        return torch.where(precision >= self.min_precision, recall, 0.0).amax()
