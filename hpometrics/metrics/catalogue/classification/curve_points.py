"""Curves themselves, point by point and exact: measured, never optimised."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._derive import probabilities_of_class_scores
from ...features import BINARY, CATEGORY, PROBABILITIES, SET
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.ranked import Ranked, ranked_column
from ...statistics.scores import Scores
from ...statistics.statistic import Statistic
from .columns import ONE_CLASS, check_class, column_of


class Curve(Metric):
    """Rows of numbers, one column per threshold; thresholds are probabilities, also where logits were given.

    A binary output has one curve; of a category or set `class_` says whose, against all others.

    Shape:
        preds: (N,) float, probabilities (or logits by keyword).
        target: (N,) int.
    """

    objective = None
    inputs = PROBABILITIES
    class_: int = 1

    def statistics(self) -> dict[str, Statistic]:
        """Need every row's scores."""
        check_class(self, self.class_)
        return {"scores": Scores()}

    def of_column(self, column: Ranked, thresholds: Tensor) -> Tensor:
        """The curve of a column that has positive and negative rows; its first threshold is infinite."""
        raise NotImplementedError(f"{type(self).__name__} needs of_column(column, thresholds)")

    def compute(self) -> Tensor:
        """Draw the curve; nan with a reason when there is none."""
        scores = self.statistic(Scores)
        column = ranked_column(scores, column_of(self, self.class_, scores.classes))
        if not column.has_both:
            return self.undefined(ONE_CLASS)
        return self.of_column(column, self._thresholds(column.scores.double()))

    def _thresholds(self, scores: Tensor) -> Tensor:
        stored = self.statistic(Scores)
        if stored.of_classes:
            scores = probabilities_of_class_scores(scores)
        elif stored.are_logits:
            scores = scores.sigmoid()
        return torch.cat([scores.new_tensor([torch.inf]), scores])


@register_metric("roc_curve", [BINARY], aliases=["roc"])
class RocCurve(Curve):
    """False positive rate, true positive rate and threshold of every corner of the ROC curve.

    It is measured, never optimised. Points on a line between two others are left out unless
    `drop_intermediate` is false; the first point, at an infinite threshold, is (0, 0).

    Value: (3, points) floats, rates in [0, 1] ascending and thresholds descending; nan when the target holds
        one class only.
    Formula: (fp(t) / negatives, tp(t) / positives, t) for descending thresholds t
    Source: Fawcett 2006, Pattern Recognition Letters 27(8); scikit-learn's roc_curve.

    >>> metric = RocCurve()
    >>> metric.update(torch.tensor([0.875, 0.75, 0.5, 0.25]), torch.tensor([1, 0, 1, 0]))
    >>> metric.compute().tolist()
    [[0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0], [inf, 0.875, 0.75, 0.5, 0.25]]
    """

    def __init__(self, *, drop_intermediate: bool = True) -> None:
        super().__init__()
        self.drop_intermediate = drop_intermediate

    def of_column(self, column: Ranked, thresholds: Tensor) -> Tensor:
        """Keep the corners."""
        fpr, tpr = column.rates
        if not self.drop_intermediate:
            return torch.stack([fpr, tpr, thresholds])
        bends = (column.tp.diff(n=2) != 0) | (column.fp.diff(n=2) != 0)
        end = bends.new_ones(1)
        corners = torch.cat([end, end, bends, end])[: len(fpr)] if len(fpr) > 2 else fpr >= 0
        return torch.stack([fpr, tpr, thresholds])[:, corners]


@register_metric("roc_curve", [CATEGORY, SET], aliases=["roc"])
class ClassRocCurve(RocCurve):
    """The ROC curve of one class, or of one label, against all others: the same as that of a binary output.

    It is measured, never optimised.

    Shape:
        preds: (N, C) float of a category, (N, L) of a set: probabilities (or logits by keyword).
        target: (N,) int, (N, L) of a set.

    Raises:
        MetricNameError: there is no such class.
    Formula: (fp(t) / negatives, tp(t) / positives, t) for descending thresholds t
    Source: Fawcett 2006, Pattern Recognition Letters 27(8).

    >>> metric = ClassRocCurve(class_=1)
    >>> metric.update(torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]), torch.tensor([1, 0, 1]))
    >>> metric.compute().tolist()
    [[0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0], [inf, 0.75, 0.5, 0.25]]
    """

    def __init__(self, *, class_: int, drop_intermediate: bool = True) -> None:
        super().__init__(drop_intermediate=drop_intermediate)
        self.class_ = class_


