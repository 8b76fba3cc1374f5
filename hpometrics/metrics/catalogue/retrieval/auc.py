"""Ranking metrics of how often a relevant item has a higher score than one that is not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric, WholeMetric
from ...retrieval.lists import Cut, Lists
from ...retrieval.ranking_batch import RankingBatch
from ...statistics.statistic import Statistic
from ...statistics.user_values import UserMeans


class AreaMetric(ListMetric):
    """Base class of the chances that a relevant item has a higher score than another one."""

    direction = MAXIMIZE
    family = "areas"
    counts_empty = False
    void = "no user has both a relevant and an irrelevant item"


@register_metric("gauc", [RANKING], aliases=["GAUC", "roc_auc", "auroc", "retrieval_auroc"])
class GroupedAUC(AreaMetric, WholeMetric):
    """Chance that a relevant item of a user has a higher score than another one, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best, 0.5 is chance; nan when no user has both a relevant item and
        another.
    Formula: mean over users of pairs in the right order / pairs, a tie being half of one.
    Deviates: WarpRec adds one to the others of each user, and orders ties by chance. In a sampled evaluation,
        it divides by the catalog instead of the candidates. RecBole's `GAUC` is `auc` here. Zhu et al.
        weigh users by their impressions. torchmetrics counts a user without a relevant item, or without
        an irrelevant one, as 0.
    Source: Rendle et al. 2009, UAI; Zhu et al. 2017, KDD.

    >>> import torch
    >>> metric = GroupedAUC()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 0]]))
    >>> metric.compute().item()  # above one of two
    0.5
    """

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Divide right pairs by pairs; nan where there are none."""
        right, positives, others = batch.areas
        return (right / (positives * others)).unsqueeze(1)


@register_metric("auc", [RANKING], aliases=["AUC"])
class PooledAUC(AreaMetric, WholeMetric):
    """Chance that a relevant item has a higher score than another one of its user, over all relevant items.

    Users count by the number of their relevant items; `gauc` counts them alike.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best, 0.5 is chance; nan when no user has both a relevant item and
        another.
    Formula: mean over relevant items of all users of others with a lower score / others, a tie being half.
    Deviates: WarpRec and Elliot divide by one more than the others, and order ties by chance. In a sampled
        evaluation, WarpRec divides by the catalog instead of the candidates, so that chance is 0.95.
    Source: Hanley & McNeil 1982, Radiology 143(1); Rendle et al. 2009, UAI.

    >>> import torch
    >>> metric = PooledAUC()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([[1, 1, 0], [0, 0, 1]]))
    >>> round(metric.compute().item(), 4)  # 1, 1 and 0
    0.6667
    """

    def statistics(self) -> dict[str, Statistic]:
        """Keep sum and weight alone: values of users, who do not count alike, would be those of `gauc`."""
        return {"users": UserMeans(self.formula, self.of_batch, (0,))}

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Weight each user's share by how many relevant items the user has."""
        right, positives, others = batch.areas
        return (right / (positives * others)).unsqueeze(1), positives.unsqueeze(1)


@register_metric("lauc", [RANKING], aliases=["LAUC"])
class LimitedAUC(AreaMetric):
    """Area under the curve within the first k items, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has both a relevant item and another.
    Formula: mean over users of the sum, over relevant items among the first k, of
        1 - others before it / others; divided by min(relevant, k). Ties count in the order of the list.
    Deviates: WarpRec adds one to the others, and in a sampled evaluation divides by the catalog instead of
        the candidates. The paper draws a straight line on from the k-th item.
    Source: Schroeder, Thiele & Lehner 2011, UCERSTI 2.

    >>> import torch
    >>> metric = LimitedAUC(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 0]]))
    >>> metric.compute().item()  # one of two others comes before
    0.5
    """

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Divide areas by what an ideal list has; nan where there is nothing else."""
        lists, others = batch.lists, batch.others.unsqueeze(1)
        cut = lists.cut(cutoffs)
        area = cut.sum(torch.where(lists.hits, 1 - _before(lists) / others, 0.0)) / cut.best_found
        return lists.of_valid(torch.where(others > 0, area, torch.nan))


@register_metric("partial_auc", [RANKING])
class PartialAUC(AreaMetric):
    """Chance that a relevant item comes before one of the k best others, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has both a relevant item and another.
    Formula: mean over users of pairs in the right order / pairs, of relevant items and the k others that come
        first. Ties count in the order of the ranking.
    Source: Dodd & Pepe 2003, Biometrics 59(3).

    >>> import torch
    >>> metric = PartialAUC(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # item 0 comes before item 1, item 2 does not
    0.5
    """

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Count, for each relevant item, which of the first others come after it."""
        lists, others = batch.whole, batch.others
        before, ranked = _before(lists), lists.hits.sum(1)
        columns = []
        for k in cutoffs:
            first = others.clamp(max=k)
            right = torch.where(lists.hits, first.unsqueeze(1) - before, 0.0).clamp(min=0).sum(1)
            columns.append(right / (first * ranked))
        return torch.stack(columns, dim=1)


@register_metric("pairwise_accuracy", [RANKING])
class PairwiseAccuracy(AreaMetric):
    """Chance that a relevant item of a list of k comes before another one of the list, averaged over users.

    Without k of the whole ranking, where it is `gauc`, but that ties count in the order of the ranking. Users
    whose list has no relevant item, or no other, are left out.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has both in a list.
    Formula: mean over users of pairs in the right order / pairs, of relevant items and others, both among the
        first k
    Deviates: ir_measures refuses a list without another item.
    Source: ir_measures, `Accuracy`.

    >>> import torch
    >>> metric = PairwiseAccuracy(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.3, 0.1]]), torch.tensor([[0, 1, 0, 1]]))
    >>> metric.compute().item()  # item 1 comes behind item 0 and before item 2
    0.5
    """

    void = "no user has both a relevant and an irrelevant item in the list"

    def __init__(self, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Count, for each relevant item, which others come before it."""
        lists = cut.lists
        pairs = cut.found * (batch.listed(cut) - cut.found)
        wrong = cut.sum(torch.where(lists.hits, _before(lists), 0.0))
        return torch.where(pairs > 0, 1 - wrong / pairs, torch.nan)


@register_metric("log_loss", [RANKING], aliases=["LogLoss", "logloss"])
class RankingLogLoss(WholeMetric):
    """Mean of -log p of whether an item is relevant, over the items of a user and then over users.

    The probability that an item is relevant is the sigmoid of its score: this is for models whose scores are
    logits. Grades count as relevant or not.

    Shape: scores, target (users, items).
    Value: float from 0, in nats, 0 is best; nan when no user has a ranked item.
    Formula: mean over users of the mean over ranked items of log(1 + exp(-s)) where the item is relevant,
        log(1 + exp(s)) where it is not.
    Deviates: averaged by user, those without a relevant item too, as in WarpRec; pooled over items, users
        with many candidates weigh more.
    Source: Good 1952, Journal of the Royal Statistical Society B 14(1).

    >>> import torch
    >>> metric = RankingLogLoss()
    >>> metric.update(torch.tensor([[0.0, -torch.inf]]), torch.tensor([[1, 0]]))
    >>> round(metric.compute().item(), 4)  # log(2); -inf is not a candidate
    0.6931
    """

    direction = MINIMIZE
    family = "areas"
    every_user = True
    void = "no user has a ranked item"

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Average over the items that are ranked."""
        losses = torch.empty(len(batch), dtype=torch.float64, device=batch.target.device)
        for start, scores in batch.tiles():
            entries = batch.relevance.entries.part(start, start + len(scores))
            row = entries.row_of
            own = entries.real(scores[row, entries.items].double(), -torch.inf)
            total = torch.nn.functional.softplus(scores.double()).sum(1)
            total.index_add_(0, row, own.masked_fill(own == -torch.inf, 0.0), alpha=-1)
            losses[start : start + len(scores)] = total / (scores > -torch.inf).sum(1)
        return losses.unsqueeze(1)


def _before(lists: Lists) -> Tensor:
    """Return how many items that are not relevant stand before each relevant place, (rows, depth)."""
    return lists.places - lists.found
