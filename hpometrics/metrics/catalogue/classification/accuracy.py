"""Accuracy, error rate and top-k accuracy of predicted classes and labels."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ...aggregation import RowValues, weighed_rows
from ...batch import Outputs
from ...features import BINARY, CATEGORY, PREDICTIONS, PROBABILITIES, SET
from ...metric import MeanMetric, Metric
from ...registry.register import register_metric
from ...statistics.ranks import ClassHits, Ranks
from ...statistics.statistic import Statistic
from ._base import ConfusionMetric

_NO_ROW = "no rows were counted"


@register_metric(
    "accuracy", [CATEGORY, BINARY], aliases={"accuracy_micro": "accuracy", "accuracy_score": "accuracy"}
)
class Accuracy(ConfusionMetric):
    """Share of rows that are predicted correctly.

    Shape:
        preds, target: (N,) int.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: right rows / rows
    Deviates: Ludwig's accuracy of a category, and torchmetrics' MulticlassAccuracy by default, are the mean
        over classes in target or predictions, which is recall(average=macro) here.
    Source: Sokolova & Lapalme 2009, Information Processing & Management 45(4).

    >>> import torch
    >>> metric = Accuracy()
    >>> metric.update(torch.tensor([0, 2, 1, 1]), torch.tensor([0, 1, 1, 1]))
    >>> metric.compute().item()
    0.75
    """

    direction = MAXIMIZE

    def compute(self) -> Tensor:
        """Divide the diagonal by all rows."""
        counts = self.counts
        return _share(self, counts.tp.sum(), counts.support.sum())

    def row_values(self, batch: Outputs) -> RowValues | None:
        """Return 1 for each correct row, else 0."""
        return weighed_rows(batch.decided.preds == batch.decided.target, batch.target, self.name)


@register_metric("zero_one_loss", [CATEGORY, BINARY], aliases=["error_rate", "misclassification_rate"])
class ZeroOneLoss(ConfusionMetric):
    """Share of rows that are predicted wrongly.

    Shape:
        preds, target: (N,) int.
    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: wrong rows / rows
    Source: Sokolova & Lapalme 2009, Information Processing & Management 45(4); scikit-learn's zero_one_loss.

    >>> import torch
    >>> metric = ZeroOneLoss()
    >>> metric.update(torch.tensor([0, 2, 1, 1]), torch.tensor([0, 1, 1, 1]))
    >>> metric.compute().item()
    0.25
    """

    direction = MINIMIZE

    def compute(self) -> Tensor:
        """Divide the rows off the diagonal by all rows."""
        return _share(self, self.counts.fn.sum(), self.counts.support.sum())

    def row_values(self, batch: Outputs) -> RowValues | None:
        """Return 1 for each wrong row, else 0."""
        return weighed_rows(batch.decided.preds != batch.decided.target, batch.target, self.name)


@register_metric("accuracy", [SET], aliases=["exact_match", "subset_accuracy", "accuracy_score"])
class SetAccuracy(MeanMetric):
    """Share of rows in which every label is predicted correctly.

    Shape:
        preds, target: (N, L) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: rows right in every label / rows
    Deviates: torchmetrics' MultilabelAccuracy is the share of labels, which is label_accuracy here; its
        MultilabelExactMatch counts a row as right if its `ignore_index` leaves no label in it.
    Source: Sorower 2010, A literature survey on algorithms for multi-label learning (subset accuracy).

    >>> import torch
    >>> metric = SetAccuracy()
    >>> metric.update(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute().item()
    0.5
    """

    direction = MAXIMIZE
    inputs = PREDICTIONS
    regroups = True

    def measure(self, batch: Outputs) -> Tensor:
        """Return 1 for each row that is correct in every label, else 0."""
        return (batch.wrong_labels == 0).double()


@register_metric("zero_one_loss", [SET], aliases=["error_rate", "misclassification_rate"])
class SetZeroOneLoss(MeanMetric):
    """Share of rows in which any label is predicted wrongly.

    Shape:
        preds, target: (N, L) of 0 and 1.
    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: rows wrong in any label / rows
    Source: Sorower 2010, A literature survey on algorithms for multi-label learning (subset 0/1 loss).

    >>> import torch
    >>> metric = SetZeroOneLoss()
    >>> metric.update(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute().item()
    0.5
    """

    direction = MINIMIZE
    inputs = PREDICTIONS
    regroups = True

    def measure(self, batch: Outputs) -> Tensor:
        """Return 1 for each row that is wrong in any label, else 0."""
        return (batch.wrong_labels > 0).double()


@register_metric("label_accuracy", [SET], aliases=["hamming_score"])
class LabelAccuracy(ConfusionMetric):
    """Share of labels that are predicted correctly, over all rows: 1 minus the Hamming loss.

    Shape:
        preds, target: (N, L) of 0 and 1.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: (tp + tn) / (tp + fp + fn + tn), over all labels
    Source: Sorower 2010, A literature survey on algorithms for multi-label learning.

    >>> import torch
    >>> metric = LabelAccuracy()
    >>> metric.update(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute().item()
    0.75
    """

    direction = MAXIMIZE

    def compute(self) -> Tensor:
        """Divide the correct labels by all labels."""
        counts = self.counts
        right, wrong = (counts.tp + counts.tn).sum(), (counts.fp + counts.fn).sum()
        return _share(self, right, right + wrong)


@register_metric("hamming", [CATEGORY, BINARY, SET], aliases=["hamming_loss", "hamming_distance"])
class Hamming(ConfusionMetric):
    """Share of labels that are predicted wrongly.

    Shape:
        preds, target: (N,) int of a category, (N, L) of 0 and 1 of a set (every label counts).
    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: wrong labels / labels
    Deviates: torchmetrics' MulticlassHammingDistance is by default the mean over classes of this share.
    Source: Tsoumakas & Katakis 2007, International Journal of Data Warehousing and Mining 3(3).

    >>> import torch
    >>> metric = Hamming()
    >>> metric.update(torch.tensor([0, 2, 1, 1]), torch.tensor([0, 1, 1, 1]))
    >>> metric.compute().item()
    0.25
    """

    direction = MINIMIZE

    def compute(self) -> Tensor:
        """Divide the wrong labels, or rows, by all of them."""
        counts = self.counts
        if self.output.type == SET:
            wrong, right = (counts.fp + counts.fn).sum(), (counts.tp + counts.tn).sum()
            return _share(self, wrong, wrong + right)
        return _share(self, counts.fn.sum(), counts.support.sum())


@register_metric(
    "balanced_accuracy", [CATEGORY, BINARY], aliases=["accuracy_macro", "balanced_accuracy_score"]
)
class BalancedAccuracy(ConfusionMetric):
    """Mean recall over the classes that occur in the target.

    Args:
        adjusted: whether to rescale the value so that chance is 0 instead of 1 / classes.

    Shape:
        preds, target: (N,) int.
    Value: float in [-1, 1], no unit, 1 is best, 1 / classes is chance and 0 the least, or with
        `adjusted=true` 0 is chance; nan before the first row, and adjusted when the target holds one class.
    Formula: mean of tp / (tp + fn) over classes in the target; adjusted, (that - 1/classes) / (1 - 1/classes)
    Deviates: Ludwig's accuracy of a category, and torchmetrics' MulticlassAccuracy by default, also count, as
        0, a class that is only predicted, which is recall(average=macro) here.
    Source: Brodersen et al. 2010, ICPR; scikit-learn's balanced_accuracy_score.

    >>> import torch
    >>> metric = BalancedAccuracy()
    >>> metric.update(torch.tensor([0, 1, 0, 0]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().item()  # (2/2 + 1/2) / 2
    0.75
    """

    direction = MAXIMIZE

    def __init__(self, *, adjusted: bool = False) -> None:
        super().__init__()
        self.adjusted = adjusted

    def compute(self) -> Tensor:
        """Average the recalls of the classes in the target."""
        recalls = _recalls(self)
        if not len(recalls):
            return self.undefined(_NO_ROW)
        if not self.adjusted:
            return recalls.mean()
        if len(recalls) < 2:
            return self.undefined("the target has a single class, which chance always predicts correctly")
        chance = 1 / len(recalls)
        return (recalls.mean() - chance) / (1 - chance)


@register_metric("geometric_mean", [CATEGORY, BINARY], aliases=["g_mean", "geometric_mean_score"])
class GeometricMean(ConfusionMetric):
    """Geometric mean of the recalls of the classes that occur in the target.

    Shape:
        preds, target: (N,) int.
    Value: float in [0, 1], no unit, 1 is best, 0 when one class is always missed; nan before the first row.
    Formula: (product of tp / (tp + fn) over classes in the target) ^ (1 / classes)
    Deviates: imbalanced-learn's geometric_mean_score also counts, as 0, a class that is only predicted.
    Source: Kubat & Matwin 1997, ICML; several classes: Sun, Kamel & Wang 2006, ICDM.

    >>> import torch
    >>> metric = GeometricMean()
    >>> metric.update(torch.tensor([0, 1, 0, 0, 0]), torch.tensor([0, 1, 1, 1, 1]))
    >>> metric.compute().item()  # sqrt(1/1 * 1/4)
    0.5
    """

    direction = MAXIMIZE

    def compute(self) -> Tensor:
        """Average the logarithms of the recalls of the classes in the target."""
        recalls = _recalls(self)
        return recalls.log().mean().exp() if len(recalls) else self.undefined(_NO_ROW)


@register_metric("hits", [CATEGORY], aliases=["top_k_accuracy", "hits_at_k"])
class Hits(Metric):
    """Share of rows whose class is among the `k` most probable: `hits@5`.

    Among equal scores the lower class index comes first, so that `hits@1` is the accuracy.

    Args:
        k: number of places that count.
        average: `micro`, over rows; `macro`, the mean of the shares of the classes in the target.

    Shape:
        preds: (N, C) float, probabilities (or logits by keyword).
        target: (N,) int.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.

    Raises:
        MetricNameError: k is below 1.
    Formula: rows whose class has one of the first k places / rows
    Deviates: Ludwig's hits_at_k, and torchmetrics' MulticlassAccuracy(top_k=) by default, are
        hits(average=macro)@k for a k above 1; among equal scores scikit-learn's top_k_accuracy_score takes
        the higher index first.
    Source: Russakovsky et al. 2015, IJCV 115 (top-5 accuracy); also called top-k accuracy.

    >>> import torch
    >>> metric = Hits(k=2)
    >>> metric.update(torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), torch.tensor([1, 2]))
    >>> metric.compute().item()
    0.5
    """

    direction = MAXIMIZE
    inputs = PROBABILITIES

    def __init__(self, *, k: int, average: Literal["micro", "macro"] = "micro") -> None:
        super().__init__()
        if k < 1:
            raise MetricNameError(f"hits@k counts the first k places, so k must be at least 1, got {k}")
        self.k = k
        self.average = average

    def statistics(self) -> dict[str, Statistic]:
        """Return the ranks of the true classes, shared by every hits@k; for `macro`, the hits per class."""
        return {"hits": ClassHits(self.k)} if self.average == "macro" else {"ranks": Ranks()}

    def compute(self) -> Tensor:
        """Divide the rows in the first k places by all rows, or average the shares of the classes."""
        if self.average == "macro":
            recalls = self.statistic(ClassHits).recalls
            return recalls.mean() if len(recalls) else self.undefined(_NO_ROW)
        histogram = self.statistic(Ranks).histogram
        return _share(self, histogram[: self.k].sum(), histogram.sum())


def _share(metric: Metric, part: Tensor, whole: Tensor) -> Tensor:
    """Return part / whole; nan with a reason where the rows have no weight."""
    return part / whole if whole.item() > 0 else metric.undefined(_NO_ROW)


def _recalls(metric: ConfusionMetric) -> Tensor:
    """Return the recall of each class that occurs in the target."""
    counts = metric.counts
    present = counts.support > 0
    return counts.tp[present] / counts.support[present]
