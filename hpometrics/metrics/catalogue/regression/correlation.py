"""Correlations of predictions and target, by value, by order or by direction."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricNameError
from ...features import TIMESERIES, VECTOR
from ...registry.register import register_metric
from ...statistics.errors import ERROR, PREDS, TARGET
from ...statistics.moments import Moments
from ...statistics.ranks import Pairs, mean_ranks
from ...statistics.scores import Rows
from .errors import REAL, ErrorMean, MomentMetric, RowsMetric
from .variation import VariationMetric

Variant = Literal["a", "b", "c"]


@register_metric("pearson", REAL, aliases=["pearson_corrcoef", "pearsonr"])
class Pearson(VariationMetric):
    """Pearson correlation: how closely predictions and target follow a rising straight line.

    Shape:
        preds, target: (N,) or (N, D) real numbers; a column is correlated with its own target over the rows.
    Value: float in [-1, 1], no unit, 1 is best; nan with fewer than 2 rows, or when predictions or targets
        (of a column) never vary.
    Formula: cov(preds, target) / (std(preds) * std(target))
    Source: Pearson 1895, Proceedings of the Royal Society of London 58; scipy.stats.pearsonr.

    >>> metric = Pearson()
    >>> metric.update(torch.tensor([10.0, 20.0, 40.0]), torch.tensor([1.0, 2.0, 3.0]))
    >>> round(metric.compute().item(), 4)
    0.982
    """

    direction = MAXIMIZE
    varying = (PREDS, TARGET)

    def of_moments(self, moments: Moments) -> Tensor:
        """Divide the cross moment by both spreads per column; average the columns."""
        size = moments.spread(PREDS).sqrt() * moments.spread(TARGET).sqrt()
        return (moments.cross / size).clamp(-1, 1).mean()


@register_metric("concordance", REAL, aliases=["ccc", "lin_ccc"])
class Concordance(MomentMetric):
    """Lin's concordance correlation: how close predictions and target lie to the line of equality.

    Args:
        ddof: subtracted from n in covariance and variances. With 1 a row of weight 2 is two rows, as n is the
            sum of the weights.

    Shape:
        preds, target: (N,) or (N, D) real numbers; a column is compared with its own target over the rows.
    Value: float in [-1, 1], no unit, 1 is best; nan with fewer than 2 rows, or when predictions and targets
        (of a column) never vary and are the same.

    Raises:
        MetricNameError: a ddof below 0.
    Formula: 2 * cov(preds, target) / (var(preds) + var(target) + (mean(preds) - mean(target)) ** 2)
    Deviates: the moments are divided by n, as Lin does. torchmetrics' concordance_corrcoef divides covariance
        and variances by n - 1. This is `ddof=1`, and another number for few rows.
    Source: Lin 1989, Biometrics 45(1).

    >>> metric = Concordance()
    >>> metric.update(torch.tensor([2.0, 3.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
    >>> round(metric.compute().item(), 4)  # 2 * (2 / 3) / (2 / 3 + 2 / 3 + 1)
    0.5714
    """

    direction = MAXIMIZE

    def __init__(self, *, ddof: int = 0) -> None:
        super().__init__()
        if ddof < 0:
            raise MetricNameError(f"concordance: ddof must be a number of rows of at least 0, got {ddof!r}")
        self.ddof = ddof

    def compute(self) -> Tensor:
        """Compare the cross moment with spreads and offset per column; average the columns."""
        moments = self.statistic(Moments)
        if moments.rows > 0:
            moments = moments.in_one_unit()
        spread = moments.spread(PREDS) + moments.spread(TARGET)
        if moments.rows <= 0 or (moments.rows < 2 and bool((spread == 0).any())):
            return self.undefined(f"{self.name} needs at least 2 rows, got {moments.rows:g}")
        if self.ddof and moments.rows <= self.ddof:
            return self.undefined(f"{self.name} needs more than {self.ddof} rows, got {moments.rows:g}")
        offset = (moments.rows - self.ddof) * moments.center(ERROR).square()
        size = spread + offset
        if bool((size == 0).any()):
            return self.undefined("every prediction and every target of a column is the same number")
        return (2 * moments.cross / size).mean()


class OrderMetric(RowsMetric):
    """Base class of correlations of the orders of predictions and target; every row is stored."""

    direction = MAXIMIZE

    def of_rows(self, rows: Rows) -> Tensor:
        """Correlate each column with its target; average the columns."""
        preds, target, weight = rows
        for what, values in (("prediction", preds), ("target", target)):
            if bool((values == values[0]).all(0).any()):
                return self.undefined(f"{self.name} compares orders, but every {what} is the same number")
        pairs = zip(preds.T, target.T, strict=True)
        return torch.stack([self.correlate(p, t, weight) for p, t in pairs]).mean()

    def correlate(self, preds: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        """Return the correlation of one column, (N,) each."""
        raise NotImplementedError(f"{type(self).__name__} needs correlate(preds, target, weight)")


@register_metric("spearman", REAL, aliases=["spearman_corrcoef", "spearmanr"])
class Spearman(OrderMetric):
    """Spearman correlation: that of the ranks of predictions and target; ties share the mean rank.

    Shape:
        preds, target: (N,) or (N, D) real numbers; a column is ranked over the rows. Every row is kept.
    Value: float in [-1, 1], no unit, 1 is best; nan with fewer than 2 rows, or when predictions or targets
        (of a column) never vary.
    Formula: pearson(rank(preds), rank(target))
    Source: Spearman 1904, American Journal of Psychology 15(1); scipy.stats.spearmanr.

    >>> metric = Spearman()
    >>> metric.update(torch.tensor([10.0, 20.0, 400.0]), torch.tensor([1.0, 3.0, 2.0]))
    >>> round(metric.compute().item(), 4)  # 1 - 6 * (0 + 1 + 1) / (3 * 8)
    0.5
    """

    def correlate(self, preds: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        """Return the correlation of the ranks, whose mean is half the weight of all rows."""
        half = weight.sum() / 2
        x, y = mean_ranks(preds, weight) - half, mean_ranks(target, weight) - half
        size = (weight @ x.square()).sqrt() * (weight @ y.square()).sqrt()
        return ((weight * x) @ y / size).clamp(-1, 1)


@register_metric("kendall", REAL, aliases=["kendall_rank_corrcoef", "kendalltau"])
class Kendall(OrderMetric):
    """Kendall's tau: the share of pairs of rows in the same order minus that in opposite orders.

    It takes O(n log n). Pairs that are tied in the predictions or in the target are in neither share.
    `variant` selects the scale that corrects for them. `a` counts the pairs that are tied in neither, and `b`
    the untied pairs of each side. `c` counts the pairs that the smaller number of different values allows.

    Shape:
        preds, target: (N,) or (N, D) real numbers; a column is ordered over the rows. Every row is kept.
    Value: float in [-1, 1], no unit, 1 is best; nan with fewer than 2 rows, or when predictions or targets
        (of a column) never vary.
    Formula: (concordant - discordant) / sqrt(untied(preds) * untied(target))
    Deviates: where there are ties, the first tau of Kendall divides by all pairs; `a` is that of
        torchmetrics, which is Goodman and Kruskal's gamma.
    Source: Kendall 1945, Biometrika 33(3); Stuart 1953, Biometrika 40(1-2); scipy.stats.kendalltau;
        torchmetrics' KendallRankCorrCoef.

    >>> metric = Kendall()
    >>> metric.update(torch.tensor([10.0, 20.0, 400.0]), torch.tensor([1.0, 3.0, 2.0]))
    >>> round(metric.compute().item(), 4)  # (2 - 1) / 3
    0.3333
    """

    def __init__(self, *, variant: Variant = "b") -> None:
        super().__init__()
        self.variant = variant

    def correlate(self, preds: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        """Return tau of one column from its pairs."""
        pairs = Pairs.of(preds, target, weight)
        surplus = torch.tensor(pairs.concordant - pairs.discordant, dtype=torch.float64)
        if self.variant == "a":
            return (surplus / (pairs.concordant + pairs.discordant)).clamp(-1, 1)
        if self.variant == "c":
            return 2 * surplus * pairs.groups / (pairs.total * (pairs.groups - 1))
        untied = torch.tensor([pairs.total - pairs.same_x, pairs.total - pairs.same_y], dtype=torch.float64)
        return (2 * surplus / untied.sqrt().prod()).clamp(-1, 1)


@register_metric("cosine_similarity", [VECTOR, TIMESERIES], aliases=["cosine"])
class CosineSimilarity(ErrorMean):
    """Mean cosine of the angle between the predicted and the target vector of a row; a zero vector has 0.

    Shape:
        preds, target: (N, D) real numbers.
    Value: float in [-1, 1], no unit, 1 is best; nan before the first row.
    Formula: mean(preds . target / (|preds| * |target|))
    Deviates: torchmetrics' CosineSimilarity sums over rows without `reduction="mean"`, and gives nan for a
        zero vector.
    Source: Salton & McGill 1983, Introduction to Modern Information Retrieval; scikit-learn's
        cosine_similarity.

    >>> metric = CosineSimilarity()
    >>> metric.update(torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    >>> metric.compute().item()  # (1 + 0) / 2
    0.5
    """

    direction = MAXIMIZE

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Return the cosine of each row."""
        return cosine(preds, target).unsqueeze(-1)


def cosine(x: Tensor, y: Tensor) -> Tensor:
    """Return the cosine of each pair of rows of (N, D); 0 where one of them is 0."""
    x, y = _unit(x), _unit(y)
    return (x * y).sum(-1).clamp(-1, 1)


def _unit(rows: Tensor) -> Tensor:
    """Divide each row by its length, first by its largest entry, so that no square overflows."""
    largest = rows.abs().amax(-1, keepdim=True)
    rows = rows / largest.where(largest > 0, 1.0)
    length: Tensor = rows.norm(dim=-1, keepdim=True)
    return rows / length.clamp(min=1.0)
