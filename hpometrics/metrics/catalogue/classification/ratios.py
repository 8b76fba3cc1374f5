"""Precision, recall, F-scores and other ratios of confusion counts, per class or averaged."""

from __future__ import annotations

from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ...features import BINARY, CATEGORY, SET
from ...registry.register import register_metric
from ...statistics.confusion import Counts
from ._base import (
    Average,
    BinaryAverage,
    BinaryRatio,
    Ratio,
    SetAverage,
    SetRatio,
    check_beta,
    register_ratio,
)


@register_ratio("precision", ["positive_predictive_value", "ppv", "precision_score"], tokens=True)
class Precision(Ratio):
    """Share of the rows predicted as a class that belong to it.

    Shape:
        preds, target: (N,) int, (N, L) of 0 and 1 of a set, or (N, T) int of a sequence.
    Value: float in [0, 1], no unit, 1 is best; nan when there is nothing to divide by (one class), when
        there is no class to average. In an average a class never predicted counts as 0.
    Formula: tp / (tp + fp)
    Deviates: scikit-learn gives 0 for one class that is never predicted. Its averages over the labels of a
        set, and those of torchmetrics, count as 0 the labels in neither target nor predictions. Ludwig
        decides at 0.5 whatever the threshold of the output.
    Source: van Rijsbergen 1979, Information Retrieval; averages as in scikit-learn with zero_division=0.

    >>> import torch
    >>> metric = Precision(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/2 + 1/1) / 2
    0.75
    """

    direction = MAXIMIZE
    needs = "row predicted positive"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return true positives and predicted positives."""
        return counts.tp, counts.tp + counts.fp


@register_ratio("recall", ["sensitivity", "true_positive_rate", "tpr", "recall_score"], tokens=True)
class Recall(Ratio):
    """Share of the rows of a class that are predicted as it.

    Shape:
        preds, target: (N,) int, (N, L) of 0 and 1 of a set, or (N, T) int of a sequence.
    Value: float in [0, 1], no unit, 1 is best; nan when there is nothing to divide by (one class), when
        there is no class to average. In an average a class that is only predicted counts as 0.
    Formula: tp / (tp + fn)
    Deviates: scikit-learn gives 0 for one class that is never the target. Its averages over the labels of a
        set, and those of torchmetrics, count as 0 the labels in neither target nor predictions. Ludwig
        decides at 0.5 whatever the threshold of the output.
    Source: van Rijsbergen 1979, Information Retrieval; averages as in scikit-learn with zero_division=0.

    >>> import torch
    >>> metric = Recall(class_=1)
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()
    0.5
    """

    direction = MAXIMIZE
    needs = "row whose target is positive"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return true positives and actual positives."""
        return counts.tp, counts.support


@register_ratio(
    "f1",
    {
        "f1_score": "f1",
        "dice": "f1",
        "macro_f1": "f1(average=macro)",
        "micro_f1": "f1(average=micro)",
        "weighted_f1": "f1(average=weighted)",
    },
    tokens=True,
)
class F1(Ratio):
    """Harmonic mean of precision and recall of a class, also known as its Dice coefficient.

    Shape:
        preds, target: (N,) int, (N, L) of 0 and 1 of a set, or (N, T) int of a sequence.
    Value: float in [0, 1], no unit, 1 is best; nan for a class in neither target nor predictions, and when
        there is no class to average.
    Formula: 2 * tp / (2 * tp + fp + fn)
    Deviates: scikit-learn and ParlAI give 0 for a class in neither target nor predictions. scikit-learn and
        torchmetrics average it in where it is a label of a set.
    Source: van Rijsbergen 1979, Information Retrieval; averages as in scikit-learn (the mean of F1s, not
        the F1 of means); `average=weighted` is ParlAI's weighted_f1.

    >>> import torch
    >>> metric = F1(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # (2/3 + 2/3) / 2
    0.6667
    """

    direction = MAXIMIZE
    needs = "positive in target or predictions"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return twice the true positives and the positives of both sides."""
        twice = counts.tp + counts.tp
        return twice, twice + counts.fp + counts.fn


@register_ratio("jaccard", ["iou", "jaccard_index", "jaccard_score"])
class Jaccard(Ratio):
    """Intersection over union of a class in target and predictions.

    Value: float in [0, 1], no unit, 1 is best; nan for a class in neither target nor predictions, and when
        there is no class to average. With `average=samples` a row whose union is empty counts as 0.
    Formula: tp / (tp + fp + fn)
    Deviates: scikit-learn gives 0 for a class in neither target nor predictions. It and torchmetrics average
        it in where it is a label of a set. Ludwig's jaccard of a set is `average=samples`, but leaves out
        rows whose union is empty.
    Source: Jaccard 1912, New Phytologist 11(2); averages as in scikit-learn with zero_division=0.

    >>> import torch
    >>> metric = Jaccard(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/2 + 1/2) / 2
    0.5
    """

    direction = MAXIMIZE
    needs = "positive in target or predictions"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return intersection and union."""
        return counts.tp, counts.tp + counts.fp + counts.fn


