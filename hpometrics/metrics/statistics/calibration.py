"""Histograms and bins of probabilities: areas of curves, and calibration by confidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._derive import exponential
from .._device import on_host
from ..batch import Outputs
from ..features import BINARY, PROBABILITIES, SET
from .scores import Scores
from .statistic import Reduction, Statistic, block, refuse_other_width, tallies, tally


@dataclass(frozen=True)
class BinnedCurve:
    """An area per class from a histogram, and a bound of its distance from the area of the scores."""

    value: Tensor
    error_bound: Tensor


class ScoreHistogram(Statistic):
    """The weight of positive and of negative rows by bin of their probability; (2, C, bins + 1) float64.

    The bins have equal width; the last one holds probabilities of exactly 1. Memory does not grow with the
    rows, and ranks merge their counts in one sum.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, bins: int) -> None:
        super().__init__(bins=bins)
        self.bins = bins

    @property
    def positives(self) -> Tensor:
        """The weight of the positive rows by class and bin, (C, bins + 1)."""
        return self._state["rows"][0]

    @property
    def negatives(self) -> Tensor:
        """The weight of the negative rows by class and bin."""
        return self._state["rows"][1]

    def check(self, batch: Outputs) -> None:
        """Check that the number of classes is that of earlier batches.

        Raises:
            MetricInputError: the batch has another number.
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
    """Count positive and negative rows by bin; weights are never subtracted, which would leave residues."""
    of_one_class = bins.shape[1] > 1 and batch.feature.type != SET
    if batch.weight is None and of_one_class:
        right = _sum_weights(bins.gather(1, batch.index.unsqueeze(1)), None, size)
        return right, _sum_weights(bins, None, size) - right
    target = torch.nn.functional.one_hot(batch.index, bins.shape[1]) if of_one_class else batch.outcome
    right = target.reshape(bins.shape).double()
    weight = batch.column_weight(bins.shape[1])
    factor = 1.0 if weight is None else weight
    return _sum_weights(bins, right * factor, size), _sum_weights(bins, (1 - right) * factor, size)


def roc_auc_of(positives: Tensor, negatives: Tensor) -> BinnedCurve:
    """Compute ROC AUC with all pairs within a bin counted as ties, which is wrong by at most a half each."""
    pairs = positives.sum(-1) * negatives.sum(-1)
    above = negatives.cumsum(-1) - negatives
    tied = (positives * negatives).sum(-1) / 2
    return BinnedCurve(((positives * above).sum(-1) + tied) / pairs, tied / pairs)


def average_precision_of(positives: Tensor, negatives: Tensor) -> BinnedCurve:
    """Compute average precision with the rows of a bin tied, bounded by the best and worst order in the bins.

    At best all positives of a bin are tied above its negatives; at worst they lie below them one by one.
    """
    total = positives.sum(-1)
    tp, fp = (part.flip(-1).cumsum(-1).flip(-1) for part in (positives, negatives))
    value = (positives * _share(tp, fp)).sum(-1) / total
    best = (positives * _share(tp, (fp - negatives).clamp(min=0))).sum(-1) / total
    shift = (tp + fp).log() - ((tp - positives).clamp(min=0) + fp).log()
    worst = (positives - torch.where(fp > 0, fp * shift, 0.0)).sum(-1) / total
    return BinnedCurve(value, torch.maximum(best - value, value - worst).clamp(min=0))


def _share(tp: Tensor, fp: Tensor) -> Tensor:
    return torch.where(tp > 0, tp / (tp + fp), 0.0)


def _sum_weights(bins: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Sum the weights by bin, in float64."""
    return tally(bins.reshape(-1), None if weight is None else weight.reshape(-1), size).double()


class Confidence(NamedTuple):
    """The confidence of each answer, whether it is correct, and weights if there are any; each (M,)."""

    sure: Tensor
    right: Tensor
    weight: Tensor | None


@block
def confidence_of(batch: Outputs) -> Confidence:
    """Return the block of the confidences of a batch.

    A category's confidence is its largest probability, and correct means predicted; a binary output's is the
    probability of class 1, and correct means that the target is 1. Each label of a set is such an answer.
    """
    if batch.feature.type == BINARY:
        return Confidence(batch.probabilities, batch.target, batch.weight)
    if batch.feature.type != SET:
        given = PROBABILITIES in batch.given  # whose logarithm would be rounded twice
        sure = batch.probabilities.amax(-1) if given else exponential(batch.log_probabilities.amax(-1))
        return Confidence(sure, batch.predictions == batch.target, batch.weight)
    return _confidence_of_labels(batch)


