"""Confidence, overconfidence, and calibration errors without fixed bins."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ....direction import MINIMIZE, Direction
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import BINARY, CATEGORY, PROBABILITIES, SET
from ...metric import MeanMetric, Metric
from ...registry.register import register_metric
from ...statistics.calibration import Confidences
from ...statistics.statistic import Statistic
from .calibration import BinnedCalibration


@register_metric("confidence", [CATEGORY, BINARY])
class Confidence(MeanMetric):
    """Mean probability of the predicted class.

    It has no direction: a model may be sure and wrong.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category: probabilities (or logits by keyword).
        target: (N,) int; only its rows are looked at.
    Value: float in [0, 1], no unit; nan before the first row.
    Formula: mean of p(predicted)
    Source: Guo et al. 2017, ICML.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = Confidence()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 1]))
    >>> round(metric.compute().item(), 4)  # (0.9 + 0.8) / 2
    0.85
    """

    direction = None
    inputs = PROBABILITIES

    def measure(self, batch: Outputs) -> Tensor:
        """Return the probability of each prediction."""
        return batch.block("prediction_confidence", _prediction_confidence)


@register_metric("overconfidence", [CATEGORY, BINARY])
class Overconfidence(MeanMetric):
    """Mean confidence minus accuracy: above 0 for an overconfident model, below 0 for an underconfident one.

    It has no direction, since its best value, 0, is in the middle: optimize `absolute_overconfidence`.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category: probabilities (or logits by keyword).
        target: (N,) int.
    Value: float in [-1, 1], no unit, 0 is best; nan before the first row.
    Formula: mean of p(predicted) - share right
    Source: Lichtenstein & Fischhoff 1977, Organizational Behavior and Human Performance 20(2).

    >>> from hpometrics.metrics.features import Binary
    >>> metric = Overconfidence()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 1]))
    >>> round(metric.compute().item(), 4)  # (0.9 + 0.8) / 2 - 1/2
    0.35
    """

    direction: ClassVar[Direction | None] = None
    inputs = PROBABILITIES

    def measure(self, batch: Outputs) -> Tensor:
        """Return the confidence of each row, less 1 where the prediction is right."""
        confidence = batch.block("prediction_confidence", _prediction_confidence)
        return confidence.double() - (batch.predictions == batch.target).double()


@register_metric("absolute_overconfidence", [CATEGORY, BINARY])
class AbsoluteOverconfidence(Overconfidence):
    """Absolute gap between mean confidence and accuracy.

    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: |mean of p(predicted) - share right|
    Source: Lichtenstein & Fischhoff 1977, Organizational Behavior and Human Performance 20(2).

    >>> from hpometrics.metrics.features import Binary
    >>> metric = AbsoluteOverconfidence()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.8]), torch.tensor([1, 1]))
    >>> round(metric.compute().item(), 4)  # |0.85 - 1|
    0.15
    """

    direction = MINIMIZE

    def compute(self) -> Tensor:
        """Return the absolute value."""
        return super().compute().abs()


class OrderedCalibration(Metric):
    """Base class of exact calibration errors over all answers in the order of their confidence.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category, (N, L) of a set: probabilities (or
            logits by keyword).
        target: (N,) int, (N, L) of a set.
    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    """

    direction = MINIMIZE
    inputs = PROBABILITIES
    family: ClassVar[str] = "calibration"

    def statistics(self) -> dict[str, Statistic]:
        """Return the confidence of every answer."""
        return {"confidences": Confidences()}

    def compute(self) -> Tensor:
        """Return the value of the running sums; nan with a reason where no row counts."""
        sums = self.statistic(Confidences).excess
        if not sums.weight[-1] > 0:
            return self.undefined("no rows were counted")
        return self.of_running_sums(sums.weight, sums.excess)

    def of_running_sums(self, weight: Tensor, excess: Tensor) -> Tensor:
        """Return the value of running sums of weight and of confidence minus right answers, by confidence."""
        raise NotImplementedError(f"{type(self).__name__} needs of_running_sums(weight, excess)")


@register_metric("adaptive_ece", [CATEGORY, BINARY, SET], aliases=["adaptive_calibration_error"])
class AdaptiveEce(OrderedCalibration):
    """Calibration error over bins with equally many rows, so that no bin is nearly empty.

    Confidence is that of `ece`. A row, or several of the same confidence, that lie across an edge are divided
    between the bins in proportion, so that the value does not depend on the order of the rows.

    Raises:
        MetricNameError: bins is below 1.
    Formula: mean over bins of |mean confidence - share right|
    Deviates: where the rows do not divide by the bins, other implementations give some bins one row more.
    Source: Nguyen & O'Connor 2015, EMNLP; Nixon et al. 2019, CVPR Workshops.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = AdaptiveEce(bins=2)
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.2, 0.7, 0.8]), torch.tensor([0, 1, 1, 1]))
    >>> round(metric.compute().item(), 4)  # (|0.15 - 0.5| + |0.75 - 1|) / 2
    0.3
    """

    def __init__(self, *, bins: int = 15) -> None:
        super().__init__()
        if bins < 1:
            raise MetricNameError(f"adaptive_ece needs at least one bin, got bins={bins}")
        self.bins = bins

    def of_running_sums(self, weight: Tensor, excess: Tensor) -> Tensor:
        """Return the mean gap over parts of the running sums of equal weight."""
        inner = torch.arange(1, self.bins, device=weight.device) * (weight[-1] / self.bins)
        after = torch.searchsorted(weight, inner).clamp(1, len(weight) - 1)
        share = (inner - weight[after - 1]) / (weight[after] - weight[after - 1])
        cuts = torch.lerp(excess[after - 1], excess[after], share)
        edges = torch.cat([excess[:1], cuts, excess[-1:]])
        return edges.diff().abs().sum() / weight[-1]


@register_metric("ks_calibration_error", [CATEGORY, BINARY, SET], aliases=["ks_ce"])
class KsCalibrationError(OrderedCalibration):
    """Largest gap, at any confidence, between the expected and the actual right answers up to it.

    It is a Kolmogorov-Smirnov distance without bins. Confidence is that of `ece`.

    Formula: max over s of |sum over rows of confidence up to s of (confidence - right)| / rows
    Source: Gupta et al. 2021, ICLR.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = KsCalibrationError()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.2, 0.7, 0.8]), torch.tensor([0, 1, 1, 1]))
    >>> round(metric.compute().item(), 4)  # |0.1 - 0.8 - 0.3 - 0.2| / 4
    0.3
    """

    def of_running_sums(self, weight: Tensor, excess: Tensor) -> Tensor:
        """Return the largest running sum."""
        return excess.abs().amax() / weight[-1]


@register_metric("reliability_curve", [CATEGORY, BINARY, SET], aliases=["calibration_curve"])
class ReliabilityCurve(BinnedCalibration):
    """Reliability diagram: mean confidence, share right and share of rows of each bin of confidence.

    It has no direction: no curve is better than another. Bins and confidence are those of `ece`.

    Value: table of shape (3, bins): mean confidence, share right, share of rows; nan in the first two for a
        bin without rows.
    Formula: per bin, mean of confidence, mean of right, rows / all rows
    Deviates: scikit-learn's calibration_curve leaves out bins without rows.
    Source: DeGroot & Fienberg 1983, The Statistician 32.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = ReliabilityCurve(bins=2)
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.25, 0.75, 0.75, 0.75]), torch.tensor([0, 1, 0, 1]))
    >>> (metric.compute()[[0, 2]]).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    """

    direction = None

    def of_bins(self, rows: Tensor, confidence: Tensor, right: Tensor) -> Tensor:
        """Divide by the rows of the bins."""
        return torch.stack([confidence / rows, right / rows, rows / rows.sum()])


def _prediction_confidence(batch: Outputs) -> Tensor:
    if batch.feature.type == CATEGORY:
        probabilities, predicted = batch.probabilities, batch.predictions.long().unsqueeze(1)
        return probabilities.gather(1, predicted).squeeze(1)
    probabilities = batch.probabilities
    return torch.where(batch.predictions.bool(), probabilities, 1 - probabilities)
