"""Brier score and its decomposition, and calibration errors over bins of confidence."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ..._device import on_host
from ...batch import Outputs
from ...features import BINARY, CATEGORY, PROBABILITIES, SET
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.calibration import CalibrationBins, ClassBins
from ...statistics.statistic import Statistic
from .probability import ProbabilityLoss


@register_metric("brier", [BINARY, SET], aliases=["neg_brier_score", "brier_score"])
class BinaryBrier(ProbabilityLoss):
    """Mean squared gap between the predicted probability and the 0/1 outcome; of a set over all labels.

    Soft labels may take the place of outcomes.

    Shape:
        preds: (N,) float, the probability of class 1; (N, L) of a set.
        target: (N,) int or bool, 0 or 1; (N, L) of a set.
    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: mean of (p - y)^2
    Source: Brier 1950, Monthly Weather Review 78(1); half of its two-class sum.

    >>> metric = BinaryBrier()
    >>> metric.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 0]))
    >>> round(metric.compute().item(), 4)  # (0.1**2 + 0.2**2) / 2
    0.025
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return the squared gaps."""
        probabilities = batch.probabilities
        outcome = batch.outcome if batch.soft is None else batch.soft
        return (probabilities - outcome.to(probabilities.dtype)).square()


@register_metric("brier", [CATEGORY], aliases=["neg_brier_score", "brier_score"])
class Brier(ProbabilityLoss):
    """Mean squared gap between predicted probabilities and outcome, summed over classes.

    Soft labels may take the place of outcomes.

    Shape:
        preds: (N, C) float, probabilities (or logits by keyword).
        target: (N,) int.
    Value: float in [0, 2], no unit, 0 is best; nan before the first row.
    Formula: mean over rows of the sum over classes of (p - y)^2
    Deviates: scikit-learn's brier_score_loss halves the sum of two classes by default.
    Source: Brier 1950, Monthly Weather Review 78(1); scikit-learn's brier_score_loss with
        scale_by_half=False.

    >>> metric = Brier()
    >>> metric.update(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([0]))
    >>> round(metric.compute().item(), 4)  # 0.5**2 + 0.3**2 + 0.2**2
    0.38
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return the expanded square: squared norm of the row, minus twice the true probability, plus 1."""
        probabilities = batch.probabilities
        if batch.soft is not None:
            return (probabilities - batch.soft).square().sum(1, dtype=torch.float64)
        true = probabilities.gather(1, batch.index.unsqueeze(1)).squeeze(1)
        return _squared_norm(probabilities).sub_(true, alpha=2).add_(1)


class BinnedCalibration(Metric):
    """Base class of metrics of confidence and right answers in `bins` bins of equal width, closed below.

    A category's confidence is its largest probability; that of a binary output, and of each label of a set,
    is the probability of 1, compared with how often the target is 1. To compare a binary output's larger
    probability with how often it is right, measure it as `Category(2)` with two columns.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category, (N, L) of a set: probabilities (or
            logits by keyword).
        target: (N,) int, (N, L) of a set.

    Raises:
        MetricNameError: bins is below 1.
    """

    inputs = PROBABILITIES

    def __init__(self, *, bins: int = 15) -> None:
        super().__init__()
        if bins < 1:
            raise MetricNameError(f"{self.name} needs at least one bin, got bins={bins}")
        self.bins = bins

    def statistics(self) -> dict[str, Statistic]:
        """Return the calibration bins."""
        return {"calibration": CalibrationBins(self.bins)}

    def compute(self) -> Tensor:
        """Return the value of the bins; nan with a reason where no bin has a row."""
        rows, confidence, right = self.statistic(CalibrationBins).sums.unbind()
        counted = rows.sum().item() > 0
        return self.of_bins(rows, confidence, right) if counted else self.undefined("no rows were counted")

    def of_bins(self, rows: Tensor, confidence: Tensor, right: Tensor) -> Tensor:
        """Return the value of rows, summed confidence and right answers, (bins,) each."""
        raise NotImplementedError(f"{type(self).__name__} needs of_bins(rows, confidence, right)")


@register_metric("ece", [CATEGORY, BINARY, SET], aliases=["expected_calibration_error"])
class ExpectedCalibrationError(BinnedCalibration):
    """Mean gap, over rows, between the model's confidence and how often it is right at that confidence.

    Confidence is cut into `bins` of equal width. A category's confidence is its largest probability; that of
    a binary output, and of each label of a set, is the probability of 1, compared with how often the target
    is 1. To compare a binary output's larger probability with how often it is right, use `Category(2)`.

    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: sum over bins of rows / all rows * |mean confidence - share right|
    Deviates: Guo et al. close a bin above, torchmetrics and we below; it matters for a confidence on an edge.
        In torchmetrics a confidence of 1 has a bin of its own; here it joins the last one.
    Source: Naeini, Cooper & Hauskrecht 2015, AAAI; Guo et al. 2017, ICML.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = ExpectedCalibrationError()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.9, 0.9, 0.9]), torch.tensor([1, 1, 1, 0]))
    >>> round(metric.compute().item(), 4)  # |0.9 - 3/4|
    0.15
    """

    direction = MINIMIZE

    def of_bins(self, rows: Tensor, confidence: Tensor, right: Tensor) -> Tensor:
        """Weigh the gaps of the bins by their rows."""
        return (confidence - right).abs().sum() / rows.sum()


@register_metric("rms_calibration_error", [CATEGORY, BINARY, SET], aliases=["rmsce"])
class RmsCalibrationError(BinnedCalibration):
    """Root mean square gap, over rows, between the model's confidence and how often it is right at it.

    Bins and confidence are those of `ece`.

    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: sqrt(sum over bins of rows / all rows * (mean confidence - share right)^2)
    Deviates: a confidence of 1 is in the last bin; in torchmetrics it has a bin of its own.
    Source: Nguyen & O'Connor 2015, EMNLP; torchmetrics' calibration error with norm="l2".

    >>> from hpometrics.metrics.features import Binary
    >>> metric = RmsCalibrationError()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.9, 0.2, 0.2]), torch.tensor([1, 0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # sqrt((0.4**2 + 0.2**2) / 2)
    0.3162
    """

    direction = MINIMIZE

    def of_bins(self, rows: Tensor, confidence: Tensor, right: Tensor) -> Tensor:
        """Weigh the squared gaps of the bins by their rows."""
        squares = (confidence - right).square() / _at_least_one(rows)
        return (squares.sum() / rows.sum()).sqrt()


@register_metric("mce", [CATEGORY, BINARY, SET], aliases=["maximum_calibration_error"])
class MaximumCalibrationError(BinnedCalibration):
    """Largest gap of any bin between the model's confidence and how often it is right.

    Bins and confidence are those of `ece`; a bin of a single row counts as much as any other.

    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: max over bins of |mean confidence - share right|
    Deviates: a confidence of 1 is in the last bin; in torchmetrics it has a bin of its own.
    Source: Naeini, Cooper & Hauskrecht 2015, AAAI.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = MaximumCalibrationError()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.9, 0.2, 0.2]), torch.tensor([1, 0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # |0.9 - 1/2|
    0.4
    """

    direction = MINIMIZE

    def of_bins(self, rows: Tensor, confidence: Tensor, right: Tensor) -> Tensor:
        """Return the largest gap."""
        return ((confidence - right).abs() / _at_least_one(rows)).amax()


@register_metric("classwise_ece", [CATEGORY, SET], aliases=["static_calibration_error"])
class ClasswiseEce(BinnedCalibration):
    """Expected calibration error of each class's own probability, averaged over classes.

    Unlike `ece` of a category, it includes the probabilities of classes that were not predicted.

    Shape:
        preds: (N, C) float of a category, (N, L) of a set: probabilities (or logits by keyword).
        target: (N,) int, (N, L) of a set.
    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: mean over classes of the sum over bins of rows / all rows * |mean probability - share of class|
    Source: Nixon et al. 2019, CVPR Workshops; Kull et al. 2019, NeurIPS.

    >>> metric = ClasswiseEce()
    >>> metric.update(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([0]))
    >>> round(metric.compute().item(), 4)  # (0.5 + 0.3 + 0.2) / 3
    0.3333
    """

    direction = MINIMIZE

    def statistics(self) -> dict[str, Statistic]:
        """Return the bins of every class."""
        return {"calibration": ClassBins(self.bins)}

    def compute(self) -> Tensor:
        """Average the errors of the classes."""
        rows, probability, outcomes = self.statistic(ClassBins).sums_of_present.unbind()
        if not rows.sum() > 0:
            return self.undefined("no rows were counted")
        return ((probability - outcomes).abs().sum(1) / rows.sum(1)).mean()


class BrierPart(BinnedCalibration):
    """Base class of the parts of the Brier score; a category sums over classes, a set averages over labels.

    Reliability - resolution + uncertainty is the Brier score after every probability is replaced by the mean
    of its bin: that of the model itself where each bin holds one probability only.
    """

    family: ClassVar[str] = "brier_decomposition"

    def statistics(self) -> dict[str, Statistic]:
        """Return the bins of every class."""
        return {"calibration": (CalibrationBins if self.output.type == BINARY else ClassBins)(self.bins)}

    @property
    def sums(self) -> Tensor:
        """The rows, summed probability and outcomes per class and bin, (3, C, bins)."""
        if self.output.type == BINARY:
            return self.statistic(CalibrationBins).sums.unsqueeze(1)
        return self.statistic(ClassBins).sums_of_present

    def compute(self) -> Tensor:
        """Sum or average the parts of the classes; nan with a reason where no row counts."""
        rows, probability, outcomes = self.sums.unbind()
        if not rows.sum() > 0:
            return self.undefined("no rows were counted")
        parts = self.of_bins(rows, probability, outcomes)
        return parts.mean() if self.output.type == SET else parts.sum()


@register_metric("brier_reliability", [CATEGORY, BINARY, SET])
class BrierReliability(BrierPart):
    """Mean squared gap between the probability in a bin and how often it comes true, the calibration part.

    Bins are of equal width; a category sums the parts over classes, a set averages them over labels.

    Value: float in [0, 2], no unit, 0 is best, at most 1 but for a category; nan before the first row.
    Formula: sum over bins of rows / all rows * (mean probability - share of outcomes)^2
    Source: Murphy 1973, Journal of Applied Meteorology 12(4).

    >>> from hpometrics.metrics.features import Binary
    >>> metric = BrierReliability()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.9, 0.2, 0.2]), torch.tensor([1, 0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # (0.4**2 + 0.2**2) / 2
    0.1
    """

    direction = MINIMIZE

    def of_bins(self, rows: Tensor, probability: Tensor, outcomes: Tensor) -> Tensor:
        """Weigh the squared gaps of the bins by their rows."""
        return ((probability - outcomes).square() / _at_least_one(rows)).sum(1) / rows.sum(1)


@register_metric("brier_resolution", [CATEGORY, BINARY, SET])
class BrierResolution(BrierPart):
    """Mean squared gap between how often a bin comes true and the base rate: how well rows are separated.

    Bins are of equal width; a category sums the parts over classes, a set averages them over labels.

    Value: float in [0, 1], no unit, the uncertainty is best, 0 is worst; nan before the first row.
    Formula: sum over bins of rows / all rows * (share of outcomes - base rate)^2
    Source: Murphy 1973, Journal of Applied Meteorology 12(4).

    >>> from hpometrics.metrics.features import Binary
    >>> metric = BrierResolution()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.9, 0.2, 0.2]), torch.tensor([1, 0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # ((1/2 - 1/4)**2 + (0 - 1/4)**2) / 2
    0.0625
    """

    direction = MAXIMIZE

    def of_bins(self, rows: Tensor, probability: Tensor, outcomes: Tensor) -> Tensor:
        """Weigh the squared gaps between the bins and the base rate by their rows."""
        rate = outcomes.sum(1, keepdim=True) / rows.sum(1, keepdim=True)
        return (rows * (outcomes / _at_least_one(rows) - rate).square()).sum(1) / rows.sum(1)


@register_metric("brier_uncertainty", [CATEGORY, BINARY, SET])
class BrierUncertainty(BrierPart):
    """Brier score of always forecasting the base rate, a property of the data and not of the model.

    It has no direction: no model changes it. A category sums it over classes, a set averages it over labels.

    Value: float in [0, 1], no unit, at most 1/4 but for a category; nan before the first row.
    Formula: base rate * (1 - base rate)
    Source: Murphy 1973, Journal of Applied Meteorology 12(4).

    >>> from hpometrics.metrics.features import Binary
    >>> metric = BrierUncertainty()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.9, 0.2, 0.2]), torch.tensor([1, 0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # 1/4 * 3/4
    0.1875
    """

    direction = None

    def of_bins(self, rows: Tensor, probability: Tensor, outcomes: Tensor) -> Tensor:
        """Return the variance of the outcome."""
        rate = outcomes.sum(1) / rows.sum(1)
        return rate * (1 - rate)


def _at_least_one(rows: Tensor) -> Tensor:
    """Return the rows of each bin, 1 for an empty one, whose sums are 0."""
    return torch.where(rows > 0, rows, 1.0)


def _squared_norm(values: Tensor) -> Tensor:
    """Sum the squares of each row in float64; NumPy widens a few at a time, torch all before it adds."""
    if not on_host(values):
        return values.square().sum(1, dtype=torch.float64)
    squares = np.square(values.numpy())
    return torch.from_numpy(np.add.reduce(squares, axis=1, dtype=np.float64))
