"""Ranking metrics of novelty and popularity bias: whether lists keep to the items that everyone knows."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricInputError
from ...batch import Outputs
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import BaseMetric, ListMetric, TopKMetric
from ...retrieval.lists import Cut
from ...retrieval.ranking_batch import RankingBatch, rankings_in
from ...retrieval.side_data import (
    SideData,
    at_least_one,
    expectedness,
    long_tail,
    popularity,
    rarest,
    share_of_users,
)
from ...statistics.item_counts import ItemCounts, ItemTotals
from ...statistics.statistic import Statistic
from .._batches import draw_biased
from .gain import gains

Relevance = Literal["binary", "discounted"]


class NoveltyMetric(ListMetric):
    """Base class of metrics of how little known the items of lists are."""

    direction = MAXIMIZE
    family = "novelty"


class _Found(NoveltyMetric):
    """Mean novelty of what is found: hits count by their novelty, the more the earlier they come."""

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
        """Return the novelty of each item, (items,) float64."""
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
        """Return the share of users who do not know each item."""
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
        """Return the information in the choice of each item."""
        total = popularity(batch.side, batch.num_items).sum().clamp(min=1)
        return -(at_least_one(batch.side, batch.num_items) / total).log2()


@register_metric("self_information", [RANKING], aliases=["mean_inv_user_freq", "miuf"])
class SelfInformation(NoveltyMetric):
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

    every_user = True
    void = "every list is empty"

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Divide by the length of the list."""
        share = share_of_users(batch.side, batch.num_items)
        return cut.sum(cut.lists.of_items(-share.log2())) / cut.lengths


@register_metric("serendipity", [RANKING])
class Serendipity(NoveltyMetric):
    """Excess certainty, over popularity alone, with which relevant items are recommended, mean over k places.

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

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Compare what the model expects with what popularity expects."""
        lists, items = cut.lists, batch.num_items
        sure = (items + 1 - lists.places) / items
        gap = (sure - lists.of_items(expectedness(batch.side, items))).clamp(min=0)
        return cut.sum(gap * lists.hits) / cut.k


class _ByPopularity(BaseMetric):
    """A metric of the popularity of recommended items.

    Shape: scores, target (users, items); `item_popularity` or `seen` of the `Ranking`.

    Raises:
        MetricInputError: popularity is not given.
    """

    family = "popularity"


class _OfTail(_ByPopularity):
    """A metric that separates the head, the most popular items, from the long tail of the others."""

    def __init__(self, k: int, pop_ratio: float = 0.8, **kwargs: Any) -> None:
        super().__init__(k=k, **kwargs)
        self.pop_ratio = _share("pop_ratio", pop_ratio)


class _LongTail(_OfTail, ListMetric):
    """A count of list items in the long tail: the items that are not the most popular ones."""

    direction = MAXIMIZE
    reads = "lists"
    counts_empty = False

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Count the items in the tail."""
        tail = long_tail(batch.side, batch.num_items, self.pop_ratio)
        return self.of_counts(cut.sum(cut.lists.of_items(tail)), cut)

    def of_counts(self, counts: Tensor, cut: Cut) -> Tensor:
        """Convert how many items each list of each k has in the tail to the user's value."""
        return counts


@register_metric("aclt", [RANKING], aliases=["ACLT"])
class ACLT(_LongTail):
    """Number of items of a list of k that are in the long tail, averaged over users.

    The head are the most popular items, up to and with the one whose interactions exceed `pop_ratio` of all,
    the first of equally popular ones. The tail is the rest, none with `pop_ratio=1`. Users without a
    relevant item are left out.

    Value: float from 0, items, more is better, up to k; nan when no user has a relevant item.
    Formula: mean over users of list items in the tail
    Deviates: WarpRec takes any of equally popular items for the head, and fails with `pop_ratio=1`.
    Source: Abdollahpouri, Burke & Mobasher 2019, arXiv 1901.07555.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = ACLT(k=2)
    >>> metric.output = Ranking(item_popularity=torch.tensor([9, 1, 1]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), [[0]])
    >>> metric.compute().item()  # item 0 has 9 of 11 and is the head
    1.0
    """


@register_metric("aplt", [RANKING], aliases=["APLT"])
class APLT(_LongTail):
    """Share of the items of a list of k that are in the long tail, averaged over users.

    The head are the most popular items, up to and with the one whose interactions exceed `pop_ratio` of all,
    the first of equally popular ones. The tail is the rest, none with `pop_ratio=1`. Users without a
    relevant item are left out, as are those whose list is empty.

    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item and a list.
    Formula: mean over users of list items in the tail / length of the list
    Deviates: WarpRec divides a list shorter than k by k, takes any of equally popular items for the head, and
        fails with `pop_ratio=1`.
    Source: Abdollahpouri, Burke & Mobasher 2019, arXiv 1901.07555.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = APLT(k=2)
    >>> metric.output = Ranking(item_popularity=torch.tensor([9, 1, 1]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), [[0]])
    >>> metric.compute().item()  # one of two is not the head
    0.5
    """

    void = "no user has a relevant item and a list"

    def of_counts(self, counts: Tensor, cut: Cut) -> Tensor:
        """Divide by the length of the list."""
        return counts / cut.lengths


