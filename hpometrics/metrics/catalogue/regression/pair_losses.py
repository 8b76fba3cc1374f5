"""Losses of pairs and triplets under their names in torch."""

from __future__ import annotations

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ....exceptions import MetricInputError, MetricNameError
from ..._device import on_host
from ...batch import Outputs
from ...features import NUMBER, VECTOR, OutputFeature
from ...metric import Metric
from ...registry.register import register_metric
from .._batches import Batch, normal, shape_of, uniform
from .correlation import cosine
from .errors import ExtraMean

_EPS = 1e-6  # torch's, added to every coordinate of a distance


class SideMean(ExtraMean):
    """Base class of mean losses whose target is -1 or 1."""

    direction = MINIMIZE

    def measure(self, batch: Outputs) -> Tensor:
        """Check, on the CPU, that targets are -1 or 1, then return the loss of each row."""
        check_sides(self, batch.target, "targets")
        return super().measure(batch)


@register_metric("hinge_embedding", [NUMBER], aliases=["hinge_embedding_loss"])
class HingeEmbedding(SideMean):
    """Hinge embedding loss: the distance of similar pairs, and what others lack up to `margin`.

    Shape:
        preds: (N,) distances.
        target: (N,) 1 for a pair that belongs together, -1 for one that does not.
    Value: float in (-inf, inf), in the distance's unit, 0 is best; nan before the first row; below 0 only for
        distances below 0.

    Raises:
        MetricInputError: a target is neither -1 nor 1.
    Formula: mean(preds if target == 1 else max(0, margin - preds))
    Source: torch's hinge_embedding_loss.

    >>> metric = HingeEmbedding()
    >>> metric.update(torch.tensor([0.25, 0.25]), torch.tensor([1.0, -1.0]))
    >>> metric.compute().item()  # (0.25 + 0.75) / 2
    0.5
    """

    def __init__(self, *, margin: float = 1.0) -> None:
        super().__init__()
        self.margin = float(margin)

    def get_current_value(self, preds: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each pair."""
        return torch.where(target == 1, preds, (self.margin - preds).clamp(min=0))

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return pairs near and far, apart from the noise."""
        target, answer = _draw_sides(rows, noise, random)
        return {"predictions": 0.5 - 0.4 * answer, "target": target}


@register_metric("margin_ranking", [NUMBER], aliases=["margin_ranking_loss"])
class MarginRanking(SideMean):
    """Margin ranking loss: how far the score that should be higher falls short of `margin` above the other.

    Shape:
        preds: (N,) scores.
        target: (N,) 1 where preds should be above `other`, -1 where below.
        other: (N,) the scores of the other side.
    Value: float from 0, in the score's unit, 0 is best; nan before the first row.

    Raises:
        MetricInputError: a target is neither -1 nor 1, or `other=` is missing.
    Formula: mean(max(0, margin - target * (preds - other)))
    Source: torch's margin_ranking_loss.

    >>> metric = MarginRanking()
    >>> metric.update(torch.tensor([1.0, 1.0]), torch.tensor([1.0, -1.0]), other=torch.tensor([0.0, 0.0]))
    >>> metric.compute().item()  # (0 + 1) / 2
    0.5
    """

    def __init__(self, *, margin: float = 0.0) -> None:
        super().__init__()
        self.margin = float(margin)

    def get_current_value(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, other: Tensor
    ) -> Tensor:
        """Return the loss of each pair."""
        return (self.margin - target * (preds - other)).clamp(min=0)

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return pairs in order, apart from the noise."""
        target, answer = _draw_sides(rows, noise, random)
        other = normal((rows,), random)
        return {
            "predictions": other + answer * (1 + uniform((rows,), random)),
            "target": target,
            "other": other,
        }


@register_metric("cosine_embedding", [VECTOR], aliases=["cosine_embedding_loss"])
class CosineEmbedding(ExtraMean):
    """Cosine embedding loss: 1 minus the cosine of similar pairs, and the cosine above `margin` of others.

    Shape:
        preds, target: (N, D) the two vectors of each pair.
        similar: (N,) 1 for a pair that belongs together, -1 for one that does not; all 1 if not given.
    Value: float in [0, 2], no unit, 0 is best; nan before the first row.

    Raises:
        MetricInputError: `similar=` holds other numbers than -1 and 1.
    Formula: mean(1 - cos if similar == 1 else max(0, cos - margin)), cos = preds . target / (|preds| *
        |target|)
    Source: torch's cosine_embedding_loss.

    >>> metric = CosineEmbedding()
    >>> pair = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[3.0, 4.0], [2.0, 0.0]])
    >>> metric.update(*pair, similar=torch.tensor([1, -1]))
    >>> metric.compute().item()  # (0 + 1) / 2
    0.5
    """

    direction = MINIMIZE
    by_row = ("similar",)

    def __init__(self, *, margin: float = 0.0) -> None:
        super().__init__()
        if not -1 <= margin <= 1:
            raise MetricNameError(f"cosine_embedding: margin must be a cosine in [-1, 1], got {margin!r}")
        self.margin = float(margin)

    def get_current_value(self, preds: Tensor, target: Tensor, similar: Tensor | None = None) -> Tensor:
        """Return the loss of each pair."""
        angle = cosine(preds, target)
        if similar is None:
            return 1 - angle
        check_sides(self, similar, "similar=")
        return torch.where(similar == 1, 1 - angle, (angle - self.margin).clamp(min=0))

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return vectors that point the same way or the opposite, apart from the noise."""
        target = normal(shape_of(output, rows), random)
        similar, answer = _draw_sides(rows, noise, random)
        return {"predictions": 2 * target * answer.unsqueeze(1), "target": target, "similar": similar}


