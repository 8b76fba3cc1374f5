"""Averages over classes: micro, macro, weighted or none, by one rule for every ratio of counts."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from ..features import SET
from ..metric import Metric
from ..statistics.confusion import Confusion, Counts, LabelConfusion, confusion_of
from ..statistics.statistic import Statistic

Average = Literal["micro", "macro", "weighted", "none"]


def averages(name: str) -> dict[str, str]:
    """The aliases of an averaged metric: `f1_macro` for `f1(average=macro)`, as scikit-learn names them."""
    return {f"{name}_{average}": f"{name}(average={average})" for average in ("micro", "macro", "weighted")}


class ConfusionMetric(Metric):
    """A metric that is a closed form of confusion counts."""

    def statistics(self) -> dict[str, Statistic]:
        """Need the confusion counts of its output."""
        return {"confusion": confusion_of(self.output)}

    @property
    def matrix(self) -> Tensor:
        """The confusion matrix, float64 (C, C), rows are targets."""
        return self.statistic(Confusion).matrix

    @property
    def counts(self) -> Counts:
        """Counts per class or label."""
        if self.output.type == SET:
            return self.statistic(LabelConfusion).counts
        return self.statistic(Confusion).counts


class CountsRatio(ConfusionMetric):
    """A ratio of counts: `parts` gives numerator and denominator per class."""

    needs: ClassVar[str]

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Numerator and denominator per class."""
        raise NotImplementedError(f"{type(self).__name__} needs parts(counts)")


class BinaryRatio(CountsRatio):
    """The ratio for class 1 of a binary output; undefined where its denominator is 0."""

    def compute(self) -> Tensor:
        """Divide once; nan with a reason when there is nothing to divide by."""
        numerator, denominator = (part[-1] for part in self.parts(self.counts))
        return numerator / denominator if denominator > 0 else self.undefined(f"there is no {self.needs}")


class AveragedRatio(CountsRatio):
    """The ratio averaged over the classes of a category or the labels of a set.

    `micro` pools the counts of all classes, `macro` averages the ratios of the classes that occur in target
    or predictions, `weighted` weighs them by their rows, `none` gives one value per class. A class that
    occurs, but whose ratio has denominator 0, counts as 0; one that does not occur at all is left out (with
    `none`, it is nan).
    """

    def __init__(self, *, average: Average) -> None:
        super().__init__()
        self.average = average

    def compute(self) -> Tensor:
        """Average; nan with a reason when no class has anything to divide by."""
        counts = self.counts.pooled() if self.average == "micro" else self.counts
        numerator, denominator = self.parts(counts)
        ratio = numerator / torch.where(denominator > 0, denominator, 1.0)
        weight = counts.support if self.average == "weighted" else counts.present.double()
        if self.average == "none":
            return torch.where(counts.present, ratio, torch.nan)
        if not weight.sum() > 0:
            return self.undefined(f"there is no {self.needs}")
        return (ratio * weight).sum() / weight.sum()