@register_metric("precision_recall_curve", [BINARY], aliases=["pr_curve"])
class PrecisionRecallCurve(Curve):
    """Precision, recall and threshold at every distinct score.

    It is measured, never optimised. The last point, at an infinite threshold, is precision 1 and recall 0.

    Value: (3, points) floats, precision and recall in [0, 1], thresholds ascending; nan when the target
        holds one class only.
    Formula: (tp(t) / (tp(t) + fp(t)), tp(t) / positives, t) for ascending thresholds t
    Source: Davis & Goadrich 2006, ICML; scikit-learn's precision_recall_curve, whose thresholds lack the
        last.

    >>> metric = PrecisionRecallCurve()
    >>> metric.update(torch.tensor([0.75, 0.5, 0.25]), torch.tensor([1, 0, 1]))
    >>> [[round(x, 4) for x in row] for row in metric.compute().tolist()]
    [[0.6667, 0.5, 1.0, 1.0], [1.0, 0.5, 0.5, 0.0], [0.25, 0.5, 0.75, inf]]
    """

    def of_column(self, column: Ranked, thresholds: Tensor) -> Tensor:
        """Divide at every score."""
        tp, fp = column.cuts
        precision = torch.where(tp + fp > 0, tp / (tp + fp), 1.0)
        return torch.stack([precision, tp / column.positives, thresholds]).flip(1)


@register_metric("precision_recall_curve", [CATEGORY, SET], aliases=["pr_curve"])
class ClassPrecisionRecallCurve(PrecisionRecallCurve):
    """Precision and recall of one class, or of one label, against all others at every distinct score.

    It is measured, never optimised.

    Shape:
        preds: (N, C) float of a category, (N, L) of a set: probabilities (or logits by keyword).
        target: (N,) int, (N, L) of a set.

    Raises:
        MetricNameError: there is no such class.
    Formula: (tp(t) / (tp(t) + fp(t)), tp(t) / positives, t) for ascending thresholds t
    Source: Davis & Goadrich 2006, ICML.

    >>> metric = ClassPrecisionRecallCurve(class_=1)
    >>> metric.update(torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]), torch.tensor([1, 0, 1]))
    >>> [[round(x, 4) for x in row] for row in metric.compute().tolist()]
    [[0.6667, 0.5, 1.0, 1.0], [1.0, 0.5, 0.5, 0.0], [0.25, 0.5, 0.75, inf]]
    """

    def __init__(self, *, class_: int) -> None:
        super().__init__()
        self.class_ = class_


@register_metric("det_curve", [BINARY])
class DetCurve(Curve):
    """False positive rate, false negative rate and threshold at every score: detection error tradeoff.

    It is measured, never optimised. The curve runs from the highest threshold that misses nothing to the
    lowest that raises no false alarm.

    Value: (3, points) floats, rates in [0, 1], thresholds ascending; nan when the target holds one class
        only.
    Formula: (fp(t) / negatives, fn(t) / positives, t) for ascending thresholds t
    Source: Martin et al. 1997, Eurospeech; scikit-learn's det_curve.

    >>> metric = DetCurve()
    >>> metric.update(torch.tensor([0.75, 0.5, 0.25, 0.125]), torch.tensor([1, 0, 1, 0]))
    >>> metric.compute().tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.25, 0.5, 0.75]]
    """

    def of_column(self, column: Ranked, thresholds: Tensor) -> Tensor:
        """Leave out what lies beyond both ends."""
        fpr, tpr = column.rates
        first = int((fpr == 0).nonzero()[-1])
        last = int((tpr == 1).nonzero()[0])
        return torch.stack([fpr, 1 - tpr, thresholds])[:, first : last + 1].flip(1)


@register_metric("det_curve", [CATEGORY, SET])
class ClassDetCurve(DetCurve):
    """Detection error tradeoff of one class, or of one label, against all others.

    It is measured, never optimised.

    Shape:
        preds: (N, C) float of a category, (N, L) of a set: probabilities (or logits by keyword).
        target: (N,) int, (N, L) of a set.

    Raises:
        MetricNameError: there is no such class.
    Formula: (fp(t) / negatives, fn(t) / positives, t) for ascending thresholds t
    Source: Martin et al. 1997, Eurospeech.

    >>> metric = ClassDetCurve(class_=1)
    >>> metric.update(torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]), torch.tensor([1, 0, 1]))
    >>> metric.compute().tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.5, 0.5], [0.25, 0.5, 0.75]]
    """

    def __init__(self, *, class_: int) -> None:
        super().__init__()
        self.class_ = class_
