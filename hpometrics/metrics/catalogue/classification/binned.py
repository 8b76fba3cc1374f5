"""Binned areas under curves: memory that does not grow with the rows, and an error that is stated."""

from __future__ import annotations

from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricNameError
from ...features import BINARY, CATEGORY, SET
from ...registry.register import register_metric
from ...statistics.histograms import BinnedCurve, ScoreHistogram, average_precision_of, roc_auc_of
from ...statistics.statistic import Statistic
from .columns import AveragedColumns, CurveAverage, check_class, column_of, column_weights


class BinnedColumns(AveragedColumns):
    """An area from a histogram of probabilities; after `compute`, `error_bound` says how far off it can be.

    The bound holds for these very scores: it is computed from the histogram, and is 0 where no bin holds rows
    of both kinds.

    Raises:
        MetricNameError: bins is below 1, no such class, or `class` beside `average`.
    """

    def __init__(
        self, *, bins: int = 4096, average: CurveAverage = "macro", class_: int | None = None
    ) -> None:
        super().__init__(average=average, class_=class_)
        if bins < 1:
            raise MetricNameError(f"a histogram needs at least one bin, got bins={bins}")
        self.bins = bins
        self.error_bound: Tensor | None = None

    def statistics(self) -> dict[str, Statistic]:
        """Need the histogram of the probabilities."""
        check_class(self, self.class_)
        return {"histogram": ScoreHistogram(self.bins)}

    def area(self, positives: Tensor, negatives: Tensor) -> BinnedCurve:
        """The area per class and its error, from weights by class and bin."""
        raise NotImplementedError(f"{type(self).__name__} needs area(positives, negatives)")

    def compute(self) -> Tensor:
        """Average the areas, and their errors alike; nan with a reason when no class has an area."""
        self.error_bound = self._pooled().error_bound if self.average == "micro" else self._bound()
        return super().compute()

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Measure every class."""
        histogram = self.statistic(ScoreHistogram)
        return self.area(histogram.positives, histogram.negatives).value, histogram.positives.sum(-1)

    def of_pooled(self) -> Tensor:
        """Measure the sum of the classes' histograms."""
        return self._pooled().value

    def reset(self) -> None:
        """Forget every row, and the bound with them."""
        super().reset()
        self.error_bound = None

    def _pooled(self) -> BinnedCurve:
        histogram = self.statistic(ScoreHistogram)
        return self.area(histogram.positives.sum(0), histogram.negatives.sum(0))

    def _bound(self) -> Tensor:
        """The bound of a mean is the mean of the bounds."""
        histogram = self.statistic(ScoreHistogram)
        curve = self.area(histogram.positives, histogram.negatives)
        if self.class_ is not None:
            return curve.error_bound[column_of(self, self.class_, len(curve.value))]
        if self.average == "none":
            return curve.error_bound
        weight = column_weights(curve.value, histogram.positives.sum(-1), self.average)
        return (curve.error_bound.nan_to_num(nan=0.0) * weight).sum() / weight.sum()


@register_metric("roc_auc_binned", [CATEGORY, BINARY, SET], aliases=["auc_binned"])
class BinnedRocAuc(BinnedColumns):
    """Area under the ROC curve from a histogram of the probabilities, rows of one bin counting as tied.

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

    objective = MAXIMIZE

    def area(self, positives: Tensor, negatives: Tensor) -> BinnedCurve:
        """Count the pairs."""
        return roc_auc_of(positives, negatives)


@register_metric("average_precision_binned", [CATEGORY, BINARY, SET])
class BinnedAveragePrecision(BinnedColumns):
    """Average precision from a histogram of the probabilities, rows of one bin counting as tied.

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

    objective = MAXIMIZE
    needs = "there is no positive row"

    def area(self, positives: Tensor, negatives: Tensor) -> BinnedCurve:
        """Go through the bins from the top."""
        return average_precision_of(positives, negatives)
