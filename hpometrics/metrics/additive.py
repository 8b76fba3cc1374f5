"""Values measured for an example, a task or a worker, which are added up first and divided at the end."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from statistics import mean
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .._formatting import Readable
from .._redaction import excerpt
from ..exceptions import AdditionError, MetricInputError
from ._device import on_host
from .statistics.text_counts import ngrams, normalized_words

Number: TypeAlias = int | float | Tensor
"""An int is exact however large its sum becomes; a tensor is 0-dimensional, int64 or float64, on a device."""


def parse_number(value: Any, what: str) -> Number:
    """Return one number in double precision; a number on a device is copied there without waiting.

    Raises:
        MetricInputError: the value is not a number, or is several; the message begins with `what`.
    """
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex():
        return _copy_number(value.detach().reshape(()))
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, (bool, np.bool_, Integral)):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    came = (
        f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else excerpt(repr(value), 80)
    )
    raise MetricInputError(
        f"{what} must be one number, got {came} ({type(value).__name__}); count something in text, as in "
        "int('hello' in text); pass several numbers to `many`"
    )


def parse_column(values: Any, what: str) -> list[Any]:
    """Return a list with a number per row; the numbers of a tensor on a device stay there.

    Raises:
        MetricInputError: the values are not a column of numbers.
    """
    if isinstance(values, (Tensor, np.ndarray)) and values.ndim != 1:
        raise MetricInputError(
            f"{what} needs one number per row, shape (N,); got shape {tuple(values.shape)}; pass values "
            "with a mask to `AverageMetric.from_mask`"
        )
    if isinstance(values, Tensor) and not on_host(values):
        return list(values.detach().unbind())
    if isinstance(values, (Tensor, np.ndarray)):
        return list(values.tolist())
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise MetricInputError(f"{what} needs one number per row, got {values!r} ({type(values).__name__})")
    return list(values)


def parse_table(numbers: Any, what: str) -> Tensor:
    """Return rows of numbers as an int64 or float64 tensor, on their device.

    Raises:
        MetricInputError: they are complex.
    """
    values = numbers if isinstance(numbers, Tensor) else torch.as_tensor(np.asarray(numbers))
    if values.is_complex():
        raise MetricInputError(f"{what} reads real numbers, got {values.dtype}")
    return values.detach().to(_precision(values))


def add_numbers(first: Number, second: Number) -> Number:
    """Return the sum: exact for ints, else in float64."""
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        return _tensor(first) + _tensor(second)
    return first + second


def read_number(value: Number) -> int | float:
    """Return the number, read from its device; every nan is the same object, which equals itself."""
    read: int | float = value.item() if isinstance(value, Tensor) else value
    return math.nan if read != read else read


def divide(numer: Number, denom: Number) -> float:
    """Return the quotient; nan if the denominator is 0 or a number is not finite in float64."""
    above, below = read_number(numer), read_number(denom)
    try:
        if below == 0 or not (math.isfinite(above) and math.isfinite(below)):
            return math.nan
        quotient = above / below
    except OverflowError:  # of ints; of floats the quotient is infinite
        return math.nan
    return quotient if math.isfinite(quotient) else math.nan


def _copy_number(value: Tensor) -> Number:
    """Return a copy in double precision, as the caller may change the tensor in place.

    On the CPU it is read at once, without a wait: Python's ints are exact beyond int64.
    """
    if on_host(value):
        read: int | float = value.item()
        return int(read) if value.dtype == torch.bool else read
    return value.to(_precision(value), copy=True)


def _precision(values: Tensor) -> torch.dtype:
    return torch.float64 if values.is_floating_point() else torch.int64


def _tensor(value: Number) -> Tensor:
    """Return a float64 or int64 tensor: beside an int64 tensor torch reads a Python float as float32."""
    if isinstance(value, Tensor):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


class Additive(Readable):
    """A value that can be added to another one of its type, and whose number is computed at the end.

    Adding makes a new value and leaves both operands unchanged; `None` adds nothing. Two values are
    equal if their parts are: `AverageMetric(1, 2)` is not `AverageMetric(2, 4)`. Compared with a number, or
    ordered, a value stands for its number: `AverageMetric(1, 2) == 0.5`. A value that leaves its process is
    read from its device first.

    A type of your own defines `plus` and `value`, or inherits `plus`:

        class ErrorRate(AverageMetric):
            def value(self):
                return 1 - super().value()

    Attributes:
        macro_average: whether the value of all tasks is the mean of the tasks' values; otherwise their sum.
        is_global: whether the value belongs to the run rather than to a task.
    """

    macro_average: ClassVar[bool] = False
    is_global: ClassVar[bool] = False

    @abstractmethod
    def plus(self, other: Self) -> Self:
        """Return the sum with another value of the same type, as a new value."""

    def absorb(self, other: Self) -> Self:
        """Return the sum; it may change this value in place, so the caller must be its only owner."""
        return self + other

    @classmethod
    def many(cls, *columns: Any) -> list[Self]:
        """Create a value for each row of columns of numbers.

        Args:
            *columns: the arguments of the constructor, each as a list, an array or a tensor of shape (N,). A
                tensor on a device stays there.

        Raises:
            MetricInputError: the columns differ in length, or are not columns of numbers.

        >>> AverageMetric.many([1, 0], [2, 2])
        [AverageMetric(numer=1, denom=2), AverageMetric(numer=0, denom=2)]
        """
        name = f"{cls.__name__}.many"
        rows = [parse_column(values, f"{name}: column {place}") for place, values in enumerate(columns)]
        lengths = [len(row) for row in rows]
        if len(set(lengths)) > 1:
            raise MetricInputError(
                f"{name} creates one value per row and needs columns of equal length; got lengths "
                f"{' and '.join(map(str, lengths))}"
            )
        return [cls(*row) for row in zip(*rows, strict=True)]

    def __add__(self, other: Self | None) -> Self:
        if other is None:
            return self
        if type(other) is not type(self):
            raise AdditionError(
                f"only values of one type can be added, got {_describe(self)} + {_describe(other)}; use "
                "another name for values of another type"
            )
        return self.plus(other)

    def __radd__(self, other: Any) -> Self:
        """Return the sum, so that `sum(values)` can begin with 0 and `sum(values, None)` with None."""
        return self + (None if type(other) is int and other == 0 else other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Additive):
            return super().__eq__(other)
        return type(other) is type(self) and other.__getstate__() == self.__getstate__()

    __hash__ = Readable.__hash__

    def __getstate__(self) -> dict[str, Any]:
        return {name: read_number(value) for name, value in vars(self).items()}

    def _with(self, **changed: Any) -> Self:
        """Return a copy with some attributes changed, without a check of them."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), **changed)
        return copy


