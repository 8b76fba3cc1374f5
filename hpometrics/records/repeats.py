"""Repeats: the runs of one trial under several seeds, and what they say together: mean and deviation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ._json import real, whole
from .readings import to_json


@dataclass(frozen=True)
class Repeat:
    """One of several runs of a trial, under a seed of its own.

    `value` and `values` (those that are one number) are of its picked epoch; `epochs` is how many it had.
    """

    seed: int | None
    value: float
    epoch: int
    epochs: int
    seconds: float = 0.0
    ended_by: str | None = None
    values: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Write it as plain JSON."""
        return {**asdict(self), "values": {name: to_json(value) for name, value in self.values.items()}}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Repeat:
        """Read what `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        values = {str(name): _number(value) for name, value in dict(told["values"]).items()}
        seed, ended_by = told["seed"], told["ended_by"]
        return cls(
            None if seed is None else whole(seed),
            real(told["value"]),
            whole(told["epoch"]),
            whole(told["epochs"]),
            real(told["seconds"]),
            None if ended_by is None else str(ended_by),
            values,
        )


def _number(told: Any) -> float:
    """Read a number; null is nan."""
    return math.nan if told is None else real(told)


def mean(values: Iterable[float]) -> float:
    """The mean of values that are all finite, else nan: what is left of a set of repeats stands for none.

    It is rounded once, so that equal values have themselves as mean and keep the constraints that each keeps.

    >>> mean([0.5, 0.75, 1.0]), mean([0.95, 0.95, 0.95]), mean([0.5, math.nan])
    (0.75, 0.95, nan)
    """
    values = list(values)
    return statistics.mean(values) if values and all(map(math.isfinite, values)) else math.nan


def mean_values(repeats: Sequence[Repeat]) -> dict[str, float]:
    """The mean of each value over repeats; nan where one of them lacks it."""
    names = dict.fromkeys(name for repeat in repeats for name in repeat.values)
    return {name: mean(repeat.values.get(name, math.nan) for repeat in repeats) for name in names}


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample, its squares divided by n - 1; None of fewer than two values.

    >>> deviation([0.5, 0.75, 1.0]), deviation([0.5])
    (0.25, None)
    """
    if len(values) < 2:
        return None
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan
