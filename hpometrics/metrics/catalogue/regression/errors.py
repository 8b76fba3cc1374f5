"""Errors of real outputs in the unit of the target.

For an output with several columns (vector, time series), a metric is measured for each column. The columns
are averaged with equal weight, as by scikit-learn's `multioutput="uniform_average"`. Metrics with a root can
also take one root over all columns, as torchmetrics does: `multioutput=pooled`.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ....exceptions import MetricInputError, NonFiniteError
from ..._device import on_host
from ...aggregation import RowValues, weighed_rows
from ...batch import Outputs, as_tensor
from ...features import NUMBER, PREDICTIONS, TIMESERIES, VECTOR, OutputFeature
from ...metric import MeanMetric, Metric
from ...registry.register import register_metric
from ...statistics.errors import ERROR, TARGET, Errors, Measure, columns, times_power
from ...statistics.moments import Extremes, Moments
from ...statistics.scores import Pooled, Rows, quantile
from ...statistics.statistic import Statistic
from ...statistics.totals import MaskedSquares
from .._batches import Batch, draw_drifted, uniform

REAL = [NUMBER, VECTOR, TIMESERIES]
NOT_FINITE = "some value of the error is not a finite number"
Multioutput = Literal["uniform", "pooled"]


def power_mean(values: Tensor, p: float) -> Tensor:
    """Return the power mean of sizes (D,), measured in units of the largest, so that no power overflows."""
    largest = values.amax()
    shares = torch.where((largest > 0) & largest.isfinite(), values / largest, 1.0)
    return largest * (shares.square().mean().sqrt() if p == 2 else shares.pow(p).mean().pow(1 / p))


def root_over(roots: Tensor, multioutput: Multioutput) -> Tensor:
    """Average the roots of the columns, or take the root of the mean of their squares.

    >>> root_over(torch.tensor([3.0, 4.0]), "uniform").item()
    3.5
    >>> round(root_over(torch.tensor([3.0, 4.0]), "pooled").item(), 4)  # sqrt((9 + 16) / 2)
    3.5355
    """
    return roots.mean() if multioutput == "uniform" else power_mean(roots, 2.0)


def over_columns(values: Tensor) -> Tensor:
    """Average the columns of (N, D); one column is returned as it is, as torch takes long for its mean."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values.mean(-1)


class ErrorMetric(Metric):
    """Base class of means of one measure of the error; a subclass names the measure."""

    direction = MINIMIZE
    inputs = PREDICTIONS
    measure: ClassVar[Measure]
    unmeasured: ClassVar[str | None] = None
    """Why a value that is not finite is undefined; without a reason it may be infinite."""

    def statistics(self) -> dict[str, Statistic]:
        """Return the sum of the measure per column."""
        return {"errors": Errors(self.measure)}

    def compute(self) -> Tensor:
        """Return the value of the errors; nan with a reason where they have none."""
        value = self.of_errors(self.statistic(Errors))
        if self.unmeasured and not value.isfinite():
            return self.undefined(self.unmeasured)
        return self.undefined("no rows were counted") if value.isnan() else value

    def of_errors(self, errors: Errors) -> Tensor:
        """Average the columns."""
        return errors.mean.mean()

    def row_values(self, batch: Outputs) -> RowValues | None:
        """Return the mean over the columns of each row."""
        return weighed_rows(over_columns(self.statistic(Errors).measured(batch)), batch.target, self.name)


class RootMetric(ErrorMetric):
    """Base class of roots of means of squares, one for each column or one for all."""

    def __init__(self, *, multioutput: Multioutput = "uniform") -> None:
        super().__init__()
        self.multioutput = multioutput

    def of_errors(self, errors: Errors) -> Tensor:
        """Average the roots of the columns, or take one root of all columns."""
        return root_over(errors.root_mean, self.multioutput)


class RowsMetric(Metric):
    """Base class of functions of the predictions and targets of all rows, which are stored."""

    inputs = PREDICTIONS

    def statistics(self) -> dict[str, Statistic]:
        """Return the stored rows."""
        return {"rows": Pooled()}

    def compute(self) -> Tensor:
        """Return the value of the rows; nan with a reason for fewer than 2."""
        rows = self.statistic(Pooled).rows
        if len(rows.weight) < 2:
            return self.undefined(f"{self.name} needs at least 2 rows, got {len(rows.weight)}")
        return self.of_rows(rows)

    def of_rows(self, rows: Rows) -> Tensor:
        """Return the value of 2 rows or more."""
        raise NotImplementedError(f"{type(self).__name__} needs of_rows(rows)")