class _OfNumbers(Additive):
    """An additive value whose attributes are all numbers."""

    def __post_init__(self) -> None:
        attributes = vars(self)
        for name, value in attributes.items():
            if type(value) is not int and type(value) is not float:
                attributes[name] = parse_number(value, f"{type(self).__name__}: {name}")


@dataclass(frozen=True, eq=False)
class FixedMetric(_OfNumbers):
    """A value that must be the same wherever it is reported, such as the number of updates so far.

    Adding two values reads them, even from a device. Two nan are equal.

    Raises:
        MetricInputError: two values that are added are not equal.

    >>> (FixedMetric(729) + FixedMetric(729)).value()
    729.0
    """

    fixed: Number

    def plus(self, other: Self) -> Self:
        """Return either of the two values, which are equal."""
        if self != other:
            raise MetricInputError(
                f"a fixed value must be the same everywhere, got {read_number(self.fixed)} and "
                f"{read_number(other.fixed)}; use SumMetric or AverageMetric for values that differ"
            )
        return self

    def value(self) -> float:
        """Return the value; nan if it is not finite."""
        return divide(self.fixed, 1)


@dataclass(frozen=True, eq=False)
class SumMetric(_OfNumbers):
    """A sum, over tasks as well: `exs` of all tasks is the sum of the `exs` of each.

    >>> (SumMetric(3434) + SumMetric(4982)).value()
    8416.0
    """

    total: Number = 0

    def plus(self, other: Self) -> Self:
        """Return the sum of both."""
        return self._with(total=add_numbers(self.total, other.total))

    def value(self) -> float:
        """Return the sum; nan if it is not finite."""
        return divide(self.total, 1)


