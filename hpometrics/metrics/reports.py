"""Metrics: additive values by name, as they come in while a model trains or is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from ..exceptions import AdditionError, HpometricsError, MetricInputError, MetricNameError
from .additive import Additive, MacroAverageMetric
from .registry.names import MetricName
from .registry.scope import check_task

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
    """Return the sum of two values of one name; an error says which name.

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
    """Return the name of a metric alone, as it prints.

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


def aggregate_named_reports(
    reports: Mapping[str, Mapping[str, Additive]], micro_average: bool = False
) -> Report:
    """Put the reports of tasks together: `task/name` of each task, and `name` of all of them.

    The value of all tasks is, over the tasks that have it, the mean of theirs if its type is macro-averaged
    (`AverageMetric`), else their sum. A global value has no `task/name`; those of several tasks are added,
    so what is measured once is reported by one of them. One task gives the same names as several, so that
    workers of different tasks can be put together by `aggregate_unnamed_reports`.

    Args:
        reports: the report of each task by its name.
        micro_average: add up macro-averaged values too: every example counts alike, whatever its task.

    Raises:
        MetricInputError: there is no report, one has what is no additive value, or fixed values differ.
        MetricNameError: a task has no name, or one that cannot be part of a metric's name; a report has a
            name that is not a metric's alone.
        AdditionError: tasks report one name with values of different types.

    >>> from hpometrics import AverageMetric, SumMetric
    >>> a = {"f1": AverageMetric(1, 2), "exs": SumMetric(2)}
    >>> b = {"f1": AverageMetric(9, 10), "exs": SumMetric(10)}
    >>> {name: value.value() for name, value in aggregate_named_reports({"a": a, "b": b}).items()}
    {'f1': 0.7, 'a/f1': 0.5, 'b/f1': 0.9, 'exs': 12.0, 'a/exs': 2.0, 'b/exs': 10.0}
    """
    if not reports:
        raise MetricInputError("reports of tasks are put together from at least one, got none")
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
    """Put reports of the same tasks together, such as those of workers: what has one name is added.

    Raises:
        MetricInputError: there is no report, one has what is no additive value, or fixed values differ.
        AdditionError: reports have one name with values of different types.

    >>> from hpometrics import SumMetric
    >>> aggregate_unnamed_reports([{"exs": SumMetric(2)}, {"exs": SumMetric(3)}])
    {'exs': SumMetric(total=5)}
    """
    reports = list(reports)
    if not reports:
        raise MetricInputError("reports are put together from at least one, got none")
    together: Report = {}
    for report in reports:
        for name, value in report.items():
            check_additive(name, value)
            together[name] = added(name, together[name], value) if name in together else value
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
        first = added(name, first, other)
    return first


def _check_one_type(name: str, values: Mapping[str, Additive]) -> None:
    kinds = {type(value): task for task, value in values.items()}
    if len(kinds) > 1:
        came = " and ".join(f"{kind.__name__} by {task!r}" for kind, task in kinds.items())
        raise AdditionError(
            f"{name!r}: tasks report a name with values of one type, got {came}; name them apart"
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
        """What was measured so far; there from the first use, whatever a subclass does in its `__init__`."""
        return Metrics()

    def custom_evaluation(
        self,
        teacher_action: Mapping[str, Any],
        labels: tuple[str, ...] | None,
        model_response: Mapping[str, Any],
    ) -> None:
        """Measure one answer; the base class measures nothing.

        Args:
            teacher_action: what the model was shown: its text, its labels, fields of the data set's own.
            labels: the right answers, if there are any.
            model_response: what the model answered: its text, fields of the model's own.
        """
