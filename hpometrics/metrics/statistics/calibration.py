"""Calibration bins: how sure the model was, and how often it was right, by confidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ..features import BINARY
from ..outputs import Outputs
from .statistic import Reduction, Statistic


class CalibrationBins(Statistic):
    """Rows, summed confidence and right answers per equal-width bin of confidence; (3, bins) float64.

    A category's confidence is its largest probability, and right means predicted; a binary output's is the
    probability of class 1, and right means that the target is 1.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"sums": "sum"}

    def __init__(self, bins: int) -> None:
        super().__init__(bins=bins)
        self.bins = bins

    @property
    def sums(self) -> Tensor:
        """Rows, confidence and right answers per bin."""
        return self._state["sums"]

    def update(self, batch: Outputs) -> None:
        """Bin one batch."""
        confidence, right = batch.block("confidence", _confidence)
        bins = (confidence * self.bins).long().clamp_(max=self.bins - 1)
        parts = [
            torch.bincount(bins, weights, self.bins)
            for weights in (None, confidence.double(), right.double())
        ]
        self.add(sums=torch.stack([part.double() for part in parts]))


def _confidence(batch: Outputs) -> tuple[Tensor, Tensor]:
    if batch.feature.type == BINARY:
        return batch.probabilities, batch.target
    return batch.log_probabilities.amax(-1).exp(), batch.predictions == batch.target
