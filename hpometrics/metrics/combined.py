"""Combined: one value made of several, each with a weight and its direction, as a user writes it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from ..direction import Objective
from ..exceptions import MetricNameError, ObjectiveError, UnknownMetricError
from .registry.diagnostics import diagnostic
from .registry.lookup import is_registered
from .registry.names import MetricName
from .registry.scope import ALL_TASKS, COMBINED, VALIDATION, Placed, Types, check_task, place


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
        """Return the sum over the values of its terms, and why it is nan; None where a term has no value.

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
        """Return the first term that has no value where this one is to have it."""
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


Weight = float | Mapping[str, Any]
"""A number above 0, or `{"weight": 0.5, "direction": "minimize"}` of a value that has no direction."""


@dataclass(frozen=True)
class Combined:
    """A weighted sum of metrics, of one or several outputs, as one objective.

    Terms that are to minimize make a sum to minimize, terms that are to maximize one to maximize. Where both
    stand together it is to maximize unless `direction` says otherwise, and a term of the other direction is
    subtracted. A term is a metric, a diagnostic such as `gpu_mem`, or a value that the engine reports; where
    its direction is not known it is stated beside the weight.

    Args:
        terms: a weight above 0 for each by name, or a mapping with `weight` and `direction`.
        name: it is recorded as `combined.name`, and of each task as `task/combined.name`.
        direction: see above.
        task: the task whose value is meant; over all of them unless given.

    Raises:
        MetricNameError: no terms, a weight that is no number above 0, or what is no task's name.

    >>> score = Combined({"intent.accuracy": 2, "cost": {"weight": 0.5, "direction": "minimize"}}).settled(
    ...     {"intent": "category", "reply": "sequence"})
    >>> score.formula, score.objective.value
    ('2 intent.accuracy - 0.5 cost', 'maximize')
    """

    terms: Mapping[str, Weight]
    name: str = "score"
    direction: Objective | str | None = None
    task: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.terms, Mapping) or not self.terms:
            raise MetricNameError(
                f"combine takes a weight for each metric, {{name: weight}}, got {self.terms!r}"
            )
        for name, weight in self.terms.items():
            _read_weight(name, weight)
        if MetricName.parse(self.name) != MetricName(self.name):
            raise MetricNameError(f"combine: name is a bare word, got {self.name!r}")
        if self.task not in (None, ALL_TASKS):
            check_task(self.task)

    @classmethod
    def of_mapping(cls, told: Mapping[str, Any]) -> Combined:
        """Read `{"combine": {name: weight, ...}, "name": ..., "direction": ..., "task": ...}`.

        Raises:
            MetricNameError: further keys, or as above.
        """
        if unknown := sorted(told.keys() - {"combine", "name", "direction", "task"}):
            raise MetricNameError(f"combine goes with name, direction and task, got {', '.join(unknown)}")
        return cls(told["combine"], told.get("name", "score"), told.get("direction"), told.get("task"))

    @classmethod
    def of_all_outputs(cls, name: MetricName, types: Types) -> Combined:
        """Read `combined.loss`, or `convai2/combined.loss` of one task: the sum of a metric over all outputs.

        Raises:
            UnknownMetricError: an output has no such metric.
            MetricNameError: it names a split.
        """
        check_split(name)
        each = (place(replace(name, split=None, task=None, feature=key), types) for key in types)
        return cls({str(placed.name): 1.0 for placed in each}, name.metric, task=name.task)

    def settled(self, types: Types | None) -> SettledCombined:
        """Find every term and settle the direction; see `place`.

        Raises:
            ObjectiveError: a term has none, or another one than is stated.
            MetricNameError, UnknownMetricError: a term is nothing that these outputs have, or is there twice.
        """
        read = {name: _read_weight(name, weight) for name, weight in self.terms.items()}
        terms = {name: _term(name, *told, types) for name, told in read.items()}
        _check_apart(terms)
        self._check_of_no_task(terms.values())
        minimized = all(term.objective is Objective.MINIMIZE for term in terms.values())
        own = Objective.MINIMIZE if minimized else Objective.MAXIMIZE
        stated = own if self.direction is None else Objective.parse(self.direction)
        return SettledCombined(self.name, tuple(terms.values()), stated, self.task)

    def _check_of_no_task(self, terms: Iterable[Term]) -> None:
        """Refuse a term that is of a row of its own in a combination of one task."""
        for term in terms:
            if term.of_one_row and self.task not in (None, ALL_TASKS):
                raise MetricNameError(
                    f"combine: it is of the task {self.task}, and {term.name} is of a row of its own; "
                    "leave one of the two out"
                )


def check_split(name: MetricName) -> None:
    """Refuse a combination of another split than validation.

    Raises:
        MetricNameError: saying so.
    """
    if name.split not in (None, VALIDATION):
        raise MetricNameError(
            f"{name}: a combination is of validation values; write {replace(name, split=None)}"
        )


def _read_weight(name: str, told: Weight) -> tuple[float, Objective | None]:
    """Return the weight of a term, and the direction that is stated beside it."""
    weight: Any = told
    stated = None
    if isinstance(told, Mapping):
        if unknown := sorted(told.keys() - {"weight", "direction"}):
            raise MetricNameError(f"combine: {name} has a weight and a direction, got {', '.join(unknown)}")
        weight, stated = told.get("weight"), told.get("direction")
    number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not (number and math.isfinite(weight) and weight > 0):
        raise MetricNameError(
            f"combine: the weight of {name} is a number above 0, got {weight!r}; "
            "its direction gives it its sign"
        )
    return float(weight), None if stated is None else Objective.parse(stated)


def _term(text: str, weight: float, stated: Objective | None, types: Types | None) -> Term:
    name = MetricName.parse(text)
    if name.task == ALL_TASKS:
        name = replace(name, task=None)
    if (known := diagnostic(name)) is not None:
        stated = _agreed(name, weight, known.objective, stated)
        return Term(name, weight, stated)
    try:
        placed = place(name, types)
    except UnknownMetricError as err:
        if is_registered(name):
            raise
        if stated is None:
            raise UnknownMetricError(
                f"{err}. If the engine reports it, state its direction: {_stated(name, weight)}"
            ) from None
        check_split(name)
        return Term(name, weight, stated)
    check_split(placed.name)
    return Term(placed.name, weight, _agreed(placed.name, weight, placed.found.objective, stated), placed)


def _agreed(name: MetricName, weight: float, known: Objective | None, stated: Objective | None) -> Objective:
    objective = stated if known is None else known
    if objective is None:
        raise ObjectiveError(
            f"combine: {name} has no direction, so that it has no sign here; state one: "
            f"{_stated(name, weight)}"
        )
    if stated not in (None, objective):
        raise ObjectiveError(f"combine: {name} is to {objective.value}, but direction says {stated}")
    return objective


def _stated(name: MetricName, weight: float) -> str:
    return f"{{{name}: {{weight: {weight:g}, direction: minimize}}}} or maximize"


def _check_apart(terms: Mapping[str, Term]) -> None:
    """Refuse one value under two names.

    Raises:
        MetricNameError: naming both.
    """
    for (one, term), (other, same) in combinations(terms.items(), 2):
        if term.name == same.name:
            raise MetricNameError(
                f"combine: {one} and {other} are one value, {term.name}; give it one weight"
            )
