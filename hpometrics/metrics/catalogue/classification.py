"""Decisions right and wrong: accuracy, precision, recall, F and kin, all closed forms of confusion counts."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ...exceptions import MetricNameError
from ...objective import MAXIMIZE, MINIMIZE
from ..features import BINARY, CATEGORY, PREDICTIONS, PROBABILITIES, SET
from ..metric import MeanMetric, Metric
from ..registry import register_metric
from ..statistics.confusion import Counts
from ..statistics.ranks import Ranks
from ..statistics.statistic import Statistic
from .averaging import Average, AveragedRatio, BinaryRatio, ConfusionMetric, averages


@register_metric("accuracy", [CATEGORY, BINARY], aliases={"accuracy_micro": "accuracy"})
class Accuracy(ConfusionMetric):
    """Share of rows whose prediction is right.

    Shape:
        preds, target: (N,) int.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Source: Sokolova & Lapalme 2009, Information Processing & Management 45(4).

    >>> metric = Accuracy()
    >>> metric.update(torch.tensor([0, 2, 1, 1]), torch.tensor([0, 1, 1, 1]))
    >>> metric.compute().item()
    0.75
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def compute(self) -> Tensor:
        """Divide the diagonal by all rows."""
        return self.matrix.diagonal().sum() / self.matrix.sum()


