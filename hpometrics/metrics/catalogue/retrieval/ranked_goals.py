"""Goals of readers of ranked lists: they go on the less, the more they have of what they want."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.lists import earlier
from .cwl import ReaderMetric, trigamma, wanted


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
