"""Objects with a numeric value, which are compared, ordered and printed as that number."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any


class Readable(ABC):
    """An object that has a number, `value()`, and is compared with numbers as that number.

    Two such objects are ordered by their numbers. An undefined value is nan, and like nan it is neither
    equal to anything nor more nor less. The hash is that of the number.
    """

    @abstractmethod
    def value(self) -> float:
        """Return the number; nan where it is undefined, never 0."""

    def __float__(self) -> float:
        return self.value()

    def __format__(self, spec: str) -> str:
        return format(self.value(), spec) if spec else str(self)

    def __eq__(self, other: object) -> bool:
        return _compare_values(operator.eq, self, other)

    def __lt__(self, other: object) -> bool:
        return _compare_values(operator.lt, self, other)

    def __le__(self, other: object) -> bool:
        return _compare_values(operator.le, self, other)

    def __gt__(self, other: object) -> bool:
        return _compare_values(operator.gt, self, other)

    def __ge__(self, other: object) -> bool:
        return _compare_values(operator.ge, self, other)

    def __hash__(self) -> int:
        try:
            value = self.value()
        except ArithmeticError:  # what has no number equals none
            value = math.nan
        return hash(value if value == value else math.nan)  # else each nan would have a hash of its own

    def __sub__(self, other: Any) -> float:
        return self.value() - float(other) if isinstance(other, Real) else NotImplemented

    def __rsub__(self, other: Any) -> float:
        return float(other) - self.value() if isinstance(other, Real) else NotImplemented


def _compare_values(compare: Callable[[Any, Any], bool], one: Readable, other: object) -> bool:
    if isinstance(other, Readable):
        return compare(one.value(), other.value())
    return compare(one.value(), other) if isinstance(other, Real) else NotImplemented
