"""Additive values: what an example, a task or a worker measured, to be added up and divided at the end."""

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

from .._redaction import excerpt
from ..exceptions import AdditionError, MetricInputError
from ._device import on_host
from ._numeric import Readable
from .statistics.text_counts import ngrams, normalized_words

Number: TypeAlias = int | float | Tensor
"""An int is exact however large its sum becomes; a tensor is 0-dimensional, int64 or float64, on a device."""


def number(given: Any, what: str) -> Number:
    """Take one number, in double precision; one on a device is copied there and not waited for.

    Raises:
        MetricInputError: it is no number, or several; the message begins with `what`.
    """
    if isinstance(given, Tensor) and given.numel() == 1 and not given.is_complex():
        return _kept(given.detach().reshape(()))
    if isinstance(given, np.ndarray) and given.size == 1:
        given = given.reshape(-1)[0]
    if isinstance(given, (bool, np.bool_, Integral)):
        return int(given)
    if isinstance(given, Real):
        return float(given)
    came = (
        f"a tensor of shape {tuple(given.shape)}" if isinstance(given, Tensor) else excerpt(repr(given), 80)
    )
    raise MetricInputError(
        f"{what} is one number, got {came} ({type(given).__name__}); "
        "of text count something, as in int('hello' in text); several numbers are for `many`"
    )


def column(given: Any, what: str) -> list[Any]:
    """Return a number per row; those of a tensor on a device stay there.

    Raises:
        MetricInputError: it is no column of numbers.
    """
    if isinstance(given, (Tensor, np.ndarray)) and given.ndim != 1:
        raise MetricInputError(
            f"{what} has a number per row, shape (N,); got shape {tuple(given.shape)}; "
            "values with a mask are for `AverageMetric.from_mask`"
        )
    if isinstance(given, Tensor) and not on_host(given):
        return list(given.detach().unbind())
    if isinstance(given, (Tensor, np.ndarray)):
        return list(given.tolist())
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise MetricInputError(f"{what} has a number per row, got {given!r} ({type(given).__name__})")
    return list(given)


def table(given: Any, what: str) -> Tensor:
    """Numbers in rows as int64 or float64, on the device they are on.

    Raises:
        MetricInputError: they are complex.
    """
    values = given if isinstance(given, Tensor) else torch.as_tensor(np.asarray(given))
    if values.is_complex():
        raise MetricInputError(f"{what} reads real numbers, got {values.dtype}")
    return values.detach().to(_precision(values))


def plus(first: Number, second: Number) -> Number:
    """Return the sum: exact of ints, else in float64."""
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        return _tensor(first) + _tensor(second)
    return first + second


def plain(value: Number) -> int | float:
    """Return the number, read from its device if it is on one; every nan is the same object, which equals itself."""
    read: int | float = value.item() if isinstance(value, Tensor) else value
    return math.nan if read != read else read


def ratio(numer: Number, denom: Number) -> float:
    """Return the quotient; nan where there is nothing to divide by, or anything is not finite in float64."""
    above, below = plain(numer), plain(denom)
    try:
        if below == 0 or not (math.isfinite(above) and math.isfinite(below)):
            return math.nan
        quotient = above / below
    except OverflowError:  # of ints; of floats the quotient is infinite
        return math.nan
    return quotient if math.isfinite(quotient) else math.nan


def _kept(value: Tensor) -> Number:
    """Return a copy in double precision: whoever gave the tensor may change it in place.

    On the CPU it is read at once, since nothing has to wait there: Python's ints are exact beyond int64.
    """
    if on_host(value):
        read: int | float = value.item()
        return int(read) if value.dtype == torch.bool else read
    return value.to(_precision(value), copy=True)


def _precision(values: Tensor) -> torch.dtype:
    return torch.float64 if values.is_floating_point() else torch.int64


def _tensor(value: Number) -> Tensor:
    """As a tensor of its own dtype: beside an int64 tensor torch takes a Python float for float32."""
    if isinstance(value, Tensor):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


