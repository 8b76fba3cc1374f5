"""Predicted distributions against true ones, and events that are numbers above a threshold."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricInputError
from ..._device import on_host
from ...batch import Outputs
from ...features import PREDICTIONS, VECTOR, OutputFeature
from ...metric import MeanMetric
from ...registry.register import register_metric
from ...statistics.columns import columns
from ...statistics.mean import WeightedMean
from .._data import Batch, shape_of, uniform
from .errors import REAL, ErrorMean

_SLACK = 0.02  # a row of half precision sums to 1 within this


class DistributionMean(ErrorMean):
    """The mean over rows of a divergence of two distributions over the columns."""

    objective = MINIMIZE
    regroups = False
    unmeasured = "a prediction is 0 where the target is not, an infinite divergence"

    def measure(self, batch: Outputs) -> Tensor:
        """Refuse rows that are no distribution, scale the rest to sum to 1, and measure each."""
        pair = columns(batch)[:2]
        sums = pair.sum(-1, keepdim=True)
        if on_host(pair) and bool((pair < 0).any() | ((sums - 1).abs() > _SLACK).any()):
            raise MetricInputError(
                f"{self.name} reads rows of probabilities from 0 that sum to 1, got values from "
                f"{pair.min():.3g} and sums from {sums.min():.3g} to {sums.max():.3g}"
            )
        preds, target = pair / sums
        return self.of(preds, target, preds - target).sum(-1)

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Distributions, mixed with others by the noise."""
        target, other = ((3 * uniform(shape_of(output, rows), random)).softmax(-1) for _ in range(2))
        return {"predictions": (1 - noise) * target + noise * other, "target": target}


@register_metric("kl_divergence", [VECTOR], aliases=["kl_div"])
class KLDivergence(DistributionMean):
    """Mean over rows of the Kullback-Leibler divergence of the predicted distribution from the true one.

    Shape:
        preds, target: (N, D) probabilities, each row summing to 1.
    Value: float in [0, inf), in nats, 0 is best; nan before the first row, or if a prediction is 0 where the
        target is not.

    Raises:
        MetricInputError: a row is no distribution.
    Formula: mean over rows of sum(target * log(target / preds))
    Deviates: torch's kl_div reads log-probabilities, and its reduction "mean" divides by the columns too;
        this is its "batchmean". torchmetrics' KLDivergence names its arguments p and q: p is the target here.
    Source: Kullback & Leibler 1951, Annals of Mathematical Statistics 22(1).

    >>> metric = KLDivergence()
    >>> metric.update(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]]))
    >>> round(metric.compute().item(), 4)  # log(1 / 0.5)
    0.6931
    """

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Measure each value."""
        return _relative(target, preds)


@register_metric("js_divergence", [VECTOR], aliases=["jensen_shannon_divergence"])
class JSDivergence(DistributionMean):
    """Mean over rows of the Jensen-Shannon divergence: that of both distributions from their middle.

    Shape:
        preds, target: (N, D) probabilities, each row summing to 1.
    Value: float in [0, 1], in nats, 0 is best, log(2) is of distributions that share nothing; nan before the
        first row.

    Raises:
        MetricInputError: a row is no distribution.
    Formula: mean over rows of kl(target, middle) / 2 + kl(preds, middle) / 2, middle = (target + preds) / 2
    Source: Lin 1991, IEEE Transactions on Information Theory 37(1).

    >>> metric = JSDivergence()
    >>> metric.update(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    >>> round(metric.compute().item(), 4)
    0.6931
    """

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Measure each value."""
        middle = (preds + target) / 2
        return (_relative(target, middle) + _relative(preds, middle)).clamp(max=2 * math.log(2)) / 2


@register_metric("csi", REAL, aliases=["critical_success_index", "threat_score"])
class CriticalSuccessIndex(MeanMetric):
    """Of all events that came or were predicted, the share that came and were predicted.

    An event is a value of `threshold` or more; all values of all rows are counted together.

    Shape:
        preds, target: (N,) or (N, D) real numbers.
    Value: float in [0, 1], a share, 1 is best; nan if no event came or was predicted.
    Formula: hits / (hits + misses + false_alarms)
    Deviates: torchmetrics gives 0 where there was no event at all.
    Source: Schaefer 1990, Weather and Forecasting 5(4).

    >>> metric = CriticalSuccessIndex(threshold=0.5)
    >>> metric.update(torch.tensor([0.9, 0.6, 0.1]), torch.tensor([0.8, 0.2, 0.7]))
    >>> round(metric.compute().item(), 4)  # 1 / (1 + 1 + 1)
    0.3333
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS
    regroups = True

    def __init__(self, *, threshold: float) -> None:
        super().__init__()
        self.threshold = float(threshold)

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Give the share of each row, weighing as much as it has events."""
        came, predicted = (values >= self.threshold for values in (batch.target, batch.predictions))
        hits, events = (
            of.double().reshape(len(batch), -1).sum(1) for of in (came & predicted, came | predicted)
        )
        return hits / events.clamp(min=1), events

    def compute(self) -> Tensor:
        """Divide once."""
        mean = self.statistic(WeightedMean)
        if not mean.weight > 0:
            return self.undefined(f"no prediction and no target reaches {self.threshold:g}")
        return mean.total / mean.weight

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Numbers in [0, 1), some of the predictions drawn anew."""
        shape = shape_of(output, rows)
        target, guess = uniform(shape, random), uniform(shape, random)
        return {"predictions": torch.where(uniform(shape, random) < noise, guess, target), "target": target}


def _relative(p: Tensor, q: Tensor) -> Tensor:
    """P * log(p / q), 0 where p is 0."""
    return torch.where(p == 0, 0.0, torch.xlogy(p, p / q))
