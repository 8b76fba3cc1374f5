"""Metrics of tuples of query, predicted and actual result, whose scores are pooled over folds."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, ClassVar, Self

from .._redaction import excerpt
from ..direction import MAXIMIZE, UNSTATED, Direction
from ..exceptions import DirectionError, MetricInputError
from ..metrics.registry.ludwig_names import ReadableObjective, stated_direction
from ..records._json import finite

Number = int | float
Tuples = Sequence[tuple[Any, Any, Any]]
Folds = Sequence[tuple[Any, Tuples]]
"""Per fold its evaluation info and its tuples of query, predicted and actual result."""


@dataclass(frozen=True)
class Score:
    """One metric of one engine params.

    Args:
        value: pooled over the tuples of all folds; nan where it is undefined.
        reason: why the value is not finite; None where it is.
        folds: the score of each fold alone.

    >>> score = Score(0.8, folds=(Score(0.7), Score(0.8), Score(0.9)))
    >>> round(score.mean, 4), round(score.deviation, 4)
    (0.8, 0.1)
    """

    value: Number
    reason: str | None = None
    folds: tuple[Score, ...] = ()

    @classmethod
    def of(cls, value: Number) -> Self:
        """Return the score of a number; of one that is not finite the reason has the value."""
        return cls(value, None if math.isfinite(value) else f"its value is {value}")

    @classmethod
    def undefined(cls, reason: str) -> Self:
        """Return a score that is nan for a reason."""
        return cls(math.nan, reason)

    def with_folds(self, folds: Iterable[Score]) -> Score:
        """Return the same score with that of each fold beside it."""
        return Score(self.value, self.reason, tuple(folds))

    @property
    def fold_values(self) -> tuple[Number, ...]:
        """The value of each fold."""
        return tuple(fold.value for fold in self.folds)

    @property
    def mean(self) -> float:
        """The mean of the folds' values; nan if one of them is undefined."""
        return fmean(self.fold_values) if self._comparable else math.nan

    @property
    def deviation(self) -> float:
        """The sample standard deviation (n - 1) of the folds' values; nan of fewer than two."""
        return float(stdev(self.fold_values)) if self._comparable and len(self.folds) > 1 else math.nan

    @property
    def _comparable(self) -> bool:
        return bool(self.folds) and all(map(math.isfinite, self.fold_values))

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON; null is a number that is not finite."""
        return {
            "value": finite(self.value),
            "reason": self.reason,
            "folds": [finite(value) for value in self.fold_values],
            "foldMean": finite(self.mean),
            "foldDeviation": finite(self.deviation),
        }


def as_number(value: Any, source: Callable[[], str]) -> Number:
    """Return a number as a plain int or float, from a 0-dim array or tensor too; True is 1.

    Raises:
        MetricInputError: it is not a number; the message begins with what `source` returns.
    """
    if type(value) is float or type(value) is int:
        return value
    if getattr(value, "ndim", None) == 0:
        value = value.item()
    if not isinstance(value, (str, bytes)):
        for convert in (operator.index, float):
            try:
                return convert(value)
            except (TypeError, ValueError, RuntimeError):
                continue
    raise MetricInputError(
        f"{source()} must return a number, got {excerpt(value, 60)!r} ({type(value).__name__})"
    )


class TupleMetric(ReadableObjective, ABC):
    """Base class of all metrics of tuples.

    A subclass has a `direction`: MAXIMIZE, MINIMIZE, or None if it is never optimized. There is no default.
    It measures one of these:

    - a number per tuple, `calculate`: see `AverageMetric` and its kin;
    - anything that can be reduced, `map`, `reduce`, `finish`: see `MapReduceMetric`;
    - a metric of the registry, by name: see `registered`.

    It stores nothing between two calls. Its identity is its class with its parameters: the arguments of
    `__init__`, stored as attributes of the same name, as in a dataclass.

    Attributes:
        title: replaces the class name in the header.
    """

    direction: Direction | str | None
    title: str = ""
    reader: Any = None
    """Measures in one pass all metrics that have an equal reader; None: the metric measures itself."""

    @property
    def header(self) -> str:
        """Its name where scores are printed, parameters included; a subclass may override it."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        name = self.title or type(self).__name__
        return f"{name} ({arguments})" if arguments else name

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of `__init__` that it stores under the same name."""
        if type(self).__init__ is object.__init__:
            return {}
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    @abstractmethod
    def gather(self, tuples: Tuples) -> Any:
        """Return what `conclude` needs of one fold."""

    @abstractmethod
    def conclude(self, parts: Sequence[Any]) -> Score:
        """Return the score of one fold or of several, from what `gather` returned for each."""

    def measure(self, folds: Folds) -> Score:
        """Measure all folds as one, and each by itself; every tuple is read once."""
        parts = [self.gather(tuples) for _, tuples in folds]
        alone = [self.conclude([fold]) for fold in parts]
        pooled = alone[0] if len(alone) == 1 else self.conclude(parts)
        return pooled.with_folds(alone)

    def score(self, folds: Folds) -> Number:
        """Return the value pooled over all folds, never a mean of the folds' values; nan if undefined."""
        return self.measure(folds).value

    def fold_scores(self, folds: Folds) -> tuple[Number, ...]:
        """Return the value of each fold."""
        return self.measure(folds).fold_values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TupleMetric):
            return NotImplemented
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash((type(self), self.header))

    def __repr__(self) -> str:
        return f"<{self.header}>"


