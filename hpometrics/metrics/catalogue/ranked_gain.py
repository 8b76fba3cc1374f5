"""Gain of ranked lists: relevant items count the more the earlier they come."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ...objective import MAXIMIZE
from ..features import RANKING
from ..ranking.lists import Cut
from ..ranking_metric import ListMetric
from ..registry import register_metric

Gain = Literal["linear", "exp", "warprec", "binary"]


def gains(grades: Tensor, gain: Gain) -> Tensor:
    """What items of these grades are worth, float64; 0 for those that are not relevant."""
    grades = grades.double()
    if gain == "linear":
        return grades
    if gain == "binary":
        return (grades > 0).double()
    return torch.where(grades > 0, torch.exp2(grades + (gain == "warprec")) - 1, 0.0)


@register_metric(
    "ndcg", [RANKING], aliases={"retrieval_normalized_dcg": "ndcg", "ndcg_rendle2020": "ndcg(gain=binary)"}
)
class RankingNDCG(ListMetric):
    """Discounted gain of the first k items over that of an ideal list, averaged over users.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: sum of gain / log2(rank + 1) over the first k, divided by the same of the grades sorted; gain is
        r, with `gain=exp` 2^r - 1, with `gain=warprec` 2^(r + 1) - 1, with `gain=binary` 1 if relevant.
    Source: Jarvelin & Kekalainen 2002, ACM TOIS 20(4); exp: Burges et al. 2005, ICML; binary: Krichene &
        Rendle 2020, KDD.

    >>> import torch
    >>> metric = RankingNDCG(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[0, 1]]))
    >>> round(metric.compute().item(), 4)  # 1 / log2(3)
    0.6309
    """

    objective = MAXIMIZE
    family = "gain"

    def __init__(self, k: int, gain: Gain = "linear", **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.gain = gain

    def values(self, cut: Cut) -> Tensor:
        """Divide the gain by that of an ideal list."""
        lists = cut.lists
        own, best = (gains(grades, self.gain) for grades in (lists.grades, lists.ideal))
        return cut.sum(own * lists.discounts) / cut.sum(best * lists.discounts)