@register_metric("accuracy", [SET], aliases=["exact_match"])
class SetAccuracy(MeanMetric):
    """Share of rows whose predicted set of labels is right, every label of it.

    Shape:
        preds, target: (N, L) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Source: Sorower 2010, A literature survey on algorithms for multi-label learning (subset accuracy).

    >>> metric = SetAccuracy()
    >>> metric.update(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute().item()
    0.5
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def get_current_value(self, preds: Tensor, target: Tensor) -> Tensor:
        """Give 1 for a row that is right in every label."""
        return (preds.bool() == target.bool()).all(1).double()


@register_metric("balanced_accuracy", [CATEGORY, BINARY], aliases=["accuracy_macro"])
class BalancedAccuracy(ConfusionMetric):
    """Mean, over the classes that the target holds, of the share of their rows predicted right.

    Shape:
        preds, target: (N,) int.
    Value: float in [0, 1], no unit, 1 is best, 1 / classes is chance; nan before the first row.
    Source: Brodersen et al. 2010, ICPR; scikit-learn's balanced_accuracy_score.

    >>> metric = BalancedAccuracy()
    >>> metric.update(torch.tensor([0, 1, 0, 0]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().item()  # (2/2 + 1/2) / 2
    0.75
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def compute(self) -> Tensor:
        """Average the recalls of the classes in the target."""
        counts = self.counts
        held = counts.support > 0
        return (counts.tp[held] / counts.support[held]).mean()


class _Precision:
    needs = "predicted positive"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Right among predicted."""
        return counts.tp, counts.tp + counts.fp


class _Recall:
    needs = "positive in the target"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Found among actual."""
        return counts.tp, counts.support


class _Specificity:
    needs = "negative in the target"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Left alone among those to be left alone."""
        return counts.tn, counts.tn + counts.fp


class _Jaccard:
    needs = "positive in target or predictions"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Intersection over union."""
        return counts.tp, counts.tp + counts.fp + counts.fn


class _F1:
    needs = "positive in target or predictions"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Harmonic mean of precision and recall."""
        return 2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn


class _FBeta:
    needs = "positive in target or predictions"
    beta: float

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Harmonic mean of precision and recall, recall counting beta squared times as much."""
        square = self.beta**2
        return (1 + square) * counts.tp, (1 + square) * counts.tp + square * counts.fn + counts.fp


@register_metric("precision", [BINARY], aliases=["positive_predictive_value"])
class BinaryPrecision(_Precision, BinaryRatio):
    """Share of the rows predicted 1 whose target is 1.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan when nothing is predicted 1.
    Source: van Rijsbergen 1979, Information Retrieval.

    >>> metric = BinaryPrecision()
    >>> metric.update(torch.tensor([1, 1, 0, 1]), torch.tensor([1, 0, 1, 1]))
    >>> round(metric.compute().item(), 4)
    0.6667
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("precision", [CATEGORY, SET], aliases=averages("precision"))
class Precision(_Precision, AveragedRatio):
    """Share of the rows predicted as a class that are of the class, averaged over classes.

    Shape:
        preds, target: (N,) int of a category, (N, L) of 0 and 1 of a set.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row. A class never predicted counts as 0.
    Source: van Rijsbergen 1979, Information Retrieval; averages as in scikit-learn with zero_division=0.

    >>> metric = Precision(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/2 + 1/1) / 2
    0.75
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("recall", [BINARY], aliases=["sensitivity", "true_positive_rate"])
class BinaryRecall(_Recall, BinaryRatio):
    """Share of the rows whose target is 1 that are predicted 1.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan when no target is 1.
    Source: van Rijsbergen 1979, Information Retrieval.

    >>> metric = BinaryRecall()
    >>> metric.update(torch.tensor([1, 0, 0]), torch.tensor([1, 1, 0]))
    >>> metric.compute().item()
    0.5
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("recall", [CATEGORY, SET], aliases=averages("recall"))
class Recall(_Recall, AveragedRatio):
    """Share of the rows of a class that are predicted as it, averaged over classes.

    Shape:
        preds, target: (N,) int of a category, (N, L) of 0 and 1 of a set.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row. A class that is only predicted
        counts as 0.
    Source: van Rijsbergen 1979, Information Retrieval; averages as in scikit-learn with zero_division=0.

    >>> metric = Recall(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/1 + 1/2) / 2
    0.75
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("specificity", [BINARY], aliases=["true_negative_rate"])
class BinarySpecificity(_Specificity, BinaryRatio):
    """Share of the rows whose target is 0 that are predicted 0.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan when no target is 0.
    Source: Yerushalmy 1947, Public Health Reports 62(40).

    >>> metric = BinarySpecificity()
    >>> metric.update(torch.tensor([1, 0, 0]), torch.tensor([0, 0, 1]))
    >>> metric.compute().item()
    0.5
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("specificity", [CATEGORY, SET], aliases=averages("specificity"))
class Specificity(_Specificity, AveragedRatio):
    """Share of the rows not of a class that are not predicted as it, averaged over classes.

    Shape:
        preds, target: (N,) int of a category, (N, L) of 0 and 1 of a set.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Source: Yerushalmy 1947, Public Health Reports 62(40).

    >>> metric = Specificity(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/2 + 1/1) / 2
    0.75
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("jaccard", [BINARY], aliases=["iou"])
class BinaryJaccard(_Jaccard, BinaryRatio):
    """Rows that are 1 in both target and predictions, among those that are 1 in either.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan when neither holds a 1.
    Source: Jaccard 1912, New Phytologist 11(2).

    >>> metric = BinaryJaccard()
    >>> metric.update(torch.tensor([1, 1, 0]), torch.tensor([1, 0, 0]))
    >>> metric.compute().item()
    0.5
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("jaccard", [CATEGORY, SET], aliases=averages("jaccard"))
class Jaccard(_Jaccard, AveragedRatio):
    """Intersection over union of the rows of a class in target and predictions, averaged over classes.

    Shape:
        preds, target: (N,) int of a category, (N, L) of 0 and 1 of a set.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Source: Jaccard 1912, New Phytologist 11(2).

    >>> metric = Jaccard(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/2 + 1/2) / 2
    0.5
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("f1", [BINARY])
class BinaryF1(_F1, BinaryRatio):
    """Harmonic mean of precision and recall of class 1.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan when neither target nor predictions hold a 1.
    Source: van Rijsbergen 1979, Information Retrieval.

    >>> metric = BinaryF1()
    >>> metric.update(torch.tensor([1, 1, 0]), torch.tensor([1, 0, 0]))
    >>> round(metric.compute().item(), 4)  # 2 * 1 / (2 * 1 + 1)
    0.6667
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("f1", [CATEGORY, SET], aliases=averages("f1"))
class F1(_F1, AveragedRatio):
    """Harmonic mean of precision and recall of a class, averaged over classes.

    Shape:
        preds, target: (N,) int of a category, (N, L) of 0 and 1 of a set.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Source: van Rijsbergen 1979, Information Retrieval; averages as in scikit-learn (the mean of F1s, not
        the F1 of means).

    >>> metric = F1(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # (2/3 + 2/3) / 2
    0.6667
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS


@register_metric("fbeta", [BINARY])
class BinaryFBeta(_FBeta, BinaryRatio):
    """Harmonic mean of precision and recall of class 1, recall counting `beta` squared times as much.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan when neither target nor predictions hold a 1.

    Raises:
        MetricNameError: beta is not positive.
    Source: van Rijsbergen 1979, Information Retrieval.

    >>> metric = BinaryFBeta(beta=2.0)
    >>> metric.update(torch.tensor([1, 1, 0]), torch.tensor([1, 0, 0]))
    >>> round(metric.compute().item(), 4)  # 5 * 1 / (5 * 1 + 4 * 0 + 1)
    0.8333
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def __init__(self, *, beta: float) -> None:
        super().__init__()
        self.beta = _positive_beta(beta)


@register_metric("fbeta", [CATEGORY, SET])
class FBeta(_FBeta, AveragedRatio):
    """Mean over classes of the F score, in which recall counts `beta` squared times as much as precision.

    Shape:
        preds, target: (N,) int of a category, (N, L) of 0 and 1 of a set.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.

    Raises:
        MetricNameError: beta is not positive.
    Source: van Rijsbergen 1979, Information Retrieval.

    >>> metric = FBeta(beta=0.5, average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # (1.25 / 2.25 + 1.25 / 1.5) / 2
    0.6944
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def __init__(self, *, beta: float, average: Average) -> None:
        super().__init__(average=average)
        self.beta = _positive_beta(beta)


@register_metric("mcc", [CATEGORY, BINARY], aliases=["matthews_corrcoef", "phi"])
class MatthewsCorrelation(ConfusionMetric):
    """Correlation of predicted and actual class.

    Shape:
        preds, target: (N,) int.
    Value: float in [-1, 1], no unit, 1 is best, 0 is chance; nan when target or predictions hold one class
        only.
    Source: Matthews 1975, BBA 405(2); for several classes Gorodkin 2004, Computational Biology and
        Chemistry 28(5).

    >>> metric = MatthewsCorrelation()
    >>> metric.update(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # 2 / sqrt(2 * 2 * 3 * 1)
    0.5774
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def compute(self) -> Tensor:
        """Divide the covariance of the class indicators by their deviations."""
        matrix = self.matrix
        rows = matrix.sum()
        predicted, actual = matrix.sum(0), matrix.sum(1)
        covariance = matrix.trace() * rows - predicted @ actual
        spread = (rows**2 - predicted @ predicted) * (rows**2 - actual @ actual)
        if spread == 0:
            return self.undefined("target or predictions hold one class only")
        return covariance / spread.sqrt()


@register_metric("cohen_kappa", [CATEGORY, BINARY], aliases=["kappa"])
class CohenKappa(ConfusionMetric):
    """Agreement of predicted and actual class beyond what their frequencies alone would give.

    Shape:
        preds, target: (N,) int; with `weights=linear` or `quadratic` classes are ordered and far misses
            cost more.
    Value: float up to 1, no unit, 1 is best, 0 is chance; nan when chance alone would agree everywhere.
    Source: Cohen 1960, Educational and Psychological Measurement 20(1); weighted: Cohen 1968, Psychological
        Bulletin 70(4).

    >>> metric = CohenKappa()
    >>> metric.update(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 0, 0]))
    >>> metric.compute().item()  # (0.75 - 0.5) / (1 - 0.5)
    0.5
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def __init__(self, *, weights: Literal["none", "linear", "quadratic"] = "none") -> None:
        super().__init__()
        self.weights = weights

    def compute(self) -> Tensor:
        """Compare the cost of the misses with that of independent labels."""
        matrix = self.matrix
        by_chance = torch.outer(matrix.sum(1), matrix.sum(0)) / matrix.sum()
        cost = self._cost(len(matrix)).to(matrix.device)
        expected = (cost * by_chance).sum()
        if expected == 0:
            return self.undefined("target and predictions hold one and the same class")
        return 1 - (cost * matrix).sum() / expected

    def _cost(self, classes: int) -> Tensor:
        index = torch.arange(classes, dtype=torch.float64)
        distance = (index[:, None] - index[None, :]).abs()
        return {"none": (distance > 0).double(), "linear": distance, "quadratic": distance**2}[self.weights]


@register_metric("hamming", [CATEGORY, BINARY, SET], aliases=["hamming_loss", "hamming_distance"])
class Hamming(ConfusionMetric):
    """Share of labels predicted wrongly.

    Shape:
        preds, target: (N,) int of a category, (N, L) of 0 and 1 of a set (every label counts).
    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Source: Tsoumakas & Katakis 2007, International Journal of Data Warehousing and Mining 3(3).

    >>> metric = Hamming()
    >>> metric.update(torch.tensor([0, 2, 1, 1]), torch.tensor([0, 1, 1, 1]))
    >>> metric.compute().item()
    0.25
    """

    objective = MINIMIZE
    inputs = PREDICTIONS

    def compute(self) -> Tensor:
        """Divide the wrong ones by all."""
        counts = self.counts
        if self.output.type == SET:
            return (counts.fp + counts.fn).sum() / (counts.tp + counts.fp + counts.fn + counts.tn).sum()
        return counts.fp.sum() / counts.support.sum()


@register_metric("hits", [CATEGORY], aliases=["top_k_accuracy", "hits_at_k"])
class Hits(Metric):
    """Share of rows whose class is among the `k` most probable: `hits@5`.

    Of equal scores the lower class index comes first, so that `hits@1` is the accuracy.

    Shape:
        preds: (N, C) float, probabilities (or logits by keyword).
        target: (N,) int.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.

    Raises:
        MetricNameError: k is below 1.
    Source: Russakovsky et al. 2015, IJCV 115 (top-5 accuracy); also called top-k accuracy.

    >>> metric = Hits(k=2)
    >>> metric.update(torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), torch.tensor([1, 2]))
    >>> metric.compute().item()
    0.5
    """

    objective = MAXIMIZE
    inputs = PROBABILITIES

    def __init__(self, *, k: int) -> None:
        super().__init__()
        if k < 1:
            raise MetricNameError(f"hits@k counts the first k places, k must be at least 1, got {k}")
        self.k = k

    def statistics(self) -> dict[str, Statistic]:
        """Need the places of the true classes, which have no k: every hits@k shares them."""
        return {"ranks": Ranks()}

    def compute(self) -> Tensor:
        """Add up the first k places."""
        histogram = self.statistic(Ranks).histogram
        return histogram[: self.k].sum() / histogram.sum()


def _positive_beta(beta: float) -> float:
    if not beta > 0:
        raise MetricNameError(f"fbeta's beta must be positive, got {beta}")
    return beta
