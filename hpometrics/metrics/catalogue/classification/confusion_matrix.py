"""Confusion matrices and counts per class, which have no direction."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ...features import BINARY, CATEGORY, SET
from ...registry.register import register_metric
from ._base import ConfusionMetric


@register_metric("confusion_matrix", [CATEGORY, BINARY])
class ConfusionMatrix(ConfusionMetric):
    """Confusion matrix: rows are targets, columns are predictions.

    It has no direction: a table is neither better nor worse than another.

    Args:
        normalize: whether to divide by the rows of each target, by those of each prediction, or by all.

    Shape:
        preds, target: (N,) int.
    Value: table of shape (C, C), rows of data, or shares of them; nan where there is nothing to divide by.
    Formula: table[t, p] = rows whose target is t and prediction p
    Deviates: scikit-learn gives shares of 0 where there is nothing to divide by; PredictionIO and some
        textbooks have predictions as rows.
    Source: Kohavi & Provost 1998, Machine Learning 30(2).

    >>> metric = ConfusionMatrix()
    >>> metric.update(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().tolist()
    [[1.0, 1.0], [0.0, 2.0]]
    """

    direction = None
    reads_matrix = True

    def __init__(self, *, normalize: Literal["none", "target", "predictions", "all"] = "none") -> None:
        super().__init__()
        self.normalize = normalize

    def compute(self) -> Tensor:
        """Return the matrix, divided as `normalize` says."""
        matrix = self.matrix
        whole = {"target": matrix.sum(1, keepdim=True), "predictions": matrix.sum(0), "all": matrix.sum()}
        return matrix / whole[self.normalize] if self.normalize in whole else matrix.clone()


@register_metric("confusion_matrix", [SET], aliases=["multilabel_confusion_matrix"])
class SetConfusionMatrix(ConfusionMetric):
    """Confusion matrix of each label, with targets as rows and predictions as columns.

    It has no direction: a table is neither better nor worse than another.

    Shape:
        preds, target: (N, L) of 0 and 1.
    Value: table of shape (L, 2, 2), rows of data; of each label [[tn, fp], [fn, tp]].
    Formula: table[l, t, p] = rows whose target for label l is t and prediction p
    Source: scikit-learn's multilabel_confusion_matrix.

    >>> metric = SetConfusionMatrix()
    >>> metric.update(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute().tolist()
    [[[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]
    """

    direction = None

    def compute(self) -> Tensor:
        """Return the counts as a table."""
        counts = self.counts
        return torch.stack([counts.tn, counts.fp, counts.fn, counts.tp], 1).view(-1, 2, 2)


@register_metric("stat_scores", [CATEGORY, BINARY, SET])
class StatScores(ConfusionMetric):
    """Counts of each class or label: true and false positives, true and false negatives, and its rows.

    It has no direction: a table is neither better nor worse than another.

    Shape:
        preds, target: (N,) int, or (N, L) of 0 and 1 of a set.
    Value: table of shape (C, 5), rows of data; of a binary output (5,), for class 1.
    Formula: tp, fp, tn, fn, tp + fn
    Source: torchmetrics' stat scores, `average="none"`.

    >>> metric = StatScores()
    >>> metric.update(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().tolist()
    [[1.0, 0.0, 2.0, 1.0, 2.0], [2.0, 1.0, 1.0, 0.0, 2.0]]
    """

    direction = None

    def compute(self) -> Tensor:
        """Return the counts as a table."""
        counts = self.counts
        table = torch.stack([counts.tp, counts.fp, counts.tn, counts.fn, counts.support], 1)
        return table[1] if self.output.type == BINARY else table