class Additive(Readable):
    """A value that knows how to be added to another of its type, and what it comes to in the end.

    Adding makes a new value and leaves both operands as they are; `None` adds nothing. Two values are
    equal by what they hold: `AverageMetric(1, 2)` is not `AverageMetric(2, 4)`. Beside a number, and where
    there is an order, a value is what it comes to: `AverageMetric(1, 2) == 0.5`. A value that leaves its
    process is read from its device first.

    A type of your own says `plus` and `value`, or inherits the former:

        class ErrorRate(AverageMetric):
            def value(self):
                return 1 - super().value()

    Attributes:
        macro_average: whether the value of all tasks is the mean of the tasks' values; else they are added.
        is_global: whether it belongs to the run and to no task.
    """

    macro_average: ClassVar[bool] = False
    is_global: ClassVar[bool] = False

    @abstractmethod
    def plus(self, other: Self) -> Self:
        """Return the sum with another value of the same type, as a new value."""

    def absorb(self, other: Self) -> Self:
        """Return the sum, for one who made this value and shares it with nobody: it may be changed in place."""
        return self + other

    @classmethod
    def many(cls, *columns: Any) -> list[Self]:
        """Make a value per row of columns of numbers.

        Args:
            *columns: what the constructor takes, each as a list, an array or a tensor of shape (N,). A tensor
                on a device stays there.

        Raises:
            MetricInputError: the columns are of unequal lengths, or hold no numbers.

        >>> AverageMetric.many([1, 0], [2, 2])
        [AverageMetric(numer=1, denom=2), AverageMetric(numer=0, denom=2)]
        """
        rows = [column(given, f"{cls.__name__}.many: column {place}") for place, given in enumerate(columns)]
        lengths = [len(row) for row in rows]
        if len(set(lengths)) > 1:
            raise MetricInputError(
                f"{cls.__name__}.many makes a value per row of columns of one length; got lengths "
                f"{' and '.join(map(str, lengths))}"
            )
        return [cls(*row) for row in zip(*rows, strict=True)]

    def __add__(self, other: Self | None) -> Self:
        if other is None:
            return self
        if type(other) is not type(self):
            raise AdditionError(
                f"only values of one type are added, got {_describe(self)} + {_describe(other)}; "
                "give values of another type a name of their own"
            )
        return self.plus(other)

    def __radd__(self, other: Any) -> Self:
        """Let `sum(values)` begin with 0 and `sum(values, None)` with None."""
        return self + (None if type(other) is int and other == 0 else other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Additive):
            return super().__eq__(other)
        return type(other) is type(self) and other.__getstate__() == self.__getstate__()

    __hash__ = Readable.__hash__

    def __getstate__(self) -> dict[str, Any]:
        return {name: plain(held) for name, held in vars(self).items()}

    def _with(self, **changed: Any) -> Self:
        """Return a value like this one but for some of what it holds, which is taken as it is."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), **changed)
        return made


class _OfNumbers(Additive):
    """An additive value that holds numbers alone."""

    def __post_init__(self) -> None:
        held = vars(self)
        for name, given in held.items():
            if type(given) is not int and type(given) is not float:
                held[name] = number(given, f"{type(self).__name__}: {name}")


@dataclass(frozen=True, eq=False)
class FixedMetric(_OfNumbers):
    """A value that all who report it must agree on, such as the number of updates so far.

    Adding two reads them, wherever they are. Two nan agree.

    Raises:
        MetricInputError: two that are added are not equal.

    >>> (FixedMetric(729) + FixedMetric(729)).value()
    729.0
    """

    fixed: Number

    def plus(self, other: Self) -> Self:
        """Either of the two, which are equal."""
        if self != other:
            raise MetricInputError(
                f"a fixed value is the same wherever it is measured, got {plain(self.fixed)} and "
                f"{plain(other.fixed)}; what differs is a SumMetric or an AverageMetric"
            )
        return self

    def value(self) -> float:
        """Return the value; nan if it is not finite."""
        return ratio(self.fixed, 1)


@dataclass(frozen=True, eq=False)
class SumMetric(_OfNumbers):
    """A sum, over tasks too: `exs` of all tasks is that of the tasks together.

    >>> (SumMetric(3434) + SumMetric(4982)).value()
    8416.0
    """

    total: Number = 0

    def plus(self, other: Self) -> Self:
        """Return the sum of both."""
        return self._with(total=plus(self.total, other.total))

    def value(self) -> float:
        """Return the sum; nan if it is not finite."""
        return ratio(self.total, 1)


@dataclass(frozen=True, eq=False)
class AverageMetric(_OfNumbers):
    """A mean as what is divided at the end: the mean of means would forget how many examples each had.

    The value of all tasks is the unweighted mean of theirs.

    Sums of ints are exact; of floats they are float64's: another order of adding changes the last digits.

    >>> sum([AverageMetric(1, 1), AverageMetric(0, 1), AverageMetric(2, 2)]).value()  # 3 of 4
    0.75
    """

    numer: Number
    denom: Number = 1

    macro_average = True

    @classmethod
    def from_mask(cls, values: Any, mask: Any) -> list[Self]:
        """Average the values that a mask lets through, row by row; what it keeps out is not looked at.

        Shape:
            values: (B, T) numbers, such as the loss of each token.
            mask: (B, T), True or 1 where a value counts, or its weight.

        Returns:
            B values; one of a row without any that counts is 0 / 0, which is undefined and adds nothing.

        Raises:
            MetricInputError: the shapes differ.

        >>> AverageMetric.from_mask([[1, 2], [3, 4]], [[True, True], [True, False]])
        [AverageMetric(numer=3, denom=2), AverageMetric(numer=3, denom=1)]
        """
        values, mask = table(values, f"{cls.__name__}.from_mask"), table(mask, f"{cls.__name__}.from_mask")
        if values.ndim != 2 or values.shape != mask.shape:
            raise MetricInputError(
                f"{cls.__name__}.from_mask reads values and a mask of one shape (B, T); "
                f"got {tuple(values.shape)} and {tuple(mask.shape)}"
            )
        counted = (values * mask).masked_fill(mask == 0, 0)
        return cls.many(counted.sum(dim=1), mask.sum(dim=1))

    def plus(self, other: Self) -> Self:
        """Numerators and denominators added, each by themselves."""
        return self._with(numer=plus(self.numer, other.numer), denom=plus(self.denom, other.denom))

    def value(self) -> float:
        """Return the quotient; nan if the denominator is 0 or either is not finite."""
        return ratio(self.numer, self.denom)


@dataclass(frozen=True, eq=False, init=False)
class TimerMetric(_OfNumbers):
    """A rate: an amount per second, from the earliest start to the latest end of all that are added.

    Args:
        value: how much was done, such as a number of tokens.
        start: when it began, in seconds since the epoch; default now.
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
        """Return the amounts added, within the time from the first start to the last end."""
        return self._with(
            amount=plus(self.amount, other.amount),
            start=min(self.start, other.start),
            end=max(self.end, other.end),
        )

    def value(self) -> float:
        """Return the amount per second; nan while no time has passed."""
        seconds = self.end - self.start
        return ratio(self.amount, seconds) if seconds > 0 else math.nan