@dataclass(frozen=True, eq=False)
class AverageMetric(_OfNumbers):
    """A mean as a numerator and a denominator, since a mean of means ignores how many examples each has.

    The value of all tasks is the unweighted mean of theirs.

    Sums of ints are exact; sums of floats are in float64, where the order of adding changes the last digits.

    >>> sum([AverageMetric(1, 1), AverageMetric(0, 1), AverageMetric(2, 2)]).value()  # 3 of 4
    0.75
    """

    numer: Number
    denom: Number = 1

    macro_average = True

    @classmethod
    def from_mask(cls, values: Any, mask: Any) -> list[Self]:
        """Average the values that a mask selects, row by row; the other values are not read.

        Shape:
            values: (B, T) numbers, such as the loss of each token.
            mask: (B, T), True or 1 where a value counts, or its weight.

        Returns:
            B values; a row without any value that counts has 0 / 0, which is undefined and adds nothing.

        Raises:
            MetricInputError: the shapes differ.

        >>> AverageMetric.from_mask([[1, 2], [3, 4]], [[True, True], [True, False]])
        [AverageMetric(numer=3, denom=2), AverageMetric(numer=3, denom=1)]
        """
        name = f"{cls.__name__}.from_mask"
        values, mask = parse_table(values, name), parse_table(mask, name)
        if values.ndim != 2 or values.shape != mask.shape:
            raise MetricInputError(
                f"{name} reads values and a mask of one shape (B, T); "
                f"got {tuple(values.shape)} and {tuple(mask.shape)}"
            )
        weighted = (values * mask).masked_fill(mask == 0, 0)
        return cls.many(weighted.sum(dim=1), mask.sum(dim=1))

    def plus(self, other: Self) -> Self:
        """Return the value with the sums of both numerators and of both denominators."""
        return self._with(
            numer=add_numbers(self.numer, other.numer), denom=add_numbers(self.denom, other.denom)
        )

    def value(self) -> float:
        """Return the quotient; nan if the denominator is 0 or either is not finite."""
        return divide(self.numer, self.denom)


@dataclass(frozen=True, eq=False, init=False)
class TimerMetric(_OfNumbers):
    """A rate: an amount per second, from the earliest start to the latest end of all values added.

    Args:
        value: the amount of work done, such as a number of tokens.
        start: when the work began, in seconds since the epoch; default now.
        end: when it ended; default now.

    >>> (TimerMetric(10, start=0, end=4) + TimerMetric(20, start=1, end=5)).value()  # 30 in 5 seconds
    6.0
    """

    amount: Number
    start: float
    end: float

    def __init__(self, value: Number, start: float | None = None, end: float | None = None) -> None:
        # The wall clock, although it may be set: monotonic clocks of two machines have no common zero.
        now = time.time()
        vars(self).update(
            amount=value, start=now if start is None else start, end=now if end is None else end
        )
        self.__post_init__()

    def plus(self, other: Self) -> Self:
        """Return the sum of the amounts, over the time from the first start to the last end."""
        return self._with(
            amount=add_numbers(self.amount, other.amount),
            start=min(self.start, other.start),
            end=max(self.end, other.end),
        )

    def value(self) -> float:
        """Return the amount per second; nan while no time has passed."""
        seconds = self.end - self.start
        return divide(self.amount, seconds) if seconds > 0 else math.nan


class GlobalFixedMetric(FixedMetric):
    """A fixed value that belongs to the run rather than to a task."""

    is_global = True


class GlobalSumMetric(SumMetric):
    """A sum that belongs to the run rather than to a task."""

    is_global = True


