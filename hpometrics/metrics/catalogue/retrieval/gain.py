"""Ranking metrics of gain: an item counts by its grade, and more the earlier it comes."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricInputError
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric
from ...retrieval.lists import Cut, earlier

Gain = Literal["linear", "exp", "warprec", "binary"]


def gains(grades: Tensor, gain: Gain, unit: Tensor | None = None) -> Tensor:
    """Return the gain of items of these grades, float64; 0 for those that are not relevant.

    An exponential gain is in units of 2^unit, so that the ratio of two does not exceed what a float holds.
    """
    grades = grades.double()
    if gain == "linear":
        return grades
    if gain == "binary":
        return (grades > 0).double()
    unit = grades.new_zeros(()) if unit is None else unit.double()
    power = grades + (gain == "warprec")
    worth = torch.exp2(power - unit) - torch.exp2(-unit)
    small = torch.expm1(power * math.log(2)) * torch.exp2(-unit)  # nothing of which cancels
    return torch.where(grades > 0, torch.where(power < 1, small, worth), 0.0)


class GainMetric(ListMetric):
    """Base class of metrics in which an item counts more the earlier it comes."""

    direction = MAXIMIZE
    family = "gain"


@register_metric("dcg", [RANKING], aliases={"dcg_burges": "dcg(gain=exp)"})
class RankingDCG(GainMetric):
    """Discounted gain of the first k items, averaged over users; without k of all.

    Shape: scores, target (users, items), grades from 0.
    Value: float from 0, no unit, no upper bound; nan when no user has a relevant item.
    Formula: mean over users of the sum of gain / log2(rank + 1) over the first k; gain is r, with `gain=exp`
        2^r - 1, with `gain=warprec` 2^(r + 1) - 1, with `gain=binary` 1 if relevant.
    Deviates: the discount of the original paper starts at the second rank.
    Source: Jarvelin & Kekalainen 2002, ACM TOIS 20(4); exp: Burges et al. 2005, ICML.

    >>> import torch
    >>> metric = RankingDCG(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[1, 3]]))
    >>> round(metric.compute().item(), 4)  # 1 + 3 / log2(3)
    2.8928
    """

    reads = "hits"

    def __init__(self, k: int | None = None, gain: Gain = "linear", **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.gain = gain

    def values(self, cut: Cut) -> Tensor:
        """Add up the gain."""
        return cut.sum(gains(cut.lists.worth, self.gain), cut.lists.discounts)


@register_metric(
    "ndcg",
    [RANKING],
    aliases={
        "nDCG": "ndcg(gain=warprec)",
        "nDCGRendle2020": "ndcg(gain=binary)",
        "retrieval_normalized_dcg": "ndcg",
        "ndcg_rendle2020": "ndcg(gain=binary)",
        "ndcg_burges": "ndcg(gain=exp)",
    },
)
class RankingNDCG(RankingDCG):
    """Discounted gain of the first k items over that of an ideal list, averaged over users; without k of all.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: sum of gain / log2(rank + 1) over the first k, divided by the same of the grades sorted; gain is
        r, with `gain=exp` 2^r - 1, with `gain=warprec` 2^(r + 1) - 1, with `gain=binary` 1 if relevant.
    Deviates: the gain is linear in trec_eval, ranx and torchmetrics, exponential in LightGBM and
        TensorFlow Ranking, and binary in RecBole. In WarpRec it is 2^(r + 1) - 1, though its manual says
        2^r - 1. The spelling `nDCG` is WarpRec's and means its gain. torchmetrics and scikit-learn average
        over the orders of equal scores; torchmetrics counts users without a relevant item as 0, as
        `Ranking(empty="neg")`.
    Source: Jarvelin & Kekalainen 2002, ACM TOIS 20(4); exp: Burges et al. 2005, ICML; binary: Krichene &
        Rendle 2020, KDD.

    >>> import torch
    >>> metric = RankingNDCG(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5]]), torch.tensor([[0, 1]]))
    >>> round(metric.compute().item(), 4)  # 1 / log2(3)
    0.6309
    """

    reads = "hits"

    def values(self, cut: Cut) -> Tensor:
        """Divide the gain by that of an ideal list."""
        lists = cut.lists
        unit = None if self.gain in ("linear", "binary") else lists.ideal[:, :1]
        gain = cut.sum(gains(lists.worth, self.gain, unit), lists.discounts)
        ideal = cut.sum_of_ideal(lambda best: gains(best, self.gain, best[:, :1]), lists.ideal_discounts)
        return gain / ideal


@register_metric("rbp", [RANKING], aliases=["rank_biased_precision", "RBP"])
class RankBiasedPrecision(GainMetric):
    """Rate of hits of a reader who goes on to the next item with probability p; without k, in the whole list.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best, of a list without end; nan when no user has a relevant item.

    Raises:
        MetricInputError: p does not lie between 0 and 1.
    Formula: mean over users of (1 - p) times the sum of p^(rank - 1) over the relevant among the first k.
    Deviates: ranx multiplies by the grade, which may exceed 1; the paper prints what may lie behind the list
        as a residual beside the value.
    Source: Moffat & Zobel 2008, ACM TOIS 27(1).

    >>> import torch
    >>> metric = RankBiasedPrecision(p=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # (1 - 0.5) * (1 + 0.5**2)
    0.625
    """

    reads = "hits"

    def __init__(self, k: int | None = None, p: float = 0.8, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        if not 0 < p < 1:
            raise MetricInputError(f"rbp: p must be a probability between 0 and 1, both excluded, got {p!r}")
        self.p = p

    def values(self, cut: Cut) -> Tensor:
        """Add up the chances of getting there."""
        return (1 - self.p) * cut.sum(cut.lists.hits * self.p ** (cut.lists.places - 1))


@register_metric("err", [RANKING], aliases=["expected_reciprocal_rank", "ERR"])
class ExpectedReciprocalRank(GainMetric):
    """Expected 1 / rank where a reader stops, who is the sooner content the higher the grades are.

    Shape: scores, target (users, items), grades from 0; one above `max_grade` counts as `max_grade`.
    Value: float in [0, 1], no unit, higher is better, up to what the grades allow; nan when no user has a
        relevant item.

    Raises:
        MetricInputError: max_grade is below 1.
    Formula: mean over users of the sum over ranks of R / rank times the product of 1 - R over all ranks
        before, with R = (2^grade - 1) / 2^max_grade; without k over all ranks.
    Deviates: TREC's gdeval takes 4 for the largest grade, which is the default here, others that of the data.
    Source: Chapelle et al. 2009, CIKM.

    >>> import torch
    >>> metric = ExpectedReciprocalRank(max_grade=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> round(metric.compute().item(), 4)  # 1 / 2 + 1 / 2 * 1 / 2 * 1 / 3
    0.5833
    """

    reads = "hits"

    def __init__(self, k: int | None = None, max_grade: int = 4, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        if max_grade < 1:
            raise MetricInputError(f"err: max_grade must be a grade of at least 1, got {max_grade!r}")
        self.max_grade = max_grade

    def values(self, cut: Cut) -> Tensor:
        """Add up, over ranks, the chance of stopping there."""
        lists = cut.lists
        content = gains(lists.grades.clamp(max=self.max_grade), "exp") / 2**self.max_grade
        arrived = earlier((1 - content).cumprod(1), 1.0)
        return cut.sum(content * arrived / lists.places)
