"""Operating points: one rate at a required level of another, and the equal error rate."""

from __future__ import annotations

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ...features import BINARY, CATEGORY, SET
from ...registry.register import register_metric
from ...statistics.sorted_scores import Cuts
from ._base import Average
from .curves import CutMetric


class OperatingPoint(CutMetric):
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
    Deviates: torchmetrics gives 0 to a class that no row of the target has.
    Source: Davis & Goadrich 2006, ICML; torchmetrics' BinaryRecallAtFixedPrecision.

    >>> import torch
    >>> metric = RecallAtPrecision(precision=0.6)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up precision is 2/3 and recall 1
    1.0
    """

    direction = MAXIMIZE

    def __init__(self, *, precision: float, average: Average = "macro", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.precision = _check_rate("precision", precision)

    def quality(self, cuts: Cuts) -> Tensor:
        """Return the recall where the precision suffices, else 0."""
        is_sufficient = cuts.tp / (cuts.tp + cuts.fp) >= self.precision
        return cuts.tp * is_sufficient / cuts.positives


@register_metric("precision_at_recall", [BINARY, CATEGORY, SET], aliases=["precision_at_fixed_recall"])
class PrecisionAtRecall(OperatingPoint):
    """Largest precision among the thresholds whose recall is at least `recall`.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.

    Raises:
        MetricNameError: recall lies outside [0, 1], no such class, or `class` beside `average`.
    Formula: max of tp(t) / (tp(t) + fp(t)) over thresholds t with tp(t) / positives >= recall
    Deviates: torchmetrics gives 0 to a class that no row of the target has.
    Source: Davis & Goadrich 2006, ICML; torchmetrics' BinaryPrecisionAtFixedRecall.

    >>> import torch
    >>> metric = PrecisionAtRecall(recall=0.6)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # recall 1 from 0.7 up, where 2 of 3 are right
    0.6667
    """

    direction = MAXIMIZE

    def __init__(self, *, recall: float, average: Average = "macro", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.recall = _check_rate("recall", recall)

    def quality(self, cuts: Cuts) -> Tensor:
        """Return the precision where the recall suffices, else -1."""
        precision = torch.where(cuts.tp > 0, cuts.tp / (cuts.tp + cuts.fp), 0.0)
        return torch.where(cuts.tp / cuts.positives >= self.recall, precision, -1.0)


@register_metric("sensitivity_at_specificity", [BINARY, CATEGORY, SET])
class SensitivityAtSpecificity(OperatingPoint):
    """Largest sensitivity among the thresholds whose specificity is at least `specificity`.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.

    Raises:
        MetricNameError: specificity lies outside [0, 1], no such class, or `class` beside `average`.
    Formula: max of tp(t) / positives over thresholds t with tn(t) / negatives >= specificity
    Deviates: torchmetrics gives 0 to a class that no row of the target has.
    Source: Pepe 2003, The Statistical Evaluation of Medical Tests; torchmetrics'
        BinarySensitivityAtSpecificity.

    >>> import torch
    >>> metric = SensitivityAtSpecificity(specificity=0.6)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # above 0.8 specificity is 1; from 0.8 down it is 1/2
    0.5
    """

    direction = MAXIMIZE

    def __init__(self, *, specificity: float, average: Average = "macro", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.specificity = _check_rate("specificity", specificity)

    def quality(self, cuts: Cuts) -> Tensor:
        """Return the sensitivity where the specificity suffices, else -1."""
        specificity = (cuts.negatives - cuts.fp) / cuts.negatives
        return torch.where(specificity >= self.specificity, cuts.tp / cuts.positives, -1.0)


@register_metric("specificity_at_sensitivity", [BINARY, CATEGORY, SET])
class SpecificityAtSensitivity(OperatingPoint):
    """Largest specificity among the thresholds whose sensitivity is at least `sensitivity`.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.

    Raises:
        MetricNameError: sensitivity lies outside [0, 1], no such class, or `class` beside `average`.
    Formula: max of tn(t) / negatives over thresholds t with tp(t) / positives >= sensitivity
    Deviates: torchmetrics gives 0 to a class that no row of the target has.
    Source: Pepe 2003, The Statistical Evaluation of Medical Tests; torchmetrics'
        BinarySpecificityAtSensitivity.

    >>> import torch
    >>> metric = SpecificityAtSensitivity(sensitivity=0.6)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # both ones are found from 0.7 up, with one false alarm of two
    0.5
    """

    direction = MAXIMIZE

    def __init__(self, *, sensitivity: float, average: Average = "macro", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.sensitivity = _check_rate("sensitivity", sensitivity)

    def quality(self, cuts: Cuts) -> Tensor:
        """Return the specificity where the sensitivity suffices, else -1."""
        specificity = (cuts.negatives - cuts.fp) / cuts.negatives
        return torch.where(cuts.tp / cuts.positives >= self.sensitivity, specificity, -1.0)


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

    def __init__(self, *, tpr: float = 0.95, average: Average = "macro", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.tpr = _check_rate("tpr", tpr)

    def quality(self, cuts: Cuts) -> Tensor:
        """Return the negative number of false positives where the true positive rate suffices."""
        return torch.where(cuts.tp / cuts.positives >= self.tpr, -cuts.fp, -torch.inf)

    def of_cut(self, cut: Cuts) -> Tensor:
        """Return the false positive rate."""
        return cut.fp / cut.negatives


@register_metric("eer", [BINARY, CATEGORY, SET], aliases=["equal_error_rate"])
class EqualErrorRate(CutMetric):
    """Error rate at the threshold where the false positive and the false negative rate are closest.

    It is the mean of the two rates there; among equally close thresholds the highest is taken.

    Value: float in [0, 1], no unit, 0 is best, 0.5 is chance; nan when the target holds one class only.
    Formula: (fpr(t) + fnr(t)) / 2 at t = argmin of abs(fpr(t) - fnr(t))
    Deviates: torchmetrics gives 1 to a class that no row of the target has.
    Source: Martin et al. 1997, Eurospeech; torchmetrics' BinaryEER.

    >>> import torch
    >>> metric = EqualErrorRate()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> metric.compute().item()  # from 0.8 up one of two ones is missed, and one of two zeros is an alarm
    0.5
    """

    direction = MINIMIZE

    def bound(self, above: Cuts, below: Cuts) -> Tensor:
        """Return 0 where the rates cross between two cuts, else the larger quality of the two."""
        start, end = (_alarms_beyond_misses(cuts) for cuts in (above, below))
        return torch.where((start < 0) & (end > 0), 0.0, -torch.minimum(start.abs(), end.abs()))

    def quality(self, cuts: Cuts) -> Tensor:
        """Return the negative gap of the rates; they are compared undivided, so that equal ones are equal."""
        return -_alarms_beyond_misses(cuts).abs()

    def of_cut(self, cut: Cuts) -> Tensor:
        """Return the mean of both rates."""
        alarms, misses = cut.fp * cut.positives, (cut.positives - cut.tp) * cut.negatives
        return (alarms + misses) / 2 / (cut.positives * cut.negatives)


def _alarms_beyond_misses(cuts: Cuts) -> Tensor:
    """Return the false positive rate less the false negative rate, times positives and negatives."""
    return cuts.fp * cuts.positives - (cuts.positives - cuts.tp) * cuts.negatives


def _check_rate(name: str, value: float) -> float:
    """Check that a required rate lies in [0, 1], and return it."""
    if not 0 <= value <= 1:
        raise MetricNameError(f"{name} must be a rate in [0, 1], got {value:g}")
    return value
