"""Losses of real outputs: Huber, smooth L1, log-cosh, Minkowski, Poisson; and the one that is passed."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ....exceptions import MetricInputError, MetricNameError
from ..._device import on_host
from ...batch import Outputs, as_tensor
from ...features import FEATURES, LOGITS, PREDICTIONS, RANKING, SEQUENCE, TEXT, OutputFeature
from ...metric import MeanMetric
from ...registry.register import register_metric
from ...statistics.errors import Errors, columns
from ...statistics.statistic import Statistic
from .._data import Batch, draw_drifted, shape_of, uniform
from .errors import REAL, ErrorMean, ErrorMetric, check_finite, power_mean

_MOST_POWER = 512
"""Up to this power, both powers of sizes that differ by a factor of 2 fit a float64."""


@register_metric("loss", [kind for kind in FEATURES if kind not in (RANKING, SEQUENCE, TEXT)])
class Loss(MeanMetric):
    """Mean over rows of the loss passed as `loss=`: the training criterion, or any number per row.

    Shape:
        preds, target: any inputs of the output's feature; they are not read.
        loss: (N,) one value per row, or one value, the mean of the batch, which is weighted by its rows.
    Value: float in (-inf, inf), in the loss's unit, small is best; nan before the first row.

    Raises:
        MetricInputError: `loss=` is missing or of another shape, or one value comes with `sample_weight=`.
    Formula: sum(loss) / rows
    Deviates: Ludwig computes the loss of the output feature itself, and takes the mean of its batches'
        values.
    Source: Ludwig's loss.

    >>> metric = Loss()
    >>> batch = torch.tensor([1, 0, 1])
    >>> metric.update(batch, batch, loss=torch.tensor([1.0, 2.0, 3.0]))
    >>> metric.update(batch[:1], batch[:1], loss=6.0)
    >>> metric.compute().item()  # (1 + 2 + 3 + 6) / 4
    3.0
    """

    direction = MINIMIZE
    inputs = PREDICTIONS
    reads_soft = True

    def require(self, batch: Outputs) -> None:
        """Accept any model output and any kind of target."""

    def get_current_value(  # type: ignore[override]
        self, preds: Any, target: Any, loss: Any
    ) -> Tensor:
        """Check that the loss is one finite value or one per row, and return it in float64."""
        values = as_tensor(loss).double()
        if values.ndim > 1:
            raise MetricInputError(
                f"{self.name} reads loss= as one value or one a row, got shape {tuple(values.shape)}"
            )
        check_finite(self, "loss", values)
        return values

    def measure(self, batch: Outputs) -> Tensor:
        """Return the loss that the batch carries."""
        if batch.extras.get("loss") is None:
            raise MetricInputError(
                f"{self.name} reads loss=, the criterion's value, beside outputs and target; it is missing"
            )
        return self.get_current_value(None, None, batch.extras["loss"])

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return a batch of the feature, with losses that grow with the noise."""
        shapes = {"binary": (), "category": (), "clusters": (), "set": (3,), "sequence": (5,), "text": (5,)}
        real_shapes = {"mask": (4, 4), "image": (1, 4, 4), "audio": (16,)}
        if output.type in shapes or output.type == "mask":
            target = (2 * uniform((rows, *{**shapes, **real_shapes}[output.type]), random)).long()
        elif output.type in real_shapes:
            target = uniform((rows, *real_shapes[output.type]), random)
        else:
            target = uniform(shape_of(output, rows), random)
        loss = noise * (1 + uniform((rows,), random))
        return {"predictions": target.clone(), "target": target, "loss": loss}


