"""A weighted sum of several values as one objective, each term with its weight and direction."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from ..direction import Direction
from ..exceptions import DirectionError, MetricNameError, UnknownMetricError
from .registry.diagnostics import diagnostic
from .registry.lookup import is_registered
from .registry.names import MetricName
from .registry.scope import (
    ALL_TASKS,
    COMBINED,
    VALIDATION,
    ScopedMetric,
    Types,
    check_task,
    direction_problem,
    resolve_in_scope,
)

Weight = float | Mapping[str, Any]
"""A number above 0, or `{"weight": 0.5, "direction": "minimize"}` for a value that has no direction."""


@dataclass(frozen=True)
class Term:
    """One term of a combination, with its weight and the direction that decides its sign.

    `placed` is the metric to measure; None for a diagnostic and for a value that the engine reports.
    """

    name: MetricName
    weight: float
    direction: Direction
    placed: ScopedMetric | None = None

    @property
    def of_one_row(self) -> bool:
        """Whether its name has a task or `tasks=`, which fixes its row."""
        return self.name.task is not None or self.name.over_tasks is not None

    def at(self, task: str | None) -> str:
        """Return the name of the value of a task in a record."""
        return str(self.name if self.of_one_row else replace(self.name, task=task))

    def called(self, values: Collection[str], task: str | None, tasks: Collection[str]) -> str | None:
        """Return the name in a record of the value that counts for a task; None if there is none.

        Args:
            values: the names of the record.
            task: the task; None is over all tasks.
            tasks: all tasks. A value that none of them has, such as `gpu_mem`, belongs to the run and so
                counts for each.
        """
        own = self.at(task)
        if task is None or own in values:
            return own if own in values else None
        if any(self.at(each) in values for each in tasks):
            return None
        return self.at(None) if self.at(None) in values else None


@dataclass(frozen=True)
class ResolvedCombined:
    """A weighted sum of values, each with the sign that follows from its direction.

    Attributes:
        label: its name behind `combined.`.
        terms: the terms of the sum, all different.
        direction: the direction of the sum.
        task: the task of the value; None and `all` are over all tasks.
        formula: the sum in readable form.
    """

    label: str
    terms: tuple[Term, ...]
    direction: Direction
    task: str | None = None
    formula: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", _format_formula(self))

    @property
    def name(self) -> str:
        """The name of the value in a record."""
        return self.at(self.task)

    @property
    def of_every_task(self) -> ResolvedCombined:
        """The same combination without a task."""
        return replace(self, task=None)

    def sign(self, term: Term) -> int:
        """Return 1 for a term with the direction of the sum, and -1 for one with the other direction."""
        return 1 if term.direction is self.direction else -1

    def at(self, task: str | None) -> str:
        """Return the name of the value of one task in a record."""
        return f"{COMBINED}.{self.label}" if task is None else f"{task}/{COMBINED}.{self.label}"

    def value(
        self, values: Mapping[str, Any], task: str | None = None, tasks: Collection[str] = ()
    ) -> tuple[float, str | None] | None:
        """Return the sum over the values of its terms, and the reason for nan; None if a term has no value.

        Args:
            values: the values of a record by name.
            task: the task; None is over all tasks. A task has a value if it has the value of a term, and if
                no term is of one task or has `tasks=`.
            tasks: all tasks.
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
                return math.nan, f"{name} is not one finite number"
            total.append(self.sign(term) * term.weight * values[name])
        try:
            return math.fsum(total), None
        except (OverflowError, ValueError):  # the second is of weighted values of both signs
            return math.nan, "the sum of its terms is too large for a number"

    def lacking(self, values: Collection[str], tasks: Collection[str]) -> Term | None:
        """Return the first term without a value that the sum needs; None if there is none."""
        task = None if self.task == ALL_TASKS else self.task
        return next((term for term in self.terms if term.called(values, task, tasks) is None), None)


def _format_formula(combined: ResolvedCombined) -> str:
    formula = ""
    for term in combined.terms:
        sign = "-" if combined.sign(term) < 0 else "+"
        factor = "" if term.weight == 1 else f"{term.weight:g} "
        name = term.at(combined.task)
        formula += f" {sign} {factor}{name}" if formula else f"{'-' if sign == '-' else ''}{factor}{name}"
    return formula


