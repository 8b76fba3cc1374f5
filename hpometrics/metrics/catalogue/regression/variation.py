"""Shares of the target's variation that the predictions explain or miss."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ...registry.register import register_metric
from ...statistics.errors import ERROR, TARGET, times_power
from ...statistics.moments import Moments
from ...statistics.scores import Rows
from .errors import REAL, MomentMetric, RowsMetric

Multioutput = Literal["uniform", "variance_weighted"]


def no_variation_reason(name: str, moments: Moments, *sides: int) -> str | None:
    """Return why a share of variation is undefined, too few rows or a constant column, else None."""
    too_few = f"{name} needs at least 2 rows, got {moments.rows:g}"
    if moments.rows <= 0:
        return too_few
    for side in sides:
        flat = (moments.spread(side) == 0).nonzero().flatten().tolist()
        if flat and moments.rows < 2:
            return too_few
        if flat:
            what = "target" if side == TARGET else "prediction"
            where = f" in column {flat[0]}" if len(moments.spread(side)) > 1 else ""
            return f"{name} is a share of variation, but every {what}{where} is the same number"
    return None


def squared_errors(moments: Moments) -> Tensor:
    """Return the sum of squared errors of each column, in squares of the error's unit."""
    return moments.spread(ERROR) + moments.rows * moments.center(ERROR).square()


def unexplained_share(moments: Moments, squared: Tensor) -> Tensor:
    """Return squared errors per column, in squares of the error's unit, relative to the target's spread."""
    power = 2 * (moments.exponent(ERROR) - moments.exponent(TARGET))
    return times_power(squared / moments.spread(TARGET), power)


class VariationMetric(MomentMetric):
    """Base class of functions of moments of columns that vary, by default those of the target."""

    varying: ClassVar[tuple[int, ...]] = (TARGET,)

    def compute(self) -> Tensor:
        """Return the value of the moments; nan with a reason for too few rows or a constant column."""
        moments = self.statistic(Moments)
        reason = no_variation_reason(self.name, moments, *self.varying)
        return self.of_moments(moments) if reason is None else self.undefined(reason)

    def of_moments(self, moments: Moments) -> Tensor:
        """Return the value of moments of columns that vary."""
        raise NotImplementedError(f"{type(self).__name__} needs of_moments(moments)")


@register_metric("r2", REAL, aliases=["r2_score"])
class R2(VariationMetric):
    """Coefficient of determination: the share of the target's variation that the predictions explain.

    Always predicting the target's mean scores 0. For several columns it is the mean (`multioutput=uniform`)
    or the mean weighted by how much each column varies.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in (-inf, 1], no unit, 1 is best; nan with fewer than 2 rows or a target (column) that never
        varies, where scikit-learn gives 1 or 0.
    Formula: 1 - sum((preds - target) ** 2) / sum((target - mean(target)) ** 2)
    Deviates: for a constant target, scikit-learn gives 1 or 0, and torchmetrics and torcheval a number made
        of rounding errors. Sums of squares in single precision (torchmetrics) lose all digits far from 0.
    Source: Wright 1921, Journal of Agricultural Research 20(7); scikit-learn's r2_score.

    >>> metric = R2()
    >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> round(metric.compute().item(), 4)
    0.9486
    """

    direction = MAXIMIZE

    def __init__(self, *, multioutput: Multioutput = "uniform") -> None:
        super().__init__()
        self.multioutput = multioutput

    def of_moments(self, moments: Moments) -> Tensor:
        """Compare squared errors with the target's spread, per column; average the columns."""
        return 1 - _average(unexplained_share(moments, squared_errors(moments)), moments, self.multioutput)


