"""Fairness of ranked lists to users: whether groups of users are served alike."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import TopKMetric
from ...retrieval.lists import Cut
from ...retrieval.ranking_batch import RankingBatch
from ...statistics.group_means import GroupMeans
from ...statistics.statistic import Statistic
from ..law_rankings import pushed_users
from .fairness import TOO_FEW, mean_gap
from .gain import Gain, RankingNDCG


class UserGap(TopKMetric):
    """A metric of how far apart groups of users are, each the mean of its users' values."""

    family = "fairness"

    def statistics(self) -> dict[str, Statistic]:
        """Keep the mean of each group."""
        return {"groups": GroupMeans(self.formula, self.of_batch, (self.k,))}

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Measure a batch at several cut-offs; users without a relevant item have no value."""
        return batch.of_valid(self.values(batch.lists.cut(cutoffs)))

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

    objective = MINIMIZE

    def __init__(self, k: int, gain: Gain = "linear", **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.gain = gain

    def values(self, cut: Cut) -> Tensor:
        """Take each user's nDCG."""
        return RankingNDCG(self.k, self.gain).values(cut)


@register_metric("user_mad_rating", [RANKING], aliases=["UserMADRating"])
class UserMADRating(UserGap):
    """Mean absolute difference between groups of users in the mean score of their lists.

    Needs `Ranking(user_groups=...)` and `users=`; users of group -1 are in no group.

    Shape: scores, target (users, items); users (users,) int.
    Value: float from 0, in units of the scores, 0 is best; nan when fewer than two groups have a user with a
        relevant item and a list.
    Formula: mean over pairs of groups of |difference of the groups' means of the mean score of the first k|.
    Deviates: WarpRec gives 0 of fewer than two groups, and is nan where a list is shorter than k; a user who
        comes twice counts twice.
    Source: Deldjoo et al. 2021, User Modeling and User-Adapted Interaction 31; Zhu, Hu & Caverlee 2018, CIKM.

    >>> from hpometrics import Ranking
    >>> metric = UserMADRating(k=2)
    >>> metric.output = Ranking(user_groups=[0, 1])
    >>> metric.update(torch.tensor([[4.0, 2, 0], [5.0, 5, 1]]), [[0], [1]], users=[0, 1])
    >>> metric.compute().item()  # 3 and 5
    2.0
    """

    objective = MINIMIZE
    draw_batch = staticmethod(pushed_users)

    def values(self, cut: Cut) -> Tensor:
        """Average the scores of each list."""
        lists = cut.lists
        return cut.sum(torch.where(lists.real, lists.values, 0.0)) / cut.lengths
