"""Forecast errors in units of the error of a naive forecast of the same series."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ....exceptions import MetricInputError, MetricNameError
from ...features import TIMESERIES, OutputFeature
from ...registry.register import register_metric
from ...statistics.errors import is_out_of_range
from .._batches import Batch, normal, shape_of, uniform
from .errors import ExtraMean, read_extra
from .quantiles import check_inner_share, winkler

Baseline = Literal["history", "horizon"]


def root_mean_square(steps: Tensor) -> Tensor:
    """Return the root mean square of each series, (N, L), in units of its largest step if out of range."""
    mean: Tensor = steps.square().mean(1)
    if not is_out_of_range(mean):
        return mean.sqrt()
    largest = steps.abs().amax(1, keepdim=True)
    unit = torch.where((largest > 0) & largest.isfinite(), largest, 1.0)
    return (steps / unit).square().mean(1).sqrt() * unit.squeeze(1)


class ScaledMean(ExtraMean):
    """Base class of means over series of an error relative to the scale of the series.

    The scale is the error of the naive forecast, the value of `season` steps before, over the `history` of
    each series; or `scale`, computed by the caller.
    """

    direction = MINIMIZE
    by_row = ("scale",)
    free = ("history",)
    unmeasured = "a series has a scale of 0, because its naive forecast is never wrong"

    def __init__(self, *, season: int = 1) -> None:
        super().__init__()
        if season < 1:
            raise MetricNameError(
                f"{type(self).__name__.lower()}: season must be a number of steps, at least 1, got {season!r}"
            )
        self.season = season

    def naive(self, target: Tensor, scale: Tensor | None, history: Any) -> Tensor:
        """Return the scale of each series: the mean size of its seasonal steps, unless `scale` is given.

        Raises:
            MetricInputError: neither or both are given, or a history is too short.
        """
        if (scale is None) == (history is None):
            raise MetricInputError(
                f"{self.name} needs either history=, the values before the horizon, or scale=; pass one of "
                "them"
            )
        return scale if scale is not None else self.size(self.steps(target, history))

    def steps(self, target: Tensor, history: Any) -> Tensor:
        """Return the seasonal steps of each series over its history, (N, L - season)."""
        past = read_extra(self, "history", history, target.device)
        if past.ndim != 2 or len(past) != len(target) or past.shape[1] <= self.season:
            raise MetricInputError(
                f"{self.name} needs history= of shape ({len(target)}, more than {self.season}), got "
                f"{tuple(past.shape)}"
            )
        return past[:, self.season :] - past[:, : -self.season]

    def size(self, steps: Tensor) -> Tensor:
        """Return the mean size of each series' steps."""
        return steps.abs().mean(1)

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return random walks whose forecasts stray as far as the noise."""
        steps = shape_of(output, rows)[1]
        walk = normal((rows, 12 + steps), random).cumsum(1) + 20 * uniform((rows, 1), random)
        target = walk[:, 12:]
        predictions = target + noise * (1 + normal((rows, steps), random).abs())
        return {"predictions": predictions, "target": target, "history": walk[:, :12]}


@register_metric("mase", [TIMESERIES], aliases={"mean_absolute_scaled_error": "mase(baseline=horizon)"})
class MASE(ScaledMean):
    """Mean absolute error of each series relative to that of a naive forecast, averaged over series.

    The naive forecast repeats the value of `season` steps before, over the history (`baseline=history`) or,
    without one, inside the horizon itself (`baseline=horizon`, which is Ludwig's).

    Shape:
        preds, target: (N, H) real numbers, H steps of N series.
        history: (N, L) the values before the horizon, L > season; or
        scale: (N,) the mean absolute error of the naive forecast. Neither for `baseline=horizon`.
    Value: float in [0, inf), no unit, 0 is best, below 1 beats the naive forecast; nan before the first row,
        or if a series' naive forecast is never wrong.

    Raises:
        MetricInputError: neither or both of `history=` and `scale=` are given, or one is of another shape;
            with `baseline=horizon` any of them is given, or the horizon is not longer than the season.
    Formula: mean over series of mean(|preds - target|) / mean(|x[t] - x[t - season]|)
    Deviates: Ludwig takes the mean of its batches' values; here every series counts the same.
    Source: Hyndman & Koehler 2006, International Journal of Forecasting 22(4).

    >>> metric = MASE()
    >>> past = torch.tensor([[1.0, 2.0, 4.0]])
    >>> metric.update(torch.tensor([[5.0, 7.0]]), torch.tensor([[4.0, 5.0]]), history=past)
    >>> metric.compute().item()  # ((1 + 2) / 2) / ((1 + 2) / 2)
    1.0
    """

    def __init__(self, *, season: int = 1, baseline: Baseline = "history") -> None:
        super().__init__(season=season)
        self.baseline = baseline
        self.unread = frozenset(("history", "scale") if baseline == "horizon" else ())

    def get_current_value(
        self, preds: Tensor, target: Tensor, history: Any = None, scale: Tensor | None = None
    ) -> Tensor:
        """Return the scaled error of each series."""
        error = (preds - target).abs().mean(1)
        if self.baseline == "horizon" and target.shape[1] <= self.season:
            raise MetricInputError(
                f"{self.name} needs a horizon of more than {self.season} steps, got {target.shape[1]}; for a "
                "shorter one use mase, which reads history="
            )
        if self.baseline == "horizon":
            return error / self.size(self.steps(target, target))
        return error / self.naive(target, scale, history)


@register_metric("rmsse", [TIMESERIES])
class RMSSE(ScaledMean):
    """Root mean squared error of each series relative to that of a naive forecast, averaged over series.

    Shape:
        preds, target: (N, H) real numbers, H steps of N series.
        history: (N, L) the values before the horizon, L > season; or
        scale: (N,) the root mean squared error of the naive forecast.
    Value: float in [0, inf), no unit, 0 is best, below 1 beats the naive forecast; nan before the first row,
        or if a series' naive forecast is never wrong.

    Raises:
        MetricInputError: neither or both of `history=` and `scale=` are given, or one is of another shape.
    Formula: mean over series of sqrt(mean((preds - target) ** 2) / mean((x[t] - x[t - season]) ** 2))
    Source: Makridakis, Spiliotis & Assimakopoulos 2022, International Journal of Forecasting 38(4) (M5).

    >>> metric = RMSSE()
    >>> past = torch.tensor([[1.0, 2.0, 4.0]])
    >>> metric.update(torch.tensor([[5.0, 8.0]]), torch.tensor([[4.0, 5.0]]), history=past)
    >>> round(metric.compute().item(), 4)  # sqrt((1 + 9) / 2 / ((1 + 4) / 2))
    1.4142
    """

    def size(self, steps: Tensor) -> Tensor:
        """Return the root mean square of each series' steps."""
        return root_mean_square(steps)

    def get_current_value(
        self, preds: Tensor, target: Tensor, history: Any = None, scale: Tensor | None = None
    ) -> Tensor:
        """Return the scaled error of each series."""
        return root_mean_square(preds - target) / self.naive(target, scale, history)


@register_metric("msis", [TIMESERIES], aliases=["mean_scaled_interval_score"])
class MSIS(ScaledMean):
    """Interval score of each series relative to the error of a naive forecast, averaged over series.

    Shape:
        preds, target: (N, H) real numbers, H steps of N series; predictions are not read.
        lower, upper: (N, H) the ends of the intervals of share 1 - alpha.
        history: (N, L) the values before the horizon, L > season; or
        scale: (N,) the mean absolute error of the naive forecast.
    Value: float in (-inf, inf), no unit, small is best; nan before the first row, or if a series' naive
        forecast is never wrong.

    Raises:
        MetricInputError: `lower=`, `upper=`, or both of `history=` and `scale=` are missing.
    Formula: mean over series of mean(width + 2 / alpha * outside) / mean(|x[t] - x[t - season]|)
    Source: Makridakis, Spiliotis & Assimakopoulos 2020, International Journal of Forecasting 36(1) (M4).

    >>> ends = {"lower": torch.tensor([[3.0, 6.0]]), "upper": torch.tensor([[5.0, 8.0]])}
    >>> metric = MSIS(alpha=0.5)
    >>> metric.update(torch.zeros(1, 2), torch.tensor([[4.0, 5.0]]), scale=torch.tensor([1.5]), **ends)
    >>> metric.compute().item()  # ((2 + 2 + 4 * 1) / 2) / 1.5
    2.6666666666666665
    """

    def __init__(self, *, alpha: float = 0.05, season: int = 1) -> None:
        super().__init__(season=season)
        self.alpha = check_inner_share("msis", alpha)

    def get_current_value(  # type: ignore[override]  # it needs extras
        self,
        preds: Tensor,
        target: Tensor,
        lower: Tensor,
        upper: Tensor,
        history: Any = None,
        scale: Tensor | None = None,
    ) -> Tensor:
        """Return the scaled error of each series."""
        return winkler(lower, upper, target, self.alpha).mean(1) / self.naive(target, scale, history)

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return random walks and intervals that stray as far as the noise."""
        batch = ScaledMean.draw_batch(output, rows, noise, random)
        center = batch["predictions"]
        return {**batch, "lower": center - 0.1 - noise, "upper": center + 0.1 + noise}