@register_ratio("fowlkes_mallows", ["fmi"])
class FowlkesMallows(Ratio):
    """Geometric mean of precision and recall of a class.

    Value: float in [0, 1], no unit, 1 is best; nan for a class that is never the target or never
        predicted, and when there is no class to average; in an average such a class counts as 0.
    Formula: tp / sqrt((tp + fp) * (tp + fn))
    Source: Fowlkes & Mallows 1983, Journal of the American Statistical Association 78(383).

    >>> import torch
    >>> metric = FowlkesMallows.Binary()
    >>> metric.update(torch.tensor([1, 1, 1, 1, 0]), torch.tensor([1, 1, 0, 0, 1]))
    >>> round(metric.compute().item(), 4)  # 2 / sqrt(4 * 3)
    0.5774
    """

    direction = MAXIMIZE
    needs = "positive in both target and predictions"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return true positives and the geometric mean of predicted and actual positives."""
        return counts.tp, (counts.tp + counts.fp).sqrt() * counts.support.sqrt()


class _FBeta(Ratio):
    direction = MAXIMIZE
    word = "fbeta"
    needs = "positive in target or predictions"
    beta: float

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return true positives and the positives of both sides, recall weighted by beta squared."""
        square = self.beta**2
        return (1 + square) * counts.tp, (1 + square) * counts.tp + square * counts.fn + counts.fp


