"""Ranking metrics that compare groups of items, or groups of users."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ...batch import Outputs
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import TopKMetric
from ...retrieval.lists import Cut, Lists
from ...retrieval.ranking_batch import RankingBatch, rankings_in
from ...retrieval.side_data import SideData
from ...statistics.item_counts import ItemCounts, ItemMeans, ItemTotals
from ...statistics.statistic import Statistic
from ...statistics.user_values import GroupMeans
from .._batches import draw_pushed_items, draw_pushed_users
from .gain import Gain, RankingNDCG, gains

TOO_FEW = "fewer than two groups of {} to compare"


def mean_gap(means: Tensor) -> Tensor:
    """Return the mean absolute difference over pairs of values that are not nan; nan of fewer than two."""
    values = means[~means.isnan()].unsqueeze(1)
    return torch.nn.functional.pdist(values, p=1).mean()


def relative_spread(rates: Tensor) -> Tensor:
    """Return standard deviation / mean of values that are not nan; nan of fewer than two, or of mean 0."""
    values = rates[~rates.isnan()]
    return values.std(correction=0) / values.mean() if len(values) > 1 else values.new_tensor(torch.nan)


class RateSpread(TopKMetric):
    """A metric of how unequal the rates are at which groups of items are listed, of those that could be."""

    direction = MINIMIZE
    family = "fairness"

    def require(self, batch: Outputs) -> None:
        """Check that the groups of items are known before anything is counted."""
        super().require(batch)
        _ = rankings_in(batch).item_groups

    def compute(self) -> Tensor:
        """Compare the rates; nan with a reason where there are fewer than two, or all are 0."""
        counts, totals = self.statistic(ItemCounts).at(self.k), self.statistic(ItemTotals).counts
        side = SideData.of(self.output, counts.device)  # type: ignore[arg-type]  # a ranking was measured
        rates = _of_groups(side, counts) / _of_groups(side, totals)
        spread = relative_spread(rates)
        few = int((~rates.isnan()).sum()) < 2
        reason = TOO_FEW.format("items") if few else "the lists contain no item of a known group"
        return self.undefined(reason) if bool(spread.isnan()) else spread


def _of_groups(side: SideData, counts: Tensor) -> Tensor:
    """Add up the counts of items, (items,), by group; items of no known group are left out."""
    groups = side.item_groups[: len(counts)]
    has_group = groups >= 0
    return counts.new_zeros(side.num_item_groups).index_add(0, groups[has_group], counts[has_group])


@register_metric("reo", [RANKING], aliases=["REO", "ranking_based_equal_opportunity"])
class EqualOpportunity(RateSpread):
    """Inequality of the chances that relevant items of different groups are listed.

    Needs `Ranking(item_groups=...)`; items of group -1 are in no group.

    Shape: scores, target (users, items).
    Value: float from 0, no unit, 0 is best: all groups have the same rate; nan when fewer than two groups
        have a relevant item, or nothing is found.
    Formula: std / mean over groups of hits@k in the group / relevant items of the group, over all users; std
        divides by the number of groups.
    Deviates: WarpRec counts items of unknown group as a group.
    Source: Zhu, Wang & Caverlee 2020, Measuring and Mitigating Item Under-Recommendation Bias, SIGIR.

    >>> from hpometrics import Ranking
    >>> metric = EqualOpportunity(k=1)
    >>> metric.output = Ranking(item_groups=[0, 0, 1])
    >>> metric.update(torch.tensor([[3.0, 2, 1], [1.0, 2, 3]]), torch.tensor([[1, 1, 1], [0, 0, 1]]))
    >>> metric.compute().item()  # rates 1 of 2 and 1 of 2
    0.0
    """

    def statistics(self) -> dict[str, Statistic]:
        """Count hits and relevant items."""
        return {"hits": ItemCounts("hits", (self.k,)), "relevant": ItemTotals("relevant")}


@register_metric("rsp", [RANKING], aliases=["RSP", "ranking_based_statistical_parity"])
class StatisticalParity(RateSpread):
    """Inequality of the chances that items of different groups are listed, relevant or not.

    Needs `Ranking(item_groups=...)`; items of group -1 are in no group. What a user has seen, and what is not
    a candidate, could not be listed and is not counted.

    Shape: scores, target (users, items).
    Value: float from 0, no unit, 0 is best: all groups have the same rate; nan when fewer than two groups
        are on offer, or nothing is listed.
    Formula: std / mean over groups of listed items of the group / items of the group on offer, over all
        users; std divides by the number of groups.
    Deviates: WarpRec counts items of unknown group as a group; its version 1 estimates what is on offer.
    Source: Zhu, Wang & Caverlee 2020, Measuring and Mitigating Item Under-Recommendation Bias, SIGIR.

    >>> from hpometrics import Ranking
    >>> metric = StatisticalParity(k=1)
    >>> metric.output = Ranking(item_groups=[0, 0, 1])
    >>> metric.update(torch.tensor([[3.0, 2, 1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute().item()  # rates 1/2 and 0
    1.0
    """

    def statistics(self) -> dict[str, Statistic]:
        """Count items of lists and items on offer."""
        return {"lists": ItemCounts("lists", (self.k,)), "offered": ItemTotals("offered")}


class ItemGap(TopKMetric):
    """A metric of how far apart groups of items are, each the mean of its items' own means over lists."""

    direction = MINIMIZE
    family = "fairness"
    draw_batch = staticmethod(draw_pushed_items)

    def statistics(self) -> dict[str, Statistic]:
        """Keep the mean of each item."""
        return {"items": ItemMeans(self.formula, self.of_places, (self.k,))}

    def of_places(self, lists: Lists) -> Tensor:
        """Measure each place of lists, (rows, depth) float64; nan where a place counts for nothing."""
        raise NotImplementedError(f"{type(self).__name__} needs of_places(lists)")

    def compute(self) -> Tensor:
        """Average the items of each group and compare; nan with a reason of fewer than two groups."""
        means = self.statistic(ItemMeans).means(self.k)
        side = SideData.of(self.output, means.device)  # type: ignore[arg-type]  # a ranking was measured
        valid = ~means.isnan() & (side.item_groups >= 0)
        groups, own = side.item_groups[valid], means[valid]
        none = own.new_zeros(side.num_item_groups)
        total, number = (none.index_add(0, groups, part) for part in (own, torch.ones_like(own)))
        gap = mean_gap(total / number)
        return self.undefined(TOO_FEW.format("items")) if bool(gap.isnan()) else gap


@register_metric("item_mad_ranking", [RANKING], aliases={"ItemMADRanking": "item_mad_ranking(gain=warprec)"})
class ItemMADRanking(ItemGap):
    """Mean absolute difference between groups of items in what their items gain per time they are listed.

    Needs `Ranking(item_groups=...)`; items of group -1 are in no group.

    Shape: scores, target (users, items), grades from 0.
    Value: float from 0, in units of gain, 0 is best; nan when fewer than two groups are listed.
    Formula: an item's value is the mean gain at its places within the first k, 0 where it is not relevant,
        with no discount by rank; a group's the mean over its listed items; the value is the mean of
        |difference| over pairs of groups. Gains as in `ndcg`.
    Deviates: WarpRec's is `gain=warprec`, which its spelling means, and 0 of fewer than two groups.
    Source: Deldjoo et al. 2021, User Modeling and User-Adapted Interaction 31; Zhu, Hu & Caverlee 2018, CIKM.

    >>> from hpometrics import Ranking
    >>> metric = ItemMADRanking(k=2)
    >>> metric.output = Ranking(item_groups=[0, 0, 1])
    >>> metric.update(torch.tensor([[3.0, 1, 2], [3.0, 2, 1]]), torch.tensor([[1, 0, 1], [0, 0, 1]]))
    >>> metric.compute().item()  # items 1/2, 0 and 1; groups 1/4 and 1
    0.75
    """

    def __init__(self, k: int, gain: Gain = "linear", **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.gain = gain

    def of_places(self, lists: Lists) -> Tensor:
        """Return the gain of each place."""
        return gains(lists.grades, self.gain)


@register_metric("item_mad_rating", [RANKING], aliases=["ItemMADRating"])
class ItemMADRating(ItemGap):
    """Mean absolute difference between groups of items in the scores of their items that are found.

    Needs `Ranking(item_groups=...)`; items of group -1 are in no group.

    Shape: scores, target (users, items).
    Value: float from 0, in units of the scores, 0 is best; nan when items of fewer than two groups are
        found.
    Formula: an item's value is the mean score where it is relevant within the first k; a group's the mean
        over its found items; the value is the mean of |difference| over pairs of groups.
    Deviates: WarpRec gives 0 of fewer than two groups.
    Source: Deldjoo et al. 2021, User Modeling and User-Adapted Interaction 31; Zhu, Hu & Caverlee 2018, CIKM.

    >>> from hpometrics import Ranking
    >>> metric = ItemMADRating(k=2)
    >>> metric.output = Ranking(item_groups=[0, 0, 1])
    >>> metric.update(torch.tensor([[5.0, 1, 2], [3.0, 4, 1]]), torch.tensor([[1, 0, 1], [0, 1, 0]]))
    >>> metric.compute().item()  # (5 + 4) / 2 and 2
    2.5
    """

    def of_places(self, lists: Lists) -> Tensor:
        """Return the scores of hits."""
        return torch.where(lists.hits, lists.values.double(), torch.nan)


class UserGap(TopKMetric):
    """A metric of how far apart groups of users are, each the mean of its users' values."""

    direction = MINIMIZE
    family = "fairness"

    def statistics(self) -> dict[str, Statistic]:
        """Keep the mean of each group."""
        return {"groups": GroupMeans(self.formula, self.of_batch, (self.k,))}

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Measure a batch at several cut-offs; users without a relevant item have no value by default."""
        return batch.of_valid(self.values(batch.lists.cut(cutoffs)), self.counts_empty)

    def values(self, cut: Cut) -> Tensor:
        """Measure each user at each k, (users, cut-offs) float64; nan for a user who has no value."""
        raise NotImplementedError(f"{type(self).__name__} needs values(cut)")

    def compute(self) -> Tensor:
        """Compare the groups; nan with a reason of fewer than two."""
        gap = mean_gap(self.statistic(GroupMeans).means(self.k))
        return self.undefined(TOO_FEW.format("users")) if bool(gap.isnan()) else gap


@register_metric("user_mad_ranking", [RANKING], aliases={"UserMADRanking": "user_mad_ranking(gain=warprec)"})
class UserMADRanking(UserGap):
    """Mean absolute difference between groups of users in their mean nDCG.

    Needs `Ranking(user_groups=...)` and `users=`; users of group -1 are in no group.

    Shape: scores, target (users, items), grades from 0; users (users,) int.
    Value: float in [0, 1], no unit, 0 is best: all groups are served equally well; nan when fewer than two
        groups have a user with a relevant item.
    Formula: mean over pairs of groups of |difference of the groups' means of ndcg@k|; gains as in `ndcg`.
    Deviates: WarpRec's is `gain=warprec`, which its spelling means, and 0 of fewer than two groups; a user
        who comes twice counts twice.
    Source: Deldjoo et al. 2021, User Modeling and User-Adapted Interaction 31; Zhu, Hu & Caverlee 2018, CIKM.

    >>> from hpometrics import Ranking
    >>> metric = UserMADRanking(k=1)
    >>> metric.output = Ranking(user_groups=[0, 1])
    >>> metric.update(torch.tensor([[2.0, 1], [2.0, 1]]), torch.tensor([[1, 0], [0, 1]]), users=[0, 1])
    >>> metric.compute().item()  # nDCG 1 and 0
    1.0
    """

    def __init__(self, k: int, gain: Gain = "linear", **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.gain = gain

    def values(self, cut: Cut) -> Tensor:
        """Return each user's nDCG."""
        return RankingNDCG(self.k, self.gain).values(cut)


@register_metric("user_mad_rating", [RANKING], aliases=["UserMADRating"])
class UserMADRating(UserGap):
    """Mean absolute difference between groups of users in the mean score of their lists.

    Needs `Ranking(user_groups=...)` and `users=`; users of group -1 are in no group.

    Shape: scores, target (users, items); users (users,) int.
    Value: float from 0, in units of the scores, 0 is best; nan when fewer than two groups have a user with a
        relevant item and a list.
    Formula: mean over pairs of groups of |difference of the groups' means of the mean score of the first k|.
    Deviates: WarpRec gives 0 for fewer than two groups, and nan where a list is shorter than k. There, a user
        who comes twice counts twice.
    Source: Deldjoo et al. 2021, User Modeling and User-Adapted Interaction 31; Zhu, Hu & Caverlee 2018, CIKM.

    >>> from hpometrics import Ranking
    >>> metric = UserMADRating(k=2)
    >>> metric.output = Ranking(user_groups=[0, 1])
    >>> metric.update(torch.tensor([[4.0, 2, 0], [5.0, 5, 1]]), [[0], [1]], users=[0, 1])
    >>> metric.compute().item()  # 3 and 5
    2.0
    """

    draw_batch = staticmethod(draw_pushed_users)
    counts_empty = False

    def values(self, cut: Cut) -> Tensor:
        """Average the scores of each list."""
        lists = cut.lists
        return cut.sum(torch.where(lists.real, lists.values, 0.0)) / cut.lengths
