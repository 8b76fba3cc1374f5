"""SettledCombined: a combination whose terms and direction are known, with its formula and its value."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..direction import Objective
from .registry.names import MetricName
from .registry.scope import ALL_TASKS, COMBINED, Placed


@dataclass(frozen=True)
class Term:
    """One value of a combination, with its weight and the direction that gives it its sign.

    `placed` is the metric that is measured; None of a diagnostic, and of what the engine itself reports.
    """

    name: MetricName
    weight: float
    objective: Objective
    placed: Placed | None = None

    @property
    def of_one_row(self) -> bool:
        """Whether it is of one task, or of all of them, wherever it stands."""
        return self.name.task is not None or self.name.over_tasks is not None

    def at(self, task: str | None) -> str:
        """What a record calls the value of a task."""
        return str(self.name if self.of_one_row else replace(self.name, task=task))

    def called(self, values: Collection[str], task: str | None, tasks: Collection[str]) -> str | None:
        """What a record calls the value that counts for a task; None where it has none.

        Args:
            values: the names that there are.
            task: whose; None is over all tasks.
            tasks: all there are. A value that none of them has, such as `gpu_mem`, is of the run, so of each.
        """
        own = self.at(task)
        if task is None or own in values:
            return own if own in values else None
        if any(self.at(each) in values for each in tasks):
            return None
        return self.at(None) if self.at(None) in values else None


@dataclass(frozen=True)
class SettledCombined:
    """A weighted sum of values, each with the sign that its direction gives it.

    Attributes:
        label: its name behind `combined.`.
        terms: what is added up, none of them twice.
        objective: the direction of the whole.
        task: which task's value is meant; None and `all` are over all tasks.
        formula: the sum as one reads it.
    """

    label: str
    terms: tuple[Term, ...]
    objective: Objective
    task: str | None = None
    formula: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", _printed(self))

    @property
    def name(self) -> str:
        """What a record calls the value."""
        return self.at(self.task)

    @property
    def of_every_task(self) -> SettledCombined:
        """The same, of no task in particular."""
        return replace(self, task=None)

    def sign(self, term: Term) -> int:
        """1 of a term that goes the way of the whole, -1 of one that goes the other way."""
        return 1 if term.objective is self.objective else -1

    def at(self, task: str | None) -> str:
        """What a record calls the value of one task."""
        return f"{COMBINED}.{self.label}" if task is None else f"{task}/{COMBINED}.{self.label}"

    def value(
        self, values: Mapping[str, Any], task: str | None = None, tasks: Collection[str] = ()
    ) -> tuple[float, str | None] | None:
        """The sum over the values of its terms, and why it is nan; None where a term has no value.

        Args:
            values: by the names that a record calls them.
            task: whose; None is over all tasks. A task has a value if it has that of a term, and if no term
                is of one task or says `tasks=`.
            tasks: all there are.
        """
        names = [term.called(values, task, tasks) for term in self.terms]
        if task is not None:
            own = [term.at(task) == name for term, name in zip(self.terms, names, strict=True)]
            if not any(own) or any(term.of_one_row for term in self.terms):
                return None
        total: list[float] = []
        for term, name in zip(self.terms, names, strict=True):
            if name is None:
                return None
            if isinstance(values[name], list) or not math.isfinite(values[name]):
                return math.nan, f"{name} is not finite, or no single number"
            total.append(self.sign(term) * term.weight * values[name])
        try:
            return math.fsum(total), None
        except (OverflowError, ValueError):  # the second is of weighted values of both signs
            return math.nan, "the sum of its terms is too large for a number"

    def lacking(self, values: Collection[str], tasks: Collection[str]) -> Term | None:
        """The first term that has no value where this one is to have it."""
        task = None if self.task == ALL_TASKS else self.task
        return next((term for term in self.terms if term.called(values, task, tasks) is None), None)


def _printed(combined: SettledCombined) -> str:
    told = ""
    for term in combined.terms:
        sign = "-" if combined.sign(term) < 0 else "+"
        factor = "" if term.weight == 1 else f"{term.weight:g} "
        name = term.at(combined.task)
        told += f" {sign} {factor}{name}" if told else f"{'-' if sign == '-' else ''}{factor}{name}"
    return told
