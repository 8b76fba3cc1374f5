"""Errors that grow more slowly, or faster, than the square: Huber, smooth L1, log-cosh, Minkowski."""

from __future__ import annotations

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ....exceptions import MetricNameError
from ...registry.register import register_metric
from ...statistics.errors import Errors
from ...statistics.statistic import Statistic
from .errors import NOT_FINITE, REAL, ErrorMean, ErrorMetric, power_mean

_MOST_POWER = 512
"""Up to this power, both powers of sizes that differ by a factor of 2 fit a float64."""


@register_metric("huber", REAL, aliases=["huber_loss"])
class Huber(ErrorMean):
    """Huber loss: half the squared error up to `delta`, and a straight line beyond it.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the square of the target's unit, 0 is best; nan before the first row.
    Formula: mean(0.5 * e ** 2 if |e| <= delta else delta * (|e| - delta / 2)), e = preds - target
    Source: Huber 1964, Annals of Mathematical Statistics 35(1); torch's huber_loss, Ludwig's huber.

    >>> metric = Huber()
    >>> metric.update(torch.tensor([0.5, 3.0]), torch.tensor([0.0, 0.0]))
    >>> metric.compute().item()  # (0.125 + 2.5) / 2
    1.3125
    """

    direction = MINIMIZE

    def __init__(self, *, delta: float = 1.0) -> None:
        super().__init__()
        self.delta = check_positive("huber", "delta", delta)

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Return the loss of each value."""
        size = error.abs()
        return torch.where(size <= self.delta, size.square() / 2, self.delta * (size - self.delta / 2))


@register_metric("smooth_l1", REAL, aliases=["smooth_l1_loss"])
class SmoothL1(ErrorMean):
    """Smooth L1 loss: the absolute error, squared below `beta`; `huber(delta=beta)` divided by beta.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Formula: mean(0.5 * e ** 2 / beta if |e| < beta else |e| - beta / 2), e = preds - target
    Source: Girshick 2015, Fast R-CNN; torch's smooth_l1_loss.

    >>> metric = SmoothL1(beta=2.0)
    >>> metric.update(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0]))
    >>> metric.compute().item()  # (0.25 + 2) / 2
    1.125
    """

    direction = MINIMIZE

    def __init__(self, *, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = check_positive("smooth_l1", "beta", beta)

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Return the loss of each value."""
        size = error.abs()
        return torch.where(size < self.beta, size.square() / (2 * self.beta), size - self.beta / 2)


@register_metric("log_cosh", REAL, aliases=["log_cosh_error"])
class LogCosh(ErrorMetric):
    """Logarithm of the hyperbolic cosine of the error: half its square near 0, its size minus log 2 far away.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, inf), 0 is best; nan before the first row.
    Formula: mean(log(cosh(preds - target)))
    Source: Wang, Ma, Zhao & Tian 2022, Annals of Data Science 9(2); torchmetrics' log_cosh_error.

    >>> metric = LogCosh()
    >>> metric.update(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0]))
    >>> round(metric.compute().item(), 4)  # (log(cosh(1)) + 0) / 2
    0.2169
    """

    measure = "log_cosh"
    unmeasured = NOT_FINITE


@register_metric("minkowski", REAL)
class Minkowski(ErrorMetric):
    """Power mean of the absolute errors: `p=1` is mae, `p=2` the root mean square, a large `p` the maximum.

    Shape:
        preds, target: (N,) or (N, D) real numbers; the columns are averaged before the root.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Formula: mean(|preds - target| ** p) ** (1 / p)
    Deviates: torchmetrics sums where this takes the mean, so its value grows with the number of rows. It is
        this value times the number of values to the power of 1 / p.
    Source: Minkowski 1910, Geometrie der Zahlen.

    >>> metric = Minkowski(p=3.0)
    >>> metric.update(torch.tensor([2.0, 0.0]), torch.tensor([0.0, 0.0]))
    >>> round(metric.compute().item(), 4)  # (8 / 2) ** (1 / 3)
    1.5874
    """

    def __init__(self, *, p: float = 3.0) -> None:
        super().__init__()
        if not 1 <= p <= _MOST_POWER:
            raise MetricNameError(
                f"minkowski: p must be a number from 1 to {_MOST_POWER}, got {p!r}; for larger p, use "
                "max_error"
            )
        self.p = float(p)

    def statistics(self) -> dict[str, Statistic]:
        """Return the sum of the powers per column."""
        return {"errors": Errors("power", self.p)}

    def of_errors(self, errors: Errors) -> Tensor:
        """Return the root of the mean of all columns."""
        return power_mean(errors.root_mean, self.p)


def check_positive(metric: str, param: str, value: float) -> float:
    """Check that a parameter is above 0, and return it.

    Raises:
        MetricNameError: it is not.
    """
    if not value > 0:
        raise MetricNameError(f"{metric}: {param} must be a number above 0, got {value!r}")
    return float(value)
