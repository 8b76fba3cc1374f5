"""Calibration bins: how sure the model was, and how often it was right, by confidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from .._derive import exponential
from .._device import on_host
from ..batch import Outputs
from ..features import BINARY, SET
from .scores import Scores
from .statistic import Reduction, Statistic, refuse_other_width, tally


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
        right = _sum_weights(bins.gather(1, batch.index.unsqueeze(1)), None, size)
        return right, _sum_weights(bins, None, size) - right
    target = torch.nn.functional.one_hot(batch.index, bins.shape[1]) if of_one_class else batch.outcome
    right = target.reshape(bins.shape).double()
    weight = batch.column_weight(bins.shape[1])
    held = 1.0 if weight is None else weight
    return _sum_weights(bins, right * held, size), _sum_weights(bins, (1 - right) * held, size)


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


def _sum_weights(bins: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Sum the weights by bin, in float64."""
    return tally(bins.reshape(-1), None if weight is None else weight.reshape(-1), size).double()


class Confidence(NamedTuple):
    """How sure the model was of each answer, whether it was right, weights if there are any; each (M,)."""

    sure: Tensor
    right: Tensor
    weight: Tensor | None


def confidence_of(batch: Outputs) -> Confidence:
    """The block of a batch's answers.

    A category's confidence is its largest probability, and right means predicted; a binary output's is the
    probability of class 1, and right means that the target is 1. Each label of a set is such an answer.
    """
    return batch.block("confidence", _confidence)


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
        """Rows, what was said and what was so, per bin."""
        return self._state["sums"]


class CalibrationBins(_Bins):
    """Rows, summed confidence and right answers per equal-width bin of confidence; (3, bins) float64."""

    def update(self, batch: Outputs) -> None:
        """Bin one batch."""
        sure, right, weight = confidence_of(batch)
        self.add(sums=_sum_values(_bins_of(sure, self.bins), (None, sure, right), weight, self.bins))


class ClassBins(_Bins):
    """Rows, summed probability and outcomes per class and equal-width bin of it; (3, C, bins) float64."""

    @property
    def sums_of_present(self) -> Tensor:
        """The sums without the labels that are known of no row."""
        return self.sums[:, self.sums[0].sum(1) > 0]

    def check(self, batch: Outputs) -> None:
        """Refuse probabilities of another number of classes.

        Raises:
            MetricInputError: naming both numbers.
        """
        refuse_other_width(batch, self.sums.shape[1] if self._state else None)

    def update(self, batch: Outputs) -> None:
        """Bin one batch: every class of every row by its own probability."""
        probabilities = batch.probabilities
        classes = probabilities.shape[1]
        places = torch.arange(classes, device=probabilities.device) * self.bins
        places = (places + _bins_of(probabilities, self.bins)).flatten()
        happened = _happened(batch, probabilities).flatten()
        weight = batch.column_weight(classes)
        weight = None if weight is None else weight.flatten()
        sums = _sum_values(places, (None, probabilities.flatten(), happened), weight, classes * self.bins)
        self.add(sums=sums.view(3, classes, self.bins))


def _confidence(batch: Outputs) -> Confidence:
    if batch.feature.type == BINARY:
        return Confidence(batch.probabilities, batch.target, batch.weight)
    if batch.feature.type != SET:
        sure = exponential(batch.log_probabilities.amax(-1))
        return Confidence(sure, batch.predictions == batch.target, batch.weight)
    return _confidence_of_labels(batch)


def _confidence_of_labels(batch: Outputs) -> Confidence:
    """Every label that is known; on a device, where dropping the others would wait, these get weight 0."""
    sure, right, known = batch.probabilities, batch.outcome, batch.known
    weight = batch.column_weight(right.shape[1])
    if known is None or not on_host(known):
        return Confidence(sure.flatten(), right.flatten(), None if weight is None else weight.flatten())
    return Confidence(
        sure[known], right[known], None if batch.weight is None or weight is None else weight[known]
    )


def _happened(batch: Outputs, probabilities: Tensor) -> Tensor:
    """Which class each row is of, or which labels it has; (N, C) in the precision of the probabilities."""
    if batch.feature.type == SET:
        return batch.outcome.to(probabilities.dtype)
    return torch.zeros_like(probabilities).scatter_(1, batch.index.unsqueeze(1), 1.0)


def _bins_of(values: Tensor, bins: int) -> Tensor:
    return (values * bins).long().clamp_(max=bins - 1)


def _sum_values(
    places: Tensor, values: tuple[Tensor | None, ...], weight: Tensor | None, size: int
) -> Tensor:
    """Sum each of the values over the rows at each place, in float64; None is 1."""
    wide = [_times(None if of is None else of.double(), weight) for of in values]
    return torch.stack([tally(places, of, size).double() for of in wide])


def _times(values: Tensor | None, weight: Tensor | None) -> Tensor | None:
    """The product, where None is 1."""
    return values if weight is None else weight if values is None else values * weight


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
