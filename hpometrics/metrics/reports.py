"""Metrics: additive values by name, as they come in while a model trains or is evaluated."""

from __future__ import annotations

from ..exceptions import HpometricsError, MetricInputError, MetricNameError
from .additive import Additive
from .registry.names import MetricName

Report = dict[str, Additive]
"""What was measured, by name."""


class Metrics:
    """A container of additive values; what is added under one name is added up.

    >>> from hpometrics import AverageMetric
    >>> metrics = Metrics()
    >>> for text in ("hello you", "goodbye"):
    ...     metrics.add("hello_avg", AverageMetric(int("hello" in text), 1))
    >>> metrics.report()["hello_avg"].value()
    0.5
    """

    def __init__(self) -> None:
        self._held: Report = {}
        self._own: set[str] = set()  # names of sums that nobody else has seen, which may change in place

    def add(self, name: str, value: Additive | None) -> None:
        """Add a value to what there is under a name; None adds nothing.

        Raises:
            MetricNameError: the name is no metric's, or says a split, a task or a feature.
            MetricInputError: it is no additive value.
            AdditionError: what there is under this name is of another type.
        """
        if value is None:
            return
        check_additive(name, value)
        name = name if name in self._held else bare_name(name)
        if name not in self._held:
            self._held[name] = value
            return
        self._held[name] = added(name, self._held[name], value, in_place=name in self._own)
        self._own.add(name)

    def add_metrics(self, other: Metrics) -> None:
        """Add everything that another container holds; that one stays as it is."""
        for name, value in other.report().items():
            self.add(name, value)

    def report(self) -> Report:
        """What was added so far, by name; what is added later does not change it."""
        self._own.clear()
        return dict(self._held)

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()
        self._own.clear()


def added(name: str, first: Additive, second: Additive, *, in_place: bool = False) -> Additive:
    """The sum of two values of one name; an error says which name.

    Raises:
        AdditionError: they are of two types.
        MetricInputError: they are fixed and differ.
    """
    try:
        return first.absorb(second) if in_place else first + second
    except HpometricsError as err:
        raise type(err)(f"{name!r}: {err}") from err


def check_additive(name: str, value: object) -> None:
    """Refuse what cannot be added up.

    Raises:
        MetricInputError: naming the name and what came.
    """
    if not isinstance(value, Additive):
        raise MetricInputError(
            f"{name!r}: what is added is a value such as AverageMetric(1, 2) or SumMetric(3); "
            f"got {value!r} ({type(value).__name__})"
        )


def bare_name(name: str) -> str:
    """The name of a metric alone, as it prints.

    Raises:
        MetricNameError: it is none, or says a split, a task or a feature.
    """
    parsed = MetricName.parse(name)
    if parsed != parsed.bare:
        raise MetricNameError(
            f"{name!r}: a value is added under the name of a metric alone, as {str(parsed.bare)!r}; "
            "what it belongs to is said where reports are aggregated"
        )
    return str(parsed)
