"""Rank histogram: at which place the true class came; one of them serves every top-k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ..outputs import Outputs
from .statistic import Reduction, Statistic, refuse_other_width


class Ranks(Statistic):
    """How often the true class had place 0, 1, 2, ... among the scores; (C,) int64.

    With weights it is float64. Of equal scores the class with the lower index comes first, as argmax has it:
    place 0 is a right prediction.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"histogram": "sum"}
    weighted: ClassVar[bool] = True

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
        self.add(histogram=torch.bincount(ranks, batch.weight, minlength=batch.scores.shape[1]))


def _true_rank(batch: Outputs) -> Tensor:
    scores, index = batch.scores, batch.index.unsqueeze(1)
    true = scores.gather(1, index)
    at_least = torch.ge(scores, true).float()  # floats sum several times faster than bools
    before = torch.arange(scores.shape[1], device=scores.device) < index
    tied_after = (scores == true).logical_and_(~before).float()
    return (at_least.sum(1) - tied_after.sum(1)).long()
