"""Areas under ROC and precision-recall curves: how well scores rank a class above the others."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricInputError, MetricNameError
from ...batch import Outputs
from ...features import BINARY, CATEGORY, PROBABILITIES, SET
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.areas import area_over_log, area_up_to, areas_of_pairs, curves_of, pooled_curve
from ...statistics.cuts import best_cut, best_of_ranked, corner_bound
from ...statistics.scores import Scores
from ...statistics.sorted_scores import Cuts, RankedColumn, ranked_column, ranked_pooled
from ...statistics.statistic import Statistic
from ._base import Average, averages

ONE_CLASS = "the target has a single class"


class AveragedColumns(Metric):
    """Base class of metrics with a value per column: of a binary output, of a class, or of a label of a set.

    `micro` pools all columns, so that each class of each row is a question of its own; `macro` averages the
    values, `weighted` weighs them by the rows of the class, `none` returns one per class; `class_` selects
    the value of a single class. A class whose value is undefined is left out (with `none`, it is nan).

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category, (N, L) of a set: probabilities (or
            logits by keyword).
        target: (N,) int, (N, L) of a set.
    """

    inputs = PROBABILITIES
    needs: ClassVar[str] = ONE_CLASS

    def __init__(self, *, average: Average = "macro", class_: int | None = None) -> None:
        super().__init__()
        if class_ is not None and average != "macro":
            raise MetricNameError(
                f"the value of the single class {class_} is not an average; leave out average="
            )
        self.average = average
        self.class_ = class_

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Return the value of each column, nan where undefined, and the weight of its positive rows."""
        raise NotImplementedError(f"{type(self).__name__} needs of_all()")

    def of_pooled(self) -> Tensor:
        """Return the value of all columns pooled, nan if undefined."""
        raise NotImplementedError(f"{type(self).__name__} needs of_pooled()")

    def compute(self) -> Tensor:
        """Average the values; nan with a reason when no column has one."""
        if self.average == "micro":
            return self._or_undefined(self.of_pooled())
        values, positives = self.of_all()
        value = self.averaged(values, values, positives)
        return value if self.average == "none" else self._or_undefined(value)

    def averaged(self, numbers: Tensor, values: Tensor, positives: Tensor) -> Tensor:
        """Select or average numbers of columns, without those whose value is undefined; nan if all are."""
        if self.class_ is not None:
            return numbers[column_of(self, self.class_, len(numbers))]
        if self.average == "none":
            return numbers
        weight = positives if self.average == "weighted" else torch.ones_like(values)
        weight = torch.where(values.isnan(), 0.0, weight)
        return (numbers.nan_to_num(nan=0.0) * weight).sum() / weight.sum()

    def _or_undefined(self, value: Tensor) -> Tensor:
        return self.undefined(self.needs) if value.isnan() else value


def check_class(metric: Metric, class_: int | None) -> None:
    """Check that the metric's output can have a class.

    Raises:
        MetricNameError: the output is known not to have it; the message names those that it has.
    """
    output = metric.output
    if class_ is not None and output.type == BINARY and class_ != 1:
        raise MetricNameError(f"{metric.name}: the scores of a binary output belong to class 1")
    size = getattr(output, "num_classes", None) or getattr(output, "num_labels", None)
    if class_ is not None and (class_ < 0 or (size is not None and class_ >= size)):
        raise MetricNameError(
            f"{metric.name}: {output} has classes from 0{f' to {size - 1}' if size else ''}"
        )


def column_of(metric: Metric, class_: int, columns: int) -> int:
    """Return the column of a class.

    Raises:
        MetricInputError: the scores have no such column.
    """
    if metric.output.type == BINARY:
        return 0
    if class_ >= columns:
        raise MetricInputError(
            f"{metric.name}: the classes are 0..{columns - 1}, so there is no class {class_}"
        )
    return class_


class ColumnMetric(AveragedColumns):
    """Base class of metrics of sorted columns of scores; each is sorted once for a whole collection.

    Raises:
        MetricNameError: there is no such class, or `class` beside `average`.
    """

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores of every row."""
        check_class(self, self.class_)
        return {"scores": Scores()}

    def of_column(self, column: RankedColumn) -> Tensor | float:
        """Return the value of one column that has positive and negative rows."""
        raise NotImplementedError(f"{type(self).__name__} needs of_column(column)")

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Return the value of each column and the weight of its positive rows."""
        scores = self.statistic(Scores)
        pairs = [self._value_and_positives(ranked_column(scores, index)) for index in range(scores.classes)]
        values, positives = torch.tensor(pairs, dtype=torch.float64).T
        return values, positives

    def of_pooled(self) -> Tensor:
        """Return the value of all columns pooled."""
        return torch.tensor(
            self._value_and_positives(ranked_pooled(self.statistic(Scores)))[0], dtype=torch.float64
        )

    def _value_and_positives(self, column: RankedColumn) -> tuple[float, float]:
        value = float(self.of_column(column)) if column.has_both else float("nan")
        return value, float(column.positives)


