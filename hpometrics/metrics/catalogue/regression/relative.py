"""Errors relative to the target, to its size or spread, or between logarithms."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ...features import PREDICTIONS
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.errors import TARGET, Errors
from ...statistics.moments import Extremes, Moments
from ...statistics.statistic import Statistic
from .errors import REAL, ErrorMetric, Multioutput, RootMetric, power_mean, root_over
from .variation import squared_errors, unexplained_share

Normalization = Literal["mean", "range", "std"]

_OF_ZERO = "a target is 0, so relative errors are undefined; use smape, wape or mae"
_NO_LOGARITHM = "a prediction or a target is -1 or less, so log(1 + x) is undefined"


@register_metric(
    "mape", REAL, aliases=["mean_absolute_percentage_error", "neg_mean_absolute_percentage_error"]
)
class MAPE(ErrorMetric):
    """Mean absolute error as a share of the target.

    A share of 0 does not exist: if any target is 0, the metric is undefined, whatever the predictions.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), a share (0.1 is 10%), 0 is best; nan before the first row, or if a target is 0.
    Formula: mean(|preds - target| / |target|)
    Deviates: scikit-learn and torchmetrics divide by a tiny number where the target is 0; one such row then
        outweighs all the others.
    Source: scikit-learn's mean_absolute_percentage_error.

    >>> metric = MAPE()
    >>> metric.update(torch.tensor([90.0, 11.0]), torch.tensor([100.0, 10.0]))
    >>> round(metric.compute().item(), 4)  # (10 / 100 + 1 / 10) / 2
    0.1
    """

    measure = "percentage"
    unmeasured = _OF_ZERO


@register_metric("rmspe", REAL, aliases=["root_mean_squared_percentage_error"])
class RMSPE(RootMetric):
    """Root of the mean squared error as a share of the target.

    For several columns it is the mean of their roots (`multioutput=uniform`) or one root of all (`pooled`).

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), a share (0.1 is 10%), 0 is best; nan before the first row, or if a target is 0.
    Formula: sqrt(mean(((preds - target) / target) ** 2))
    Deviates: Ludwig takes the mean of its batches' values, and puts 0.0001 in the place of a target of 0. For
        several columns, it takes one root, which is `multioutput=pooled`.
    Source: Ludwig's root_mean_squared_percentage_error.

    >>> metric = RMSPE()
    >>> metric.update(torch.tensor([90.0, 12.0]), torch.tensor([100.0, 10.0]))
    >>> round(metric.compute().item(), 4)  # sqrt((0.01 + 0.04) / 2)
    0.1581
    """

    measure = "square_percentage"
    unmeasured = _OF_ZERO


@register_metric("smape", REAL, aliases=["symmetric_mean_absolute_percentage_error"])
class SMAPE(ErrorMetric):
    """Mean absolute error as a share of the mean size of prediction and target.

    A value where both are 0 has no error and counts as 0.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, 2], no unit, 0 is best; nan before the first row.
    Formula: mean(2 * |preds - target| / (|preds| + |target|))
    Deviates: this is torchmetrics' scale of 0 to 2. Ludwig's is 0 to 200, a hundred times as much. Ludwig
        also takes the mean of its batches' values.
    Source: Armstrong 1985, Long-range Forecasting, p. 348, with absolute values in the denominator.

    >>> metric = SMAPE()
    >>> metric.update(torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0]))
    >>> metric.compute().item()  # (2 * 2 / (3 + 1) + 0) / 2
    0.5
    """

    measure = "symmetric"


@register_metric("wape", REAL, aliases=["wmape", "weighted_mean_absolute_percentage_error"])
class WAPE(Metric):
    """Sum of all absolute errors as a share of the sum of all absolute targets, over rows and columns.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), a share (0.1 is 10%), 0 is best; nan before the first row, or if every target is
        0.
    Formula: sum(|preds - target|) / sum(|target|)
    Deviates: torchmetrics divides by a tiny number if every target is 0.
    Source: Kolassa & Schutz 2007, Foresight 6; torchmetrics' weighted_mean_absolute_percentage_error.

    >>> metric = WAPE()
    >>> metric.update(torch.tensor([1.0, 9.0]), torch.tensor([0.0, 10.0]))
    >>> metric.compute().item()  # (1 + 1) / 10
    0.2
    """

    direction = MINIMIZE
    inputs = PREDICTIONS

    def statistics(self) -> dict[str, Statistic]:
        """Return the sums of the absolute errors and of the absolute targets."""
        return {"errors": Errors("absolute"), "sizes": Errors("size")}

    def compute(self) -> Tensor:
        """Divide the sums; nan with a reason where every target is 0."""
        size = self.statistic(Errors, "sizes").mean.mean()
        if not size > 0:
            return self.undefined("every target is 0, or no rows were counted; mae is defined there")
        return self.statistic(Errors, "errors").mean.mean() / size


@register_metric("msle", REAL, aliases=["mean_squared_log_error", "neg_mean_squared_log_error"])
class MSLE(ErrorMetric):
    """Mean squared gap between log(1 + preds) and log(1 + target).

    Shape:
        preds, target: (N,) or (N, D) real numbers above -1.
    Value: float in [0, inf), no unit, 0 is best; nan before the first row.

    Raises:
        MetricInputError: a prediction or a target is -1 or less (on a device the value is nan instead).
    Formula: mean((log(1 + preds) - log(1 + target)) ** 2)
    Source: scikit-learn's mean_squared_log_error.

    >>> metric = MSLE()
    >>> metric.update(torch.tensor([2.5, 5.0, 4.0, 8.0]), torch.tensor([3.0, 5.0, 2.5, 7.0]))
    >>> round(metric.compute().item(), 4)
    0.0397
    """

    measure = "square_log"
    unmeasured = _NO_LOGARITHM


@register_metric("rmsle", REAL, aliases=["root_mean_squared_log_error", "neg_root_mean_squared_log_error"])
class RMSLE(RootMetric):
    """Root of the mean squared gap between log(1 + preds) and log(1 + target).

    For several columns it is the mean of their roots (`multioutput=uniform`) or one root of all (`pooled`).

    Shape:
        preds, target: (N,) or (N, D) real numbers above -1.
    Value: float in [0, inf), no unit, 0 is best; nan before the first row.

    Raises:
        MetricInputError: a prediction or a target is -1 or less (on a device the value is nan instead).
    Formula: sqrt(mean((log(1 + preds) - log(1 + target)) ** 2))
    Deviates: pytorch-tabnet takes predictions below 0 as 0, which is `clip=true`; of several columns it takes
        one root, which is `multioutput=pooled`.
    Source: scikit-learn's root_mean_squared_log_error.

    >>> metric = RMSLE()
    >>> metric.update(torch.tensor([2.5, 5.0, 4.0, 8.0]), torch.tensor([3.0, 5.0, 2.5, 7.0]))
    >>> round(metric.compute().item(), 4)
    0.1993
    """

    unmeasured = _NO_LOGARITHM

    def __init__(self, *, clip: bool = False, multioutput: Multioutput = "uniform") -> None:
        super().__init__(multioutput=multioutput)
        self.clip = clip

    def statistics(self) -> dict[str, Statistic]:
        """Return the sum of the squared gaps per column."""
        return {"errors": Errors("square_log_clipped" if self.clip else "square_log")}


@register_metric("nrmse", REAL, aliases=["normalized_root_mean_squared_error"])
class NRMSE(Metric):
    """Root mean squared error in units of the target's mean, range or standard deviation.

    For several columns it is the mean, each in its own unit (`multioutput=uniform`), or one root of all
    columns in the unit of all targets (`pooled`).

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), no unit, 0 is best; nan before the first row, or if the unit (of a column) is 0.
    Formula: sqrt(mean((preds - target) ** 2)) / unit(target)
    Deviates: the size of the mean is taken; torchmetrics keeps its sign. Without `num_outputs`, torchmetrics
        pools the columns, as `multioutput=pooled` does. Its `l2` divides by a norm that grows with the rows,
        and is not available here.
    Source: torchmetrics' normalized_root_mean_squared_error.

    >>> metric = NRMSE(normalization="range")
    >>> metric.update(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 3.0]))
    >>> round(metric.compute().item(), 4)  # 1 / 3
    0.3333
    """

    direction = MINIMIZE
    inputs = PREDICTIONS

    def __init__(self, *, normalization: Normalization, multioutput: Multioutput = "uniform") -> None:
        super().__init__()
        self.normalization = normalization
        self.multioutput = multioutput

    def statistics(self) -> dict[str, Statistic]:
        """Return the squared errors and the statistic of the unit."""
        unit = Extremes("target") if self.normalization == "range" else Moments()
        return {"errors": Errors("square"), "unit": unit}

    def compute(self) -> Tensor:
        """Divide each column by its unit and average them, or divide all columns by the unit of all."""
        unit = self._unit()
        if bool((unit <= 0).any()) or not bool(unit.isfinite().all()):
            return self.undefined(f"the {self.normalization} of the target is 0, which cannot be a unit")
        roots = self.statistic(Errors).root_mean
        if self.multioutput == "pooled":
            value = root_over(roots, "pooled") / unit
        elif self.normalization == "std":
            moments = self.statistic(Moments)
            value = unexplained_share(moments, squared_errors(moments)).sqrt().mean()
        else:
            value = (roots / unit).mean()
        return self.undefined("no rows were counted") if value.isnan() else value

    def _unit(self) -> Tensor:
        """Return the unit of each column, or of all values together."""
        pooled = self.multioutput == "pooled"
        if self.normalization == "range":
            high, low = self.statistic(Extremes).high, self.statistic(Extremes).low
            return high.amax() - low.amin() if pooled else high - low
        moments = self.statistic(Moments)
        mean = moments.mean(TARGET)
        if self.normalization == "mean":
            return (mean.mean() if pooled else mean).abs()
        if not pooled:
            return moments.spread(TARGET)  # the share is taken of it, not of its root
        apart = (mean - mean.mean()).abs()
        return 2**0.5 * power_mean(torch.cat([moments.deviation(TARGET), apart]), 2.0)
