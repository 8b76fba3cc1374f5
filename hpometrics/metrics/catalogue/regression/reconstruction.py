"""Reconstruction: how well columns that were hidden from a model are filled in by it."""

from __future__ import annotations

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ...features import PREDICTIONS, VECTOR, OutputFeature
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.columns import TARGET, times_power
from ...statistics.moments import Moments
from ...statistics.reconstruction import MaskedSquares
from ...statistics.statistic import Statistic
from .._data import Batch, drifted, uniform


@register_metric("unsup_loss", [VECTOR], aliases=["unsupervised_loss", "unsup_loss_numpy"])
class UnsupervisedLoss(Metric):
    """Squared error of the hidden columns in units of each column's variance, shared among those of a row.

    A row of weight 2 is two rows: the variance is divided by the sum of the weights less 1, so that their
    scale counts. Weights that are no numbers of repetitions are best divided by their mean.

    Shape:
        preds, target: (N, D) real numbers, the reconstruction and what was to be reconstructed.
        mask: (N, D) of 0 and 1, 1 where a column was hidden.
    Value: float in [0, inf), no unit, 0 is best, 1 is what predicting the mean gives; nan with fewer than 2
        rows.

    Raises:
        MetricInputError: `mask=` is missing, of another shape, or holds other numbers than 0 and 1.
    Formula: mean over rows of sum(mask * (preds - target) ** 2 / var(target)) / (sum(mask) + 1e-9)
    Deviates: the variance (with n - 1) is that of all rows; pytorch-tabnet takes that of each batch and
        averages the batches, so that its value depends on their size: of one batch it is the same. A column
        that never varies counts in units of the size of its mean, which in pytorch-tabnet keeps its sign (the
        loss may then fall below 0).
    Source: Arik & Pfister 2021, AAAI (TabNet); pytorch-tabnet's UnsupervisedLoss.

    >>> metric = UnsupervisedLoss()
    >>> preds = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    >>> target = torch.tensor([[1.0, 1.0], [2.0, 4.0], [6.0, 7.0]])
    >>> metric.update(preds, target, mask=torch.tensor([[1, 1], [1, 0], [0, 1]]))
    >>> round(metric.compute().item(), 7)  # (1 / 9 / 2 + 1 / 7) / 3, variances 7 and 9
    0.0661376
    """

    objective = MINIMIZE
    inputs = PREDICTIONS
    extras = ("mask",)

    def statistics(self) -> dict[str, Statistic]:
        """Keep the shares of error and the moments, per column."""
        return {"squares": MaskedSquares(), "moments": Moments()}

    def compute(self) -> Tensor:
        """Divide each column's share by its variance."""
        squares, moments = self.statistic(MaskedSquares), self.statistic(Moments)
        if moments.rows < 2:
            return self.undefined(f"{self.name} needs at least 2 rows, got {moments.rows:g}")
        variance, exponent = moments.spread(TARGET) / (moments.rows - 1), moments.exponent(TARGET)
        size = moments.center(TARGET).abs()
        scale = torch.where(variance > 0, variance, torch.where(size > 0, size, 1.0))
        degree = torch.where(variance > 0, 2, torch.where(size > 0, 1, 0))
        shares = times_power(squares.total / scale, 2 * squares.exponent - degree * exponent)
        return shares.sum() / squares.rows

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Half of the columns hidden, filled in as well as the noise lets."""
        batch = drifted(output, rows, noise, random)
        return {**batch, "mask": (uniform(tuple(batch["target"].shape), random) < 0.5).long()}