class CutMetric(ColumnMetric):
    """Base class of metrics that are read at the best cut of each column, the highest of equal ones."""

    def quality(self, cuts: Cuts) -> Tensor:
        """Return how good each cut is: never worse with more true or fewer false positives, where above 0."""
        raise NotImplementedError(f"{type(self).__name__} needs quality(cuts)")

    def of_cut(self, cut: Cuts) -> Tensor:
        """Return the value at the best cut, its quality unless a subclass says otherwise."""
        return self.quality(cut)

    def bound(self, above: Cuts, below: Cuts) -> Tensor:
        """Return the most that the quality of a cut between two can be: that at a corner off the curve."""
        return corner_bound(self.quality, above, below)

    def of_column(self, column: RankedColumn) -> Tensor:
        """Return the value at the best cut of a column."""
        return self.of_cut(best_of_ranked(column, self.quality))

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Return the value of each column and the number of its positive rows."""
        scores = self.statistic(Scores)
        cuts = [best_cut(scores, index, self.quality, self.bound) for index in range(scores.classes)]
        nan = torch.tensor(torch.nan, dtype=torch.float64)
        values = torch.stack([self.of_cut(cut).cpu() if cut.has_both else nan for cut in cuts])
        return values, torch.stack([cut.positives.cpu() for cut in cuts])


@register_metric(
    "roc_auc",
    [CATEGORY, BINARY, SET],
    aliases={
        **dict.fromkeys(("auroc", "auc", "roc_auc_ovr", "anomaly_auroc"), "roc_auc"),
        **averages("roc_auc"),
        "roc_auc_ovr_weighted": "roc_auc(average=weighted)",
    },
)
class RocAuc(ColumnMetric):
    """Area under the ROC curve: the probability that a row of the class scores above a row outside it.

    It is exact, and a tie counts a half. With `max_fpr` only the part of the curve up to that false positive
    rate counts, rescaled so that 0.5 is chance and 1 is best. `average` micro pools the classes of all rows.

    Value: float in [0, 1], no unit, 1 is best, 0.5 is chance; nan when the target holds one class only.

    Raises:
        MetricNameError: max_fpr does not lie in (0, 1], no such class, or `class` beside `average`.
    Formula: pairs in the right order / (positives * negatives), a tied pair counting 1/2
    Deviates: Ludwig gives 0 for a target of one class, and counts a class without rows as 0; here that is
        undefined, and left out. torchmetrics counts such a class as 0, too, and ranks sigmoids, which tie
        where logits are large; here logits are ranked as they are.
    Source: Hanley & McNeil 1982, Radiology 143(1); several classes one against the rest, Provost & Domingos
        2000; partial areas McClish 1989, Medical Decision Making 9(3).

    >>> import torch
    >>> from hpometrics.metrics.features import Binary
    >>> metric = RocAuc()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.8, 0.7, 0.2]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().item()
    1.0
    """

    direction = MAXIMIZE

    def __init__(
        self, *, average: Average = "macro", class_: int | None = None, max_fpr: float | None = None
    ) -> None:
        super().__init__(average=average, class_=class_)
        if max_fpr is not None and not 0 < max_fpr <= 1:
            raise MetricNameError(f"roc_auc: max_fpr must be a rate in (0, 1], got {max_fpr:g}")
        self.max_fpr = max_fpr

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Return the areas that all curve metrics share, or measure the partial areas."""
        if self.max_fpr not in (None, 1.0):
            return super().of_all()
        curves = curves_of(self.statistic(Scores))
        return curves.roc_auc, curves.positives

    def ordered_pairs(self, batch: Outputs) -> tuple[Tensor, Tensor] | None:
        """Return the scores and the target of a binary output: the whole area is a share of its pairs."""
        whole = self.max_fpr in (None, 1.0) and batch.weight is None and batch.has_target
        return (batch.scores, batch.target == 1) if whole and batch.feature.type == BINARY else None

    def of_pooled(self) -> Tensor:
        """Return the area of all columns pooled."""
        if self.max_fpr not in (None, 1.0):
            return super().of_pooled()
        return pooled_curve(self.statistic(Scores)).roc_auc

    def of_column(self, column: RankedColumn) -> Tensor:
        """Return the partial area, standardized."""
        most = self.max_fpr or 1.0
        least_area, most_area = most**2 / 2, most
        return (1 + (area_up_to(column, most) - least_area) / (most_area - least_area)) / 2


