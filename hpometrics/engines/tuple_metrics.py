"""Metrics of one number per tuple: its mean, its standard deviation, its sum; with or without don't-cares."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from ..direction import MAXIMIZE
from ..exceptions import MetricInputError
from .metrics import TupleMetric, Tuples
from .score import Number, Score, as_number


class CalculatedMetric(TupleMetric):
    """A metric that gives each tuple a number: write `calculate`, the rest is here."""

    dont_care: ClassVar[bool] = False
    """Whether `calculate` may give None, which leaves a tuple out."""

    @abstractmethod
    def calculate(self, query: Any, predicted: Any, actual: Any) -> Any:
        """The number of one tuple: an int, a float or a bool; a 0-dim array or tensor too."""

    @abstractmethod
    def of_values(self, values: Sequence[Number]) -> Any:
        """What the numbers of all tuples that count come to; there is at least one, all are finite."""

    def gather(self, tuples: Tuples) -> list[Number | None]:
        """The number of each tuple."""
        return [self._checked(self.calculate(*row)) for row in tuples]

    def conclude(self, kept: Sequence[Sequence[Number | None]]) -> Score:
        """What the folds come to together; nan if no tuple counted or one of them is not finite."""
        every = [value for fold in kept for value in fold]
        values = [value for value in every if value is not None]
        if not values:
            return Score.undefined(
                f"each of the {len(every)} tuples is a don't-care" if every else "there are no tuples"
            )
        odd = [value for value in values if not math.isfinite(value)]
        if odd:
            return Score.undefined(f"calculate gave {odd[0]} for {len(odd)} of {len(every)} tuples")
        return Score.of(as_number(self.of_values(values), lambda: f"{self.header}: finish"))

    def _source(self) -> str:
        return f"{self.header}: calculate"

    def _checked(self, value: Any) -> Number | None:
        if value is not None:
            return as_number(value, self._source)
        if not self.dont_care:
            raise MetricInputError(
                f"{self.header}: calculate gave None; where tuples may be don't-cares, derive the "
                "metric from OptionAverageMetric or OptionStdevMetric"
            )
        return None


class AverageMetric(CalculatedMetric):
    """The mean over the tuples of all folds, summed exactly and divided once; nan without a tuple.

    A metric that makes more of the sum than a mean says so in `finish`:

    >>> class RMSE(AverageMetric):
    ...     objective = "minimize"
    ...     def calculate(self, query, predicted, actual):
    ...         return (predicted - actual) ** 2
    ...     def finish(self, total, count):
    ...         return math.sqrt(total / count)
    >>> RMSE().score([("fold 0", [("q", 3.0, 0.0)]), ("fold 1", [("q", 1.0, 5.0)])])  # sqrt((9 + 16) / 2)
    3.5355339059327378
    """

    def finish(self, total: float, count: int) -> Any:
        """The number that the sum over `count` tuples comes to."""
        return total / count

    def of_values(self, values: Sequence[Number]) -> Any:
        """Sum without rounding in between, and finish."""
        return self.finish(math.fsum(values), len(values))


class OptionAverageMetric(AverageMetric):
    """The mean over the tuples whose number is not None; None is a don't-care.

    >>> class Precision(OptionAverageMetric):
    ...     objective = "maximize"
    ...     def __init__(self, label):
    ...         self.label = label
    ...     def calculate(self, query, predicted, actual):
    ...         return actual == self.label if predicted == self.label else None
    >>> tuples = [("q", 1, 1), ("q", 1, 0), ("q", 0, 1)]
    >>> Precision(label=1).header, Precision(label=1).score([("fold 0", tuples)])
    ('Precision (label=1)', 0.5)
    """

    dont_care = True


class StdevMetric(CalculatedMetric):
    """The population standard deviation over the tuples of all folds, from 0; nan without a tuple."""

    def of_values(self, values: Sequence[Number]) -> float:
        """Center before squaring, and again: the first mean is rounded to the digits of large values."""
        gaps = _centered(_centered(values))
        return math.sqrt(math.fsum(gap * gap for gap in gaps) / len(gaps))


class OptionStdevMetric(StdevMetric):
    """The population standard deviation over the tuples whose number is not None."""

    dont_care = True


class SumMetric(CalculatedMetric):
    """The sum over the tuples of all folds, an int where all numbers are; nan without a tuple."""

    def of_values(self, values: Sequence[Number]) -> Number:
        """Sum exactly: ints as ints, floats without rounding in between."""
        return sum(values) if all(type(value) is int for value in values) else math.fsum(values)


class ZeroMetric(TupleMetric):
    """Always 0: a placeholder by which all engine params tie, so that the first wins."""

    objective = MAXIMIZE

    def gather(self, tuples: Tuples) -> None:
        """Nothing is kept."""

    def conclude(self, kept: Sequence[None]) -> Score:
        """0, of anything."""
        return Score(0.0)


def _centered(values: Sequence[Number]) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]
