"""Intervals: a lower and an upper prediction that a share `1 - alpha` of the targets should lie between."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ...features import OutputFeature
from ...registry.register import register_metric
from .._data import Batch, shape_of, uniform
from ._extras import ExtraMean
from .errors import REAL
from .quantiles import inner_share


def winkler(lower: Tensor, upper: Tensor, target: Tensor, alpha: float) -> Tensor:
    """The width of each interval, and 2 / alpha for each unit that the target lies outside."""
    outside = (lower - target).clamp(min=0) + (target - upper).clamp(min=0)
    return upper - lower + 2 / alpha * outside


class IntervalMean(ExtraMean):
    """The mean over rows and columns of a function of the interval and the target.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions are not read.
        lower, upper: the ends of the interval, in the shape of the target.

    Raises:
        MetricInputError: `lower=` or `upper=` is missing or of another shape.
    """

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Intervals of 90 %, whose centre strays and whose width grows with the noise."""
        shape = shape_of(output, rows)
        target = 4 + 8 * uniform(shape, random)
        # uniform on [0, 1): the middle 90 % of it hold the target when nothing strays
        at = uniform(shape, random)
        width = 1 + noise
        lower = target - at * width + 0.05 * width + 3 * noise
        return {"predictions": target.clone(), "target": target, "lower": lower, "upper": lower + 0.9 * width}


@register_metric("interval_coverage", REAL, aliases=["picp"])
class IntervalCoverage(IntervalMean):
    """Share of the targets that lie in their interval, its ends included.

    Its best value is the share that the interval was made for, so it has no direction and is measured only;
    `interval_coverage_error` is what can be optimised.

    Value: float in [0, 1], a share, the nominal share is best; nan before the first row.
    Formula: mean(lower <= target <= upper)
    Source: Khosravi, Nahavandi, Creighton & Atiya 2011, IEEE Transactions on Neural Networks 22(3).

    >>> metric = IntervalCoverage()
    >>> ends = {"lower": torch.tensor([0.0, 0.0]), "upper": torch.tensor([2.0, 1.0])}
    >>> metric.update(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 3.0]), **ends)
    >>> metric.compute().item()
    0.5
    """

    objective: ClassVar[Any] = None

    def get_current_value(  # type: ignore[override]  # it needs extras
        self, preds: Tensor, target: Tensor, lower: Tensor, upper: Tensor
    ) -> Tensor:
        """Measure each value."""
        return ((lower <= target) & (target <= upper)).double()


@register_metric("interval_coverage_error", REAL)
class IntervalCoverageError(IntervalMean):
    """Distance of the share of targets inside their interval from the nominal `1 - alpha`.

    Value: float in [0, 1], a share, 0 is best; nan before the first row.
    Formula: |mean(lower <= target <= upper) - (1 - alpha)|
    Source: the distance of `interval_coverage` from its best value.

    >>> metric = IntervalCoverageError(alpha=0.1)
    >>> ends = {"lower": torch.tensor([0.0, 0.0]), "upper": torch.tensor([2.0, 1.0])}
    >>> metric.update(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 3.0]), **ends)
    >>> round(metric.compute().item(), 4)  # |1 / 2 - 0.9|
    0.4
    """

    objective = MINIMIZE

    def __init__(self, *, alpha: float = 0.1) -> None:
        super().__init__()
        self.alpha = inner_share("interval_coverage_error", alpha)

    def get_current_value(  # type: ignore[override]  # it needs extras
        self, preds: Tensor, target: Tensor, lower: Tensor, upper: Tensor
    ) -> Tensor:
        """Measure each value."""
        return ((lower <= target) & (target <= upper)).double()

    def compute(self) -> Tensor:
        """Compare the share with the nominal one."""
        return (super().compute() - (1 - self.alpha)).abs()


@register_metric("interval_width", REAL, aliases=["mpiw"])
class IntervalWidth(IntervalMean):
    """Mean width of the intervals: how sharp a forecast is, whatever it covers.

    The narrowest interval is an empty one: optimise it together with `interval_coverage_error`, or take
    `interval_score`, which weighs both.

    Value: float in (-inf, inf), in the target's unit, small is sharp; nan before the first row; below 0 where
        upper ends lie below lower ones.
    Formula: mean(upper - lower)
    Source: Khosravi, Nahavandi, Creighton & Atiya 2011, IEEE Transactions on Neural Networks 22(3).

    >>> metric = IntervalWidth()
    >>> ends = {"lower": torch.tensor([0.0, 0.0]), "upper": torch.tensor([2.0, 1.0])}
    >>> metric.update(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 3.0]), **ends)
    >>> metric.compute().item()
    1.5
    """

    objective = MINIMIZE

    def get_current_value(  # type: ignore[override]  # it needs extras
        self, preds: Tensor, target: Tensor, lower: Tensor, upper: Tensor
    ) -> Tensor:
        """Measure each value."""
        return upper - lower


@register_metric("interval_score", REAL, aliases=["winkler_score"])
class IntervalScore(IntervalMean):
    """Width of a central interval of share `1 - alpha`, and 2 / alpha for each unit the target lies outside.

    Its best interval has the quantiles alpha / 2 and 1 - alpha / 2 as its ends.

    Value: float in (-inf, inf), in the target's unit, small is best; nan before the first row.
    Formula: mean(upper - lower + 2 / alpha * (max(lower - target, 0) + max(target - upper, 0)))
    Source: Winkler 1972, Journal of the American Statistical Association 67(337); Gneiting & Raftery 2007,
        eq. 43.

    >>> metric = IntervalScore(alpha=0.5)
    >>> ends = {"lower": torch.tensor([0.0, 0.0]), "upper": torch.tensor([2.0, 1.0])}
    >>> metric.update(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 3.0]), **ends)
    >>> metric.compute().item()  # (2 + 1 + 4 * 2) / 2
    5.5
    """

    objective = MINIMIZE

    def __init__(self, *, alpha: float = 0.1) -> None:
        super().__init__()
        self.alpha = inner_share("interval_score", alpha)

    def get_current_value(  # type: ignore[override]  # it needs extras
        self, preds: Tensor, target: Tensor, lower: Tensor, upper: Tensor
    ) -> Tensor:
        """Measure each value."""
        return winkler(lower, upper, target, self.alpha)
