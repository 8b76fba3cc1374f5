"""The direction of a metric, which decides which of two scores is better; no other module compares scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from operator import le
from typing import Any

from .exceptions import DirectionError, NoFiniteValueError

_SYNONYMS = {"min": "minimize", "max": "maximize", "minimise": "minimize", "maximise": "maximize"}


class Direction(StrEnum):
    """A metric's direction; its values are Optuna's words, so a study takes it as it is.

    A value that is not finite (nan, inf) never wins; the earliest of equal values wins.

    >>> Direction.MINIMIZE.better(0.1, 0.2), Direction.MAXIMIZE.better(0.1, 0.2)
    (True, False)
    >>> Direction.MAXIMIZE.best_index([0.1, float("nan"), 0.7, 0.7])
    2
    """

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"

    @classmethod
    def parse(cls, text: str | Direction) -> Direction:
        """Parse `minimize`, `maximize` or Ray's `min`, `max`.

        Raises:
            DirectionError: it is another text; there is no default.
        """
        word = str(text).strip().lower()
        try:
            return cls(_SYNONYMS.get(word, word))
        except ValueError:
            raise DirectionError(f"a direction must be 'minimize' or 'maximize', got {text!r}") from None

    @property
    def mode(self) -> str:
        """Ray Tune's word: `min` or `max`."""
        return self.value[:3]

    @property
    def worst(self) -> float:
        """The value that every finite score beats: inf when minimizing, -inf when maximizing."""
        return math.inf if self is Direction.MINIMIZE else -math.inf

    @property
    def sign(self) -> float:
        """The factor after which a larger value of an array is the better one: 1 or -1."""
        return 1.0 if self is Direction.MAXIMIZE else -1.0

    def better(self, a: float, b: float, tol: float = 0.0) -> bool:
        """Return whether `a` beats `b` by more than `tol` (in the metric's own unit).

        A value that is not finite beats nothing and is beaten by every finite value.

        Raises:
            DirectionError: `tol` is negative or not a number.
        """
        if not tol >= 0:
            raise DirectionError(f"tol must be a number of at least 0, got {tol!r}")
        if not math.isfinite(a):
            return False
        if not math.isfinite(b):
            return True
        gain = b - a if self is Direction.MINIMIZE else a - b
        return gain > tol

    def worse_by(self, value: float, other: float) -> float:
        """Return by how much a value is worse than another, in the metric's own unit; below 0 it is better.

        >>> Direction.MAXIMIZE.worse_by(0.75, 1.0), Direction.MINIMIZE.worse_by(0.75, 1.0)
        (0.25, -0.25)
        """
        return value - other if self is Direction.MINIMIZE else other - value

    def best_index(self, values: Iterable[float], tol: float = 0.0) -> int:
        """Return the index of the best value; among equal ones (within `tol`) the earliest.

        Raises:
            NoFiniteValueError: no value is finite, or there is none.
        """
        best, best_value, count = -1, math.nan, 0
        for index, value in enumerate(values):
            count += 1
            if self.better(value, best_value, tol):
                best, best_value = index, value
        if best < 0:
            raise NoFiniteValueError(
                f"none of the {count} values to {self.value} is a finite number; each is nan, infinite or "
                "missing, so no value is best"
            )
        return best

    def quantile(self, values: Iterable[float], percent: float) -> float:
        """Return the worst of the best `percent` % of values, without interpolation.

        Values that are not finite are the worst.

        >>> Direction.MAXIMIZE.quantile([0.1, 0.9, 0.5, 0.7], 50)
        0.7
        """
        ranked = sorted(values, key=self.sort_key)
        return ranked[max(1, math.ceil(len(ranked) * percent / 100)) - 1]

    def sort_key(self, value: float) -> float:
        """Return the key that sorts values best first; values that are not finite come last."""
        if not math.isfinite(value):
            return math.inf
        return value if self is Direction.MINIMIZE else -value


def nowhere_worse(keys: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether none of several sort keys is worse than the other one at its place.

    >>> keys = [Direction.MAXIMIZE.sort_key(0.9), Direction.MINIMIZE.sort_key(3.0)]
    >>> nowhere_worse(keys, [Direction.MAXIMIZE.sort_key(0.9), Direction.MINIMIZE.sort_key(4.0)])
    True
    """
    return all(map(le, keys, others))


MINIMIZE = Direction.MINIMIZE
MAXIMIZE = Direction.MAXIMIZE
UNSTATED: Any = type("Unstated", (), {"__repr__": lambda self: "unstated"})()
"""The default of an argument for which None is a statement too."""
ARROWS = {Direction.MAXIMIZE: " ^", Direction.MINIMIZE: " v", None: ""}
"""The mark of each direction behind a name in tables."""
LEGEND = "^ higher is better, v lower is better"
