"""Extremes: the worst and the best examples of one place, in memory that does not grow with the epoch."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .example_selection import ExamplePlan
from .lines import Line

WORST, BEST, UNDEFINED = RANKS = ("worst", "best", "undefined")


class Place(NamedTuple):
    """Where examples come from: their split, and their task and output feature where there are several."""

    split: str
    task: str | None = None
    feature: str | None = None


@dataclass(slots=True)
class Example:
    """One row: its ranking value, its running number, its row in the batch at hand, and then its line."""

    value: float
    index: int
    row: int
    line: Line | None = None


@dataclass
class Extremes:
    """The examples of one place that are kept so far; of equal values the earliest.

    A value that is not finite is neither good nor bad, so its examples are kept apart, the first of them.
    """

    rows: int = 0
    worst: list[Example] = field(default_factory=list)
    best: list[Example] = field(default_factory=list)
    undefined: list[Example] = field(default_factory=list)

    def take(self, plan: ExamplePlan, found: Iterable[Example]) -> list[Example]:
        """Keep those that belong to the ends; return the new ones among them, whose lines are to be made."""
        finite: list[Example] = []
        odd: list[Example] = []
        for example in found:
            (finite if math.isfinite(example.value) else odd).append(example)
        self._keep(plan, finite, finite, odd)
        kept = {id(e): e for rank in RANKS for e in getattr(self, rank) if e.line is None}
        return sorted(kept.values(), key=lambda example: example.row)

    def join(self, plan: ExamplePlan, other: Extremes) -> None:
        """Take in the examples of another process, as later ones."""
        self._keep(plan, other.worst, other.best, other.undefined)

    def lines(self, place: Place) -> Iterator[Line]:
        """Tell each example with its rank: the worst from the worst on, then the best from the best on."""
        where = {name: value for name, value in place._asdict().items() if value is not None}
        for rank in RANKS:
            for number, example in enumerate(getattr(self, rank), 1):
                yield {**where, "rank": rank, "place": number, "index": example.index, **(example.line or {})}

    def _keep(
        self, plan: ExamplePlan, worst: list[Example], best: list[Example], undefined: list[Example]
    ) -> None:
        def key(example: Example) -> float:
            return plan.objective.sort_key(example.value)

        self.worst = heapq.nlargest(plan.worst, [*self.worst, *worst], key=key)  # stable, as is nsmallest
        self.best = heapq.nsmallest(plan.best, [*self.best, *best], key=key)
        self.undefined = [*self.undefined, *undefined][: max(plan.worst, plan.best)]