@register_metric("tail_percentage", [RANKING])
class TailPercentage(_ByPopularity, ListMetric):
    """Share of the items of a list of k that are among the least popular `tail_ratio` of the catalog.

    Every user counts whose list is not empty. Of equally popular items the first ones are taken, one item at
    least.

    Value: float in [0, 1], no unit, more is better; nan when every list is empty.

    Raises:
        MetricInputError: popularity is not given, or `tail_ratio` does not lie in (0, 1].
    Formula: mean over users of list items among the rarest tail_ratio of all items / length of the list
    Deviates: RecBole leaves items that nobody interacted with out of the tail.
    Source: RecBole's TailPercentage.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = TailPercentage(k=2, tail_ratio=0.5)
    >>> metric.output = Ranking(item_popularity=torch.tensor([9, 5, 3, 1]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.8, 0.1]]), [[0]])
    >>> metric.compute().item()  # of items 0 and 2 the second is among the last two
    0.5
    """

    direction = MAXIMIZE
    every_user = True
    void = "every list is empty"

    def __init__(self, k: int, tail_ratio: float = 0.1, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.tail_ratio = _share("tail_ratio", tail_ratio)

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Divide by the length of the list."""
        rare = rarest(batch.side, batch.num_items, self.tail_ratio)
        return cut.sum(cut.lists.of_items(rare)) / cut.lengths


@register_metric("arp", [RANKING], aliases=["ARP"])
class ARP(_ByPopularity, ListMetric):
    """Average popularity of recommended items: the interactions of each in training, over lists of k.

    Users without a relevant item are left out, as are those whose list is empty. An item that nobody
    interacted with counts as one interaction.

    Value: float from 0, interactions, less is better; nan when no user has a relevant item and a list.
    Formula: mean over users of mean over the items of the list of their interactions
    Deviates: WarpRec counts masked and padded places as items; RecBole's AveragePopularity counts an item
        that nobody interacted with 0.
    Source: Yin et al. 2012, PVLDB 5(9).

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = ARP(k=2)
    >>> metric.output = Ranking(item_popularity=torch.tensor([9, 5, 0]))
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), [[0]])
    >>> metric.compute().item()  # (9 + 1) / 2
    5.0
    """

    direction = MINIMIZE
    reads = "lists"
    counts_empty = False
    void = "no user has a relevant item and a list"

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Divide by the length of the list."""
        return cut.sum(cut.lists.of_items(at_least_one(batch.side, batch.num_items))) / cut.lengths


class _HeadAndTail(_OfTail, TopKMetric):
    """The spread of a rate between head and tail: the deviation of the two rates over their mean."""

    direction = MINIMIZE
    draw_batch = staticmethod(draw_biased)

    def require(self, batch: Outputs) -> None:
        """Check that popularity is known before anything is counted."""
        super().require(batch)
        ranked = rankings_in(batch)
        popularity(ranked.side, ranked.num_items)

    def compute(self) -> Tensor:
        """Compare the rates; nan with a reason where one of them, or their mean, is nothing to divide by."""
        counts, totals = self.statistic(ItemCounts).at(self.k), self.statistic(ItemTotals).counts
        tail = long_tail(SideData.of(self.output, counts.device), len(counts), self.pop_ratio)  # type: ignore[arg-type]  # a ranking
        of, out_of = (torch.stack([part[~tail].sum(), part[tail].sum()]) for part in (counts, totals))
        if not bool((out_of > 0).all()):
            empty = "head" if not out_of[0] > 0 else "tail"
            return self.undefined(f"no item of the {empty} is {self.statistic(ItemTotals).params['of']}")
        rates = of / out_of
        return (
            rates.std(correction=0) / rates.mean() if of.sum() > 0 else self.undefined("nothing to compare")
        )


@register_metric("pop_reo", [RANKING], aliases=["PopREO"])
class PopREO(_HeadAndTail):
    """Difference of head and tail in the chance that a relevant item is found in a list of k.

    The head are the most popular items, up to and with the one whose interactions exceed `pop_ratio` of all,
    the first of equally popular ones. All users are pooled; one without a relevant item adds nothing.

    Value: float in [0, 1], no unit, 0 is best; nan when head or tail has no relevant item, or nothing is
        found.
    Formula: std(p) / mean(p) of the two rates p = hits of the group / relevant of the group
    Deviates: WarpRec before 2.0 counts all items of the lists, not hits.
    Source: Zhu, Wang & Caverlee 2020, SIGIR.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = PopREO(k=1)
    >>> metric.output = Ranking(item_popularity=torch.tensor([9, 1]))
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.2, 0.7], [0.9, 0.5]]), [[0], [1], [1]])
    >>> round(metric.compute().item(), 4)  # rates 1 and 1/2: 0.25 / 0.75
    0.3333
    """

    def statistics(self) -> dict[str, Statistic]:
        """Count hits and relevant items."""
        return {"hits": ItemCounts("hits", (self.k,)), "relevant": ItemTotals("relevant")}


@register_metric("pop_rsp", [RANKING], aliases=["PopRSP"])
class PopRSP(_HeadAndTail):
    """Difference of head and tail in the chance that an item on offer is recommended in a list of k.

    The head are the most popular items, up to and with the one whose interactions exceed `pop_ratio` of all,
    the first of equally popular ones. All users are pooled, with or without a relevant item. On offer is
    what is not masked: of a sampled evaluation the candidates.

    Value: float in [0, 1], no unit, 0 is best; nan when nothing of head or tail is on offer.
    Formula: std(p) / mean(p) of the two rates p = list items of the group / items of the group on offer
    Deviates: WarpRec before 2.0 divides by the size of the group.
    Source: Zhu, Wang & Caverlee 2020, SIGIR.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = PopRSP(k=1)
    >>> metric.output = Ranking(item_popularity=torch.tensor([9, 1, 1]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.1]]), [[0], [0]])
    >>> round(metric.compute().item(), 4)  # rates 1/2 and 1/4: 0.125 / 0.375
    0.3333
    """

    def statistics(self) -> dict[str, Statistic]:
        """Count items of lists and items on offer."""
        return {"lists": ItemCounts("lists", (self.k,)), "offered": ItemTotals("offered")}


def _share(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise MetricInputError(f"{name} must be a share above 0 and at most 1; got {value!r}")
    return value
