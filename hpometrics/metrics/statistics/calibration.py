"""Calibration bins: how sure the model was, and how often it was right, by confidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from .._derive import exponential
from .._device import on_host
from ..batch import Outputs
from ..features import BINARY, SET
from .statistic import Reduction, Statistic, refuse_other_width
from .tally import tally


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
        self.add(sums=_summed(_bins_of(sure, self.bins), (None, sure, right), weight, self.bins))


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
        sums = _summed(places, (None, probabilities.flatten(), happened), weight, classes * self.bins)
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


def _summed(places: Tensor, values: tuple[Tensor | None, ...], weight: Tensor | None, size: int) -> Tensor:
    """Sum each of the values over the rows at each place, in float64; None is 1."""
    wide = [_times(None if of is None else of.double(), weight) for of in values]
    return torch.stack([tally(places, of, size).double() for of in wide])


def _times(values: Tensor | None, weight: Tensor | None) -> Tensor | None:
    """The product, where None is 1."""
    return values if weight is None else weight if values is None else values * weight
