"""Bias disparity metrics: which items groups of users prefer, in training and in lists."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ....exceptions import MetricNameError
from ...features import RANKING, Ranking
from ...registry.register import register_metric
from ...retrieval.base import BaseMetric, TopKMetric
from ...retrieval.side_data import SideData
from ...statistics.item_counts import GroupPairs
from ...statistics.statistic import Statistic
from .._batches import draw_as_catalogue, draw_as_training

Of = Literal["bs", "br", "bd"]

_NONE = "no pair of groups has a bias, because the users have no items or the items no users"


def biases(metric: BaseMetric, of: Of) -> Tensor:
    """Return the bias of each pair of a user group and an item group, (groups, groups) float64, or nan."""
    if of == "bd":
        source, listed = biases(metric, "bs"), biases(metric, "br")
        return torch.where(source > 0, (listed - source) / source, torch.nan)
    shares = metric.statistic(GroupPairs, of).shares(metric.k if of == "br" else None)
    side = SideData.of(metric.output, shares.device)  # type: ignore[arg-type]  # a ranking was measured
    groups = side.item_groups[side.item_groups >= 0]
    catalogue = torch.bincount(groups, minlength=side.num_item_groups).double() / len(side.item_groups)
    return torch.where(catalogue > 0, shares / catalogue, torch.nan)


def pairs_of(of: Of, k: int | None) -> dict[str, Statistic]:
    """Return the statistics that the biases are computed from."""
    needed: dict[str, Statistic] = {}
    if of != "br":
        needed["bs"] = GroupPairs("seen")
    if of != "bs":
        needed["br"] = GroupPairs("lists", (k,) if k else ())
    return needed


class BiasDistance(BaseMetric):
    """A metric of how far a bias, named by `of`, is from its `best`: over pairs of groups, or of one pair.

    Shape: scores, target (users, items); users (users,) int.
    """

    family = "fairness"
    of: ClassVar[Of]
    best: ClassVar[float] = 1.0

    def __init__(self, users: int | None = None, items: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if (users is None) != (items is None) or min(users or 0, items or 0) < 0:
            name = f"bias_disparity_{self.of}"
            raise MetricNameError(
                f"{name} needs either no pair of groups, for the average over all, or one pair, as in "
                f"{name}(items=1, users=0); got users={users}, items={items}"
            )
        self.users, self.items = users, items

    def statistics(self) -> dict[str, Statistic]:
        """Count pairs of groups; the pair asked for must be one of them."""
        if self.users is not None and self.items is not None and isinstance(self.output, Ranking):
            self._check_pair(SideData.of(self.output), self.users, self.items)
        return pairs_of(self.of, self.k)

    def compute(self) -> Tensor:
        """Average the distances; nan with a reason where no pair has a bias."""
        gaps = (biases(self, self.of) - self.best).abs()
        value = gaps.nanmean() if self.users is None or self.items is None else gaps[self.users, self.items]
        return self.undefined(_NONE) if bool(value.isnan()) else value

    def _check_pair(self, side: SideData, users: int, items: int) -> None:
        most = side.num_user_groups - 1, side.num_item_groups - 1
        if users > most[0] or items > most[1]:
            raise MetricNameError(
                f"{self.name}: groups of users must be in 0..{most[0]}, and groups of items in "
                f"0..{most[1]}; got users={users}, items={items}"
            )


@register_metric("bias_disparity_bs", [RANKING], aliases=["BiasDisparityBS"])
class SourceBias(BiasDistance):
    """Bias of the training interactions of groups of users towards groups of items: the distance to none.

    It belongs to the data alone and has no direction. Needs `Ranking(user_groups=..., item_groups=...,
    seen=...)` and `users=`. It is the mean over pairs of groups of the distance to 1; at 1, there is no bias.
    For one pair, write `bias_disparity_bs(items=1, users=0)`; `bias_disparity_table` has all pairs.

    Value: float from 0, no unit; nan when no pair of groups has a bias.
    Formula: mean of |bs - 1|, bs = share of group c in what users of group g have seen / its share in the
        catalog. Those of no known group count in both wholes, and are in no pair.
    Deviates: WarpRec reads all users of the training data, this those who are measured.
    Source: Tsintzou, Pitoura & Tsaparas 2018, Bias Disparity in Recommendation Systems, arXiv 1811.01461; Lin
        et al. 2019, Crank up the Volume, RMSE workshop at RecSys.

    >>> from hpometrics import Ranking
    >>> metric = SourceBias(users=0, items=0)
    >>> metric.output = Ranking(user_groups=[0], item_groups=[0, 1, 1, 1], seen=[[0, 1]])
    >>> metric.update(torch.tensor([[4.0, 3, 2, 1]]), torch.tensor([[0, 0, 1, 0]]), users=[0])
    >>> metric.compute().item()  # a half where a quarter is: 2 - 1
    1.0
    """

    direction = None
    of = "bs"


class _ListedBias(TopKMetric, BiasDistance):
    """A distance of a bias that reads lists of k items."""

    direction = MINIMIZE

    def __init__(self, k: int, users: int | None = None, items: int | None = None, **kwargs: Any) -> None:
        super().__init__(k, users=users, items=items, **kwargs)


@register_metric("bias_disparity_br", [RANKING], aliases=["BiasDisparityBR"])
class ListBias(_ListedBias):
    """Bias of the lists of groups of users towards groups of items: the distance to no bias.

    Needs `Ranking(user_groups=..., item_groups=...)` and `users=`. It is the mean over pairs of groups, or
    that of one pair, `bias_disparity_br(items=1, users=0)@10`; `bias_disparity_table` has them all.

    Value: float from 0, no unit, 0 is best: lists are made like the catalog; nan when no pair of groups has
        a bias.
    Formula: mean of |br - 1|, br = share of group c in the first k of users of group g / its share in the
        catalog. Those of no known group count in both wholes, and are in no pair.
    Deviates: WarpRec gives br of every pair, of which none can be optimized.
    Source: Tsintzou, Pitoura & Tsaparas 2018, Bias Disparity in Recommendation Systems, arXiv 1811.01461; Lin
        et al. 2019, Crank up the Volume, RMSE workshop at RecSys.

    >>> from hpometrics import Ranking
    >>> metric = ListBias(k=2)
    >>> metric.output = Ranking(user_groups=[0], item_groups=[0, 1, 1, 1])
    >>> metric.update(torch.tensor([[4.0, 3, 2, 1]]), torch.tensor([[0, 0, 1, 0]]), users=[0])
    >>> round(metric.compute().item(), 4)  # (|2 - 1| + |2/3 - 1|) / 2
    0.6667
    """

    of = "br"
    draw_batch = staticmethod(draw_as_catalogue)


@register_metric("bias_disparity_bd", [RANKING], aliases=["BiasDisparityBD"])
class BiasDisparity(_ListedBias):
    """Relative change, in lists, of the bias that groups of users had in training.

    Needs `Ranking(user_groups=..., item_groups=..., seen=...)` and `users=`. It is the mean over pairs of
    groups, or that of one pair, `bias_disparity_bd(items=1, users=0)@10`; `bias_disparity_table` has signs.

    Value: float from 0, no unit, 0 is best: lists lean as training did; nan when no pair of groups has a
        bias.
    Formula: mean of |bd|, bd = (br - bs) / bs; a pair that never met in training has none.
    Deviates: WarpRec gives bd of every pair, infinite where bs is 0; its version 1 reads bs from the target.
    Source: Tsintzou, Pitoura & Tsaparas 2018, Bias Disparity in Recommendation Systems, arXiv 1811.01461; Lin
        et al. 2019, Crank up the Volume, RMSE workshop at RecSys.

    >>> from hpometrics import Ranking
    >>> metric = BiasDisparity(k=1)
    >>> metric.output = Ranking(user_groups=[0], item_groups=[0, 0, 1, 1], seen=[[0, 2]])
    >>> metric.update(torch.tensor([[4.0, 3, 2, 1]]), torch.tensor([[0, 1, 0, 0]]), users=[0])
    >>> metric.compute().item()  # from 1 and 1 to 2 and 0
    1.0
    """

    of = "bd"
    best = 0.0
    draw_batch = staticmethod(draw_as_training)


@register_metric("bias_disparity_table", [RANKING])
class BiasTable(TopKMetric):
    """The bias of each group of users towards each group of items: rows are users, columns are items.

    It has no direction: a table has no better and worse.

    Args:
        of: `br` is the bias of lists, `bs` that of training, `bd` the relative difference.

    Shape: scores, target (users, items); users (users,) int.
    Value: table of shape (groups of users, groups of items), no unit; nan where a pair has no bias.
    Formula: as in `bias_disparity_br`, `bias_disparity_bs` and `bias_disparity_bd`, with their signs.
    Source: Tsintzou, Pitoura & Tsaparas 2018, Bias Disparity in Recommendation Systems, arXiv 1811.01461.

    >>> from hpometrics import Ranking
    >>> metric = BiasTable(k=2, of="br")
    >>> metric.output = Ranking(user_groups=[0], item_groups=[0, 1, 1, 1])
    >>> metric.update(torch.tensor([[4.0, 3, 2, 1]]), torch.tensor([[0, 0, 1, 0]]), users=[0])
    >>> [[round(bias, 4) for bias in row] for row in metric.compute().tolist()]
    [[2.0, 0.6667]]
    """

    direction = None
    family = "fairness"

    def __init__(self, k: int, of: Of, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.of = of

    def statistics(self) -> dict[str, Statistic]:
        """Count what the biases asked for are made of."""
        return pairs_of(self.of, self.k)

    def compute(self) -> Tensor:
        """Return the biases."""
        return biases(self, self.of)
