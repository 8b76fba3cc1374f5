"""Rank histogram: at which place the true class came; one of them serves every top-k of all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from .._device import on_host
from ..batch import Outputs
from .statistic import Reduction, Statistic, refuse_other_width
from .tally import tally


class Ranks(Statistic):
    """How often the true class had place 0, 1, 2, ... among the scores; (C,) int64.

    With weights it is float64. Of equal scores the class with the lower index comes first, as argmax has it:
    place 0 is a right prediction.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"histogram": "sum"}
    weighted: ClassVar[bool] = True
    regroups = True

    @property
    def histogram(self) -> Tensor:
        """Rows by the place of their true class, float64."""
        return self.derived("histogram", lambda own: own._state["histogram"].double())

    def check(self, batch: Outputs) -> None:
        """Refuse another number of classes than before.

        Raises:
            MetricInputError: the batch has another one.
        """
        refuse_other_width(batch, len(self._state["histogram"]) if self._state else None)

    def update(self, batch: Outputs) -> None:
        """Rank one batch."""
        ranks = batch.block("true_rank", _true_rank)
        self.add(histogram=tally(ranks, batch.weight, batch.scores.shape[1]))


class ClassHits(Statistic):
    """Per class, its rows whose true class had one of the first k places, and all its rows: (2, C) int64.

    With weights it is float64. Places are those of `Ranks`.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"hits": "sum"}
    weighted: ClassVar[bool] = True
    regroups = True

    def __init__(self, k: int) -> None:
        super().__init__(k=k)

    @property
    def recalls(self) -> Tensor:
        """The share of hits of each class that the target holds, float64."""
        hits, rows = self._state["hits"].double()
        held = rows > 0
        shares: Tensor = hits[held] / rows[held]
        return shares

    def check(self, batch: Outputs) -> None:
        """Refuse another number of classes than before.

        Raises:
            MetricInputError: the batch has another one.
        """
        refuse_other_width(batch, self._state["hits"].shape[1] if self._state else None)

    def update(self, batch: Outputs) -> None:
        """Rank one batch; a class is counted apart by whether its row is a hit."""
        classes = batch.scores.shape[1]
        hit = batch.block("true_rank", _true_rank) < self.params["k"]
        missed, hits = tally(batch.index + classes * hit, batch.weight, 2 * classes).view(2, classes)
        self.add(hits=torch.stack([hits, hits + missed]))


def _true_rank(batch: Outputs) -> Tensor:
    scores, index = batch.scores, batch.index.unsqueeze(1)
    true = scores.gather(1, index)
    above = _counted(torch.gt, scores, true)
    if on_host(scores) and _counted(torch.eq, scores, true).amax() == 1:
        return above.long()
    before = torch.arange(scores.shape[1], device=scores.device) < index
    return above.long() + (scores == true).logical_and_(before).sum(1)  # of equals the lower index is first


def _counted(compare: Callable[..., Tensor], scores: Tensor, true: Tensor) -> Tensor:
    """In how many classes a row's scores compare so to the true one; floats add up faster than bools."""
    return compare(scores, true, out=torch.empty_like(scores)).sum(1)
