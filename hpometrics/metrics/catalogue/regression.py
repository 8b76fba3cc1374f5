"""Real outputs: how far predictions are from the target, and how much of its variation they follow.

Where an output has several columns (vector, time series), a metric is measured for each column and the
columns are averaged with equal weight: scikit-learn's `multioutput="uniform_average"`.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ...objective import MAXIMIZE, MINIMIZE
from ..features import NUMBER, PREDICTIONS, TIMESERIES, VECTOR
from ..metric import Metric
from ..registry import register_metric
from ..statistics.moments import ERROR, PREDS, TARGET, Errors, Measure, Moments
from ..statistics.statistic import Statistic

_REAL = [NUMBER, VECTOR, TIMESERIES]


class ErrorMetric(Metric):
    """A function of the mean of one measure of the error; a subclass names the measure."""

    objective = MINIMIZE
    inputs = PREDICTIONS
    measure: ClassVar[Measure]

    def statistics(self) -> dict[str, Statistic]:
        """Keep the sum of the measure, per column."""
        return {"errors": Errors(self.measure)}

    def compute(self) -> Tensor:
        """Average the columns."""
        return self.statistic(Errors).mean.mean()


@register_metric("mse", _REAL, aliases=["mean_squared_error", "neg_mean_squared_error"])
class MSE(ErrorMetric):
    """Mean squared error.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the square of the target's unit, 0 is best; nan before the first row.
    Source: scikit-learn's mean_squared_error.

    >>> import torch
    >>> metric = MSE()
    >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> metric.compute().item()  # (0.25 + 0.25 + 0 + 1) / 4
    0.375
    """

    measure = "square"


@register_metric("rmse", _REAL, aliases=["root_mean_squared_error", "neg_root_mean_squared_error"])
class RMSE(ErrorMetric):
    """Root of the mean squared error; of several columns the mean of their roots.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Source: scikit-learn's root_mean_squared_error. torchmetrics takes the root after averaging the columns.

    >>> import torch
    >>> metric = RMSE()
    >>> metric.update(torch.tensor([3.0, 5.0]), torch.tensor([0.0, 1.0]))
    >>> round(metric.compute().item(), 4)  # sqrt((9 + 16) / 2)
    3.5355
    """

    measure = "square"

    def compute(self) -> Tensor:
        """Take the root of each column, then average the columns."""
        return self.statistic(Errors).mean.sqrt().mean()


@register_metric("mae", _REAL, aliases=["mean_absolute_error", "neg_mean_absolute_error"])
class MAE(ErrorMetric):
    """Mean absolute error.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Source: scikit-learn's mean_absolute_error.

    >>> import torch
    >>> metric = MAE()
    >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> metric.compute().item()  # (0.5 + 0.5 + 0 + 1) / 4
    0.5
    """

    measure = "absolute"


@register_metric(
    "mape", _REAL, aliases=["mean_absolute_percentage_error", "neg_mean_absolute_percentage_error"]
)
class MAPE(ErrorMetric):
    """Mean absolute error as a share of the target: |preds - target| / |target|.

    A share of 0 does not exist: with a target of 0 anywhere the metric is undefined, whatever was predicted.
    scikit-learn and torchmetrics divide by a tiny number instead; one such row then outweighs all the others.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), a share (0.1 is 10%), 0 is best; nan before the first row, or if a target is 0.
    Source: scikit-learn's mean_absolute_percentage_error, where no target is 0.

    >>> import torch
    >>> metric = MAPE()
    >>> metric.update(torch.tensor([90.0, 11.0]), torch.tensor([100.0, 10.0]))
    >>> round(metric.compute().item(), 4)  # (10 / 100 + 1 / 10) / 2
    0.1
    """

    measure = "percentage"

    def compute(self) -> Tensor:
        """Average the columns, unless a target was 0."""
        mean = super().compute()
        if not mean.isfinite():
            return self.undefined(
                "a target is 0, of which no error is a share; smape and mae are defined there"
            )
        return mean


@register_metric("smape", _REAL, aliases=["symmetric_mean_absolute_percentage_error"])
class SMAPE(ErrorMetric):
    """Mean absolute error as a share of the mean size of prediction and target: 2 |p - t| / (|p| + |t|).

    A row where both are 0 has no error and counts as 0.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, 2], no unit, 0 is best; nan before the first row. This is torchmetrics' scale;
        Ludwig's is 0 to 200.
    Source: Armstrong 1985, Long-range Forecasting, p. 348, with absolute values in the denominator.

    >>> import torch
    >>> metric = SMAPE()
    >>> metric.update(torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0]))
    >>> metric.compute().item()  # (2 * 2 / (3 + 1) + 0) / 2
    0.5
    """

    measure = "symmetric"


@register_metric("rmsle", _REAL, aliases=["root_mean_squared_log_error", "neg_root_mean_squared_log_error"])
class RMSLE(ErrorMetric):
    """Root of the mean squared gap between log(1 + preds) and log(1 + target).

    Shape:
        preds, target: (N,) or (N, D) real numbers above -1.
    Value: float in [0, inf), no unit, 0 is best; nan before the first row.

    Raises:
        MetricInputError: a prediction or a target is -1 or less (on a device the value is nan instead).
    Source: scikit-learn's root_mean_squared_log_error.

    >>> import torch
    >>> metric = RMSLE()
    >>> metric.update(torch.tensor([2.5, 5.0, 4.0, 8.0]), torch.tensor([3.0, 5.0, 2.5, 7.0]))
    >>> round(metric.compute().item(), 4)
    0.1993
    """

    measure = "square_log"

    def compute(self) -> Tensor:
        """Take the root of each column, then average the columns."""
        mean = self.statistic(Errors).mean.sqrt().mean()
        if not mean.isfinite():
            return self.undefined("a prediction or a target is -1 or less, and has no log(1 + x)")
        return mean


class MomentMetric(Metric):
    """A function of the moments of predictions, target and error."""

    inputs = PREDICTIONS

    def statistics(self) -> dict[str, Statistic]:
        """Keep the moments, per column."""
        return {"moments": Moments()}

    def unvarying(self, moments: Moments, *which: int) -> str | None:
        """Say why a share of variation does not exist: too few rows, or a column that never changes."""
        if moments.rows < 2:
            return f"{self.name} needs at least 2 rows, got {moments.rows}"
        for of in which:
            flat = (moments.spread(of) == 0).nonzero().flatten().tolist()
            if flat:
                what = "target" if of == TARGET else "prediction"
                where = f" in column {flat[0]}" if len(moments.spread(of)) > 1 else ""
                return f"{self.name} is a share of variation, and every {what}{where} is the same number"
        return None


@register_metric("r2", _REAL, aliases=["r2_score"])
class R2(MomentMetric):
    """Share of the target's variation that the predictions explain; 0 is what predicting its mean gives.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in (-inf, 1], no unit, 1 is best; nan with fewer than 2 rows or a target (column) that never
        varies, where scikit-learn gives 1 or 0.
    Source: Wright 1921, Journal of Agricultural Research 20(7); scikit-learn's r2_score.

    >>> import torch
    >>> metric = R2()
    >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> round(metric.compute().item(), 4)
    0.9486
    """

    objective = MAXIMIZE

    def compute(self) -> Tensor:
        """Compare squared errors with the target's spread, per column; average the columns."""
        moments = self.statistic(Moments)
        if (reason := self.unvarying(moments, TARGET)) is not None:
            return self.undefined(reason)
        squares = moments.spread(ERROR) + moments.rows * moments.mean(ERROR).square()
        return (1 - squares / moments.spread(TARGET)).mean()


