"""Losses and skill scores of predicted quantiles, and metrics of prediction intervals."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ...features import OutputFeature
from ...registry.register import register_metric
from ...statistics.scores import Rows, quantile
from .._batches import Batch, draw_drifted, normal, shape_of, uniform
from .errors import REAL, ErrorMean, ExtraMean, RowsMetric, read_extra


def pinball(error: Tensor, alpha: float | Tensor) -> Tensor:
    """Return the pinball loss of preds - target: `alpha` per unit too low, `1 - alpha` per unit too high."""
    return torch.maximum((1 - alpha) * error, -alpha * error)


@register_metric("pinball", REAL, aliases=["mean_pinball_loss", "quantile_loss"])
class Pinball(ErrorMean):
    """Pinball loss of a predicted quantile: `alpha` per unit of a target above it, `1 - alpha` below it.

    `alpha=0.5` is half of mae.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions are the quantile of share alpha.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Formula: mean(max(alpha * (target - preds), (1 - alpha) * (preds - target)))
    Source: Koenker & Bassett 1978, Econometrica 46(1); scikit-learn's mean_pinball_loss.

    >>> metric = Pinball(alpha=0.9)
    >>> metric.update(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 2.0]))
    >>> round(metric.compute().item(), 4)  # (0.9 + 0.1) / 2
    0.5
    """

    direction = MINIMIZE

    def __init__(self, *, alpha: float = 0.5) -> None:
        super().__init__()
        self.alpha = check_share("pinball", alpha)

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Return the loss of each value."""
        return pinball(error, self.alpha)


class D2(RowsMetric):
    """Base class of shares by which predictions reduce the pinball loss of a constant, over stored rows."""

    direction = MAXIMIZE
    alpha: float

    def of_rows(self, rows: Rows) -> Tensor:
        """Compare both losses per column; average the columns."""
        weight = rows.weight
        if bool((rows.target == rows.target[0]).all(0).any()):
            return self.undefined(f"{self.name} is a share of variation, but every target is the same number")
        target = rows.target if rows.target.is_floating_point() else rows.gaps
        constant = quantile(target, weight, self.alpha)
        reference = weight @ pinball(constant - target, self.alpha)
        return (1 - weight @ pinball(rows.errors, self.alpha) / reference).mean()


@register_metric("d2_pinball", REAL, aliases=["d2_pinball_score"])
class D2Pinball(D2):
    """Share by which the predictions reduce the pinball loss of always predicting the target's quantile.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions are the quantile of share alpha.
    Value: float in (-inf, 1], no unit, 1 is best, 0 is what the target's own quantile gives; nan with fewer
        than 2 rows or a target (column) that never varies.
    Formula: 1 - pinball(target, preds) / pinball(target, quantile(target, alpha))
    Deviates: without weights, older releases of scikit-learn interpolate between two values of the target.
    Source: Koenker & Machado 1999, Journal of the American Statistical Association 94(448), eq. 7;
        scikit-learn's d2_pinball_score.

    >>> metric = D2Pinball(alpha=0.9)
    >>> metric.update(torch.tensor([1.0, 3.0, 3.0]), torch.tensor([1.0, 2.0, 3.0]))
    >>> round(metric.compute().item(), 4)  # 1 - 0.1 / (0.2 + 0.1)
    0.6667
    """

    def __init__(self, *, alpha: float = 0.5) -> None:
        super().__init__()
        self.alpha = check_inner_share("d2_pinball", alpha)


@register_metric("d2_absolute_error", REAL, aliases=["d2_absolute_error_score"])
class D2AbsoluteError(D2):
    """Share by which the predictions reduce the absolute error of always predicting the target's median.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in (-inf, 1], no unit, 1 is best, 0 is what the target's median gives; nan with fewer than 2
        rows or a target (column) that never varies.
    Formula: 1 - sum(|target - preds|) / sum(|target - median(target)|)
    Source: scikit-learn's d2_absolute_error_score.

    >>> metric = D2AbsoluteError()
    >>> metric.update(torch.tensor([1.0, 3.0, 3.0]), torch.tensor([1.0, 2.0, 3.0]))
    >>> metric.compute().item()  # 1 - 1 / 2
    0.5
    """

    alpha: ClassVar[float] = 0.5  # type: ignore[misc]  # fixed here


