"""Tasks: reports of several tasks as one, and those of several workers as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..exceptions import AdditionError, MetricInputError
from .additive import Additive, MacroAverageMetric
from .registry.scope import check_task
from .reports import Metrics, Report, added, check_additive


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
