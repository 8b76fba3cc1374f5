"""Calibration: whether the probabilities a model gives are those that come true."""

from __future__ import annotations

import torch
from torch import Tensor

from ...exceptions import MetricNameError
from ...objective import MINIMIZE
from ..features import BINARY, CATEGORY, PROBABILITIES
from ..metric import MeanMetric, Metric
from ..outputs import Outputs
from ..registry import register_metric
from ..statistics.calibration import CalibrationBins
from ..statistics.statistic import Statistic


@register_metric("brier", [BINARY], aliases=["neg_brier_score", "brier_score"])
class BinaryBrier(MeanMetric):
    """Mean squared gap between the predicted probability and the 0/1 outcome.

    Shape:
        preds: (N,) float, the probability of class 1.
        target: (N,) int or bool, 0 or 1.
    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Source: Brier 1950, Monthly Weather Review 78(1); half of its two-class sum.

    >>> metric = BinaryBrier()
    >>> metric.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 0]))
    >>> round(metric.compute().item(), 4)  # (0.1**2 + 0.2**2) / 2
    0.025
    """

    objective = MINIMIZE
    inputs = PROBABILITIES

    def get_current_value(self, preds: Tensor, target: Tensor) -> Tensor:
        """Square the gaps."""
        return (preds - target.to(preds.dtype)).square()


@register_metric("brier", [CATEGORY], aliases=["brier_score"])
class Brier(MeanMetric):
    """Mean over rows of the squared gaps between predicted probabilities and outcome, summed over classes.

    Shape:
        preds: (N, C) float, probabilities (or logits by keyword).
        target: (N,) int.
    Value: float in [0, 2], no unit, 0 is best; nan before the first row.
    Source: Brier 1950, Monthly Weather Review 78(1); scikit-learn's brier_score_loss with
        scale_by_half=False.

    >>> metric = Brier()
    >>> metric.update(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([0]))
    >>> round(metric.compute().item(), 4)  # 0.5**2 + 0.3**2 + 0.2**2
    0.38
    """

    objective = MINIMIZE
    inputs = PROBABILITIES

    def measure(self, batch: Outputs) -> Tensor:
        """Expand the square: the norm of the row, less twice the true probability, plus one."""
        probabilities = batch.probabilities
        true = probabilities.gather(1, batch.index.unsqueeze(1)).squeeze(1).double()
        return (probabilities * probabilities).sum(1, dtype=torch.float64) - 2 * true + 1


@register_metric("ece", [CATEGORY, BINARY], aliases=["expected_calibration_error"])
class ExpectedCalibrationError(Metric):
    """Mean gap, over rows, between how sure the model is and how often it is right at that confidence.

    Confidence is cut into `bins` of equal width. A category's confidence is its largest probability; a
    binary output's is the probability of class 1, held against how often the target is 1.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category: probabilities (or logits by keyword).
        target: (N,) int.
    Value: float in [0, 1], no unit, 0 is best; nan before the first row.

    Raises:
        MetricNameError: bins is below 1.
    Source: Naeini, Cooper & Hauskrecht 2015, AAAI; Guo et al. 2017, ICML.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = ExpectedCalibrationError()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.9, 0.9, 0.9]), torch.tensor([1, 1, 1, 0]))
    >>> round(metric.compute().item(), 4)  # |0.9 - 3/4|
    0.15
    """

    objective = MINIMIZE
    inputs = PROBABILITIES

    def __init__(self, *, bins: int = 15) -> None:
        super().__init__()
        if bins < 1:
            raise MetricNameError(f"ece needs at least one bin, got bins={bins}")
        self.bins = bins

    def statistics(self) -> dict[str, Statistic]:
        """Need the calibration bins."""
        return {"calibration": CalibrationBins(self.bins)}

    def compute(self) -> Tensor:
        """Weigh the gaps of the bins by their rows."""
        sums = self.statistic(CalibrationBins).sums
        rows, confidence, right = sums[0], sums[1], sums[2]
        return (confidence - right).abs().sum() / rows.sum()