class MapReduceMetric(TupleMetric):
    """A metric of three functions, for all that is not a sum of numbers.

    The distance between the best and the worst prediction:

    >>> class Spread(MapReduceMetric):
    ...     direction = "minimize"
    ...     def map(self, query, predicted, actual):
    ...         return predicted - actual, predicted - actual
    ...     def reduce(self, a, b):
    ...         return min(a[0], b[0]), max(a[1], b[1])
    ...     def finish(self, total):
    ...         return total[1] - total[0]
    >>> Spread().score([("fold 0", [("q", 3, 1), ("q", 4, 5)]), ("fold 1", [("q", 9, 2)])])  # -1 to 7
    8
    """

    @abstractmethod
    def map(self, query: Any, predicted: Any, actual: Any) -> Any:
        """Return what one tuple contributes; None is a don't-care."""

    @abstractmethod
    def reduce(self, a: Any, b: Any) -> Any:
        """Merge two contributions; those of a fold in their order, then those of the folds in theirs."""

    @abstractmethod
    def finish(self, total: Any) -> Any:
        """Return the number of all contributions together; never called without any."""

    def gather(self, tuples: Tuples) -> Any:
        """Return the contributions of one fold merged into one; None if there is none."""
        return self._reduced(self.map(*row) for row in tuples)

    def conclude(self, parts: Sequence[Any]) -> Score:
        """Finish the merged contributions of the folds; nan if no tuple counted."""
        total = self._reduced(parts)
        if total is None:
            return Score.undefined("no tuple counted")
        return Score.of(as_number(self.finish(total), lambda: f"{self.header}: finish"))

    def _reduced(self, contributions: Iterable[Any]) -> Any:
        valid = (one for one in contributions if one is not None)
        first = next(valid, None)
        return first if first is None else functools.reduce(self.reduce, valid, first)


def direction_of(metric: TupleMetric) -> Direction | None:
    """Return the direction of a metric; None if it is never optimized.

    Raises:
        DirectionError: it defines none, or something else.
    """
    direction = stated_direction(metric)
    if direction is UNSTATED:
        raise DirectionError(
            f"{metric.header} states no direction; set direction = MAXIMIZE or direction = MINIMIZE in "
            f"class {type(metric).__name__}, or direction = None if it is never optimized"
        )
    return None if direction is None else Direction.parse(direction)