@register_metric("mean_pinball", REAL)
class MeanPinball(ExtraMean):
    """Mean pinball loss of several predicted quantiles per value, for a forecast's whole distribution.

    Twice this value tends to the CRPS as the number of evenly spaced quantiles grows.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions are not read.
        quantiles: (N, Q) or (N, D, Q), the predicted quantiles.
        levels: (Q,) or (N, Q), their shares in (0, 1); 1/(Q+1), 2/(Q+1), ... if not given.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.

    Raises:
        MetricInputError: `quantiles=` is missing or of another shape.
    Formula: mean(max(level * (target - quantile), (1 - level) * (quantile - target)))
    Source: Gneiting 2011, International Journal of Forecasting 27(2).

    >>> metric = MeanPinball()
    >>> metric.update(torch.tensor([2.0]), torch.tensor([2.0]), quantiles=torch.tensor([[1.0, 2.0, 3.0]]))
    >>> round(metric.compute().item(), 4)  # levels 0.25, 0.5, 0.75: (0.25 + 0 + 0.25) / 3
    0.1667
    """

    direction = MINIMIZE
    wide = ("quantiles",)
    free = ("levels",)

    def get_current_value(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, quantiles: Tensor, levels: Any = None
    ) -> Tensor:
        """Return the mean loss over the quantiles of each value."""
        count = quantiles.shape[-1]
        if levels is None:
            shares = torch.arange(1, count + 1, dtype=torch.float64, device=target.device) / (count + 1)
        else:
            shares = read_extra(self, "levels", levels, target.device)
            shares = (
                shares.reshape(len(shares), *[1] * (target.ndim - 1), count) if shares.ndim > 1 else shares
            )
        return pinball(quantiles - target.unsqueeze(-1), shares).mean(-1)

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return nine quantiles that stray as far as the noise."""
        batch = draw_drifted(output, rows, noise, random)
        shape = (*shape_of(output, rows), 9)
        strayed = (0.1 + noise) * normal(shape, random).sort(-1).values
        return {**batch, "quantiles": batch["predictions"].unsqueeze(-1) + strayed}


def winkler(lower: Tensor, upper: Tensor, target: Tensor, alpha: float) -> Tensor:
    """Return the width of each interval plus 2 / alpha for each unit that the target lies outside."""
    outside = (lower - target).clamp(min=0) + (target - upper).clamp(min=0)
    return upper - lower + 2 / alpha * outside


class IntervalMean(ExtraMean):
    """Base class of means over rows and columns of a function of the interval and the target.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions are not read.
        lower, upper: the ends of the interval, in the shape of the target.

    Raises:
        MetricInputError: `lower=` or `upper=` is missing or of another shape.
    """

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return intervals of 90 % whose center strays and whose width grows with the noise."""
        shape = shape_of(output, rows)
        target = 4 + 8 * uniform(shape, random)
        position = uniform(shape, random)  # without noise, the middle 90 % of [0, 1) hold the target
        width = 1 + noise
        lower = target - position * width + 0.05 * width + 3 * noise
        return {"predictions": target.clone(), "target": target, "lower": lower, "upper": lower + 0.9 * width}


@register_metric("interval_coverage", REAL, aliases=["picp"])
class IntervalCoverage(IntervalMean):
    """Share of the targets that lie in their interval, its ends included.

    Its best value is the nominal share of the intervals, so it has no direction and is only measured;
    `interval_coverage_error` can be optimized.

    Value: float in [0, 1], a share, the nominal share is best; nan before the first row.
    Formula: mean(lower <= target <= upper)
    Source: Khosravi, Nahavandi, Creighton & Atiya 2011, IEEE Transactions on Neural Networks 22(3).

    >>> metric = IntervalCoverage()
    >>> ends = {"lower": torch.tensor([0.0, 0.0]), "upper": torch.tensor([2.0, 1.0])}
    >>> metric.update(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 3.0]), **ends)
    >>> metric.compute().item()
    0.5
    """

    direction: ClassVar[Any] = None

    def get_current_value(  # type: ignore[override]  # reads extras
        self, preds: Tensor, target: Tensor, lower: Tensor, upper: Tensor
    ) -> Tensor:
        """Return 1 for each target inside its interval, else 0."""
        return ((lower <= target) & (target <= upper)).double()


@register_metric("interval_coverage_error", REAL)
class IntervalCoverageError(IntervalCoverage):
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

    direction = MINIMIZE

    def __init__(self, *, alpha: float = 0.1) -> None:
        super().__init__()
        self.alpha = check_inner_share("interval_coverage_error", alpha)

    def compute(self) -> Tensor:
        """Return the distance of the share from the nominal one."""
        return (super().compute() - (1 - self.alpha)).abs()


@register_metric("interval_width", REAL, aliases=["mpiw"])
class IntervalWidth(IntervalMean):
    """Mean width of the intervals: how sharp a forecast is, whatever it covers.

    The narrowest interval is empty: optimize the width together with `interval_coverage_error`, or optimize
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

    direction = MINIMIZE

    def get_current_value(  # type: ignore[override]  # reads extras
        self, preds: Tensor, target: Tensor, lower: Tensor, upper: Tensor
    ) -> Tensor:
        """Return the width of each interval."""
        return upper - lower


@register_metric("interval_score", REAL, aliases=["winkler_score"])
class IntervalScore(IntervalMean):
    """Interval score: the width of a central interval of share `1 - alpha`, and a penalty for each miss.

    The penalty is 2 / alpha for each unit that the target lies outside.

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

    direction = MINIMIZE

    def __init__(self, *, alpha: float = 0.1) -> None:
        super().__init__()
        self.alpha = check_inner_share("interval_score", alpha)

    def get_current_value(  # type: ignore[override]  # reads extras
        self, preds: Tensor, target: Tensor, lower: Tensor, upper: Tensor
    ) -> Tensor:
        """Return the score of each interval."""
        return winkler(lower, upper, target, self.alpha)


def check_share(metric: str, alpha: float) -> float:
    """Check that a share lies in [0, 1], and return it.

    Raises:
        MetricNameError: it lies outside.
    """
    if not 0 <= alpha <= 1:
        raise MetricNameError(f"{metric}: alpha must be a share in [0, 1], got {alpha!r}")
    return float(alpha)


def check_inner_share(metric: str, alpha: float) -> float:
    """Check that a share lies between 0 and 1, and return it.

    Raises:
        MetricNameError: it is 0, 1 or outside.
    """
    if not 0 < alpha < 1:
        raise MetricNameError(f"{metric}: alpha must be a share above 0 and below 1, got {alpha!r}")
    return float(alpha)