@register_metric("triplet_margin", [VECTOR], aliases=["triplet_margin_loss"])
class TripletMargin(ExtraMean):
    """Triplet margin loss: how far the anchor is from being `margin` closer to its positive.

    Shape:
        preds, target: (N, D) the anchors and their positives.
        negative: (N, D) their negatives.
    Value: float from 0, in the vectors' unit, 0 is best; nan before the first row.

    Raises:
        MetricInputError: `negative=` is missing or of another shape.
    Formula: mean(max(0, d(anchor, positive) - d(anchor, negative) + margin)), d(x, y) = |x - y + 1e-6|_p
    Source: Balntas, Riba, Ponsa & Mikolajczyk 2016, BMVC; torch's triplet_margin_loss.

    >>> metric = TripletMargin()
    >>> anchor = torch.tensor([[0.0, 0.0]])
    >>> metric.update(anchor, torch.tensor([[0.0, 2.0]]), negative=torch.tensor([[1.5, 0.0]]))
    >>> round(metric.compute().item(), 4)  # 2 - 1.5 + 1
    1.5
    """

    direction = MINIMIZE

    def __init__(self, *, margin: float = 1.0, p: float = 2.0, swap: bool = False) -> None:
        super().__init__()
        if margin <= 0 or p <= 0:
            raise MetricNameError(f"triplet_margin: margin and p must be above 0, got {margin:g} and {p:g}")
        self.margin = float(margin)
        self.p = float(p)
        self.swap = swap

    def get_current_value(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, negative: Tensor
    ) -> Tensor:
        """Return the loss of each triplet; with `swap` the negative is compared with the nearer one."""
        gap = self._distance(preds, negative)
        if self.swap:
            gap = torch.minimum(gap, self._distance(target, negative))
        return (self._distance(preds, target) - gap + self.margin).clamp(min=0)

    def _distance(self, x: Tensor, y: Tensor) -> Tensor:
        distance: Tensor = torch.linalg.vector_norm(x - y + _EPS, self.p, dim=-1)
        return distance

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return positives at a distance that grows with the noise, and negatives anywhere."""
        shape = shape_of(output, rows)
        target, negative = normal(shape, random), normal(shape, random)
        return {"predictions": target + noise * normal(shape, random), "target": target, "negative": negative}


def _draw_sides(rows: int, noise: float, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw sides, -1 or 1, and answers that for half of a share `noise` are the other side."""
    side = 2.0 * (uniform((rows,), random) < 0.5) - 1
    return side, torch.where(uniform((rows,), random) < noise / 2, -side, side)


def check_sides(metric: Metric, values: Tensor, what: str) -> None:
    """Check, on the CPU, that values are -1 or 1.

    Raises:
        MetricInputError: a value is neither; the message names the range.
    """
    if on_host(values) and not bool((values.abs() == 1).all()):
        raise MetricInputError(
            f"{metric.name} needs {what} of -1 and 1, got values from {values.min():g} to {values.max():g}"
        )
