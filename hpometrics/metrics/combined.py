"""Combined: one value made of several, each with a weight and its direction, as a user writes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from ..direction import Objective
from ..exceptions import MetricNameError, ObjectiveError, UnknownMetricError
from .registry.diagnostics import diagnostic
from .registry.lookup import is_registered
from .registry.names import MetricName
from .registry.scope import ALL_TASKS, VALIDATION, Types, check_task, place
from .settled_combined import SettledCombined, Term

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
    """The weight of a term, and the direction that is stated beside it."""
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
