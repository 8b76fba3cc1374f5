"""Rates beside precision and recall: those of the negatives, of the errors, and what sums them up."""

from __future__ import annotations

from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ...statistics.confusion import Counts
from ._base import Ratio, register_ratio


@register_ratio("specificity", ["true_negative_rate", "tnr", "selectivity"])
class Specificity(Ratio):
    """Of what is not of a class, the share that is not predicted as it.

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

    objective = MAXIMIZE
    needs = "row whose target is negative"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Left alone among those to be left alone."""
        return counts.tn, counts.tn + counts.fp


@register_ratio("negative_predictive_value", ["npv"])
class NegativePredictiveValue(Ratio):
    """Of what is predicted not to be of a class, the share that is not of it.

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

    objective = MAXIMIZE
    needs = "row predicted negative"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Rightly left alone among those left alone."""
        return counts.tn, counts.tn + counts.fn


@register_ratio("false_positive_rate", ["fpr", "fall_out"])
class FalsePositiveRate(Ratio):
    """Of what is not of a class, the share that is predicted as it: 1 less the specificity.

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

    objective = MINIMIZE
    needs = "row whose target is negative"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """False alarms among those to be left alone."""
        return counts.fp, counts.fp + counts.tn


@register_ratio("false_negative_rate", ["fnr", "miss_rate"])
class FalseNegativeRate(Ratio):
    """Of what is of a class, the share that is not predicted as it: 1 less the recall.

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

    objective = MINIMIZE
    needs = "row whose target is positive"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Missed among actual."""
        return counts.fn, counts.support


@register_ratio("false_discovery_rate", ["fdr"])
class FalseDiscoveryRate(Ratio):
    """Of what is predicted as a class, the share that is not of it: 1 less the precision.

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

    objective = MINIMIZE
    needs = "row predicted positive"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Wrong among predicted."""
        return counts.fp, counts.fp + counts.tp


@register_ratio("false_omission_rate", ["for"])
class FalseOmissionRate(Ratio):
    """Of what is predicted not to be of a class, the share that is: 1 less the negative predictive value.

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

    objective = MINIMIZE
    needs = "row predicted negative"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Missed among those left alone."""
        return counts.fn, counts.fn + counts.tn


@register_ratio("informedness", ["youden_j", "bookmaker_informedness"])
class Informedness(Ratio):
    """How much better than chance a class is told from the rest: recall plus specificity less 1.

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

    objective = MAXIMIZE
    needs = "row of the class, or no row not of it"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """The two shares over one denominator."""
        return _surplus(counts), counts.support * (counts.tn + counts.fp)


@register_ratio("markedness", ["delta_p"])
class Markedness(Ratio):
    """How much a prediction tells of the target: precision plus negative predictive value less 1.

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

    objective = MAXIMIZE
    needs = "row predicted as the class, or no row not predicted as it"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """The two shares over one denominator."""
        return _surplus(counts), (counts.tp + counts.fp) * (counts.tn + counts.fn)


def _surplus(counts: Counts) -> Tensor:
    """The determinant of the two-by-two table: 0 where predictions and target are independent."""
    return counts.tp * counts.tn - counts.fp * counts.fn
