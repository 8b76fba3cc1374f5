"""The values that an engine logs and records in an epoch: plain numbers, and additive values by task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import isclass
from numbers import Real
from typing import Any

import numpy as np
import torch

from .._text import NOTHING_MEASURED
from ..exceptions import MetricNameError, RunError
from ..metrics.additive import Additive
from ..metrics.registry.names import MICRO, MetricName
from ..metrics.registry.scope import ALL_TASKS, VALIDATION, check_task
from ..metrics.reports import (
    Metrics,
    Report,
    aggregate_named_reports,
    aggregate_unnamed_reports,
    check_additive,
)
from ..records.trial_record import EpochRecord
from ..selection.rules import At
from ..space.values import format_value
from .monitor import RankValues
from .spec import RunSpec
from .split import NOT_LOGGED, NOT_MEASURED, check_split
from .throughput import NO_TASK

Tasks = str | Sequence[str] | None

_MOST_NAMES = 8  # of values that a message lists
_MIXED = "some recorded values name a task and some do not; pass task= with each"


@dataclass(slots=True)
class LastBatch:
    """The last update of a split, which local values are about.

    Attributes:
        task: the task of all rows, or one per row.
        rows: how many there are.
        names: the names whose values for these rows are recorded.
    """

    task: Tasks
    rows: int
    names: frozenset[str] = frozenset()

    def check(self, name: str, count: int) -> None:
        """Check that a name may have a number of values for this batch.

        Raises:
            RunError: there are not as many as rows, or the name was recorded for this batch.
        """
        if count != self.rows:
            raise RunError(
                f"record_local({name!r}) expects one value per example, got {count} for the {self.rows} "
                "rows of the last update"
            )
        if name in self.names:
            raise RunError(
                f"record_local({name!r}): this batch already has its values; call it once per batch"
            )


class LoggedValues:
    """The values that an engine and its data sets log and record in the open epoch.

    Attributes:
        teachers: the teacher of each task.
        last_batches: the last update of each split.
        begin: opens an epoch, or raises if the last one is over; its argument names the call.
    """

    def __init__(self) -> None:
        self.teachers = Teachers()
        self.last_batches: dict[str, LastBatch] = {}
        self.begin: Callable[[str], None] = lambda verb: None
        self._values: dict[str, Any] = {}
        self._reasons: dict[str, str] = {}
        self._recorded: dict[str, Recorded] = {}

    def log(self, values: Mapping[str, Any]) -> None:
        """Keep numbers as they are; a tensor stays where it is until the epoch closes.

        Raises:
            RunError: a value is not a number, or its name has one already or cannot be printed on a line.
        """
        numbers = {}
        for name, value in values.items():
            self._check_name(name, value)
            numbers[name] = value if type(value) is float else _number(name, value)
        self._values |= numbers
        for name in numbers if self._reasons else ():
            self._reasons.pop(name, None)

    def undefined(self, reasons: Mapping[str, str]) -> None:
        """Keep that values are nan and why, until the epoch closes.

        Raises:
            RunError: a reason is not a text, or its name has a number already or cannot be printed on a line.
        """
        for name, reason in reasons.items():
            self._check_name(name, reason)
            if not isinstance(reason, str) or not reason:
                raise RunError(f"undefined({name}=...) expects the reason as text; got {reason!r}")
        self._values |= dict.fromkeys(reasons, math.nan)
        self._reasons |= reasons

    def record_local(self, split: str, name: str, values: Iterable[Additive], task: Tasks) -> None:
        """Record a value per example.

        Raises:
            RunError: there are not as many as rows in the last update, the name was recorded for it, neither
                an update nor `task` says which examples are meant, or the split does not exist.
            MetricInputError, MetricNameError, AdditionError: see `Metrics.add`.
        """
        recorded, values, batch = self.recorded(split), list(values), None
        if task is None:
            if split not in self.last_batches:
                raise RunError(
                    f"record_local({name!r}) must follow the run.update(...) of its examples, or pass "
                    "their task="
                )
            batch = self.last_batches[split]
            batch.check(name, len(values))
            task = batch.task
        recorded.local(name, values, task)
        if batch is not None:
            batch.names |= {name}

    def recorded(self, split: str) -> Recorded:
        """Return the additive values of a split.

        Raises:
            RunError: the split does not exist.
        """
        if split not in self._recorded:
            check_split(split)
            self._recorded[split] = Recorded(self.begin)
        return self._recorded[split]

    def numbers(self) -> RankValues:
        """Return each logged value as a plain number, and the reason of one that is undefined."""
        return {name: float(value) for name, value in self._values.items()}, self._reasons

    def state(self) -> dict[str, dict[str, Report]]:
        """Return the additive values by split and task, with those of teachers that data sets called."""
        if self.teachers:
            for task, metrics in self.teachers.pending():
                self.recorded(VALIDATION).of(task).add_metrics(metrics)
                metrics.clear()
        return {split: recorded.state() for split, recorded in self._recorded.items()}

    def reset(self) -> None:
        """Begin the next epoch."""
        self._values, self._reasons = {}, {}
        self.last_batches.clear()
        for recorded in self._recorded.values():
            recorded.reset()

    def _check_name(self, name: str, value: Any) -> None:
        """Check that a name can be printed and has no number yet: the first would be lost silently."""
        if not name.isprintable() or not name:
            raise RunError(f"the name of a value must be printable characters, got {format_value(name)}")
        if name in self._values and name not in self._reasons:
            raise RunError(
                f"{name} was already logged in this epoch, as {format_value(self._values[name])}, and now "
                f"as {format_value(value)}; log one value per epoch. To average over its batches, call "
                f"run.record_global({name!r}, AverageMetric(value * rows, rows)) for each of them"
            )


def _number(name: str, value: Any) -> Any:
    """Check that a value is one real number; true is not, nor is what only reads as one, such as "0.3"."""
    if isinstance(value, torch.Tensor):
        single = value.numel() == 1 and not value.is_meta
        if single and not value.is_complex() and value.dtype != torch.bool:
            return value.detach()
        came = f"a tensor of shape {tuple(value.shape)} and {value.dtype}"
        raise RunError(f"log({name}=...) expects one number, got {came}")
    is_single = hasattr(value, "item") and getattr(value, "size", 0) == 1  # an array of another library
    plain = value.item() if is_single and not isinstance(value, np.ma.MaskedArray) else value
    if isinstance(plain, bool) or not isinstance(plain, Real):
        raise RunError(
            f"log({name}=...) expects one number, got {format_value(value)}; convert it with int() or float()"
        )
    try:
        return float(plain)
    except OverflowError:
        raise RunError(f"log({name}=...) expects a number of at most 1.8e308, got a larger one") from None


class _GlobalMetrics(Metrics):
    """The additive values of a run, whose `add` is a call of the run, which may hold it for long."""

    def __init__(self, begin: Callable[[str], None]) -> None:
        super().__init__()
        self._begin = begin

    def add(self, name: str, value: Additive | None) -> None:
        """Add a value to the open epoch.

        Raises:
            RunError: the last epoch is over.
            MetricNameError, MetricInputError, AdditionError: see `Metrics.add`.
        """
        self._begin("global_metrics.add")
        super().add(name, value)


class Recorded:
    """The additive values that were recorded in this epoch.

    `global_metrics` takes values that belong to no task; they are recorded under the name alone.

    Args:
        begin: see `LoggedValues`.
    """

    def __init__(self, begin: Callable[[str], None]) -> None:
        self.global_metrics = _GlobalMetrics(begin)
        self._local: dict[str, Metrics] = {}

    def local(self, name: str, values: Sequence[Additive], task: Tasks) -> None:
        """Record a value per example.

        Raises:
            RunError: there are not as many as tasks, or some values name a task and some do not.
            MetricInputError, MetricNameError, AdditionError: see `Metrics.add`.
        """
        tasks = [task] * len(values) if task is None or isinstance(task, str) else list(task)
        if len(tasks) != len(values):
            raise RunError(
                f"record_local({name!r}) expects one value per example, got {len(values)} for {len(tasks)} "
                "tasks"
            )
        for value in values:
            if value is not None:
                check_additive(name, value)
        all_metrics = [self.of(of) for of in tasks]
        for metrics, value in zip(all_metrics, values, strict=True):
            metrics.add(name, value)

    def of(self, task: str | None) -> Metrics:
        """Return the values recorded for a task; for None, those of the only one.

        Raises:
            RunError: some values name a task and some do not.
        """
        key = NO_TASK if task is None else check_task(task)
        if any((key == NO_TASK) != (task_key == NO_TASK) for task_key in self._local):
            raise RunError(_MIXED)
        return self._local.setdefault(key, Metrics())

    def state(self) -> dict[str, Report]:
        """Return the recorded values of each task, the global values under `all`."""
        reports = {task: metrics.report() for task, metrics in self._local.items()}
        return {**reports, ALL_TASKS: self.global_metrics.report()}

    def reset(self) -> None:
        """Begin the next epoch."""
        self.global_metrics.clear()
        self._local.clear()


def together(states: Iterable[Mapping[str, Report]]) -> dict[str, Report]:
    """Add up what several processes recorded, task by task.

    Raises:
        RunError: some of them name tasks and some do not.
    """
    reports: dict[str, Report] = {}
    for state in states:
        for task, report in state.items():
            reports[task] = aggregate_unnamed_reports([reports.get(task, {}), report])
    if NO_TASK in reports and reports.keys() - {NO_TASK, ALL_TASKS}:
        raise RunError(_MIXED)
    return reports


def reading(state: Mapping[str, Report], names: Iterable[str]) -> dict[str, Additive]:
    """Return the recorded values under the names that a record gives them.

    Args:
        state: see `Recorded.state`.
        names: names of required values, possibly with `all/` or `tasks=micro`.

    Raises:
        RunError: a name is both that of a task's value and a global one.
    """
    local = {task: report for task, report in state.items() if task != ALL_TASKS}
    overall = state.get(ALL_TASKS, {})
    by_task = NO_TASK not in local and bool(local)
    values = aggregate_named_reports(local) if by_task else dict(local.get(NO_TASK, {}))
    if clash := sorted(values.keys() & overall.keys()):
        raise RunError(f"{', '.join(clash)}: recorded both per example and globally; use two names")
    values.update(overall)
    for text in names:
        bare, is_micro = _parse_name(text)
        if text not in values and bare in values:
            micro = by_task and is_micro
            source = aggregate_named_reports(local, micro_average=True) if micro else values
            values[text] = source[bare]
    return values


@lru_cache(maxsize=4096)
def _parse_name(text: str) -> tuple[str | None, bool]:
    """Return the bare name and whether it is over all rows, of a name about all tasks; None of other text."""
    try:
        name = MetricName.parse(text)
    except MetricNameError:
        return None, False
    if name.task not in (None, ALL_TASKS) or name.feature is not None or name.split is not None:
        return None, False
    return str(name.bare), name.over_tasks == MICRO


class Teachers(dict[str | None, Any]):
    """The teacher of each task: an object with `custom_evaluation`, or a function."""

    def add(self, teacher: Any, task: str | None) -> None:
        """Register the teacher of a task; a class is called without arguments.

        Raises:
            RunError: the task has one, or the teacher is neither.
        """
        if task in self:
            raise RunError(f"{_format_task(task)} already has a teacher; a teacher can call others")
        instance: Any = teacher() if isclass(teacher) else teacher
        if hasattr(instance, "custom_evaluation"):
            if not isinstance(getattr(instance, "metrics", None), Metrics):
                instance.metrics = Metrics()
        elif not callable(instance):
            raise RunError(
                "a teacher must have custom_evaluation(teacher_action, labels, model_response), or be a "
                f"function of these and metrics; got {type(teacher).__name__}"
            )
        self[task] = instance

    def evaluate(self, task: str | None, action: Any, labels: Any, response: Any, metrics: Metrics) -> None:
        """Measure one answer by the teacher of its task, and add the values of the teacher.

        Raises:
            RunError: the task has no teacher.
        """
        if task not in self:
            tasks = ", ".join(_format_task(each) for each in self) or "none has"
            raise RunError(
                f"{_format_task(task)} has no teacher ({tasks}); run.teach(teacher, task=...) gives it one"
            )
        teacher = self[task]
        if hasattr(teacher, "custom_evaluation"):
            teacher.custom_evaluation(action, labels, response)
        else:
            teacher(action, labels, response, metrics)
        for of, own in self.pending():
            if of == task:
                metrics.add_metrics(own)
                own.clear()

    def pending(self) -> Iterator[tuple[str | None, Metrics]]:
        """Yield by task the values that teachers have added to their own metrics and nobody has collected."""
        for task, teacher in self.items():
            own = getattr(teacher, "metrics", None)
            if isinstance(own, Metrics) and own.report():
                yield task, own


def _format_task(task: str | None) -> str:
    return "the run" if task is None else f"task {task!r}"


def is_idle(history: Iterable[EpochRecord], names: Iterable[str]) -> bool:
    """Return whether nothing was measured or reported of these metrics in any epoch."""
    names = list(names)
    reasons = (record.reasons.get(name, "") for record in history for name in names)
    return all(reason.startswith((NOTHING_MEASURED, NOT_MEASURED, NOT_LOGGED)) for reason in reasons)


def why_no_value(spec: RunSpec, history: Sequence[EpochRecord], is_open: bool = False) -> str:
    """Return why the picked epoch of a run has no finite value; one that is open does not count yet."""
    count, names = len(history), list(spec.optimized)
    name = next((one for one in names if not _has_value(spec, history, one)), None)
    if name is None:
        return f"none of {count} epochs has a finite value of each of {', '.join(names)}"
    which = "not the last" if spec.at is At.LAST and count else "none"
    reasons = [record.reasons[name] for record in history if name in record.reasons]
    reason = f": {reasons[-1]}" if reasons and reasons[-1] else ""
    hint = _missing_call(spec, history, name)
    if is_open:
        hint = "; the open epoch counts at the end of the loop's body; after a break, call run.close()"
    return f"{name}: {which} of {count} epochs has a finite value{reason}{hint}"


def _missing_call(spec: RunSpec, history: Sequence[EpochRecord], name: str) -> str:
    """Return the call that the engine lacks, if it has measured or reported nothing of a metric."""
    if not is_idle(history, [name]):
        return ""
    is_reported = any(one.reported for one in spec.objectives if one.name == name)
    call = f"run.log({name}=...)" if is_reported and name.isidentifier() else "run.update(...)"
    if is_reported and not name.isidentifier():
        call = f"run.log(**{{{name!r}: ...}})"
    where = "each epoch" if history else "each epoch, in the body of: for epoch in run.epochs(n)"
    others = [other for record in history[-1:] for other in record.values if _has_value(spec, history, other)]
    there = f"; it reported {', '.join(others[:_MOST_NAMES])}" if others else ""
    return f"; the engine must call {call} in {where}{there}"


def _has_value(spec: RunSpec, history: Sequence[EpochRecord], name: str) -> bool:
    epochs = history[-1:] if spec.at is At.LAST else history
    return any(math.isfinite(record.number(name)) for record in epochs)