@register_metric(
    "average_precision",
    [CATEGORY, BINARY, SET],
    aliases={"pr_auc": "average_precision", **averages("average_precision")},
)
class AveragePrecision(ColumnMetric):
    """Average precision: the exact area under the precision-recall curve, without interpolation.

    Value: float in [0, 1], no unit, 1 is best, the share of positives is chance; nan when there is no
        positive row.
    Formula: sum over the thresholds t of (recall(t) - recall(next higher t)) * precision(t)
    Deviates: the area by trapezoids under the precision-recall curve, which some call pr_auc, is larger.
        torchmetrics averages in, as 0, a label of a set that no row has.
    Source: Zhu 2004, University of Waterloo report; scikit-learn's average_precision_score.

    >>> import torch
    >>> from hpometrics.metrics.features import Binary
    >>> metric = AveragePrecision()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([1, 0, 1]))
    >>> round(metric.compute().item(), 4)  # (1/1 + 2/3) / 2
    0.8333
    """

    direction = MAXIMIZE
    needs = "there are no positive rows"

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Return the average precisions that all curve metrics share."""
        curves = curves_of(self.statistic(Scores))
        return curves.average_precision, curves.positives

    def of_pooled(self) -> Tensor:
        """Return the area of all columns pooled."""
        return pooled_curve(self.statistic(Scores)).average_precision


@register_metric("roc_auc_ovo", [CATEGORY], aliases={"roc_auc_ovo_weighted": "roc_auc_ovo(average=weighted)"})
class RocAucOneVsOne(Metric):
    """Mean area under the ROC curve over all pairs of classes, each on the rows of the two classes alone.

    The area of a pair is the mean of two: the rows of a above those of b by the score of a, and of b above a
    by the score of b. `weighted` weighs a pair by its rows. A class without rows is in no pair.

    Shape:
        preds: (N, C) float, probabilities (or logits by keyword).
        target: (N,) int.
    Value: float in [0, 1], no unit, 1 is best, 0.5 is chance; nan when the target holds one class only.
    Formula: mean over pairs a < b of (auc(a over b) + auc(b over a)) / 2
    Source: Hand & Till 2001, Machine Learning 45; scikit-learn's roc_auc_score with multi_class=ovo.

    >>> import torch
    >>> metric = RocAucOneVsOne()
    >>> metric.update(torch.tensor([[0.6, 0.4], [0.7, 0.3], [0.65, 0.35]]), torch.tensor([0, 0, 1]))
    >>> metric.compute().item()  # of the two rows of class 0 one is surer of it than the row of class 1
    0.5
    """

    direction = MAXIMIZE
    inputs = PROBABILITIES

    def __init__(self, *, average: Literal["macro", "weighted"] = "macro") -> None:
        super().__init__()
        self.average = average

    def statistics(self) -> dict[str, Statistic]:
        """Return the scores of every row."""
        return {"scores": Scores()}

    def compute(self) -> Tensor:
        """Average the areas over the ordered pairs, which is the same mean."""
        areas, rows = areas_of_pairs(self.statistic(Scores))
        defined = ~areas.isnan()
        if not defined.any():
            return self.undefined(ONE_CLASS)
        weighted = self.average == "weighted"
        weight = rows.unsqueeze(0) + rows.unsqueeze(1) if weighted else defined.double()
        weight = weight[defined]
        return (areas[defined] * weight).sum() / weight.sum()


@register_metric("log_auc", [CATEGORY, BINARY, SET], aliases=["logauc"])
class LogAuc(ColumnMetric):
    """Area under the ROC curve over the logarithm of the false positive rate: early recognition.

    The rate runs from `min_fpr` to `max_fpr`; the curve's points are joined by lines over its logarithm.

    Value: float in [0, 1], no unit, 1 is best, 0.021 is chance between 0.001 and 0.1; nan when the target
        holds one class only.

    Raises:
        MetricNameError: not 0 < min_fpr < max_fpr <= 1, no such class, or `class` beside `average`.
    Formula: area of tpr over log10(fpr) from min_fpr to max_fpr / (log10(max_fpr) - log10(min_fpr))
    Deviates: torchmetrics reads the two ends off the curve by a sort that mixes the points of a jump.
    Source: Mysinger & Shoichet 2010, Journal of Chemical Information and Modeling 50(9); torchmetrics'
        BinaryLogAUC.

    >>> import torch
    >>> from hpometrics.metrics.features import Binary
    >>> metric = LogAuc()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.8, 0.7, 0.2]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().item()
    1.0
    """

    direction = MAXIMIZE

    def __init__(
        self,
        *,
        average: Average = "macro",
        class_: int | None = None,
        min_fpr: float = 0.001,
        max_fpr: float = 0.1,
    ) -> None:
        super().__init__(average=average, class_=class_)
        if not 0 < min_fpr < max_fpr <= 1:
            raise MetricNameError(
                f"log_auc needs 0 < min_fpr < max_fpr <= 1, got {min_fpr:g} and {max_fpr:g}"
            )
        self.min_fpr = min_fpr
        self.max_fpr = max_fpr

    def of_column(self, column: RankedColumn) -> Tensor:
        """Return the area by trapezoids over the logarithm."""
        return area_over_log(column, self.min_fpr, self.max_fpr)
