"""Combined: one value made of several, each with a weight and its direction, by a formula that is printed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..exceptions import MetricNameError, ObjectiveError
from ..objective import Objective
from .names import MetricName
from .places import ALL_TASKS, COMBINED, VALIDATION, Placed, Types, place


@dataclass(frozen=True)
class Combined:
    """A weighted sum of metrics, of one or several outputs, as one objective.

    Terms that are to minimize make a sum to minimize, terms that are to maximize one to maximize. Where both
    stand together it is to maximize unless `direction` says otherwise, and a term of the other direction is
    subtracted.

    Args:
        terms: a weight above 0 for each metric by name.
        name: it is recorded as `combined.name`.
        direction: see above.

    Raises:
        MetricNameError: no terms, or a weight that is no number above 0.

    >>> score = Combined({"intent.accuracy": 2, "reply.perplexity": 0.5}).settled(
    ...     {"intent": "category", "reply": "sequence"})
    >>> score.formula, score.objective.value
    ('2 intent.accuracy - 0.5 reply.perplexity', 'maximize')
    """

    terms: Mapping[str, float]
    name: str = "score"
    direction: Objective | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.terms, Mapping) or not self.terms:
            raise MetricNameError(
                f"combine takes a weight for each metric, {{name: weight}}, got {self.terms!r}"
            )
        for name, weight in self.terms.items():
            number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
            if not (number and math.isfinite(weight) and weight > 0):
                raise MetricNameError(
                    f"combine: the weight of {name} is a number above 0, got {weight!r}; "
                    "its direction is the metric's own"
                )
        if MetricName.parse(self.name) != MetricName(self.name):
            raise MetricNameError(f"combine: name is a bare word, got {self.name!r}")

    @classmethod
    def of_mapping(cls, told: Mapping[str, Any]) -> Combined:
        """Read `{"combine": {name: weight, ...}, "name": ..., "direction": ...}`.

        Raises:
            MetricNameError: further keys, or as above.
        """
        if unknown := sorted(told.keys() - {"combine", "name", "direction"}):
            raise MetricNameError(f"combine goes with name and direction, got {', '.join(unknown)}")
        return cls(told["combine"], told.get("name", "score"), told.get("direction"))

    @classmethod
    def of_all_outputs(cls, name: MetricName, types: Types) -> Combined:
        """Read `combined.loss`: the sum of a metric over all outputs.

        Raises:
            UnknownMetricError: an output has no such metric.
            MetricNameError: it names a split, or one of several tasks.
        """
        if name.split not in (None, VALIDATION) or name.task not in (None, ALL_TASKS):
            raise MetricNameError(
                f"{name}: a combination is of validation values and of all tasks; that of each task is "
                f"recorded beside it. Write {replace(name, split=None, task=None)}"
            )
        each = (place(replace(name, split=None, task=None, feature=key), types) for key in types)
        return cls({str(placed.name): 1.0 for placed in each}, name.metric)

    def settled(self, types: Types | None) -> SettledCombined:
        """Find every metric and settle the direction; see `place`.

        Raises:
            ObjectiveError: a term has none.
            MetricNameError, UnknownMetricError: a term is not a metric of these outputs.
        """
        terms = tuple((place(name, types), float(weight)) for name, weight in self.terms.items())
        for term, _ in terms:
            if term.found.objective is None:
                raise ObjectiveError(f"combine: {term.name} has no direction, so that it has no sign here")
            if term.name.split is not None:
                raise MetricNameError(f"combine: {term.name}: a combination is of validation values")
        minimized = all(term.found.objective is Objective.MINIMIZE for term, _ in terms)
        own = Objective.MINIMIZE if minimized else Objective.MAXIMIZE
        stated = own if self.direction is None else Objective.parse(self.direction)
        return SettledCombined(self.name, terms, stated)


@dataclass(frozen=True)
class SettledCombined:
    """A combination whose metrics and direction are known; `formula` prints it."""

    label: str
    terms: tuple[tuple[Placed, float], ...]
    objective: Objective
    formula: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", _printed(self))

    @property
    def name(self) -> str:
        """What a record calls the value."""
        return f"{COMBINED}.{self.label}"

    def sign(self, term: Placed) -> int:
        """1 of a term that goes the way of the whole, -1 of one that goes the other way."""
        return 1 if term.found.objective is self.objective else -1

    def at(self, task: str | None) -> str:
        """What a record calls the value of one task."""
        return self.name if task is None else f"{task}/{self.name}"

    def value(self, values: Mapping[str, Any], task: str | None = None) -> tuple[float, str | None] | None:
        """The sum over the values of its terms, and why it is nan; None where a term has no value.

        Args:
            values: by the names that a record calls them.
            task: whose; None is over all tasks. A term that names a task, or says `tasks=`, is of no other.
        """
        total: list[float] = []
        for term, weight in self.terms:
            own = term.name.task is not None or term.name.over_tasks is not None
            name = str(term.name if own else replace(term.name, task=task))
            if name not in values or (own and task is not None):
                return None
            if isinstance(values[name], list) or math.isnan(values[name]):
                return math.nan, f"{name} is nan, or no single number"
            total.append(self.sign(term) * weight * values[name])
        return math.fsum(total), None


def _printed(combined: SettledCombined) -> str:
    told = ""
    for term, weight in combined.terms:
        sign = "-" if combined.sign(term) < 0 else "+"
        factor = "" if weight == 1 else f"{weight:g} "
        told += f" {sign} {factor}{term.name}" if told else f"{'-' if sign == '-' else ''}{factor}{term.name}"
    return told