class GlobalFixedMetric(FixedMetric):
    """A fixed value of the run, of no task."""

    is_global = True


class GlobalSumMetric(SumMetric):
    """A sum of the run, of no task."""

    is_global = True


class GlobalAverageMetric(AverageMetric):
    """A mean of the run, of no task.

    >>> of_workers = GlobalAverageMetric(70, 1), GlobalAverageMetric(50, 0)  # one of them counts the batch
    >>> sum(of_workers).value()
    120.0
    """

    is_global = True


class GlobalTimerMetric(TimerMetric):
    """A rate of the run, of no task."""

    is_global = True


class MacroAverageMetric(Additive):
    """The unweighted mean over tasks; adding two adds what they hold of the same task.

    >>> one, other = {"a": AverageMetric(1, 1), "b": AverageMetric(0, 1)}, {"c": AverageMetric(0, 1)}
    >>> round((MacroAverageMetric(one) + MacroAverageMetric(other)).value(), 4)  # (1 + 0 + 0) / 3
    0.3333
    """

    def __init__(self, tasks: Mapping[str, Additive]) -> None:
        for task, held in tasks.items():
            if not isinstance(held, Additive):
                raise MetricInputError(
                    f"MacroAverageMetric: the value of task {task!r} is one that can be added, such as "
                    f"AverageMetric(1, 2); got {held!r} ({type(held).__name__})"
                )
        self.tasks = dict(tasks)

    def plus(self, other: Self) -> Self:
        """Return the tasks of both, those of one name added."""
        added = {task: held + other.tasks.get(task) for task, held in self.tasks.items()}
        return self._with(tasks={**other.tasks, **added})

    def value(self) -> float:
        """Return the mean of the tasks' values; nan without a task, and if one of them is undefined."""
        values = [held.value() for held in self.tasks.values()]
        return mean(values) if values and all(map(math.isfinite, values)) else math.nan

    def __getstate__(self) -> dict[str, Any]:
        return {"tasks": self.tasks}

    def __repr__(self) -> str:
        return f"MacroAverageMetric({self.tasks!r})"


class DistinctMetric(Additive):
    """How varied texts are together: the share of their n-grams that are different.

    Args:
        n: how many words an n-gram has.
        words: those of one text, in order; default none.

    Raises:
        MetricInputError: `n` is no count of words.

    >>> texts = ["to be or", "not to be"]
    >>> round(sum(DistinctMetric.of(text, 1) for text in texts).value(), 4)  # 4 of 6 words
    0.6667
    """

    def __init__(self, n: int, words: Sequence[str] = ()) -> None:
        if not isinstance(n, int) or n < 1:
            raise MetricInputError(f"{type(self).__name__}: an n-gram has n >= 1 words, got n = {n!r}")
        every = ngrams(words, n)
        self.n = n
        self.ngrams = set(every)
        self.total = len(every)

    @classmethod
    def of(cls, text: str, n: int) -> Self:
        """Count one text, normalized as for `accuracy`.

        Raises:
            MetricInputError: `n` is no count of words, or the text is none.
        """
        if not isinstance(text, str):
            raise MetricInputError(f"{cls.__name__}.of reads a text, got {text!r} ({type(text).__name__})")
        return cls(n, normalized_words(text))

    def plus(self, other: Self) -> Self:
        """Both together, in a set of its own."""
        return self._with(ngrams=self.ngrams.copy()).absorb(other)

    def absorb(self, other: Self) -> Self:
        """Take in another one; costs what the other has, not what this one has."""
        if type(other) is not type(self) or other.n != self.n:
            raise AdditionError(
                f"n-grams of one length are added, got {self!r} and {other!r}; "
                "give those of another length a name of their own"
            )
        self.ngrams.update(other.ngrams)
        self.total += other.total
        return self

    def value(self) -> float:
        """Different n-grams per n-gram, in (0, 1]; nan if there are none."""
        return ratio(len(self.ngrams), self.total)

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.ngrams)} of {self.total} {self.n}-grams>"


def _describe(value: object) -> str:
    return repr(value) if isinstance(value, Additive) else f"{value!r} ({type(value).__name__})"