class MomentMetric(Metric):
    """Base class of functions of the moments of predictions, target and error."""

    inputs = PREDICTIONS

    def statistics(self) -> dict[str, Statistic]:
        """Return the moments per column."""
        return {"moments": Moments()}


class ErrorMean(MeanMetric):
    """Base class of means over rows and columns of a function of prediction and target, `of`."""

    inputs = PREDICTIONS
    regroups = True
    unmeasured: ClassVar[str] = NOT_FINITE

    def measure(self, batch: Outputs) -> Tensor:
        """Return the mean over the columns of each row, in float64."""
        return over_columns(self.of(*columns(batch)))

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Return the error of each value; error is preds - target, all three are (N, D) float64."""
        raise NotImplementedError(f"{type(self).__name__} needs of(preds, target, error)")

    def compute(self) -> Tensor:
        """Return the mean; nan with a reason when nothing was counted or a value has no measure."""
        mean = super().compute()
        if self.undefined_reason is None and not mean.isfinite():
            return self.undefined(self.unmeasured)
        return mean


class ExtraMean(ErrorMean):
    """Base class of means over rows and columns of a function of prediction, target and extra tensors.

    A subclass defines `get_current_value(preds, target, <extras>)`, elementwise in the shape of the target or
    one value per row; every tensor is float64. An extra has the shape of the target, unless it is listed in
    `wide` (one dimension more), in `by_row` ((N,)) or in `free` (passed on unchanged).
    """

    regroups = False
    wide: ClassVar[tuple[str, ...]] = ()
    by_row: ClassVar[tuple[str, ...]] = ()
    free: ClassVar[tuple[str, ...]] = ()

    def measure(self, batch: Outputs) -> Tensor:
        """Check the extras, then return the value of each row."""
        extras = {name: self._extra(name, batch) for name in self._extra_names(batch)}
        preds, target, _ = (values.view(batch.target.shape) for values in columns(batch))
        value: Any = self.get_current_value(preds, target, **extras)
        by_row: Tensor = value if value.ndim == 1 else value.mean(-1)
        return by_row

    def _extra_names(self, batch: Outputs) -> list[str]:
        """Return the names of the extras of this batch.

        Raises:
            MetricInputError: a required extra is missing.
        """
        names = _extras_of(type(self))
        missing = [name for name, needed in names.items() if needed and batch.extras.get(name) is None]
        if missing:
            raise MetricInputError(
                f"{self.name} needs {', '.join(f'{name}=' for name in names if names[name])} beside "
                f"predictions and target; {', '.join(f'{name}=' for name in missing)} is missing"
            )
        return [name for name in names if batch.extras.get(name) is not None]

    def _extra(self, name: str, batch: Outputs) -> Any:
        if name in self.free:
            return batch.extras[name]
        values = read_extra(self, name, batch.extras[name], batch.target.device)
        shape = batch.target.shape[:1] if name in self.by_row else batch.target.shape
        fits = values.shape[:-1] == shape if name in self.wide else values.shape == shape
        if not fits or not values.numel():
            expected = ", ".join([*map(str, shape), *(["any number"] if name in self.wide else [])])
            raise MetricInputError(
                f"{self.name} needs {name}= of shape ({expected}), got {tuple(values.shape)}"
            )
        return values


def read_extra(metric: Metric, name: str, extra: Any, device: torch.device) -> Tensor:
    """Return an extra as float64 numbers, which on the CPU must be finite.

    Raises:
        MetricInputError: it is on another device, or holds nan or infinite numbers.
    """
    values = as_tensor(extra).double()
    if values.device != device:
        raise MetricInputError(f"{metric.name}: {name}= is on {values.device}, the target on {device}")
    check_finite(metric, name, values)
    return values


def check_finite(metric: Metric, name: str, values: Tensor) -> None:
    """Check, on the CPU, that an extra is finite.

    Raises:
        NonFiniteError: it holds nan or infinite numbers.
    """
    if on_host(values) and not bool(values.isfinite().all()):
        raise NonFiniteError(f"{metric.name}: {name}= contains nan or infinite values")


@cache
def _extras_of(cls: type[ExtraMean]) -> dict[str, bool]:
    """Return the extras that a class reads, and whether it needs each."""
    parameters = list(inspect.signature(cls.get_current_value).parameters.values())[3:]
    return {p.name: p.default is p.empty for p in parameters}


@register_metric("mse", REAL, aliases=["mean_squared_error", "neg_mean_squared_error", "mse_loss"])
class MSE(ErrorMetric):
    """Mean squared error.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the square of the target's unit, 0 is best; nan before the first row.
    Formula: mean((preds - target) ** 2)
    Source: scikit-learn's mean_squared_error.

    >>> metric = MSE()
    >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> metric.compute().item()  # (0.25 + 0.25 + 0 + 1) / 4
    0.375
    """

    measure = "square"


@register_metric("rmse", REAL, aliases=["root_mean_squared_error", "neg_root_mean_squared_error"])
class RMSE(RootMetric):
    """Root of the mean squared error.

    For several columns it is the mean of their roots (`multioutput=uniform`) or one root of all (`pooled`).

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Formula: sqrt(mean((preds - target) ** 2))
    Deviates: torchmetrics, Ludwig and pytorch-tabnet take one root of all columns, which is
        `multioutput=pooled`.
    Source: scikit-learn's root_mean_squared_error.

    >>> metric = RMSE()
    >>> metric.update(torch.tensor([3.0, 5.0]), torch.tensor([0.0, 1.0]))
    >>> round(metric.compute().item(), 4)  # sqrt((9 + 16) / 2)
    3.5355
    """

    measure = "square"


@register_metric("mae", REAL, aliases=["mean_absolute_error", "neg_mean_absolute_error", "l1", "l1_loss"])
class MAE(ErrorMetric):
    """Mean absolute error.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Formula: mean(|preds - target|)
    Source: scikit-learn's mean_absolute_error.

    >>> metric = MAE()
    >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> metric.compute().item()  # (0.5 + 0.5 + 0 + 1) / 4
    0.5
    """

    measure = "absolute"


@register_metric("median_absolute_error", REAL, aliases=["neg_median_absolute_error"])
class MedianAbsoluteError(RowsMetric):
    """Median of the absolute errors over all rows, which are stored.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Formula: median(|preds - target|)
    Source: scikit-learn's median_absolute_error.

    >>> metric = MedianAbsoluteError()
    >>> metric.update(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1.5, 2.0, 3.0]))
    >>> metric.compute().item()  # of 0.5, 0 and 6
    0.5
    """

    direction = MINIMIZE
    draw_batch = staticmethod(draw_drifted)

    def compute(self) -> Tensor:
        """Average the medians of the columns."""
        gaps, weight = self.statistic(Pooled).gaps
        return quantile(gaps, weight, 0.5).mean() if len(weight) else self.undefined("no rows were counted")


@register_metric("max_error", REAL, aliases=["neg_max_error"])
class MaxError(Metric):
    """Largest absolute error; for several columns the mean of their largest errors.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row. A weight above 0
        counts as 1.
    Formula: max(|preds - target|)
    Source: scikit-learn's max_error, which takes one column.

    >>> metric = MaxError()
    >>> metric.update(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1.5, 2.0, 3.0]))
    >>> metric.compute().item()
    6.0
    """

    direction = MINIMIZE
    inputs = PREDICTIONS
    draw_batch = staticmethod(draw_drifted)

    def statistics(self) -> dict[str, Statistic]:
        """Return the extreme errors per column."""
        return {"extremes": Extremes("error")}

    def compute(self) -> Tensor:
        """Average the columns."""
        extremes = self.statistic(Extremes)
        largest = torch.maximum(extremes.high, -extremes.low).mean()
        return largest if largest.isfinite() else self.undefined("no rows were counted")


class MeanError(MomentMetric):
    """Base class of functions of the mean error, measured from a first row to keep digits."""

    draw_batch = staticmethod(draw_drifted)

    @property
    def errors(self) -> Tensor:
        """The mean error of each column."""
        return self.statistic(Moments).mean(ERROR)

    def defined(self, value: Tensor) -> Tensor:
        """Return the value, or nan with a reason when nothing was counted."""
        return value if self.statistic(Moments).rows > 0 else self.undefined("no rows were counted")


@register_metric("bias", REAL, aliases=["mean_error", "mean_bias_error"])
class Bias(MeanError):
    """Mean error with its sign: above 0 the predictions are too high.

    Its best value is 0, so it has no direction and is only measured; `absolute_bias` can be optimized.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in (-inf, inf), in the target's unit, 0 is best; nan before the first row.
    Formula: mean(preds - target)
    Source: Willmott & Matsuura 2006, International Journal of Geographical Information Science 20(1).

    >>> metric = Bias()
    >>> metric.update(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 5.0]))
    >>> metric.compute().item()  # (1 - 3) / 2
    -1.0
    """

    direction: ClassVar[Any] = None

    def compute(self) -> Tensor:
        """Average the columns."""
        return self.defined(self.errors.mean())


@register_metric("absolute_bias", REAL)
class AbsoluteBias(MeanError):
    """Absolute value of the mean error; for several columns the mean of their absolute values.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Formula: |mean(preds - target)|
    Source: the distance of `bias` from its best value.

    >>> metric = AbsoluteBias()
    >>> metric.update(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 5.0]))
    >>> metric.compute().item()  # |(1 - 3) / 2|
    1.0
    """

    direction = MINIMIZE

    def compute(self) -> Tensor:
        """Average the columns."""
        return self.defined(self.errors.abs().mean())


@register_metric("unsup_loss", [VECTOR], aliases=["unsupervised_loss", "unsup_loss_numpy"])
class UnsupervisedLoss(Metric):
    """Squared error of the masked columns in units of their variance, averaged over those of a row.

    A row of weight 2 is two rows: the variance is divided by the sum of the weights less 1, so that their
    scale counts. Weights that are not numbers of repetitions should be divided by their mean.

    Shape:
        preds, target: (N, D) real numbers, the reconstruction and the original.
        mask: (N, D) of 0 and 1, 1 where a column was hidden.
    Value: float in [0, inf), no unit, 0 is best, 1 is what predicting the mean gives; nan with fewer than 2
        rows.

    Raises:
        MetricInputError: `mask=` is missing, of another shape, or holds other numbers than 0 and 1.
    Formula: mean over rows of sum(mask * (preds - target) ** 2 / var(target)) / (sum(mask) + 1e-9)
    Deviates: the variance (with n - 1) is that of all rows. pytorch-tabnet takes that of each batch and
        averages the batches. For one batch, the value is the same; for several, it depends on their size. A
        column that never varies counts in units of the size of its mean. In pytorch-tabnet, this mean keeps
        its sign (the loss may then fall below 0).
    Source: Arik & Pfister 2021, AAAI (TabNet); pytorch-tabnet's UnsupervisedLoss.

    >>> metric = UnsupervisedLoss()
    >>> preds = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    >>> target = torch.tensor([[1.0, 1.0], [2.0, 4.0], [6.0, 7.0]])
    >>> metric.update(preds, target, mask=torch.tensor([[1, 1], [1, 0], [0, 1]]))
    >>> round(metric.compute().item(), 7)  # (1 / 9 / 2 + 1 / 7) / 3, variances 7 and 9
    0.0661376
    """

    direction = MINIMIZE
    inputs = PREDICTIONS
    extras = ("mask",)

    def statistics(self) -> dict[str, Statistic]:
        """Return the shares of error and the moments per column."""
        return {"squares": MaskedSquares(), "moments": Moments()}

    def compute(self) -> Tensor:
        """Divide each column's share by its variance."""
        squares, moments = self.statistic(MaskedSquares), self.statistic(Moments)
        if moments.rows < 2:
            return self.undefined(f"{self.name} needs at least 2 rows, got {moments.rows:g}")
        variance, exponent = moments.spread(TARGET) / (moments.rows - 1), moments.exponent(TARGET)
        size = moments.center(TARGET).abs()
        scale = torch.where(variance > 0, variance, torch.where(size > 0, size, 1.0))
        degree = torch.where(variance > 0, 2, torch.where(size > 0, 1, 0))
        shares = times_power(squares.total / scale, 2 * squares.exponent - degree * exponent)
        return shares.sum() / squares.rows

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return batches with half of the columns masked; their error grows with the noise."""
        batch = draw_drifted(output, rows, noise, random)
        return {**batch, "mask": (uniform(tuple(batch["target"].shape), random) < 0.5).long()}
