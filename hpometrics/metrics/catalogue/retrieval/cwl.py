"""Readers of ranked lists: what there is in an item that is looked at, for those who stop somewhere (C/W/L).

A reader begins at the first rank and goes on from each with some chance, C. The value is what the items that
are looked at are worth, over how many they are: the sum over ranks of L g over the sum of L, where an item is
worth g and L, the product of C over all ranks before, is the chance that it is looked at.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricInputError
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric
from ...retrieval.lists import Cut, earlier


class ReaderMetric(ListMetric):
    """A metric of one kind of reader, who looks for items as far as k, whether there are as many or not.

    An item of grade r is worth (r - min_rel) / (max_rel - min_rel), from 0 to 1.
    """

    objective = MAXIMIZE
    family = "readers"

    def __init__(self, k: int | None, min_rel: int = 0, max_rel: int = 1, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        if not 0 <= min_rel < max_rel:
            raise MetricInputError(
                f"{type(self).__name__}: min_rel is a grade from 0 and max_rel one above it, got {min_rel!r} "
                f"and {max_rel!r}"
            )
        self.min_rel, self.max_rel = min_rel, max_rel

    def values(self, cut: Cut) -> Tensor:
        """Divide what items are worth by how many are looked at."""
        worth = self.worth(cut.lists.grades.double())
        looked_at = self.looked_at(cut.lists.places, worth)
        items = self.endless(cut.lists.places, worth) if cut.lists.endless else cut.sum(looked_at)
        return cut.sum(looked_at * worth) / items

    def worth(self, grades: Tensor) -> Tensor:
        """What items of these grades are worth, float64."""
        return (grades.clamp(self.min_rel, self.max_rel) - self.min_rel) / (self.max_rel - self.min_rel)

    def looked_at(self, places: Tensor, worth: Tensor) -> Tensor:
        """The chance that the item at each place is looked at, (rows, depth) float64; 0 at place inf."""
        raise NotImplementedError(f"{type(self).__name__} needs looked_at(places, worth)")

    def endless(self, places: Tensor, worth: Tensor) -> Tensor:
        """How many items are looked at in a list without end, (rows, 1); the others are worth nothing."""
        raise NotImplementedError(f"{type(self).__name__} has no value without k")


class PatientReader(ReaderMetric):
    """A reader whose chance to go on depends on the rank alone."""

    def looked_at(self, places: Tensor, worth: Tensor) -> Tensor:
        """The patience for each place, if nothing else stops the reader."""
        return self.patience(places) * self._still_here(worth)

    def endless(self, places: Tensor, worth: Tensor) -> Tensor:
        """Take from the patience for all places what is lost behind each item that stops readers."""
        stopped = self._still_here(worth) * self.contentment(worth)
        lost = (stopped * self.rest(places + 1)).sum(1, keepdim=True)
        return self.rest(places.new_ones(1, 1)) - lost

    def contentment(self, worth: Tensor) -> Tensor:
        """The chance that an item stops the reader: none does."""
        return torch.zeros_like(worth)

    def patience(self, places: Tensor) -> Tensor:
        """The chance of getting to a place where no item stops the reader; 0 at inf."""
        raise NotImplementedError(f"{type(self).__name__} needs patience(places)")

    def rest(self, places: Tensor) -> Tensor:
        """The sum of the patience for a place and all behind it; 0 at inf."""
        raise NotImplementedError(f"{type(self).__name__} has no value without k")

    def _still_here(self, worth: Tensor) -> Tensor:
        """The chance that no item before each place has stopped the reader, (rows, depth)."""
        return earlier((1 - self.contentment(worth)).cumprod(1), 1.0)


class ContentReader(PatientReader):
    """A reader whom an item also stops, with a chance that is what the item is worth."""

    def contentment(self, worth: Tensor) -> Tensor:
        """An item stops the reader as often as it is worth."""
        return worth


class GoalReader(PatientReader):
    """A reader who wants T items' worth: the larger T, the more patient; C is ((i + 2T - 1) / (i + 2T))^2."""

    def __init__(
        self, k: int | None = None, T: float = 1.0, min_rel: int = 0, max_rel: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(k, min_rel, max_rel, **kwargs)
        self.T = wanted(self, T, 0.0)

    def patience(self, places: Tensor) -> Tensor:
        """The product of C over all ranks before, of which all factors but two cancel."""
        return (2 * self.T / (places + 2 * self.T - 1)).square()

    def rest(self, places: Tensor) -> Tensor:
        """A sum of inverse squares, which the trigamma function is."""
        return trigamma(places + 2 * self.T - 1) * (4 * self.T**2)


@register_metric("sdcg", [RANKING], aliases=["SDCG"])
class ScaledDCG(PatientReader):
    """Discounted gain of the first k items over that of k items of the highest grade, averaged over users.

    Unlike `ndcg`, it does not ask how many items are relevant: a user with few of them cannot reach 1.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: min_rel is below 0, or max_rel is not above it.
    Formula: mean over users of the sum of g / log2(rank + 1) over the first k, divided by the sum of
        1 / log2(rank + 1); g is (grade - min_rel) / (max_rel - min_rel), from 0 to 1
    Deviates: ir_measures counts users without a relevant item as 0 (`empty="neg"`) and asks for a max_rel.
    Source: Jarvelin & Kekalainen 2002, ACM TOIS 20(4); scaled: Azzopardi, Thomas & Moffat 2019, SIGIR.

    >>> import torch
    >>> metric = ScaledDCG(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 0]]))
    >>> round(metric.compute().item(), 4)  # (1 / log2(3)) / (1 + 1 / log2(3))
    0.3869
    """

    def __init__(self, k: int, min_rel: int = 0, max_rel: int = 1, **kwargs: Any) -> None:
        super().__init__(k, min_rel, max_rel, **kwargs)

    def patience(self, places: Tensor) -> Tensor:
        """The discount of each rank."""
        return 1 / (places + 1).log2()


@register_metric("insq", [RANKING], aliases={"INSQ": "insq@1000"})
class InverseSquares(GoalReader):
    """What an item is worth to a reader who wants T of them and loses patience with the square of the rank.

    Without k, of a list without end; averaged over users.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: T is not above 0, min_rel is below 0, or max_rel is not above it.
    Formula: mean over users of the sum of g L over ranks, divided by the sum of L = (2T / (rank + 2T - 1))^2;
        g is (grade - min_rel) / (max_rel - min_rel), from 0 to 1
    Deviates: cwl_eval, which ir_measures asks, ends every list at rank 1000, which is `insq@1000`.
    Source: Moffat, Scholer & Thomas 2012, ADCS.

    >>> import torch
    >>> metric = InverseSquares(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> round(metric.compute().item(), 4)  # 1 / (1 + (2 / 3)**2)
    0.6923
    """


class _CutContentReader(ContentReader):
    """A reader who stops at k at the latest."""

    def __init__(self, k: int, min_rel: int = 0, max_rel: int = 1, **kwargs: Any) -> None:
        super().__init__(k, min_rel, max_rel, **kwargs)


@register_metric("nerr8", [RANKING], aliases=["NERR8"])
class NearlyERR8(_CutContentReader):
    """What an item is worth to a reader whom each stops as often as it is worth, at rank k at the latest.

    A relative of `err`, averaged over users.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: min_rel is below 0, or max_rel is not above it.
    Formula: mean over users of the sum of g L over the first k, divided by the sum of L, the product of
        1 - g over all ranks before; g is (grade - min_rel) / (max_rel - min_rel), from 0 to 1
    Source: Azzopardi, Mackenzie & Moffat 2021, ICTIR, equation 8.

    >>> import torch
    >>> metric = NearlyERR8(k=3, max_rel=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # (0.5 + 0.5 * 0.5) / (1 + 0.5 + 0.5)
    0.375
    """

    def patience(self, places: Tensor) -> Tensor:
        """Nothing but items stops the reader."""
        return torch.ones_like(places)


@register_metric("nerr9", [RANKING], aliases=["NERR9"])
class NearlyERR9(_CutContentReader):
    """`nerr8` of a reader who also loses patience, as 1 / rank.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: min_rel is below 0, or max_rel is not above it.
    Formula: mean over users of the sum of g L over the first k, divided by the sum of L, 1 / rank times the
        product of 1 - g over all ranks before; g is (grade - min_rel) / (max_rel - min_rel), from 0 to 1
    Source: Azzopardi, Mackenzie & Moffat 2021, ICTIR, equation 9.

    >>> import torch
    >>> metric = NearlyERR9(k=3, max_rel=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> round(metric.compute().item(), 4)  # (0.5 + 0.5 * 0.5 / 3) / (1 + 0.5 / 2 + 0.5 / 3)
    0.4118
    """

    def patience(self, places: Tensor) -> Tensor:
        """As with reciprocal ranks."""
        return 1 / places


@register_metric("nerr10", [RANKING], aliases={"NERR10": "nerr10@1000"})
class NearlyERR10(ContentReader):
    """`nerr8` of a reader who also goes on with chance p at most; without k in a list without end.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: p does not lie between 0 and 1, min_rel is below 0, or max_rel is not above it.
    Formula: mean over users of the sum of g L over ranks, divided by the sum of L, p^(rank - 1) times the
        product of 1 - g over all ranks before; g is (grade - min_rel) / (max_rel - min_rel), from 0 to 1
    Deviates: cwl_eval, which ir_measures asks, ends every list at rank 1000, which is `nerr10@1000`.
    Source: Azzopardi, Mackenzie & Moffat 2021, ICTIR, equation 10.

    >>> import torch
    >>> metric = NearlyERR10(p=0.5, max_rel=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> round(metric.compute().item(), 4)  # 0.5 / (1 + 0.5 * (0.5 + 0.25 + 0.125 + ...))
    0.3333
    """

    def __init__(
        self, k: int | None = None, p: float = 0.9, min_rel: int = 0, max_rel: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(k, min_rel, max_rel, **kwargs)
        if not 0 < p < 1:
            raise MetricInputError(f"nerr10: p is a probability between 0 and 1, both excluded, got {p!r}")
        self.p = p

    def patience(self, places: Tensor) -> Tensor:
        """As with rank-biased precision."""
        return self.p ** (places - 1)

    def rest(self, places: Tensor) -> Tensor:
        """A geometric series."""
        return self.patience(places) / (1 - self.p)


@register_metric("nerr11", [RANKING], aliases={"NERR11": "nerr11@1000"})
class NearlyERR11(ContentReader, GoalReader):
    """`nerr8` of a reader who also loses patience as that of `insq`; without k in a list without end.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: T is not above 0, min_rel is below 0, or max_rel is not above it.
    Formula: mean over users of the sum of g L over ranks, divided by the sum of L, (2T / (rank + 2T - 1))^2
        times the product of 1 - g over all ranks before; g is (grade - min_rel) / (max_rel - min_rel), from
        0 to 1
    Deviates: cwl_eval, which ir_measures asks, ends every list at rank 1000, which is `nerr11@1000`.
    Source: Azzopardi, Mackenzie & Moffat 2021, ICTIR, equation 11.

    >>> import torch
    >>> metric = NearlyERR11(k=2, max_rel=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> round(metric.compute().item(), 4)  # 0.5 / (1 + 0.5 * (2 / 3)**2)
    0.4091
    """


def trigamma(x: Tensor) -> Tensor:
    """The sum of 1 / (x + n)^2 for n from 0 on; 0 at inf."""
    total: Tensor = torch.special.polygamma(1, x)
    return total


def wanted(metric: ListMetric, T: float, least: float) -> float:
    """Return T, how much a reader wants, if it lies above some number."""
    if not least < T < float("inf"):
        raise MetricInputError(f"{type(metric).__name__}: T is a number above {least:g}, got {T!r}")
    return T


@register_metric("bpm", [RANKING], aliases=["BPM"])
class BejeweledPlayerModel(ReaderMetric):
    """What an item is worth to a reader who stops as soon as T is found, at rank k at the latest.

    Averaged over users.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: T is not above 0, min_rel is below 0, or max_rel is not above it.
    Formula: mean over users of the sum of g over the first n items, divided by n, which is the rank where the
        sum of g reaches T, and k where it does not; g is (grade - min_rel) / (max_rel - min_rel), from 0 to 1
    Deviates: this is the static model of the paper; T and k of the dynamic one change with each item.
    Source: Zhang et al. 2017, SIGIR.

    >>> import torch
    >>> metric = BejeweledPlayerModel(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 0]]))
    >>> metric.compute().item()  # found at the second rank
    0.5
    """

    def __init__(self, k: int, T: float = 1.0, min_rel: int = 0, max_rel: int = 1, **kwargs: Any) -> None:
        super().__init__(k, min_rel, max_rel, **kwargs)
        self.T = wanted(self, T, 0.0)

    def looked_at(self, places: Tensor, worth: Tensor) -> Tensor:
        """Whether the goal is still ahead."""
        return (earlier(worth.cumsum(1), 0.0) < self.T).double()


@register_metric("inst", [RANKING], aliases={"INST": "inst@1000"})
class GoalAdaptive(ReaderMetric):
    """What an item is worth to a reader who wants T, and loses patience with every rank and every find.

    Without k, of a list without end; averaged over users.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.

    Raises:
        MetricInputError: T is not above 0.5, below which chances would exceed 1; min_rel is below 0, or
            max_rel is not above it.
    Formula: mean over users of the sum of g L over ranks, divided by the sum of L, the product over all ranks
        before of ((rank + a - 1) / (rank + a))^2, where a is 2T less the sum of g up to that rank; g is
        (grade - min_rel) / (max_rel - min_rel), from 0 to 1
    Deviates: cwl_eval, which ir_measures asks, ends every list at rank 1000, which is `inst@1000`.
    Source: Moffat, Bailey, Scholer & Thomas 2015, ADCS.

    >>> import torch
    >>> metric = GoalAdaptive(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute().item()  # 1 / (1 + ((1 + 1 - 1) / (1 + 1))**2)
    0.8
    """

    def __init__(
        self, k: int | None = None, T: float = 1.0, min_rel: int = 0, max_rel: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(k, min_rel, max_rel, **kwargs)
        self.T = wanted(self, T, 0.5)

    def looked_at(self, places: Tensor, worth: Tensor) -> Tensor:
        """Between two finds all factors but two cancel: at rank i it is scale / (i + a - 1)^2."""
        scale, own = self._scale(places, worth)
        return earlier(scale, self._first) / (places - 1 + own + worth).square()

    def endless(self, places: Tensor, worth: Tensor) -> Tensor:
        """Add up these inverse squares, by the trigamma function, from each find to the next."""
        scale, own = self._scale(places, worth)
        after = scale * trigamma(places + own)
        until = earlier(scale, self._first) * trigamma(places + own + worth)
        start = trigamma(places.new_full((1, 1), 2 * self.T))
        return self._first * start + (after - until).sum(1, keepdim=True)

    def _scale(self, places: Tensor, worth: Tensor) -> tuple[Tensor, Tensor]:
        """The scale behind each place, and a there, both (rows, depth)."""
        own = 2 * self.T - worth.cumsum(1)
        change = ((places - 1 + own) / (places - 1 + own + worth)).square()
        return self._first * torch.where(places < torch.inf, change, 1.0).cumprod(1), own

    @property
    def _first(self) -> float:
        """The scale before anything is found."""
        return 4 * self.T**2