@register_metric("explained_variance", _REAL, aliases=["explained_variance_score"])
class ExplainedVariance(MomentMetric):
    """Share of the target's variation that the predictions explain when their constant offset is forgiven.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in (-inf, 1], no unit, 1 is best; nan with fewer than 2 rows or a target (column) that never
        varies, where scikit-learn gives 1 or 0.
    Source: scikit-learn's explained_variance_score.

    >>> import torch
    >>> metric = ExplainedVariance()
    >>> metric.update(torch.tensor([11.0, 12.0, 13.0]), torch.tensor([1.0, 2.0, 3.0]))
    >>> metric.compute().item()
    1.0
    """

    objective = MAXIMIZE

    def compute(self) -> Tensor:
        """Compare the error's spread with the target's, per column; average the columns."""
        moments = self.statistic(Moments)
        if (reason := self.unvarying(moments, TARGET)) is not None:
            return self.undefined(reason)
        return (1 - moments.spread(ERROR) / moments.spread(TARGET)).mean()


@register_metric("pearson", _REAL, aliases=["pearson_corrcoef", "pearsonr"])
class Pearson(MomentMetric):
    """Linear correlation of predictions and target: how far one is a rising straight line of the other.

    Shape:
        preds, target: (N,) or (N, D) real numbers; a column is correlated with its own target over the rows.
    Value: float in [-1, 1], no unit, 1 is best; nan with fewer than 2 rows, or when predictions or targets
        (of a column) never vary.
    Source: Pearson 1895, Proceedings of the Royal Society of London 58; scipy.stats.pearsonr.

    >>> import torch
    >>> metric = Pearson()
    >>> metric.update(torch.tensor([10.0, 20.0, 40.0]), torch.tensor([1.0, 2.0, 3.0]))
    >>> round(metric.compute().item(), 4)
    0.982
    """

    objective = MAXIMIZE

    def compute(self) -> Tensor:
        """Divide the cross moment by both spreads, per column; average the columns."""
        moments = self.statistic(Moments)
        if (reason := self.unvarying(moments, PREDS, TARGET)) is not None:
            return self.undefined(reason)
        size = moments.spread(PREDS).sqrt() * moments.spread(TARGET).sqrt()
        return (moments.cross / size).clamp(-1, 1).mean()