@register_metric("adjusted_r2", REAL)
class AdjustedR2(VariationMetric):
    """R2 corrected for what a linear model with `features` inputs explains by chance.

    A row of weight 2 is two rows: n is the sum of the weights, so that their scale counts. Weights that are
    not numbers of repetitions should be divided by their mean.

    Shape:
        preds, target: (N,) or (N, D) real numbers, N > features + 1.
    Value: float in (-inf, 1], no unit, 1 is best; nan with fewer than features + 2 rows or a target (column)
        that never varies.
    Formula: 1 - (1 - r2) * (n - 1) / (n - features - 1)
    Deviates: torchmetrics falls back to plain r2 where there are too few rows.
    Source: Ezekiel 1930, Methods of Correlation Analysis; torchmetrics' r2_score(adjusted=features).

    >>> metric = AdjustedR2(features=1)
    >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> round(metric.compute().item(), 4)  # 1 - 0.0514 * 3 / 2
    0.9229
    """

    direction = MAXIMIZE

    def __init__(self, *, features: int) -> None:
        super().__init__()
        if features < 0:
            raise MetricNameError(
                f"adjusted_r2: features must be a number of inputs, at least 0, got {features!r}"
            )
        self.features = features

    def of_moments(self, moments: Moments) -> Tensor:
        """Correct the mean r2 of the columns for the degrees of freedom."""
        free = moments.rows - self.features - 1
        if free <= 0:
            return self.undefined(f"{self.name} needs more than {self.features + 1} rows")
        return 1 - unexplained_share(moments, squared_errors(moments)).mean() * (moments.rows - 1) / free


@register_metric("explained_variance", REAL, aliases=["explained_variance_score"])
class ExplainedVariance(VariationMetric):
    """Share of the target's variation that the predictions explain, ignoring a constant offset.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in (-inf, 1], no unit, 1 is best; nan with fewer than 2 rows or a target (column) that never
        varies, where scikit-learn gives 1 or 0.
    Formula: 1 - var(preds - target) / var(target)
    Source: scikit-learn's explained_variance_score.

    >>> metric = ExplainedVariance()
    >>> metric.update(torch.tensor([11.0, 12.0, 13.0]), torch.tensor([1.0, 2.0, 3.0]))
    >>> metric.compute().item()
    1.0
    """

    direction = MAXIMIZE

    def __init__(self, *, multioutput: Multioutput = "uniform") -> None:
        super().__init__()
        self.multioutput = multioutput

    def of_moments(self, moments: Moments) -> Tensor:
        """Compare the error's spread with the target's, per column; average the columns."""
        return 1 - _average(unexplained_share(moments, moments.spread(ERROR)), moments, self.multioutput)


@register_metric("rse", REAL, aliases=["relative_squared_error"])
class RSE(VariationMetric):
    """Squared error relative to always predicting the target's mean: 1 - r2.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), no unit, 0 is best, 1 is what the mean gives; nan with fewer than 2 rows or a
        target (column) that never varies.
    Formula: sum((preds - target) ** 2) / sum((target - mean(target)) ** 2)
    Source: Witten & Frank 2000, Data Mining, section 5.8; torchmetrics' relative_squared_error.

    >>> metric = RSE()
    >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> round(metric.compute().item(), 4)  # 1.5 / 29.1875
    0.0514
    """

    direction = MINIMIZE

    def of_moments(self, moments: Moments) -> Tensor:
        """Compare squared errors with the target's spread, per column; average the columns."""
        return unexplained_share(moments, squared_errors(moments)).mean()


@register_metric("rae", REAL, aliases=["relative_absolute_error"])
class RAE(RowsMetric):
    """Absolute error relative to always predicting the target's mean, over all rows, which are stored.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), no unit, 0 is best, 1 is what the mean gives; nan with fewer than 2 rows or a
        target (column) that never varies.
    Formula: sum(|preds - target|) / sum(|target - mean(target)|)
    Source: Witten & Frank 2000, Data Mining, section 5.8.

    >>> metric = RAE()
    >>> metric.update(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([1.0, 2.0, 3.0]))
    >>> metric.compute().item()  # 2 / (1 + 0 + 1)
    1.0
    """

    direction = MINIMIZE

    def of_rows(self, rows: Rows) -> Tensor:
        """Compare absolute errors with the target's gaps from its mean, per column; average the columns."""
        weight, shifted = rows.weight, rows.gaps
        gaps = weight @ (shifted - weight @ shifted / weight.sum()).abs()
        if bool((rows.target == rows.target[0]).all(0).any()):
            return self.undefined(f"{self.name} is a share of variation, but every target is the same number")
        return (weight @ rows.errors.abs() / gaps).mean()


def _average(values: Tensor, moments: Moments, multioutput: Multioutput) -> Tensor:
    if multioutput == "uniform":
        return values.mean()
    exponent = moments.exponent(TARGET)
    spread = times_power(moments.spread(TARGET), 2 * (exponent - exponent.max()))
    return torch.dot(values, spread) / spread.sum()
