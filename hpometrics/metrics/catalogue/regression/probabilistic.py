"""Forecast distributions: samples of an ensemble, or the mean and spread of a Gaussian, against what came."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ....exceptions import MetricInputError
from ..._device import on_host
from ...features import OutputFeature
from ...registry.register import register_metric
from .._data import Batch, drifted, normal, shape_of
from ._extras import ExtraMean
from .errors import REAL
from .robust import above_zero


@register_metric("crps", REAL, aliases=["continuous_ranked_probability_score"])
class CRPS(ExtraMean):
    """Continuous ranked probability score of an ensemble: the absolute error of a whole distribution.

    Of one sample it is its absolute error. `fair=true` corrects for the size of the ensemble, so that a small
    one is judged as the distribution it was drawn from.

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

    objective = MINIMIZE
    wide = ("samples",)

    def __init__(self, *, fair: bool = False) -> None:
        super().__init__()
        self.fair = fair

    def get_current_value(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, samples: Tensor
    ) -> Tensor:
        """Measure each value: sorted, sample i of S stands above i others and below S - 1 - i."""
        count = samples.shape[-1]
        if self.fair and count < 2:
            raise MetricInputError(f"{self.name} reads 2 samples or more of each value, got {count}")
        gaps = (samples - target.unsqueeze(-1)).sort(-1).values
        sides = 2 * torch.arange(count, dtype=torch.float64, device=gaps.device) - (count - 1)
        pairs = count * (count - 1) if self.fair else count * count
        return gaps.abs().mean(-1) - (gaps @ sides) / pairs

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Eight samples that stray as far as the noise."""
        batch = drifted(output, rows, noise, random)
        strayed = (0.1 + noise) * normal((*shape_of(output, rows), 8), random)
        return {**batch, "samples": batch["predictions"].unsqueeze(-1) + strayed}


class GaussianMean(ExtraMean):
    """The mean of a score of Gaussians with the predictions as their means."""

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Gaussians of a small spread around predictions that stray as far as the noise."""
        batch = drifted(output, rows, noise, random)
        return {**batch, "scale": torch.full_like(batch["target"], 0.5)}

    def checked_scale(self, scale: Tensor) -> Tensor:
        """Refuse, on the CPU, a spread of 0 or less."""
        if on_host(scale) and bool((scale <= 0).any()):
            raise MetricInputError(f"{self.name} reads a scale above 0, got {scale.min():.3g}")
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

    objective = MINIMIZE

    def get_current_value(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, scale: Tensor
    ) -> Tensor:
        """Measure each value."""
        z = (target - preds) / self.checked_scale(scale)
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

    objective = MINIMIZE

    def __init__(self, *, full: bool = False, eps: float = 1e-6) -> None:
        super().__init__()
        self.full = full
        self.eps = above_zero("gaussian_nll", "eps", eps)

    def get_current_value(
        self, preds: Tensor, target: Tensor, scale: Tensor | None = None, variance: Tensor | None = None
    ) -> Tensor:
        """Measure each value."""
        if scale is not None and variance is None:
            held = self.checked_scale(scale).square()
        elif variance is not None and scale is None:
            held = self.checked_scale(variance)
        else:
            raise MetricInputError(
                f"{self.name} reads scale= or variance= beside predictions and target; give one of the two"
            )
        held = held.clamp(min=self.eps)
        loss: Tensor = (held.log() + (target - preds).square() / held) / 2
        return loss + math.log(2 * math.pi) / 2 if self.full else loss