class GlobalAverageMetric(AverageMetric):
    """A mean that belongs to the run rather than to a task.

    >>> of_workers = GlobalAverageMetric(70, 1), GlobalAverageMetric(50, 0)  # one of them counts the batch
    >>> sum(of_workers).value()
    120.0
    """

    is_global = True


class GlobalTimerMetric(TimerMetric):
    """A rate that belongs to the run rather than to a task."""

    is_global = True


class MacroAverageMetric(Additive):
    """The unweighted mean over tasks; adding two of them adds the values of the same task.

    >>> one, other = {"a": AverageMetric(1, 1), "b": AverageMetric(0, 1)}, {"c": AverageMetric(0, 1)}
    >>> round((MacroAverageMetric(one) + MacroAverageMetric(other)).value(), 4)  # (1 + 0 + 0) / 3
    0.3333
    """

    def __init__(self, tasks: Mapping[str, Additive]) -> None:
        for task, value in tasks.items():
            if not isinstance(value, Additive):
                raise MetricInputError(
                    f"MacroAverageMetric: the value of task {task!r} must be additive, such as "
                    f"AverageMetric(1, 2); got {value!r} ({type(value).__name__})"
                )
        self.tasks = dict(tasks)

    def plus(self, other: Self) -> Self:
        """Return the tasks of both, with the sum of the values of a task that both have."""
        added = {task: value + other.tasks.get(task) for task, value in self.tasks.items()}
        return self._with(tasks={**other.tasks, **added})

    def value(self) -> float:
        """Return the mean of the tasks' values; nan without a task, or if one of them is undefined."""
        values = [value.value() for value in self.tasks.values()]
        return mean(values) if values and all(map(math.isfinite, values)) else math.nan

    def __getstate__(self) -> dict[str, Any]:
        return {"tasks": self.tasks}

    def __repr__(self) -> str:
        return f"MacroAverageMetric({self.tasks!r})"


class DistinctMetric(Additive):
    """The variety of texts: the share of all their n-grams that are distinct.

    Args:
        n: the number of words in an n-gram.
        words: the words of one text, in order; default none.

    Raises:
        MetricInputError: `n` is not a whole number from 1.

    >>> texts = ["to be or", "not to be"]
    >>> round(sum(DistinctMetric.of(text, 1) for text in texts).value(), 4)  # 4 of 6 words
    0.6667
    """

    def __init__(self, n: int, words: Sequence[str] = ()) -> None:
        if not isinstance(n, int) or n < 1:
            raise MetricInputError(f"{type(self).__name__}: an n-gram needs n >= 1 words, got n = {n!r}")
        every = ngrams(words, n)
        self.n = n
        self.ngrams = set(every)
        self.total = len(every)

    @classmethod
    def of(cls, text: str, n: int) -> Self:
        """Count one text, normalized as for `accuracy`.

        Raises:
            MetricInputError: `n` is not a whole number from 1, or the text is not a text.
        """
        if not isinstance(text, str):
            raise MetricInputError(f"{cls.__name__}.of expects text, got {text!r} ({type(text).__name__})")
        return cls(n, normalized_words(text))

    def plus(self, other: Self) -> Self:
        """Return the n-grams of both, in a new set."""
        return self._with(ngrams=self.ngrams.copy()).absorb(other)

    def absorb(self, other: Self) -> Self:
        """Add another value in place, at a cost that depends on the size of the other only."""
        if type(other) is not type(self) or other.n != self.n:
            raise AdditionError(
                f"only n-grams of one length can be added, got {self!r} and {other!r}; use another name "
                "for another length"
            )
        self.ngrams.update(other.ngrams)
        self.total += other.total
        return self

    def value(self) -> float:
        """Return distinct n-grams per n-gram, in (0, 1]; nan if there are none."""
        return divide(len(self.ngrams), self.total)

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.ngrams)} of {self.total} {self.n}-grams>"


def _describe(value: object) -> str:
    return repr(value) if isinstance(value, Additive) else f"{value!r} ({type(value).__name__})"
