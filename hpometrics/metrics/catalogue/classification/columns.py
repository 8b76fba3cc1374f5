"""Columns: a value of each class's scores against the rest, made one by micro, macro or weighted average."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from ....exceptions import MetricInputError, MetricNameError
from ...features import BINARY, PROBABILITIES
from ...metric import Metric
from ...statistics.ranked import Ranked, ranked_column, ranked_pooled
from ...statistics.scores import Scores
from ...statistics.statistic import Statistic

CurveAverage = Literal["micro", "macro", "weighted", "none"]

ONE_CLASS = "the target holds one class only"


class AveragedColumns(Metric):
    """A metric with a value per column: the one column of a binary output, a class, or a label of a set.

    `micro` takes all columns as one, each class of each row a question of its own; `macro` averages the
    values, `weighted` weighs them by the rows of the class, `none` gives one per class; `class_` picks the
    value of a single class. A class whose value is undefined is left out (with `none`, it is nan).

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category, (N, L) of a set: probabilities (or
            logits by keyword).
        target: (N,) int, (N, L) of a set.
    """

    inputs = PROBABILITIES
    needs: ClassVar[str] = ONE_CLASS

    def __init__(self, *, average: CurveAverage = "macro", class_: int | None = None) -> None:
        super().__init__()
        if class_ is not None and average != "macro":
            raise MetricNameError(f"the value of class {class_} alone is no average; leave out average=")
        self.average = average
        self.class_ = class_

    def of_all(self) -> tuple[Tensor, Tensor]:
        """The values per column, nan where undefined, and the weight of each column's positive rows."""
        raise NotImplementedError(f"{type(self).__name__} needs of_all()")

    def of_pooled(self) -> Tensor:
        """The value of all columns taken as one, nan if undefined."""
        raise NotImplementedError(f"{type(self).__name__} needs of_pooled()")

    def compute(self) -> Tensor:
        """Average the values; nan with a reason when no column has one."""
        if self.average == "micro":
            return self._or_undefined(self.of_pooled())
        values, positives = self.of_all()
        if self.class_ is not None:
            return self._or_undefined(values[column_of(self, self.class_, len(values))])
        if self.average == "none":
            return values
        weight = column_weights(values, positives, self.average)
        if not weight.sum() > 0:
            return self.undefined(self.needs)
        return (values.nan_to_num(nan=0.0) * weight).sum() / weight.sum()

    def _or_undefined(self, value: Tensor) -> Tensor:
        return self.undefined(self.needs) if value.isnan() else value

    def _index(self, columns: int) -> int:
        index = self.class_ or 0
        if not 0 <= index < columns:
            raise MetricInputError(
                f"{self.name}: the classes are 0..{columns - 1}, there is no class {index}"
            )
        return index


def check_class(metric: Metric, class_: int | None) -> None:
    """Refuse a class that the metric's output is known not to have.

    Raises:
        MetricNameError: naming those that it has.
    """
    output = metric.output
    if class_ is not None and output.type == BINARY and class_ != 1:
        raise MetricNameError(f"{metric.name}: the scores of a binary output are those of class 1")
    size = getattr(output, "num_classes", None) or getattr(output, "num_labels", None)
    if class_ is not None and (class_ < 0 or (size is not None and class_ >= size)):
        raise MetricNameError(
            f"{metric.name}: {output} has classes from 0{f' to {size - 1}' if size else ''}"
        )


def column_of(metric: Metric, class_: int, columns: int) -> int:
    """The column of a class.

    Raises:
        MetricInputError: the scores have no such column.
    """
    if metric.output.type == BINARY:
        return 0
    if class_ >= columns:
        raise MetricInputError(f"{metric.name}: the classes are 0..{columns - 1}, there is no class {class_}")
    return class_


def column_weights(values: Tensor, positives: Tensor, average: CurveAverage) -> Tensor:
    """What each column counts in an average: nothing if its value is undefined."""
    weight = positives if average == "weighted" else torch.ones_like(values)
    return torch.where(values.isnan(), 0.0, weight)


class ColumnMetric(AveragedColumns):
    """A metric of sorted columns of scores; each is sorted once for all metrics of a panel.

    Raises:
        MetricNameError: there is no such class, or `class` beside `average`.
    """

    def statistics(self) -> dict[str, Statistic]:
        """Need every row's scores."""
        check_class(self, self.class_)
        return {"scores": Scores()}

    def of_column(self, column: Ranked) -> Tensor | float:
        """The value of one column that has positive and negative rows."""
        raise NotImplementedError(f"{type(self).__name__} needs of_column(column)")

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Measure column by column."""
        scores = self.statistic(Scores)
        pairs = [self._measured(ranked_column(scores, index)) for index in range(scores.classes)]
        values, positives = torch.tensor(pairs, dtype=torch.float64).T
        return values, positives

    def of_pooled(self) -> Tensor:
        """Measure all columns as one."""
        return torch.tensor(self._measured(ranked_pooled(self.statistic(Scores)))[0], dtype=torch.float64)

    def _measured(self, column: Ranked) -> tuple[float, float]:
        value = float(self.of_column(column)) if column.has_both else float("nan")
        return value, float(column.positives)