class CalculatedMetric(TupleMetric):
    """A metric that gives each tuple a number: write `calculate`, the rest is here."""

    dont_care: ClassVar[bool] = False
    """Whether `calculate` may return None, which leaves a tuple out."""

    @abstractmethod
    def calculate(self, query: Any, predicted: Any, actual: Any) -> Any:
        """Return the number of one tuple: an int, a float or a bool; a 0-dim array or tensor too."""

    @abstractmethod
    def of_values(self, values: Sequence[Number]) -> Any:
        """Return the value of the numbers of all tuples that count: at least one, and all finite."""

    def gather(self, tuples: Tuples) -> list[Number | None]:
        """Return the number of each tuple."""
        return [self._check_number(self.calculate(*row)) for row in tuples]

    def conclude(self, parts: Sequence[Sequence[Number | None]]) -> Score:
        """Return the score of all folds together; nan if no tuple counted or a number is not finite."""
        every = [value for fold in parts for value in fold]
        values = [value for value in every if value is not None]
        if not values:
            return Score.undefined(
                f"all {len(every)} tuples are don't-cares" if every else "the evaluation has no tuples"
            )
        undefined = [value for value in values if not math.isfinite(value)]
        if undefined:
            return Score.undefined(
                f"calculate returned {undefined[0]} for {len(undefined)} of {len(every)} tuples"
            )
        return Score.of(as_number(self.of_values(values), lambda: f"{self.header}: finish"))

    def _source(self) -> str:
        return f"{self.header}: calculate"

    def _check_number(self, value: Any) -> Number | None:
        if value is not None:
            return as_number(value, self._source)
        if not self.dont_care:
            raise MetricInputError(
                f"{self.header}: calculate returned None; if tuples can be don't-cares, derive the metric "
                "from OptionAverageMetric or OptionStdevMetric"
            )
        return None


class AverageMetric(CalculatedMetric):
    """The mean over the tuples of all folds, summed exactly and divided once; nan without a tuple.

    A metric that is a function of the mean overrides `finish`:

    >>> class RMSE(AverageMetric):
    ...     direction = "minimize"
    ...     def calculate(self, query, predicted, actual):
    ...         return (predicted - actual) ** 2
    ...     def finish(self, total, count):
    ...         return math.sqrt(total / count)
    >>> RMSE().score([("fold 0", [("q", 3.0, 0.0)]), ("fold 1", [("q", 1.0, 5.0)])])  # sqrt((9 + 16) / 2)
    3.5355339059327378
    """

    def finish(self, total: float, count: int) -> Any:
        """Return the value for the sum over `count` tuples."""
        return total / count

    def of_values(self, values: Sequence[Number]) -> Any:
        """Return the sum, without rounding in between, after `finish`."""
        return self.finish(math.fsum(values), len(values))


class OptionAverageMetric(AverageMetric):
    """The mean over the tuples whose number is not None; None is a don't-care.

    >>> class Precision(OptionAverageMetric):
    ...     direction = "maximize"
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
        """Compute the deviation of values centered twice: the first mean is rounded for large values."""
        gaps = _centered(_centered(values))
        return math.sqrt(math.fsum(gap * gap for gap in gaps) / len(gaps))


class OptionStdevMetric(StdevMetric):
    """The population standard deviation over the tuples whose number is not None."""

    dont_care = True


class SumMetric(CalculatedMetric):
    """The sum over the tuples of all folds, an int where all numbers are; nan without a tuple."""

    def of_values(self, values: Sequence[Number]) -> Number:
        """Return the exact sum: ints as ints, floats without rounding in between."""
        return sum(values) if all(type(value) is int for value in values) else math.fsum(values)


class ZeroMetric(TupleMetric):
    """Always 0: a placeholder by which all engine params tie, so that the first wins."""

    direction = MAXIMIZE

    def gather(self, tuples: Tuples) -> None:
        """Return nothing."""

    def conclude(self, parts: Sequence[None]) -> Score:
        """Return 0 for any folds."""
        return Score(0.0)


def _centered(values: Sequence[Number]) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]
