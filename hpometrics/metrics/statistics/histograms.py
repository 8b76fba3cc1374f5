"""Histograms of probabilities: rows of each class and of the others by bin; curves within a stated error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..batch import Outputs
from ..features import SET
from .statistic import Reduction, Statistic, refuse_other_width
from .tally import tally


@dataclass(frozen=True)
class BinnedCurve:
    """An area per class from a histogram, and how far it can be from that of the scores themselves."""

    value: Tensor
    error_bound: Tensor


class ScoreHistogram(Statistic):
    """Weight of positive and of negative rows by bin of their probability; (2, C, bins + 1) float64.

    The bins are of equal width; the last one holds probabilities of exactly 1. Memory does not grow with the
    rows, and ranks merge their counts in one sum.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, bins: int) -> None:
        super().__init__(bins=bins)
        self.bins = bins

    @property
    def positives(self) -> Tensor:
        """Weight of the positive rows by class and bin, (C, bins + 1)."""
        return self._state["rows"][0]

    @property
    def negatives(self) -> Tensor:
        """Weight of the negative rows by class and bin."""
        return self._state["rows"][1]

    def check(self, batch: Outputs) -> None:
        """Refuse another number of classes than before.

        Raises:
            MetricInputError: the batch has another one.
        """
        refuse_other_width(batch, self._state["rows"].shape[1] if self._state else None)

    def update(self, batch: Outputs) -> None:
        """Count one batch."""
        probabilities = batch.probabilities
        columns = probabilities.reshape(len(batch), -1)
        classes, width = columns.shape[1], self.bins + 1
        bins = (columns.double() * self.bins).long().clamp_(max=self.bins)
        bins += torch.arange(classes, device=columns.device) * width
        right, wrong = _sides(bins, batch, classes * width)
        self.add(rows=torch.stack([right, wrong]).view(2, classes, width))


def _sides(bins: Tensor, batch: Outputs, size: int) -> tuple[Tensor, Tensor]:
    """Count positive and negative rows by bin; weights are never subtracted, which would leave crumbs."""
    of_one_class = bins.shape[1] > 1 and batch.feature.type != SET
    if batch.weight is None and of_one_class:
        right = _summed(bins.gather(1, batch.index.unsqueeze(1)), None, size)
        return right, _summed(bins, None, size) - right
    target = torch.nn.functional.one_hot(batch.index, bins.shape[1]) if of_one_class else batch.outcome
    right = target.reshape(bins.shape).double()
    weight = batch.column_weight(bins.shape[1])
    held = 1.0 if weight is None else weight
    return _summed(bins, right * held, size), _summed(bins, (1 - right) * held, size)


def roc_auc_of(positives: Tensor, negatives: Tensor) -> BinnedCurve:
    """Area under the ROC curve, every pair of one bin taken for a tie: wrong by a half of each at most."""
    pairs = positives.sum(-1) * negatives.sum(-1)
    above = negatives.cumsum(-1) - negatives
    tied = (positives * negatives).sum(-1) / 2
    return BinnedCurve(((positives * above).sum(-1) + tied) / pairs, tied / pairs)


def average_precision_of(positives: Tensor, negatives: Tensor) -> BinnedCurve:
    """Average precision with the rows of one bin tied, between its best and its worst order within the bins.

    Best, all positives of a bin are tied above its negatives; worst, they lie below them one by one.
    """
    total = positives.sum(-1)
    tp, fp = (part.flip(-1).cumsum(-1).flip(-1) for part in (positives, negatives))
    value = _mean(positives * _share(tp, fp), total)
    best = _mean(positives * _share(tp, (fp - negatives).clamp(min=0)), total)
    shift = (tp + fp).log() - ((tp - positives).clamp(min=0) + fp).log()
    worst = _mean(positives - torch.where(fp > 0, fp * shift, 0.0), total)
    return BinnedCurve(value, torch.maximum(best - value, value - worst).clamp(min=0))


def _share(tp: Tensor, fp: Tensor) -> Tensor:
    return torch.where(tp > 0, tp / (tp + fp), 0.0)


def _mean(parts: Tensor, total: Tensor) -> Tensor:
    return parts.sum(-1) / total


def _summed(bins: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Sum the weights by bin, in float64."""
    return tally(bins.reshape(-1), None if weight is None else weight.reshape(-1), size).double()
