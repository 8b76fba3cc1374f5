"""Operating points: one rate at a required level of another, and the equal error rate."""

from __future__ import annotations

from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ...features import BINARY, CATEGORY, SET
from ...registry.register import register_metric
from ...statistics.sorted_scores import RankedColumn
from .curves import ColumnMetric, CurveAverage


class OperatingPoint(ColumnMetric):
    """Base class of rates at the best of the thresholds that keep another rate at a level.

    Several classes are measured one against the rest, each at a threshold of its own.
    """


@register_metric("recall_at_precision", [BINARY, CATEGORY, SET], aliases=["recall_at_fixed_precision"])
class RecallAtPrecision(OperatingPoint):
    """Largest recall among the thresholds whose precision is at least `precision`; 0 if there is none.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.

    Raises:
        MetricNameError: precision lies outside [0, 1], no such class, or `class` beside `average`.
    Formula: max of tp(t) / positives over thresholds t with tp(t) / (tp(t) + fp(t)) >= precision
    Source: Davis & Goadrich 2006, ICML; torchmetrics' BinaryRecallAtFixedPrecision.

    >>> import torch
    >>> metric = RecallAtPrecision(precision=0.6)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up precision is 2/3 and recall 1
    1.0
    """

    direction = MAXIMIZE

    def __init__(
        self, *, precision: float, average: CurveAverage = "macro", class_: int | None = None
    ) -> None:
        super().__init__(average=average, class_=class_)
        self.precision = _check_rate("precision", precision)

    def of_column(self, column: RankedColumn) -> Tensor:
        """Return the largest recall where the precision suffices."""
        sufficient = column.tp / (column.tp + column.fp) >= self.precision
        return (column.tp * sufficient).amax() / column.positives