@register_metric("loss", [RANKING])
class LossOfRanking(Loss):
    """Mean over rows of the loss passed as `loss=`: the training criterion, or any number per row.

    Shape:
        scores, target: any inputs of a ranking; they are not read.
        loss: (N,) one value per row, or one value, the mean of the batch, which is weighted by its rows.
    Value: float in (-inf, inf), in the loss's unit, small is best; nan before the first row.

    Raises:
        MetricInputError: `loss=` is missing or of another shape, or one value comes with `sample_weight=`.
    Formula: sum(loss) / rows
    Source: Ludwig's loss.

    >>> metric = LossOfRanking()
    >>> metric.update(torch.rand(2, 5), [[3], [0, 1]], loss=torch.tensor([1.0, 2.0]))
    >>> metric.compute().item()
    1.5
    """

    inputs = LOGITS

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return rankings, with losses that grow with the noise."""
        scores = uniform((rows, getattr(output, "num_items", None) or 6), random)
        loss = noise * (1 + uniform((rows,), random))
        return {
            "logits": scores,
            "target": (scores > 0.5).long(),
            "users": torch.arange(rows) % 100,
            "loss": loss,
        }


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
class LogCosh(ErrorMean):
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

    direction = MINIMIZE

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Return log(cosh) of each error: near 0 as log(1 + 2 sinh(e/2)^2), far away without exp(e)."""
        size = error.abs()
        near = torch.log1p(2 * torch.sinh(size.clamp(max=1.0) / 2).square())
        return torch.where(size < 1, near, size + torch.log1p(torch.exp(-2 * size)) - math.log(2))


@register_metric("minkowski", REAL)
class Minkowski(ErrorMetric):
    """Power mean of the absolute errors: `p=1` is mae, `p=2` the root mean square, a large `p` the maximum.

    Shape:
        preds, target: (N,) or (N, D) real numbers; the columns are averaged before the root.
    Value: float in [0, inf), in the target's unit, 0 is best; nan before the first row.
    Formula: mean(|preds - target| ** p) ** (1 / p)
    Deviates: torchmetrics sums where this takes the mean, so that its value grows with the number of rows:
        it is the number of values to the power of 1 / p times this one.
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
                f"minkowski: p is a number from 1 to {_MOST_POWER}, got {p!r}; max_error is its limit"
            )
        self.p = float(p)

    def statistics(self) -> dict[str, Statistic]:
        """Return the sum of the powers per column."""
        return {"errors": Errors("power", self.p)}

    def of_errors(self, errors: Errors) -> Tensor:
        """Return the root of the mean of all columns."""
        return power_mean(errors.root_mean, self.p)


@register_metric("poisson_nll", REAL, aliases=["poisson_nll_loss"])
class PoissonNLL(ErrorMean):
    """Negative log-likelihood of a count under a Poisson distribution, without the target's own term.

    Shape:
        preds: (N,) or (N, D) real numbers above 0, the rates; with `log_input=true` their logarithms.
        target: (N,) or (N, D) counts from 0.
    Value: float in (-inf, inf), in nats, small is best; nan before the first row. `full=true` adds Stirling's
        approximation of log(target!) for targets above 1.

    Raises:
        MetricInputError: a rate is below 0, or a target is.
    Formula: mean(rate - target * log(rate + eps))
    Deviates: torch's `log_input` is true by default; here predictions are rates by default.
    Source: torch's poisson_nll_loss.

    >>> metric = PoissonNLL()
    >>> metric.update(torch.tensor([2.0, 1.0]), torch.tensor([1.0, 3.0]))
    >>> round(metric.compute().item(), 4)  # (2 - log(2) + 1 - 0) / 2
    1.1534
    """

    direction = MINIMIZE
    regroups = False
    draw_batch = staticmethod(draw_drifted)

    def __init__(self, *, log_input: bool = False, full: bool = False, eps: float = 1e-8) -> None:
        super().__init__()
        self.log_input = log_input
        self.full = full
        self.eps = check_positive("poisson_nll", "eps", eps)

    def measure(self, batch: Outputs) -> Tensor:
        """Check, on the CPU, that the values are rates and counts, then return the loss of each row."""
        preds, target, _ = columns(batch)
        if on_host(preds) and (target.min() < 0 or (not self.log_input and preds.min() < 0)):
            raise MetricInputError(
                f"{self.name} reads {'' if self.log_input else 'rates and '}counts from 0, got predictions "
                f"from {preds.min():.3g} and targets from {target.min():.3g}"
            )
        return super().measure(batch)

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Return the loss of each value."""
        loss = preds.exp() - target * preds if self.log_input else preds - target * (preds + self.eps).log()
        if not self.full:
            return loss
        count = target.clamp(min=1)
        stirling = count * count.log() - count + (2 * math.pi * count).log() / 2
        return loss + torch.where(target > 1, stirling, 0.0)


def check_positive(metric: str, param: str, value: float) -> float:
    """Check that a parameter is above 0, and return it.

    Raises:
        MetricNameError: it is not.
    """
    if not value > 0:
        raise MetricNameError(f"{metric}: {param} is a number above 0, got {value!r}")
    return float(value)
