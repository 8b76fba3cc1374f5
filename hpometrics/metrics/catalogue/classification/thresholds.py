"""Thresholds: the best that a decision could be at any threshold, and the threshold where it is."""

from __future__ import annotations

from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricNameError
from ...features import BINARY, SET
from ...registry.register import register_metric
from ...statistics.cuts import CRITERIA, Criterion
from ...statistics.ranked import Ranked
from ._base import averages
from .columns import ColumnMetric, CurveAverage


class MaximumOverThresholds(ColumnMetric):
    """The largest value that a criterion takes at any threshold; `average` is over the labels of a set.

    One sort finds it: the criterion is read at every distinct score, and for predicting nothing at all.

    Shape:
        preds: (N,) float of a binary output, (N, L) of a set: probabilities (or logits by keyword).
        target: (N,) int, (N, L) of a set.
    """

    objective = MAXIMIZE
    criterion: Criterion

    def of_column(self, column: Ranked) -> Tensor:
        """Look at every cut."""
        return CRITERIA[self.criterion](*column.cuts, self.beta_squared).amax()

    @property
    def beta_squared(self) -> float:
        """How much more recall counts than precision, for the criterion that knows it."""
        return 1.0


@register_metric("f1_max", [BINARY, SET], aliases={"max_f1": "f1_max", **averages("f1_max")})
class F1Max(MaximumOverThresholds):
    """F1 at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.
    Formula: max over thresholds t of 2 * tp(t) / (2 * tp(t) + fp(t) + fn(t))
    Source: Lipton, Elkan & Naryanaswamy 2014, ECML PKDD; Ludwig's F1Max, which looks at one score after the
        other.

    >>> import torch
    >>> metric = F1Max()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: 2 * 2 / (2 * 2 + 1)
    0.8
    """

    criterion = "f1"


@register_metric("fbeta_max", [BINARY, SET])
class FbetaMax(MaximumOverThresholds):
    """F-beta at the threshold that makes it largest; recall counts `beta` times as much as precision.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.

    Raises:
        MetricNameError: beta is not above 0, no such class, or `class` beside `average`.
    Formula: max over thresholds t of (1 + beta^2) * tp(t) / ((1 + beta^2) * tp(t) + fp(t) + beta^2 * fn(t))
    Source: van Rijsbergen 1979, Information Retrieval, 2nd edition; Lipton et al. 2014, ECML PKDD.

    >>> import torch
    >>> metric = FbetaMax(beta=2.0)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: 5 * 2 / (5 * 2 + 1)
    0.9091
    """

    criterion = "fbeta"

    def __init__(self, *, beta: float, average: CurveAverage = "macro", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.beta = checked_beta("fbeta_max", beta)

    @property
    def beta_squared(self) -> float:
        """The square of `beta`."""
        return self.beta**2


@register_metric("accuracy_max", [BINARY, SET])
class AccuracyMax(MaximumOverThresholds):
    """Share of right decisions at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best, the share of the larger class is chance; nan when the target
        holds one class only.
    Formula: max over thresholds t of (tp(t) + tn(t)) / rows
    Source: Provost & Fawcett 2001, Machine Learning 42(3).

    >>> import torch
    >>> metric = AccuracyMax()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up, or 0.9 up: 3 of 4
    0.75
    """

    criterion = "accuracy"


@register_metric("balanced_accuracy_max", [BINARY, SET])
class BalancedAccuracyMax(MaximumOverThresholds):
    """Mean of sensitivity and specificity at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best, 0.5 is chance; nan when the target holds one class only.
    Formula: max over thresholds t of (tp(t) / positives + tn(t) / negatives) / 2
    Source: Youden 1950, Cancer 3(1), whose index is twice this, less 1; Brodersen et al. 2010, ICPR.

    >>> import torch
    >>> metric = BalancedAccuracyMax()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: (2/2 + 1/2) / 2
    0.75
    """

    criterion = "balanced_accuracy"


@register_metric("mcc_max", [BINARY, SET])
class MccMax(MaximumOverThresholds):
    """Matthews correlation at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best, 0 is chance; nan when the target holds one class only.
    Formula: max over thresholds t of (tp*tn - fp*fn) / sqrt((tp+fp) * (tp+fn) * (tn+fp) * (tn+fn))
    Source: Matthews 1975, Biochimica et Biophysica Acta 405(2).

    >>> import torch
    >>> metric = MccMax()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: (2 * 1 - 1 * 0) / sqrt(3 * 2 * 2 * 1)
    0.5774
    """

    criterion = "mcc"


@register_metric("jaccard_max", [BINARY, SET])
class JaccardMax(MaximumOverThresholds):
    """Intersection over union at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.
    Formula: max over thresholds t of tp(t) / (tp(t) + fp(t) + fn(t))
    Source: Jaccard 1912, New Phytologist 11(2).

    >>> import torch
    >>> metric = JaccardMax()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: 2 / (2 + 1)
    0.6667
    """

    criterion = "jaccard"


def checked_beta(name: str, beta: float) -> float:
    """Return beta.

    Raises:
        MetricNameError: it is not above 0.
    """
    if not beta > 0:
        raise MetricNameError(f"{name}: beta is a number above 0, got {beta:g}")
    return beta