@register_metric("precision_at_recall", [BINARY, CATEGORY, SET], aliases=["precision_at_fixed_recall"])
class PrecisionAtRecall(OperatingPoint):
    """Largest precision among the thresholds whose recall is at least `recall`.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.

    Raises:
        MetricNameError: recall lies outside [0, 1], no such class, or `class` beside `average`.
    Formula: max of tp(t) / (tp(t) + fp(t)) over thresholds t with tp(t) / positives >= recall
    Source: Davis & Goadrich 2006, ICML; torchmetrics' BinaryPrecisionAtFixedRecall.

    >>> import torch
    >>> metric = PrecisionAtRecall(recall=0.6)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # recall 1 from 0.7 up, where 2 of 3 are right
    0.6667
    """

    direction = MAXIMIZE

    def __init__(self, *, recall: float, average: CurveAverage = "macro", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.recall = _check_rate("recall", recall)

    def of_column(self, column: RankedColumn) -> Tensor:
        """Return the largest precision where the recall suffices."""
        sufficient = column.tp / column.positives >= self.recall
        return (column.tp / (column.tp + column.fp))[sufficient].amax()


@register_metric("sensitivity_at_specificity", [BINARY, CATEGORY, SET])
class SensitivityAtSpecificity(OperatingPoint):
    """Largest sensitivity among the thresholds whose specificity is at least `specificity`.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.

    Raises:
        MetricNameError: specificity lies outside [0, 1], no such class, or `class` beside `average`.
    Formula: max of tp(t) / positives over thresholds t with tn(t) / negatives >= specificity
    Source: Pepe 2003, The Statistical Evaluation of Medical Tests; torchmetrics'
        BinarySensitivityAtSpecificity.

    >>> import torch
    >>> metric = SensitivityAtSpecificity(specificity=0.6)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # above 0.8 specificity is 1; from 0.8 down it is 1/2
    0.5
    """

    direction = MAXIMIZE

    def __init__(
        self, *, specificity: float, average: CurveAverage = "macro", class_: int | None = None
    ) -> None:
        super().__init__(average=average, class_=class_)
        self.specificity = _check_rate("specificity", specificity)

    def of_column(self, column: RankedColumn) -> Tensor:
        """Return the largest sensitivity where the specificity suffices."""
        tp, fp = column.cuts
        sufficient = (column.negatives - fp) / column.negatives >= self.specificity
        return tp[sufficient].amax() / column.positives


@register_metric("specificity_at_sensitivity", [BINARY, CATEGORY, SET])
class SpecificityAtSensitivity(OperatingPoint):
    """Largest specificity among the thresholds whose sensitivity is at least `sensitivity`.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.

    Raises:
        MetricNameError: sensitivity lies outside [0, 1], no such class, or `class` beside `average`.
    Formula: max of tn(t) / negatives over thresholds t with tp(t) / positives >= sensitivity
    Source: Pepe 2003, The Statistical Evaluation of Medical Tests; torchmetrics'
        BinarySpecificityAtSensitivity.

    >>> import torch
    >>> metric = SpecificityAtSensitivity(sensitivity=0.6)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # both ones are found from 0.7 up, with one false alarm of two
    0.5
    """

    direction = MAXIMIZE

    def __init__(
        self, *, sensitivity: float, average: CurveAverage = "macro", class_: int | None = None
    ) -> None:
        super().__init__(average=average, class_=class_)
        self.sensitivity = _check_rate("sensitivity", sensitivity)

    def of_column(self, column: RankedColumn) -> Tensor:
        """Return the largest specificity where the sensitivity suffices."""
        tp, fp = column.cuts
        sufficient = tp / column.positives >= self.sensitivity
        return (column.negatives - fp[sufficient].amin()) / column.negatives


@register_metric(
    "fpr_at_tpr", [BINARY, CATEGORY, SET], aliases={"fpr95": "fpr_at_tpr", "fpr_at_95_tpr": "fpr_at_tpr"}
)
class FalsePositiveRate(OperatingPoint):
    """Smallest false positive rate among the thresholds whose true positive rate is at least `tpr`.

    Value: float in [0, 1], no unit, 0 is best, tpr is chance; nan when the target holds one class only.

    Raises:
        MetricNameError: tpr lies outside [0, 1], no such class, or `class` beside `average`.
    Formula: min of fp(t) / negatives over thresholds t with tp(t) / positives >= tpr
    Source: Liang, Li & Srikant 2018, ICLR, who call it FPR at 95% TPR.

    >>> import torch
    >>> metric = FalsePositiveRate()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # both ones are found from 0.7 up, with one false alarm of two
    0.5
    """

    direction = MINIMIZE

    def __init__(
        self, *, tpr: float = 0.95, average: CurveAverage = "macro", class_: int | None = None
    ) -> None:
        super().__init__(average=average, class_=class_)
        self.tpr = _check_rate("tpr", tpr)

    def of_column(self, column: RankedColumn) -> Tensor:
        """Return the least false positive rate where the true positive rate suffices."""
        tp, fp = column.cuts
        return fp[tp / column.positives >= self.tpr].amin() / column.negatives


@register_metric("eer", [BINARY, CATEGORY, SET], aliases=["equal_error_rate"])
class EqualErrorRate(ColumnMetric):
    """Error rate at the threshold where the false positive and the false negative rate are closest.

    It is the mean of the two rates there; among equally close thresholds the highest is taken.

    Value: float in [0, 1], no unit, 0 is best, 0.5 is chance; nan when the target holds one class only.
    Formula: (fpr(t) + fnr(t)) / 2 at t = argmin of abs(fpr(t) - fnr(t))
    Source: Martin et al. 1997, Eurospeech; torchmetrics' BinaryEER.

    >>> import torch
    >>> metric = EqualErrorRate()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> metric.compute().item()  # from 0.8 up one of two ones is missed, and one of two zeros is an alarm
    0.5
    """

    direction = MINIMIZE

    def of_column(self, column: RankedColumn) -> Tensor:
        """Return the mean of both rates; they are compared undivided, so that equal ones are equal."""
        tp, fp = column.cuts
        alarms, misses = fp * column.positives, (column.positives - tp) * column.negatives
        nearest = (alarms - misses).abs().argmin()
        return (alarms[nearest] + misses[nearest]) / 2 / (column.positives * column.negatives)


def _check_rate(name: str, value: float) -> float:
    """Check that a required rate lies in [0, 1], and return it."""
    if not 0 <= value <= 1:
        raise MetricNameError(f"{name} is a rate in [0, 1], got {value:g}")
    return value