@dataclass(frozen=True)
class Combined:
    """A weighted sum of metrics, of one or several outputs, as one objective.

    If all terms are minimized the sum is minimized, and if all are maximized it is maximized. If they differ
    the sum is maximized unless `direction` states otherwise, and a term of the other direction is
    subtracted. A term is a metric, a diagnostic such as `gpu_mem`, or a value that the engine reports; if its
    direction is unknown it stands beside the weight.

    Args:
        terms: a weight above 0 for each name, or a mapping with `weight` and `direction`.
        name: the value is recorded as `combined.name`, and for each task as `task/combined.name`.
        direction: see above.
        task: the task of the value; by default the value is over all tasks.

    Raises:
        MetricNameError: no terms, a weight that is not a number above 0, or an invalid name of a task.

    >>> score = Combined({"intent.accuracy": 2, "cost": {"weight": 0.5, "direction": "minimize"}}).settled(
    ...     {"intent": "category", "reply": "sequence"})
    >>> score.formula, score.direction.value
    ('2 intent.accuracy - 0.5 cost', 'maximize')
    """

    terms: Mapping[str, Weight]
    name: str = "score"
    direction: Direction | str | None = None
    task: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.terms, Mapping) or not self.terms:
            raise MetricNameError(
                f"combine needs a weight for each metric, {{name: weight}}, got {self.terms!r}"
            )
        for name, weight in self.terms.items():
            _parse_weight(name, weight)
        if MetricName.parse(self.name) != MetricName(self.name):
            raise MetricNameError(f"combine: name must be a plain word, got {self.name!r}")
        if self.task not in (None, ALL_TASKS):
            check_task(self.task)

    @classmethod
    def of_mapping(cls, config: Mapping[str, Any]) -> Combined:
        """Parse `{"combine": {name: weight, ...}, "name": ..., "direction": ..., "task": ...}`.

        Raises:
            MetricNameError: there are further keys, or as above.
        """
        if unknown := sorted(config.keys() - {"combine", "name", "direction", "task"}):
            raise MetricNameError(
                f"combine allows only the keys name, direction and task beside it, got {', '.join(unknown)}"
            )
        return cls(
            config["combine"], config.get("name", "score"), config.get("direction"), config.get("task")
        )

    @classmethod
    def of_all_outputs(cls, name: MetricName, types: Types) -> Combined:
        """Parse `combined.loss`, or `convai2/combined.loss` of one task: a metric summed over all outputs.

        Raises:
            UnknownMetricError: an output has no such metric.
            MetricNameError: the name has a split.
        """
        check_split(name)
        each = (resolve_in_scope(replace(name, split=None, task=None, feature=key), types) for key in types)
        return cls({str(placed.name): 1.0 for placed in each}, name.metric, task=name.task)

    def settled(self, types: Types | None) -> ResolvedCombined:
        """Resolve every term and the direction; see `place`.

        Raises:
            DirectionError: a term has no direction, or another one than is stated.
            MetricNameError, UnknownMetricError: these outputs have no such term, or a term is there twice.
        """
        weights = {name: _parse_weight(name, weight) for name, weight in self.terms.items()}
        terms = {name: _term(name, weight, direction, types) for name, (weight, direction) in weights.items()}
        _check_apart(terms)
        self._check_of_no_task(terms.values())
        minimized = all(term.direction is Direction.MINIMIZE for term in terms.values())
        own = Direction.MINIMIZE if minimized else Direction.MAXIMIZE
        direction = own if self.direction is None else Direction.parse(self.direction)
        return ResolvedCombined(self.name, tuple(terms.values()), direction, self.task)

    def _check_of_no_task(self, terms: Iterable[Term]) -> None:
        """Raise if a term fixes its own row in a combination of one task."""
        fixed = next((term.name for term in terms if term.of_one_row), None)
        if fixed is not None and self.task not in (None, ALL_TASKS):
            raise MetricNameError(
                f"combine: its task is {self.task}, but {fixed} names a row itself; leave one of the two out"
            )


def check_split(name: MetricName) -> None:
    """Raise if a combination is of another split than validation.

    Raises:
        MetricNameError: it is.
    """
    if name.split not in (None, VALIDATION):
        raise MetricNameError(
            f"{name}: a combination uses validation values; write {replace(name, split=None)}"
        )


def _parse_weight(name: str, value: Weight) -> tuple[float, Direction | None]:
    """Return the weight of a term, and the direction beside it, if there is one."""
    weight: Any = value
    direction = None
    if isinstance(value, Mapping):
        if unknown := sorted(value.keys() - {"weight", "direction"}):
            raise MetricNameError(
                f"combine: {name} must have a weight and a direction, got {', '.join(unknown)}"
            )
        weight, direction = value.get("weight"), value.get("direction")
    number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not (number and math.isfinite(weight) and weight > 0):
        raise MetricNameError(
            f"combine: the weight of {name} must be a number above 0, got {weight!r}; the direction sets "
            "its sign"
        )
    return float(weight), None if direction is None else Direction.parse(direction)


def _term(text: str, weight: float, direction: Direction | None, types: Types | None) -> Term:
    name = MetricName.parse(text)
    if name.task == ALL_TASKS:
        name = replace(name, task=None)
    if (known_diagnostic := diagnostic(name)) is not None:
        direction = _agree_on_direction(name, weight, known_diagnostic.direction, direction)
        return Term(name, weight, direction)
    try:
        placed = resolve_in_scope(name, types)
    except UnknownMetricError as err:
        if is_registered(name):
            raise
        if direction is None:
            raise UnknownMetricError(
                f"{err}. If the engine reports it, state its direction: {_format_direction(name, weight)}"
            ) from None
        check_split(name)
        return Term(name, weight, direction)
    check_split(placed.name)
    direction = _agree_on_direction(placed.name, weight, placed.metric.direction, direction)
    return Term(placed.name, weight, direction, placed)


def _agree_on_direction(
    name: MetricName, weight: float, own: Direction | None, requested: Direction | None
) -> Direction:
    direction = requested if own is None else own
    if direction is None:
        raise DirectionError(
            f"combine: {name} has no direction, so its sign is unknown; state one: "
            f"{_format_direction(name, weight)}"
        )
    if problem := direction_problem(name, direction, requested, "direction"):
        raise DirectionError(f"combine: {problem}")
    return direction


def _format_direction(name: MetricName, weight: float) -> str:
    return f"{{{name}: {{weight: {weight:g}, direction: minimize}}}} or maximize"


def _check_apart(terms: Mapping[str, Term]) -> None:
    """Raise if one value stands under two names."""
    for (one, term), (other, same) in combinations(terms.items(), 2):
        if term.name == same.name:
            raise MetricNameError(
                f"combine: {one} and {other} are the same value, {term.name}; give it one weight"
            )
