"""The loss computed by the caller, and the Poisson loss of counts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ....exceptions import MetricInputError
from ..._device import on_host
from ...batch import Outputs, as_tensor
from ...features import FEATURES, LOGITS, PREDICTIONS, RANKING, SEQUENCE, TEXT, OutputFeature
from ...metric import MeanMetric
from ...registry.register import register_metric
from ...statistics.errors import columns
from .._batches import Batch, draw_drifted, shape_of, uniform
from .errors import REAL, ErrorMean, check_finite
from .robust import check_positive


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
        values. Of a sequence or a text, `loss` is `log_loss`, as in ParlAI.
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
                f"{self.name} needs loss= as one value or one per row, got shape {tuple(values.shape)}"
            )
        check_finite(self, "loss", values)
        return values

    def measure(self, batch: Outputs) -> Tensor:
        """Return the loss that the batch carries."""
        if batch.extras.get("loss") is None:
            raise MetricInputError(
                f"{self.name} needs loss=, the value of the criterion, beside outputs and target; it is "
                "missing"
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


@register_metric("poisson_nll", REAL, aliases={"poisson_nll_loss": "poisson_nll(log_input=true)"})
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
    Deviates: torch's `log_input` is true by default, as in the name `poisson_nll_loss`; otherwise predictions
        are rates by default.
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
                f"{self.name} needs {'' if self.log_input else 'rates and '}counts of at least 0, got "
                f"predictions from {preds.min():.3g} and targets from {target.min():.3g}"
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
