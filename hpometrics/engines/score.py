"""Score: what a metric of tuples came to, over all folds and of each; where it is undefined, why."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Self

from .._redaction import excerpt
from ..exceptions import MetricInputError

Number = int | float


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
        """Make a score of a number, which says so itself where it is not finite."""
        return cls(value, None if math.isfinite(value) else f"its value is {value}")

    @classmethod
    def undefined(cls, reason: str) -> Self:
        """Make a score that is nan."""
        return cls(math.nan, reason)

    def with_folds(self, folds: Iterable[Score]) -> Score:
        """The same score with that of each fold beside it."""
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
        """Give strict JSON; null is a number that is not finite."""
        return {
            "value": finite(self.value),
            "reason": self.reason,
            "folds": [finite(value) for value in self.fold_values],
            "foldMean": finite(self.mean),
            "foldDeviation": finite(self.deviation),
        }


def finite(value: Number) -> Number | None:
    """Give a number as strict JSON holds it; None if it is not finite."""
    return value if math.isfinite(value) else None


def as_number(value: Any, source: Callable[[], str]) -> Number:
    """Take a number as a plain int or float, from a 0-dim array or tensor too; True is 1.

    Raises:
        MetricInputError: it is none; the message begins with what `source` says.
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
        f"{source()} is to give a number, got {excerpt(value, 60)!r} ({type(value).__name__})"
    )
