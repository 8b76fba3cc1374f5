"""Divergences of distributions, events above a threshold, and scores of ensembles and Gaussians."""

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
from ...statistics.errors import columns
from ...statistics.totals import WeightedMean
from .._batches import Batch, draw_drifted, normal, shape_of, uniform
from .errors import REAL, ErrorMean, ExtraMean
from .robust import check_positive

_SLACK = 0.02  # tolerance of the sum of a row in half precision


class DistributionMean(ErrorMean):
    """Base class of mean divergences of two distributions over the columns."""

    direction = MINIMIZE
    regroups = False
    unmeasured = "a prediction is 0 where the target is not, an infinite divergence"

    def measure(self, batch: Outputs) -> Tensor:
        """Check that rows are distributions, scale them to sum to 1, and return the divergence of each."""
        pair = torch.stack([columns(batch).preds, columns(batch).target])
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
        """Return distributions, mixed with others by the noise."""
        target, other = ((3 * uniform(shape_of(output, rows), random)).softmax(-1) for _ in range(2))
        return {"predictions": (1 - noise) * target + noise * other, "target": target}


@register_metric("kl_divergence", [VECTOR], aliases=["kl_div"])
class KLDivergence(DistributionMean):
    """Mean Kullback-Leibler divergence of the predicted distribution from the true one.

    Shape:
        preds, target: (N, D) probabilities, each row summing to 1.
    Value: float in [0, inf), in nats, 0 is best; nan before the first row, or if a prediction is 0 where the
        target is not.

    Raises:
        MetricInputError: a row is not a distribution.
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
        """Return the divergence of each value."""
        return _relative_entropy(target, preds)


@register_metric("js_divergence", [VECTOR], aliases=["jensen_shannon_divergence"])
class JSDivergence(DistributionMean):
    """Mean Jensen-Shannon divergence: the divergence of both distributions from their midpoint.

    Shape:
        preds, target: (N, D) probabilities, each row summing to 1.
    Value: float in [0, 1], in nats, 0 is best, log(2) is the most, of distributions that share nothing; nan
        before the first row.

    Raises:
        MetricInputError: a row is not a distribution.
    Formula: mean over rows of kl(target, middle) / 2 + kl(preds, middle) / 2, middle = (target + preds) / 2
    Source: Lin 1991, IEEE Transactions on Information Theory 37(1).

    >>> metric = JSDivergence()
    >>> metric.update(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    >>> round(metric.compute().item(), 4)
    0.6931
    """

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Return the divergence of each value."""
        middle = (preds + target) / 2
        return (_relative_entropy(target, middle) + _relative_entropy(preds, middle)).clamp(
            max=2 * math.log(2)
        ) / 2


@register_metric("csi", REAL, aliases=["critical_success_index", "threat_score"])
class CriticalSuccessIndex(MeanMetric):
    """Share of the events that occurred or were predicted that both occurred and were predicted.

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

    direction = MAXIMIZE
    inputs = PREDICTIONS
    regroups = True

    def __init__(self, *, threshold: float) -> None:
        super().__init__()
        self.threshold = float(threshold)

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return the share of each row, and as its weight the number of its events."""
        occurred, predicted = (values >= self.threshold for values in (batch.target, batch.predictions))
        hits, events = (
            flags.double().reshape(len(batch), -1).sum(1)
            for flags in (occurred & predicted, occurred | predicted)
        )
        return hits / events.clamp(min=1), events

    def compute(self) -> Tensor:
        """Divide hits by events; nan with a reason when there is no event."""
        mean = self.statistic(WeightedMean)
        if not mean.weight > 0:
            return self.undefined(f"no prediction and no target reaches {self.threshold:g}")
        return mean.total / mean.weight

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return numbers in [0, 1), with a share of the predictions redrawn."""
        shape = shape_of(output, rows)
        target, guess = uniform(shape, random), uniform(shape, random)
        return {"predictions": torch.where(uniform(shape, random) < noise, guess, target), "target": target}


@register_metric("crps", REAL, aliases=["continuous_ranked_probability_score"])
class CRPS(ExtraMean):
    """Continuous ranked probability score of an ensemble: the absolute error of a whole distribution.

    For one sample it is the absolute error. `fair=true` corrects for the size of the ensemble, so that a
    small one is scored as the distribution it was drawn from.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions are not read.
        samples: (N, S) or (N, D, S), S samples of each value (2 or more for `fair`).
    Value: float in (-inf, inf), in the target's unit, 0 is best; nan before the first row. Below 0 only if
        fair.

    Raises:
        MetricInputError: `samples=` is missing or of another shape.
    Formula: mean(|x - target|) - sum(|x - x'| for all pairs x, x') / (2 * S ** 2); fair: 2 * S * (S - 1)
    Source: Matheson & Winkler 1976, Management Science 22(10); fair: Ferro 2014, Quarterly Journal of the
        Royal Meteorological Society 140.

    >>> metric = CRPS()
    >>> metric.update(torch.tensor([2.0]), torch.tensor([2.0]), samples=torch.tensor([[1.0, 3.0]]))
    >>> metric.compute().item()  # (1 + 1) / 2 - (2 + 2) / 8
    0.5
    """

    direction = MINIMIZE
    wide = ("samples",)

    def __init__(self, *, fair: bool = False) -> None:
        super().__init__()
        self.fair = fair

    def get_current_value(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, samples: Tensor
    ) -> Tensor:
        """Return the score of each value: sorted, sample i of S is above i others and below S - 1 - i."""
        count = samples.shape[-1]
        if self.fair and count < 2:
            raise MetricInputError(f"{self.name} needs at least 2 samples of each value, got {count}")
        gaps = (samples - target.unsqueeze(-1)).sort(-1).values
        sides = 2 * torch.arange(count, dtype=torch.float64, device=gaps.device) - (count - 1)
        pairs = count * (count - 1) if self.fair else count * count
        return gaps.abs().mean(-1) - (gaps @ sides) / pairs

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return eight samples that stray as far as the noise."""
        batch = draw_drifted(output, rows, noise, random)
        strayed = (0.1 + noise) * normal((*shape_of(output, rows), 8), random)
        return {**batch, "samples": batch["predictions"].unsqueeze(-1) + strayed}


class GaussianMean(ExtraMean):
    """Base class of mean scores of Gaussians whose means are the predictions."""

    direction = MINIMIZE

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return Gaussians of a small spread around predictions that stray as far as the noise."""
        batch = draw_drifted(output, rows, noise, random)
        return {**batch, "scale": torch.full_like(batch["target"], 0.5)}

    def check_scale(self, scale: Tensor, word: str = "scale") -> Tensor:
        """Check, on the CPU, that the scale is above 0, and return it."""
        if on_host(scale) and bool((scale <= 0).any()):
            raise MetricInputError(f"{self.name} needs a {word} above 0, got {scale.min():.3g}")
        return scale


@register_metric("gaussian_crps", REAL, aliases=["crps_gaussian"])
class GaussianCRPS(GaussianMean):
    """Continuous ranked probability score of a Gaussian, in closed form.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions are the means.
        scale: the standard deviations, in the shape of the target.
    Value: float from 0, in the target's unit, 0 is best; nan before the first row.

    Raises:
        MetricInputError: `scale=` is missing, of another shape, or not above 0.
    Formula: mean(scale * (z * (2 * Phi(z) - 1) + 2 * phi(z) - 1 / sqrt(pi))), z = (target - preds) / scale
    Source: Gneiting, Raftery, Westveld & Goldman 2005, Monthly Weather Review 133(5), eq. 5.

    >>> metric = GaussianCRPS()
    >>> metric.update(torch.tensor([1.0]), torch.tensor([1.0]), scale=torch.tensor([2.0]))
    >>> round(metric.compute().item(), 4)  # 2 * (2 / sqrt(2 * pi) - 1 / sqrt(pi))
    0.4674
    """

    def get_current_value(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, scale: Tensor
    ) -> Tensor:
        """Return the score of each value."""
        z = (target - preds) / self.check_scale(scale)
        density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
        return scale * (z * torch.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))


@register_metric("gaussian_nll", REAL, aliases=["gaussian_nll_loss"])
class GaussianNLL(GaussianMean):
    """Negative log-likelihood of the target under a Gaussian.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions are the means.
        scale: the standard deviations, in the shape of the target; or
        variance: their squares.
    Value: float in (-inf, inf), in nats, small is best; nan before the first row. Without the constant
        log(2 * pi) / 2 unless `full=true`, as in torch.

    Raises:
        MetricInputError: neither or both of `scale=` and `variance=` are given, or one is not above 0.
    Formula: mean(0.5 * (log(variance) + (target - preds) ** 2 / variance)); variances below eps count as eps
    Source: Nix & Weigend 1994, IEEE International Conference on Neural Networks; torch's gaussian_nll_loss.

    >>> metric = GaussianNLL()
    >>> metric.update(torch.tensor([1.0]), torch.tensor([3.0]), scale=torch.tensor([2.0]))
    >>> round(metric.compute().item(), 4)  # (log(4) + 4 / 4) / 2
    1.1931
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6) -> None:
        super().__init__()
        self.full = full
        self.eps = check_positive("gaussian_nll", "eps", eps)

    def get_current_value(
        self, preds: Tensor, target: Tensor, scale: Tensor | None = None, variance: Tensor | None = None
    ) -> Tensor:
        """Return the score of each value."""
        if scale is not None and variance is None:
            squared_scale = self.check_scale(scale).square()
        elif variance is not None and scale is None:
            squared_scale = self.check_scale(variance, "variance")
        else:
            raise MetricInputError(
                f"{self.name} needs either scale= or variance= beside predictions and target; pass one of "
                "them"
            )
        squared_scale = squared_scale.clamp(min=self.eps)
        loss: Tensor = (squared_scale.log() + (target - preds).square() / squared_scale) / 2
        return loss + math.log(2 * math.pi) / 2 if self.full else loss


def _relative_entropy(p: Tensor, q: Tensor) -> Tensor:
    """Return p * log(p / q), 0 where p is 0."""
    return torch.where(p == 0, 0.0, torch.xlogy(p, p / q))
