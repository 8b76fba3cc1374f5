"""ROC, precision-recall and DET curves point by point, and areas under curves from histograms."""

from __future__ import annotations

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricNameError
from ..._derive import probabilities_of_class_scores
from ...features import BINARY, CATEGORY, PROBABILITIES, SET
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.calibration import BinnedCurve, ScoreHistogram, average_precision_of, roc_auc_of
from ...statistics.scores import Scores
from ...statistics.sorted_scores import RankedColumn, ranked_column
from ...statistics.statistic import Statistic
from .curves import ONE_CLASS, AveragedColumns, CurveAverage, check_class, column_of


class Curve(Metric):
    """Base class of curves: one column per threshold, which is a probability even if logits were passed.

    A binary output has one curve; for a category or a set, `class_` selects the class, against all others.

    Shape:
        preds: (N,) float, probabilities (or logits by keyword).
        target: (N,) int.
    """

    direction = None
    inputs = PROBABILITIES
    class_: int = 1

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores of every row."""
        check_class(self, self.class_)
        return {"scores": Scores()}

    def of_column(self, column: RankedColumn, thresholds: Tensor) -> Tensor:
        """Return the curve of a column with positive and negative rows; its first threshold is infinite."""
        raise NotImplementedError(f"{type(self).__name__} needs of_column(column, thresholds)")

    def compute(self) -> Tensor:
        """Return the curve; nan with a reason when there is none."""
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

    It is measured, never optimized. Points on a line between two others are left out unless
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

    def of_column(self, column: RankedColumn, thresholds: Tensor) -> Tensor:
        """Return the corners of the curve, or all points."""
        fpr, tpr = column.rates
        if not self.drop_intermediate:
            return torch.stack([fpr, tpr, thresholds])
        bends = (column.tp.diff(n=2) != 0) | (column.fp.diff(n=2) != 0)
        end = bends.new_ones(1)
        corners = torch.cat([end, end, bends, end])[: len(fpr)] if len(fpr) > 2 else fpr >= 0
        return torch.stack([fpr, tpr, thresholds])[:, corners]


@register_metric("roc_curve", [CATEGORY, SET], aliases=["roc"])
class ClassRocCurve(RocCurve):
    """ROC curve of one class, or of one label, against all others, as for a binary output.

    It is measured, never optimized.

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

    It is measured, never optimized. The last point, at an infinite threshold, is precision 1 and recall 0.

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

    def of_column(self, column: RankedColumn, thresholds: Tensor) -> Tensor:
        """Return precision and recall at every score."""
        tp, fp, positives, _ = column.cuts
        precision = torch.where(tp + fp > 0, tp / (tp + fp), 1.0)
        return torch.stack([precision, tp / positives, thresholds]).flip(1)


@register_metric("precision_recall_curve", [CATEGORY, SET], aliases=["pr_curve"])
class ClassPrecisionRecallCurve(PrecisionRecallCurve):
    """Precision and recall of one class, or of one label, against all others at every distinct score.

    It is measured, never optimized.

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
    """Detection error tradeoff: false positive rate, false negative rate and threshold at every score.

    It is measured, never optimized. The curve runs from the highest threshold that misses nothing to the
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

    def of_column(self, column: RankedColumn, thresholds: Tensor) -> Tensor:
        """Return the points between both ends."""
        fpr, tpr = column.rates
        first = int((fpr == 0).nonzero()[-1])
        last = int((tpr == 1).nonzero()[0])
        return torch.stack([fpr, 1 - tpr, thresholds])[:, first : last + 1].flip(1)