@register_metric("fbeta", [CATEGORY], aliases=["fbeta_score"])
class FBeta(_FBeta):
    """Weighted harmonic mean of precision and recall of a class: recall has `beta` squared the weight.

    Shape:
        preds, target: (N,) int.
    Value: float in [0, 1], no unit, 1 is best; nan for a class in neither target nor predictions.

    Raises:
        MetricNameError: beta is not positive; average and class are both given, or neither.
    Formula: (1 + beta^2) * tp / ((1 + beta^2) * tp + beta^2 * fn + fp)
    Deviates: scikit-learn gives 0 for a class in neither target nor predictions.
    Source: van Rijsbergen 1979, Information Retrieval; averages as in scikit-learn with zero_division=0.

    >>> import torch
    >>> metric = FBeta(beta=0.5, average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # (1.25 / 2.25 + 1.25 / 1.5) / 2
    0.6944
    """

    def __init__(self, *, beta: float, average: Average | None = None, class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.beta = check_beta("fbeta", beta)


@register_metric("fbeta", [BINARY], aliases=["fbeta_score"])
class BinaryFBeta(BinaryRatio, _FBeta):
    """Weighted harmonic mean of precision and recall of class 1: recall has `beta` squared the weight.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan when neither target nor predictions hold a 1.

    Raises:
        MetricNameError: beta is not positive; average and class are both given.
    Formula: (1 + beta^2) * tp / ((1 + beta^2) * tp + beta^2 * fn + fp)
    Deviates: scikit-learn gives 0 when neither target nor predictions hold a 1.
    Source: van Rijsbergen 1979, Information Retrieval; averages as in scikit-learn with zero_division=0.

    >>> import torch
    >>> metric = BinaryFBeta(beta=2.0)
    >>> metric.update(torch.tensor([1, 1, 0]), torch.tensor([1, 0, 0]))
    >>> round(metric.compute().item(), 4)  # 5 * 1 / (5 * 1 + 4 * 0 + 1)
    0.8333
    """

    def __init__(self, *, beta: float, average: BinaryAverage = "binary", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.beta = check_beta("fbeta", beta)


@register_metric("fbeta", [SET], aliases=["fbeta_score"])
class SetFBeta(SetRatio, _FBeta):
    """Weighted harmonic mean of precision and recall of a label: recall has `beta` squared the weight.

    Shape:
        preds, target: (N, L) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan for a label in neither target nor predictions.

    Raises:
        MetricNameError: beta is not positive; average and class are both given, or neither.
    Formula: (1 + beta^2) * tp / ((1 + beta^2) * tp + beta^2 * fn + fp)
    Deviates: scikit-learn gives 0 for a label in neither target nor predictions. It and torchmetrics
        average it in.
    Source: van Rijsbergen 1979, Information Retrieval; averages as in scikit-learn with zero_division=0.

    >>> import torch
    >>> metric = SetFBeta(beta=2.0, average="samples")
    >>> metric.update(torch.tensor([[1, 1, 0], [1, 0, 0]]), torch.tensor([[1, 0, 0], [1, 0, 0]]))
    >>> round(metric.compute().item(), 4)  # (5 / 6 + 1) / 2
    0.9167
    """

    def __init__(self, *, beta: float, average: SetAverage | None = None, class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.beta = check_beta("fbeta", beta)


@register_ratio("specificity", ["true_negative_rate", "tnr", "selectivity"])
class Specificity(Ratio):
    """Share of the rows outside a class that are not predicted as it.

    Value: float in [0, 1], no unit, 1 is best; nan when there is nothing to divide by (one class), when
        there is no class to average. In an average a class that every row is of counts as 0.
    Formula: tn / (tn + fp)
    Deviates: Ludwig decides at 0.5 whatever the threshold of the output.
    Source: Yerushalmy 1947, Public Health Reports 62(40).

    >>> import torch
    >>> metric = Specificity(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/2 + 1/1) / 2
    0.75
    """

    direction = MAXIMIZE
    needs = "row whose target is negative"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return true negatives and actual negatives."""
        return counts.tn, counts.tn + counts.fp


@register_ratio("negative_predictive_value", ["npv"])
class NegativePredictiveValue(Ratio):
    """Share of the rows not predicted as a class that do not belong to it.

    Value: float in [0, 1], no unit, 1 is best; nan when there is nothing to divide by (one class), when
        there is no class to average. In an average a class that every row is predicted as counts as 0.
    Formula: tn / (tn + fn)
    Source: Altman & Bland 1994, BMJ 309(6947).

    >>> import torch
    >>> metric = NegativePredictiveValue(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/1 + 1/2) / 2
    0.75
    """

    direction = MAXIMIZE
    needs = "row predicted negative"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return true negatives and predicted negatives."""
        return counts.tn, counts.tn + counts.fn


@register_ratio("false_positive_rate", ["fpr", "fall_out"])
class FalsePositiveRate(Ratio):
    """Share of the rows outside a class that are predicted as it: 1 minus the specificity.

    Value: float in [0, 1], no unit, 0 is best; nan where the specificity is. In an average a class that
        every row is of counts as 1.
    Formula: fp / (fp + tn)
    Source: Fawcett 2006, Pattern Recognition Letters 27(8).

    >>> import torch
    >>> metric = FalsePositiveRate(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/2 + 0/1) / 2
    0.25
    """

    direction = MINIMIZE
    needs = "row whose target is negative"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return false positives and actual negatives."""
        return counts.fp, counts.fp + counts.tn


@register_ratio("false_negative_rate", ["fnr", "miss_rate"])
class FalseNegativeRate(Ratio):
    """Share of the rows of a class that are not predicted as it: 1 minus the recall.

    Value: float in [0, 1], no unit, 0 is best; nan where the recall is. In an average a class that is only
        predicted counts as 1.
    Formula: fn / (fn + tp)
    Source: Fawcett 2006, Pattern Recognition Letters 27(8).

    >>> import torch
    >>> metric = FalseNegativeRate(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (0/1 + 1/2) / 2
    0.25
    """

    direction = MINIMIZE
    needs = "row whose target is positive"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return false negatives and actual positives."""
        return counts.fn, counts.support


@register_ratio("false_discovery_rate", ["fdr"])
class FalseDiscoveryRate(Ratio):
    """Share of the rows predicted as a class that do not belong to it: 1 minus the precision.

    Value: float in [0, 1], no unit, 0 is best; nan where the precision is. In an average a class never
        predicted counts as 1.
    Formula: fp / (fp + tp)
    Source: Benjamini & Hochberg 1995, Journal of the Royal Statistical Society B 57(1); here the share seen.

    >>> import torch
    >>> metric = FalseDiscoveryRate(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (1/2 + 0/1) / 2
    0.25
    """

    direction = MINIMIZE
    needs = "row predicted positive"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return false positives and predicted positives."""
        return counts.fp, counts.fp + counts.tp


@register_ratio("false_omission_rate", ["for"])
class FalseOmissionRate(Ratio):
    """Share of the rows not predicted as a class that belong to it: 1 minus the negative predictive value.

    Value: float in [0, 1], no unit, 0 is best; nan where the negative predictive value is. In an average a
        class that every row is predicted as counts as 1.
    Formula: fn / (fn + tn)
    Source: Altman & Bland 1994, BMJ 309(6947).

    >>> import torch
    >>> metric = FalseOmissionRate(average="macro")
    >>> metric.update(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]))
    >>> metric.compute().item()  # (0/1 + 1/2) / 2
    0.25
    """

    direction = MINIMIZE
    needs = "row predicted negative"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return false negatives and predicted negatives."""
        return counts.fn, counts.fn + counts.tn


@register_ratio("informedness", ["youden_j", "bookmaker_informedness"])
class Informedness(Ratio):
    """Recall plus specificity minus 1: how much better than chance a class is told from the rest.

    Value: float in [-1, 1], no unit, 1 is best, 0 is chance; nan when every row or none is of the class. In
        an average such a class counts as 0.
    Formula: tp / (tp + fn) + tn / (tn + fp) - 1
    Source: Youden 1950, Cancer 3(1).

    >>> import torch
    >>> metric = Informedness.Binary()
    >>> metric.update(torch.tensor([1, 0, 0, 0]), torch.tensor([1, 1, 0, 0]))
    >>> metric.compute().item()  # 1/2 + 2/2 - 1
    0.5
    """

    direction = MAXIMIZE
    needs = "row of the class, or no row not of it"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return the sum of both shares less 1, over a common denominator."""
        return _surplus(counts), counts.support * (counts.tn + counts.fp)


@register_ratio("markedness", ["delta_p"])
class Markedness(Ratio):
    """Precision plus negative predictive value minus 1: how much a prediction says about the target.

    Value: float in [-1, 1], no unit, 1 is best, 0 is chance; nan when every row or none is predicted as the
        class. In an average such a class counts as 0.
    Formula: tp / (tp + fp) + tn / (tn + fn) - 1
    Source: Powers 2011, Journal of Machine Learning Technologies 2(1).

    >>> import torch
    >>> metric = Markedness.Binary()
    >>> metric.update(torch.tensor([1, 0, 0, 0]), torch.tensor([1, 1, 0, 0]))
    >>> round(metric.compute().item(), 4)  # 1/1 + 2/3 - 1
    0.6667
    """

    direction = MAXIMIZE
    needs = "row predicted as the class, or no row not predicted as it"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return the sum of both shares less 1, over a common denominator."""
        return _surplus(counts), (counts.tp + counts.fp) * (counts.tn + counts.fn)


def _surplus(counts: Counts) -> Tensor:
    """Return the determinant of the two-by-two table: 0 where predictions and target are independent."""
    return counts.tp * counts.tn - counts.fp * counts.fn
