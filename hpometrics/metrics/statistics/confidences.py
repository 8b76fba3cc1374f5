"""Stored confidences: how sure the model was of every answer, for calibration without fixed bins."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..batch import Outputs
from .calibration import confidence_of
from .scores import Scores


@dataclass(frozen=True)
class Excess:
    """By rising confidence, what all answers so far weigh and how much too sure they were, float64.

    Both begin with 0 and have one entry more for every different confidence: answers of the same confidence
    are one step, so that their order does not matter.
    """

    weight: Tensor
    excess: Tensor


class Confidences(Scores):
    """Confidence, right or wrong, and weight of every answer, in the store that scores are kept in."""

    def check(self, batch: Outputs) -> None:
        """Take any batch: a confidence is the same whatever it was made from."""

    def update(self, batch: Outputs) -> None:
        """Store one batch."""
        sure, right, weight = confidence_of(batch)
        self._are_logits = False
        self._append(sure.unsqueeze(1), right.bool(), weight)
        self._derived = {}

    @property
    def excess(self) -> Excess:
        """The running sums over all answers."""
        return self.derived("excess", _excess_of)


def _excess_of(own: Confidences) -> Excess:
    scores, right, weight = own.pooled()
    sure, order = scores.squeeze(1).sort()
    weight = torch.ones_like(sure, dtype=torch.float64) if weight is None else weight[order]
    gaps = (sure.double() - right[order].double()) * weight
    last = torch.unique_consecutive(sure, return_counts=True)[1].cumsum(0) - 1
    return Excess(*(_from_zero(part.cumsum(0)[last]) for part in (weight, gaps)))


def _from_zero(sums: Tensor) -> Tensor:
    return torch.cat([sums.new_zeros(1), sums])
