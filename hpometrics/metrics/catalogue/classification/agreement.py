"""Agreement beyond chance: Matthews correlation, Cohen's kappa and likelihood ratios."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ...features import BINARY, CATEGORY, SET
from ...registry.register import register_metric
from ...statistics.confusion import Confusion, Counts
from ._base import ConfusionMetric, SetRatio

_ALIASES = ["matthews_corrcoef", "phi"]


@register_metric("mcc", [CATEGORY, BINARY], aliases=_ALIASES)
class MatthewsCorrelation(ConfusionMetric):
    """Matthews correlation coefficient of predicted and actual class.

    Shape:
        preds, target: (N,) int.
    Value: float in [-1, 1], no unit, 1 is best, 0 is chance; nan when target or predictions hold one class
        only.
    Formula: (c * n - sum(p * t)) / sqrt((n^2 - sum(p^2)) * (n^2 - sum(t^2))), c rows of n right, p of each
        class predicted, t of each class in the target
    Deviates: scikit-learn gives 0, torchmetrics 1 or 0, when target or predictions hold one class only.
    Source: Matthews 1975, BBA 405(2); for several classes Gorodkin 2004, Computational Biology and
        Chemistry 28(5).

    >>> metric = MatthewsCorrelation()
    >>> metric.update(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # 2 / sqrt(2 * 2 * 3 * 1)
    0.5774
    """

    direction = MAXIMIZE

    def compute(self) -> Tensor:
        """Divide the covariance of the class indicators by their deviations."""
        counts = self.counts.near_one
        predicted, actual = counts.tp + counts.fp, counts.support
        if (predicted > 0).sum() < 2 or (actual > 0).sum() < 2:
            return self.undefined("target or predictions have a single class")
        rows = actual.sum()
        covariance = counts.tp.sum() * rows - predicted @ actual
        spread = (rows**2 - predicted @ predicted) * (rows**2 - actual @ actual)
        return covariance / spread.sqrt()


@register_metric("mcc", [SET], aliases=_ALIASES)
class SetMatthewsCorrelation(SetRatio):
    """Matthews correlation coefficient of predicted and actual labels, of one label or averaged.

    Shape:
        preds, target: (N, L) of 0 and 1.
    Value: float in [-1, 1], no unit, 1 is best, 0 is chance; nan for a label that all rows
        or none have, in target or predictions. In an average such a label counts as 0.
    Formula: (tp * tn - fp * fn) / sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    Source: Matthews 1975, BBA 405(2); torchmetrics' MultilabelMatthewsCorrCoef is `average=micro`.

    >>> metric = SetMatthewsCorrelation(average="macro")
    >>> metric.update(torch.tensor([[1, 1], [1, 0], [0, 0]]), torch.tensor([[1, 1], [0, 0], [0, 0]]))
    >>> round(metric.compute().item(), 4)  # (1 * 1 / sqrt(2 * 1 * 2 * 1) + 1) / 2
    0.75
    """

    direction = MAXIMIZE
    word = "mcc"
    needs = "label that some rows have and some have not, in target and predictions"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return the covariance of the two indicators and the product of their deviations."""
        counts = counts.near_one
        spread = (counts.tp + counts.fp) * (counts.tn + counts.fn)
        spread = spread.sqrt() * (counts.support * (counts.tn + counts.fp)).sqrt()
        return counts.tp * counts.tn - counts.fp * counts.fn, spread


@register_metric("cohen_kappa", [CATEGORY, BINARY], aliases=["kappa", "cohen_kappa_score"])
class CohenKappa(ConfusionMetric):
    """Agreement of predicted and actual class beyond what their frequencies alone would produce.

    Shape:
        preds, target: (N,) int; with `weights=linear` or `quadratic` classes are ordered and far misses
            cost more.
    Value: float up to 1, no unit, 1 is best, 0 is chance; nan when chance alone would agree everywhere.
    Formula: 1 - cost of the misses / their cost were the labels independent
    Deviates: scikit-learn numbers the classes that occur: an absent one in between does not add to the
        distance of two classes, unless `labels=` lists it.
    Source: Cohen 1960, Educational and Psychological Measurement 20(1); weighted: Cohen 1968, Psychological
        Bulletin 70(4).

    >>> metric = CohenKappa()
    >>> metric.update(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 0, 0]))
    >>> metric.compute().item()  # (0.75 - 0.5) / (1 - 0.5)
    0.5
    """

    direction = MAXIMIZE

    def __init__(self, *, weights: Literal["none", "linear", "quadratic"] = "none") -> None:
        super().__init__()
        self.weights = weights
        self.reads_matrix = weights != "none"

    def compute(self) -> Tensor:
        """Compare the cost of the misses with the cost of independent labels."""
        counts = self.counts
        predicted, actual = counts.tp + counts.fp, counts.support
        if (predicted + actual > 0).sum() < 2:
            return self.undefined("target and predictions have the same single class")
        return 1 - self._cost() / _COST_BY_CHANCE[self.weights](predicted, actual)

    def _cost(self) -> Tensor:
        if self.weights == "none":
            return self.counts.fn.sum()
        misses = self.statistic(Confusion).derived("misses by distance", _misses_by_distance)
        distance = torch.arange(len(misses), dtype=torch.float64, device=misses.device)
        return misses @ (distance if self.weights == "linear" else distance**2)


class _Likelihood(ConfusionMetric):
    """Base class of likelihood ratios: quotients of two shares of rows predicted 1 or 0."""

    def quotient(self, numerator: Tensor, denominator: Tensor, needs: str) -> Tensor:
        """Return the quotient for class 1; nan with a reason where the denominator is 0."""
        if not denominator[1] > 0:
            return self.undefined(f"there is no {needs}")
        return numerator[1] / denominator[1]


@register_metric("positive_likelihood_ratio", [BINARY], aliases=["lr_plus"])
class PositiveLikelihoodRatio(_Likelihood):
    """How many times likelier a prediction of 1 is when the target is 1 than when it is 0.

    It has no direction: more is better, but the best model, without a false positive, has no value.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float from 0, no unit, more is better, 1 is chance; nan when no target is 1 or nothing is
        wrongly predicted 1.
    Formula: (tp / (tp + fn)) / (fp / (fp + tn))
    Source: Altman & Bland 1994, BMJ 309(6947); scikit-learn's class_likelihood_ratios.

    >>> import torch
    >>> metric = PositiveLikelihoodRatio()
    >>> metric.update(torch.tensor([1, 0, 1, 0, 0, 0]), torch.tensor([1, 1, 0, 0, 0, 0]))
    >>> metric.compute().item()  # (1/2) / (1/4)
    2.0
    """

    direction = None

    def compute(self) -> Tensor:
        """Divide recall by the false positive rate."""
        counts = self.counts
        return self.quotient(
            counts.tp * (counts.fp + counts.tn),
            counts.fp * counts.support,
            "row whose target is 1, or none wrongly predicted 1",
        )


@register_metric("negative_likelihood_ratio", [BINARY], aliases=["lr_minus", "neg_negative_likelihood_ratio"])
class NegativeLikelihoodRatio(_Likelihood):
    """How many times likelier a prediction of 0 is when the target is 1 than when it is 0.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float from 0, no unit, 0 is best, 1 is chance; nan when no target is 1 or no 0 is predicted 0.
    Formula: (fn / (tp + fn)) / (tn / (fp + tn))
    Deviates: scikit-learn's scorer neg_negative_likelihood_ratio has the sign flipped.
    Source: Altman & Bland 1994, BMJ 309(6947); scikit-learn's class_likelihood_ratios.

    >>> import torch
    >>> metric = NegativeLikelihoodRatio()
    >>> metric.update(torch.tensor([1, 0, 1, 0, 0, 0]), torch.tensor([1, 1, 0, 0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # (1/2) / (3/4)
    0.6667
    """

    direction = MINIMIZE

    def compute(self) -> Tensor:
        """Divide the false negative rate by the specificity."""
        counts = self.counts
        return self.quotient(
            counts.fn * (counts.fp + counts.tn),
            counts.tn * counts.support,
            "row whose target is 1, or none rightly predicted 0",
        )


def _misses_by_distance(statistic: Confusion) -> Tensor:
    """Count the rows that are off by 0, 1, 2, ... classes, in one pass over the matrix."""
    matrix = statistic.matrix
    classes = len(matrix)
    # each row, mirrored bottom to top, one place further to the left: diagonals become columns
    sheared = torch.nn.functional.pad(matrix.flip(0), (0, classes)).flatten()[:-classes]
    columns = sheared.view(classes, 2 * classes - 1).sum(0)
    return torch.cat([columns[classes - 1 : classes], columns[classes:] + columns[: classes - 1].flip(0)])


def _expected_distance(predicted: Tensor, actual: Tensor) -> Tensor:
    """Return the expected distance: the sum, over cuts between classes, of the rows that a cut separates."""
    below, at_most = (predicted.cumsum(0) / predicted.sum())[:-1], (actual.cumsum(0) / actual.sum())[:-1]
    return (below * (1 - at_most) + at_most * (1 - below)).sum() * actual.sum()


def _expected_squared_distance(predicted: Tensor, actual: Tensor) -> Tensor:
    """Return the expected squared distance: both variances and the squared gap of the means."""
    place = torch.arange(len(actual), dtype=torch.float64, device=actual.device)
    means = [place @ counts / counts.sum() for counts in (predicted, actual)]
    spread = predicted @ (place - means[0]) ** 2 + actual @ (place - means[1]) ** 2
    return spread + actual.sum() * (means[0] - means[1]) ** 2


_COST_BY_CHANCE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": lambda predicted, actual: actual.sum() - predicted @ (actual / actual.sum()),
    "linear": _expected_distance,
    "quadratic": _expected_squared_distance,
}