@register_metric("det_curve", [CATEGORY, SET])
class ClassDetCurve(DetCurve):
    """Detection error tradeoff of one class, or of one label, against all others.

    It is measured, never optimized.

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


class BinnedColumns(AveragedColumns):
    """Base class of areas from a histogram of probabilities; `compute` sets `error_bound`, the largest error.

    The bound holds for the measured scores: it is computed from the histogram, and is 0 where no bin holds
    rows of both kinds.

    Raises:
        MetricNameError: bins is below 1, no such class, or `class` beside `average`.
    """

    direction = MAXIMIZE

    def __init__(
        self, *, bins: int = 4096, average: CurveAverage = "macro", class_: int | None = None
    ) -> None:
        super().__init__(average=average, class_=class_)
        if bins < 1:
            raise MetricNameError(f"a histogram needs at least one bin, got bins={bins}")
        self.bins = bins
        self.error_bound: Tensor | None = None

    def statistics(self) -> dict[str, Statistic]:
        """Return the histogram of the probabilities."""
        check_class(self, self.class_)
        return {"histogram": ScoreHistogram(self.bins)}

    def area(self, positives: Tensor, negatives: Tensor) -> BinnedCurve:
        """Return the area per class and its error, from weights by class and bin."""
        raise NotImplementedError(f"{type(self).__name__} needs area(positives, negatives)")

    def compute(self) -> Tensor:
        """Average the areas and their errors; nan with a reason when no class has an area."""
        self.error_bound = self._pooled().error_bound if self.average == "micro" else self._bound()
        return super().compute()

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Return the area of each class and the weight of its positive rows."""
        histogram = self.statistic(ScoreHistogram)
        return self.area(histogram.positives, histogram.negatives).value, histogram.positives.sum(-1)

    def of_pooled(self) -> Tensor:
        """Return the area of the summed histograms of the classes."""
        return self._pooled().value

    def reset(self) -> None:
        """Reset the histogram and the error bound."""
        super().reset()
        self.error_bound = None

    def _pooled(self) -> BinnedCurve:
        histogram = self.statistic(ScoreHistogram)
        return self.area(histogram.positives.sum(0), histogram.negatives.sum(0))

    def _bound(self) -> Tensor:
        """Return the bound of the average, which is the average of the bounds."""
        histogram = self.statistic(ScoreHistogram)
        curve = self.area(histogram.positives, histogram.negatives)
        return self.averaged(curve.error_bound, curve.value, histogram.positives.sum(-1))


@register_metric("roc_auc_binned", [CATEGORY, BINARY, SET], aliases=["auc_binned"])
class BinnedRocAuc(BinnedColumns):
    """Area under the ROC curve from a histogram of the probabilities; rows of one bin count as tied.

    `error_bound` is half the share of pairs that lie in one bin. ParlAI's AUC is `bins=1000`.

    Value: float in [0, 1], no unit, 1 is best, 0.5 is chance; nan when the target holds one class only.
    Formula: sum over bins of pos * (neg in lower bins + neg / 2) / (positives * negatives)
    Deviates: ParlAI gives 0 for a target of one class.
    Source: Hanley & McNeil 1982, Radiology 143(1); ParlAI's AUCMetrics.

    >>> import torch
    >>> from hpometrics.metrics.features import Binary
    >>> metric = BinnedRocAuc(bins=4)
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.8, 0.4, 0.3]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().item(), metric.error_bound.item()  # of 4 pairs one is in the bin from 0.25 to 0.5
    (0.875, 0.125)
    """

    def area(self, positives: Tensor, negatives: Tensor) -> BinnedCurve:
        """Return the area and its error from the pairs of rows."""
        return roc_auc_of(positives, negatives)


@register_metric("average_precision_binned", [CATEGORY, BINARY, SET])
class BinnedAveragePrecision(BinnedColumns):
    """Average precision from a histogram of the probabilities; rows of one bin count as tied.

    `error_bound` is the larger distance to the best and to the worst order of the rows within their bins.

    Value: float in [0, 1], no unit, 1 is best, the share of positives is chance; nan when there is no
        positive row.
    Formula: sum over bins of pos / positives * tp / (tp + fp), tp and fp counted from the bin up
    Source: Zhu 2004, University of Waterloo report; torchmetrics' BinaryAveragePrecision with thresholds.

    >>> import torch
    >>> from hpometrics.metrics.features import Binary
    >>> metric = BinnedAveragePrecision(bins=4)
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.8, 0.4, 0.3]), torch.tensor([0, 1, 1, 0]))
    >>> round(metric.compute().item(), 4)  # (1/1 + 2/3) / 2, where the scores themselves give 1
    0.8333
    >>> round(metric.error_bound.item(), 4)
    0.1667
    """

    needs = "there are no positive rows"

    def area(self, positives: Tensor, negatives: Tensor) -> BinnedCurve:
        """Return the average precision and its error, from the highest bin down."""
        return average_precision_of(positives, negatives)
