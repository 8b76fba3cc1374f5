"""The Pareto front: the trials that no other trial dominates in every objective, and the knee among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from ..direction import MINIMIZE, Direction, nowhere_worse
from ..records.trial_record import TrialRecord, TrialState

Objectives = Sequence[Direction]
Point = Sequence[float]


def front_of(points: Sequence[Point], objectives: Objectives) -> list[int]:
    """Return the places of the points that none dominates, by the first objective, then by the next ones.

    Equal points are all listed, the earliest first. A point with a value that is not finite never is.

    >>> front_of([(0.5, 2.0), (0.9, 4.0), (0.4, 3.0), (0.5, 2.0)], [Direction.MAXIMIZE, Direction.MINIMIZE])
    [1, 0, 3]
    """
    finite = [place for place, point in enumerate(points) if all(map(math.isfinite, point))]
    ordered = sorted((_keys(points[place], objectives), place) for place in finite)
    front: list[int] = []
    rivals: list[tuple[float, ...]] = []  # who is dominated is so by a different point that comes before
    for keys, equal in groupby(ordered, key=itemgetter(0)):
        nearest = rivals[-1:] if len(objectives) < 3 else rivals  # of two, the last has the best second value
        if not any(nowhere_worse(rival, keys) for rival in nearest):
            rivals.append(keys)
            front += [place for _, place in equal]
    return front


def front_trials(records: Sequence[TrialRecord], optimized: Mapping[str, Direction]) -> list[TrialRecord]:
    """Return the complete trials that none dominates, in the order of `front_of`.

    Args:
        records: in any order.
        optimized: the objectives by name.
    """
    complete = sorted((r for r in records if r.state is TrialState.COMPLETE), key=lambda r: r.number)
    points = [record.scores(optimized) for record in complete]
    return [complete[place] for place in front_of(points, list(optimized.values()))]


def knee_of(front: Sequence[Point], objectives: Objectives) -> int:
    """Return the place of the knee of a front; of equal ones the earliest.

    Each objective is scaled to 0 for its best and 1 for its worst value on the front, which puts the extremes
    of a front at the unit points. The knee is the point farthest from the plane through these, towards the
    best of all: that with the smallest sum. Where the front bulges the other way it is an extreme.

    Args:
        front: in the order that decides between equal ones.
        objectives: of each value.

    Source: Das 1999, On characterizing the "knee" of the Pareto curve based on normal-boundary intersection,
        Structural Optimization 18(2/3).

    >>> knee_of([(0.9, 8.0), (0.8, 2.0), (0.4, 0.0)], [Direction.MAXIMIZE, Direction.MINIMIZE])
    1
    """
    columns = [
        _scale(values, direction)
        for values, direction in zip(zip(*front, strict=True), objectives, strict=True)
    ]
    return MINIMIZE.best_index(math.fsum(point) for point in zip(*columns, strict=True))


def _keys(point: Point, objectives: Objectives) -> tuple[float, ...]:
    return tuple(direction.sort_key(value) for value, direction in zip(point, objectives, strict=True))


def _scale(values: Sequence[float], direction: Direction) -> list[float]:
    """Scale values to 0 at the best and 1 at the worst; values that are all the same are 0."""
    ordered = sorted(values, key=direction.sort_key)
    best, worst = ordered[0] / 2, ordered[-1] / 2  # halves, so that no difference overflows
    span = direction.worse_by(worst, best)
    return [direction.worse_by(value / 2, best) / span if span else 0.0 for value in values]
