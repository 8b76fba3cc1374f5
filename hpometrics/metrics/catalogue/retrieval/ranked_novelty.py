"""Novelty of ranked lists: how few users know the items that are recommended."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from ....direction import MAXIMIZE
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric
from ...retrieval.lists import Cut
from ...retrieval.popularity import at_least_one, expected, popularity, share_of_users
from ...retrieval.ranking_batch import RankingBatch
from .gain import gains

Relevance = Literal["binary", "discounted"]


class _Found(ListMetric):
    """Mean novelty of what is found: hits count by their novelty, the more the earlier they come."""

    objective = MAXIMIZE
    family = "novelty"

    def __init__(self, k: int, relevance: Relevance = "binary", **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.relevance = relevance

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Divide by the discounts of k places."""
        lists = cut.lists
        worth = gains(lists.grades, "binary" if self.relevance == "binary" else "warprec")
        novel = lists.of_items(self.novelty(batch))
        return cut.sum(worth * novel * lists.discounts) / cut.sum(lists.discounts)

    def novelty(self, batch: RankingBatch) -> Tensor:
        """How novel each item is, (items,) float64."""
        raise NotImplementedError(f"{type(self).__name__} needs novelty(batch)")


@register_metric("epc", [RANKING], aliases=["EPC"])
class EPC(_Found):
    """Expected popularity complement: the share of users who do not know an item, where it is a hit.

    Users without a relevant item are left out; an item that nobody interacted with counts as one user's.

    Shape: scores, target (users, items); `item_popularity` and `num_users` of the `Ranking`, or `seen`.
    Value: float from 0, no unit, more is better, below 1 with `relevance=binary`; nan when no user has a
        relevant item.

    Raises:
        MetricInputError: popularity is not given, or an item has more interactions than there are users.
    Formula: mean over users of sum of rel d (1 - n / U) over the first k / sum of d over k places, where
        d = 1 / log2(rank + 1), n of U users know the item, and rel is 1 if it is relevant, with
        `relevance=discounted` 2^(r + 1) - 1
    Source: Vargas & Castells 2011, RecSys.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = EPC(k=1)
    >>> metric.output = Ranking(item_popularity=torch.tensor([1, 3]), num_users=4)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.2, 0.7]]), [[0], [1]])
    >>> metric.compute().item()  # (3/4 + 1/4) / 2
    0.5
    """

    def novelty(self, batch: RankingBatch) -> Tensor:
        """The share of users who do not know each item."""
        return 1 - share_of_users(batch.side, batch.num_items)


@register_metric("efd", [RANKING], aliases=["EFD"])
class EFD(_Found):
    """Expected free discovery: the information in an item, where it is a hit.

    Users without a relevant item are left out; an item that nobody interacted with counts as one interaction.

    Shape: scores, target (users, items); `item_popularity` or `seen` of the `Ranking`.
    Value: float from 0, bits, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: popularity is not given.
    Formula: mean over users of sum of rel d (-log2(n / N)) over the first k / sum of d over k places, where
        d = 1 / log2(rank + 1), the item has n of all N interactions, and rel is 1 if it is relevant, with
        `relevance=discounted` 2^(r + 1) - 1
    Source: Vargas & Castells 2011, RecSys.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = EFD(k=1)
    >>> metric.output = Ranking(item_popularity=torch.tensor([1, 3]))
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, 0.5]]), [[0], [1]])
    >>> metric.compute().item()  # one of four interactions: 2 bits, found by one of two users
    1.0
    """

    def novelty(self, batch: RankingBatch) -> Tensor:
        """The information in the choice of each item."""
        total = popularity(batch.side, batch.num_items).sum().clamp(min=1)
        return -(at_least_one(batch.side, batch.num_items) / total).log2()


@register_metric("self_information", [RANKING], aliases=["mean_inv_user_freq", "miuf"])
class SelfInformation(ListMetric):
    """Mean self-information of recommended items, relevant or not: how few users know them.

    Users whose list is empty are left out; those without a relevant item count. An item that nobody
    interacted with counts as one user's.

    Shape: scores, target (users, items); `item_popularity` and `num_users` of the `Ranking`, or `seen`.
    Value: float from 0, bits, more is better; nan when every list is empty.

    Raises:
        MetricInputError: popularity is not given, or an item has more interactions than there are users.
    Formula: mean over users of mean over the items of the list of -log2(n / U), n of U users know the item
    Source: Zhou et al. 2010, PNAS 107(10); RecTools' MeanInvUserFreq.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = SelfInformation(k=2)
    >>> metric.output = Ranking(item_popularity=torch.tensor([1, 4]), num_users=4)
    >>> metric.update(torch.tensor([[0.9, 0.5]]), [[0]])
    >>> metric.compute().item()  # (2 + 0) / 2
    1.0
    """

    objective = MAXIMIZE
    family = "novelty"
    every_user = True
    void = "every list is empty"

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Divide by the length of the list."""
        known = share_of_users(batch.side, batch.num_items)
        return cut.sum(cut.lists.of_items(-known.log2())) / cut.lengths


@register_metric("serendipity", [RANKING])
class Serendipity(ListMetric):
    """How much surer than by popularity alone relevant items are recommended, averaged over k places.

    Users without a relevant item are left out.

    Shape: scores, target (users, items); `item_popularity` or `seen` of the `Ranking`.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: popularity is not given.
    Formula: mean over users of 1 / k sum of max(rank of popularity - rank, 0) / I over the relevant of the
        first k; equally popular items have one rank, of one that nobody knows it is I + 1
    Deviates: RecTools counts users without a relevant item 0 (`empty="neg"`), and divides a short list by
        its length.
    Source: RecTools' Serendipity, after Ge, Delgado-Battenfeld & Jannach 2010, RecSys.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = Serendipity(k=1)
    >>> metric.output = Ranking(item_popularity=torch.tensor([5, 4, 3, 2]))
    >>> metric.update(torch.tensor([[0.1, 0.2, 0.3, 0.4]]), [[3]])
    >>> metric.compute().item()  # the least popular of four comes first: (4 - 1) / 4
    0.75
    """

    objective = MAXIMIZE
    family = "novelty"

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Compare what the model expects with what popularity expects."""
        lists, items = cut.lists, batch.num_items
        sure = (items + 1 - lists.places) / items
        gap = (sure - lists.of_items(expected(batch.side, items))).clamp(min=0)
        return cut.sum(gap * lists.hits) / cut.k
