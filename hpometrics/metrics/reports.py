"""Reports of additive values by name, collected while a model trains or is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from ..exceptions import AdditionError, HpometricsError, MetricInputError, MetricNameError
from .additive import Additive, MacroAverageMetric
from .registry.names import MetricName
from .registry.scope import check_task

Report = dict[str, Additive]
"""Additive values by name."""


class Metrics:
    """A container of additive values, which adds up the values of one name.

    >>> from hpometrics import AverageMetric
    >>> metrics = Metrics()
    >>> for text in ("hello you", "goodbye"):
    ...     metrics.add("hello_avg", AverageMetric(int("hello" in text), 1))
    >>> metrics.report()["hello_avg"].value()
    0.5
    """

    def __init__(self) -> None:
        self._values: Report = {}
        self._own: set[str] = set()  # names of sums that no caller has, which may change in place

    def add(self, name: str, value: Additive | None) -> None:
        """Add a value to the sum under a name; None adds nothing.

        Raises:
            MetricNameError: the name is not that of a metric, or has a split, a task or a feature.
            MetricInputError: the value is not additive.
            AdditionError: the sum under this name is of another type.
        """
        if value is None:
            return
        check_additive(name, value)
        name = name if name in self._values else bare_name(name)
        if name not in self._values:
            self._values[name] = value
            return
        self._values[name] = add_values(name, self._values[name], value, in_place=name in self._own)
        self._own.add(name)

    def add_metrics(self, other: Metrics) -> None:
        """Add all values of another container, which does not change."""
        for name, value in other.report().items():
            self.add(name, value)

    def report(self) -> Report:
        """Return the sums so far by name; later values do not change them."""
        self._own.clear()
        return dict(self._values)

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()
        self._own.clear()


def add_values(name: str, first: Additive, second: Additive, *, in_place: bool = False) -> Additive:
    """Return the sum of two values of one name, with the name in any error.

    Raises:
        AdditionError: the values are of two types.
        MetricInputError: the values are fixed and differ.
    """
    try:
        return first.absorb(second) if in_place else first + second
    except HpometricsError as err:
        raise type(err)(f"{name!r}: {err}") from err


def check_additive(name: str, value: object) -> None:
    """Raise unless a value is additive.

    Raises:
        MetricInputError: the value is not, with its name and the value.
    """
    if not isinstance(value, Additive):
        raise MetricInputError(
            f"{name!r}: add a value such as AverageMetric(1, 2) or SumMetric(3); got {value!r} "
            f"({type(value).__name__})"
        )


def bare_name(name: str) -> str:
    """Return the printed form of a name, which must be that of a metric alone.

    Raises:
        MetricNameError: it is not a name, or has a split, a task or a feature.
    """
    parsed = MetricName.parse(name)
    if parsed != parsed.bare:
        raise MetricNameError(
            f"{name!r}: add a value under the plain name of a metric, as {str(parsed.bare)!r}; name its "
            "task or output when you aggregate reports"
        )
    return str(parsed)


def aggregate_named_reports(
    reports: Mapping[str, Mapping[str, Additive]], micro_average: bool = False
) -> Report:
    """Combine the reports of tasks: `task/name` of each task, and `name` of all of them.

    The value of all tasks is, over the tasks that have it, the mean of theirs if its type is macro-averaged
    (`AverageMetric`), else their sum. A global value has no `task/name`; the global values of several tasks
    are added, so a value that is measured once is reported by one of them. One task gives the same names as
    several, so that `aggregate_unnamed_reports` can combine workers of different tasks.

    Args:
        reports: the report of each task by its name.
        micro_average: add up macro-averaged values too: every example counts alike, whatever its task.

    Raises:
        MetricInputError: there is no report, a value is not additive, or fixed values differ.
        MetricNameError: a task has no name, or one that cannot be part of a metric's name; a report has a
            name that is not that of a metric alone.
        AdditionError: tasks report one name with values of different types.

    >>> from hpometrics import AverageMetric, SumMetric
    >>> a = {"f1": AverageMetric(1, 2), "exs": SumMetric(2)}
    >>> b = {"f1": AverageMetric(9, 10), "exs": SumMetric(10)}
    >>> {name: value.value() for name, value in aggregate_named_reports({"a": a, "b": b}).items()}
    {'f1': 0.7, 'a/f1': 0.5, 'b/f1': 0.9, 'exs': 12.0, 'a/exs': 2.0, 'b/exs': 10.0}
    """
    if not reports:
        raise MetricInputError("combining reports of tasks needs at least one report, got none")
    tasks = {check_task(task): _checked(report) for task, report in reports.items()}
    names = dict.fromkeys(name for report in tasks.values() for name in report)
    together: Report = {}
    for name in names:
        values = {task: report[name] for task, report in tasks.items() if name in report}
        _check_one_type(name, values)
        together[name] = _of_all(name, values, micro_average)
        if not together[name].is_global:
            together |= {f"{task}/{name}": value for task, value in values.items()}
    return together


def aggregate_unnamed_reports(reports: Iterable[Mapping[str, Additive]]) -> Report:
    """Combine reports of the same tasks, such as those of workers, by adding the values of one name.

    Raises:
        MetricInputError: there is no report, a value is not additive, or fixed values differ.
        AdditionError: reports have one name with values of different types.

    >>> from hpometrics import SumMetric
    >>> aggregate_unnamed_reports([{"exs": SumMetric(2)}, {"exs": SumMetric(3)}])
    {'exs': SumMetric(total=5)}
    """
    reports = list(reports)
    if not reports:
        raise MetricInputError("combining reports needs at least one report, got none")
    together: Report = {}
    for report in reports:
        for name, value in report.items():
            check_additive(name, value)
            together[name] = add_values(name, together[name], value) if name in together else value
    return together


def _checked(report: Mapping[str, Additive]) -> Report:
    metrics = Metrics()
    for name, value in report.items():
        metrics.add(name, value)
    return metrics.report()


def _of_all(name: str, values: Mapping[str, Additive], micro_average: bool) -> Additive:
    first, *others = values.values()
    if first.macro_average and not first.is_global and not micro_average:
        return MacroAverageMetric(values)
    for other in others:
        first = add_values(name, first, other)
    return first


def _check_one_type(name: str, values: Mapping[str, Additive]) -> None:
    kinds = {type(value): task for task, value in values.items()}
    if len(kinds) > 1:
        came = " and ".join(f"{kind.__name__} by {task!r}" for kind, task in kinds.items())
        raise AdditionError(
            f"{name!r}: all tasks must report a name with the same type of value, got {came}; use "
            "different names"
        )


class Teacher:
    """The base of a task's own measurements: override `custom_evaluation` and add to `self.metrics`.

    >>> from hpometrics import AverageMetric
    >>> class HelloTeacher(Teacher):
    ...     def custom_evaluation(self, teacher_action, labels, model_response):
    ...         said = "hello" in model_response["text"]
    ...         self.metrics.add("hello_avg", AverageMetric(int(said), 1))
    >>> teacher = HelloTeacher()
    >>> teacher.custom_evaluation({"text": "hi"}, ("hello",), {"text": "hello you"})
    >>> teacher.metrics.report()
    {'hello_avg': AverageMetric(numer=1, denom=1)}
    """

    @cached_property
    def metrics(self) -> Metrics:
        """The values measured so far; created at the first use, even if a subclass has an `__init__`."""
        return Metrics()

    def custom_evaluation(
        self,
        teacher_action: Mapping[str, Any],
        labels: tuple[str, ...] | None,
        model_response: Mapping[str, Any],
    ) -> None:
        """Measure one answer; the base class measures nothing.

        Args:
            teacher_action: the example: its text, its labels and the fields of the data set.
            labels: the right answers, if there are any.
            model_response: the answer of the model: its text and the fields of the model.
        """