class _Bins(Statistic):
    """Three sums per equal-width bin."""

    reductions: ClassVar[Mapping[str, Reduction]] = {"sums": "sum"}
    weighted: ClassVar[bool] = True
    regroups = True

    def __init__(self, bins: int) -> None:
        super().__init__(bins=bins)
        self.bins = bins

    @property
    def sums(self) -> Tensor:
        """Rows, summed confidence and summed outcomes per bin."""
        return self._state["sums"]


class CalibrationBins(_Bins):
    """Rows, summed confidence and correct answers per equal-width bin of confidence; (3, bins) float64."""

    def update(self, batch: Outputs) -> None:
        """Bin one batch."""
        sure, right, weight = confidence_of(batch)
        self.add(sums=_sum_values(_bins_of(sure, self.bins), (None, sure, right), weight, self.bins))


class ClassBins(_Bins):
    """Rows, summed probability and outcomes per class and equal-width bin of it; (3, C, bins) float64."""

    @property
    def sums_of_present(self) -> Tensor:
        """The sums without the labels that are unknown in all rows."""
        return self.sums[:, self.sums[0].sum(1) > 0]

    def check(self, batch: Outputs) -> None:
        """Check that the number of classes is that of earlier batches.

        Raises:
            MetricInputError: naming both numbers.
        """
        refuse_other_width(batch, self.sums.shape[1] if self._state else None)

    def update(self, batch: Outputs) -> None:
        """Bin one batch: every class of every row by its own probability."""
        probabilities = batch.probabilities
        classes = probabilities.shape[1]
        bins = torch.arange(classes, device=probabilities.device) * self.bins
        bins = (bins + _bins_of(probabilities, self.bins)).flatten()
        outcomes = _outcomes(batch, probabilities).flatten()
        weight = batch.column_weight(classes)
        weight = None if weight is None else weight.flatten()
        sums = _sum_values(bins, (None, probabilities.flatten(), outcomes), weight, classes * self.bins)
        self.add(sums=sums.view(3, classes, self.bins))


def _confidence_of_labels(batch: Outputs) -> Confidence:
    """Return the known labels; on a device, where dropping the others would synchronize, those weigh 0."""
    sure, right, is_known = batch.probabilities, batch.outcome, batch.known
    weight = batch.column_weight(right.shape[1])
    if is_known is None or not on_host(is_known):
        return Confidence(sure.flatten(), right.flatten(), None if weight is None else weight.flatten())
    return Confidence(
        sure[is_known], right[is_known], None if batch.weight is None or weight is None else weight[is_known]
    )


def _outcomes(batch: Outputs, probabilities: Tensor) -> Tensor:
    """Return the class of each row one-hot, or its labels; (N, C) in the precision of the probabilities."""
    if batch.feature.type == SET:
        return batch.outcome.to(probabilities.dtype)
    return torch.zeros_like(probabilities).scatter_(1, batch.index.unsqueeze(1), 1.0)


def _bins_of(values: Tensor, bins: int) -> Tensor:
    if on_host(values):  # NumPy multiplies few numbers by a constant several times faster
        return torch.from_numpy(np.minimum((values.numpy() * bins).astype(np.int64), bins - 1))
    return (values * bins).long().clamp_(max=bins - 1)


def _sum_values(bins: Tensor, values: tuple[Tensor | None, ...], weight: Tensor | None, size: int) -> Tensor:
    """Sum each of the values over the rows with the same bin, in float64; None is 1."""
    return tallies(bins, [_times(of, weight) for of in values], size)


def _times(values: Tensor | None, weight: Tensor | None) -> Tensor | None:
    """Return the product, in which None is 1."""
    return values if weight is None else weight if values is None else values * weight


@dataclass(frozen=True)
class Excess:
    """Running sums by ascending confidence: the weight of all answers, and their overconfidence, float64.

    Both begin with 0 and have one more entry for every distinct confidence: answers of the same confidence
    are one step, so their order does not matter.
    """

    weight: Tensor
    excess: Tensor


class Confidences(Scores):
    """The confidence, correctness and weight of every answer, in the same store as scores."""

    def check(self, batch: Outputs) -> None:
        """Accept any batch: a confidence is the same whether it comes from logits or probabilities."""

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
    return Excess(*(torch.nn.functional.pad(part.cumsum(0)[last], (1, 0)) for part in (weight, gaps)))
