"""Parts of the Brier score: what is lost by bad calibration, what is won by telling rows apart."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ...features import BINARY, CATEGORY, SET
from ...registry.register import register_metric
from ...statistics.calibration import CalibrationBins, ClassBins
from ...statistics.statistic import Statistic
from .calibration import BinnedCalibration


class BrierPart(BinnedCalibration):
    """One of the three parts; of a category they are summed over classes, of a set averaged over labels.

    Reliability - resolution + uncertainty is the Brier score of the forecast that says, for every
    probability, the mean of its bin: that of the model itself where each bin holds one probability only.
    """

    family: ClassVar[str] = "brier_decomposition"

    def statistics(self) -> dict[str, Statistic]:
        """Need the bins of every class."""
        return {"calibration": (CalibrationBins if self.output.type == BINARY else ClassBins)(self.bins)}

    @property
    def sums(self) -> Tensor:
        """Rows, summed probability and outcomes per class and bin, (3, C, bins)."""
        if self.output.type == BINARY:
            return self.statistic(CalibrationBins).sums.unsqueeze(1)
        return self.statistic(ClassBins).sums_of_present

    def compute(self) -> Tensor:
        """Join the parts of the classes; nan with a reason where no row counts."""
        rows, probability, happened = self.sums.unbind()
        if not rows.sum() > 0:
            return self.undefined("no row counted")
        parts = self.measured(rows, probability, happened)
        return parts.mean() if self.output.type == SET else parts.sum()


@register_metric("brier_reliability", [CATEGORY, BINARY, SET])
class BrierReliability(BrierPart):
    """Mean squared gap between the probability in a bin and how often it comes true: the calibration part.

    Bins are of equal width; of a category the parts are summed over classes, of a set averaged over labels.

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

    objective = MINIMIZE
    word = "brier_reliability"

    def measured(self, rows: Tensor, probability: Tensor, happened: Tensor) -> Tensor:
        """Square the gaps of the bins."""
        return ((probability - happened).square() / _at_least_one(rows)).sum(1) / rows.sum(1)


@register_metric("brier_resolution", [CATEGORY, BINARY, SET])
class BrierResolution(BrierPart):
    """Mean squared gap between how often a bin comes true and the base rate: how well rows are told apart.

    Bins are of equal width; of a category the parts are summed over classes, of a set averaged over labels.

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

    objective = MAXIMIZE
    word = "brier_resolution"

    def measured(self, rows: Tensor, probability: Tensor, happened: Tensor) -> Tensor:
        """Square the gaps of the bins from the base rate."""
        rate = happened.sum(1, keepdim=True) / rows.sum(1, keepdim=True)
        return (rows * (happened / _at_least_one(rows) - rate).square()).sum(1) / rows.sum(1)


@register_metric("brier_uncertainty", [CATEGORY, BINARY, SET])
class BrierUncertainty(BrierPart):
    """The Brier score of always forecasting the base rate; it is of the data, not of the model.

    It has no objective: no model changes it. Of a category it is summed over classes, of a set averaged.

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

    objective = None
    word = "brier_uncertainty"

    def measured(self, rows: Tensor, probability: Tensor, happened: Tensor) -> Tensor:
        """Take the variance of the outcome."""
        rate = happened.sum(1) / rows.sum(1)
        return rate * (1 - rate)


def _at_least_one(rows: Tensor) -> Tensor:
    """The rows of each bin; 1 in the place of none, whose sums are 0."""
    return torch.where(rows > 0, rows, 1.0)
