"""Recorded: additive values of one split that engines and data sets record, by task and over all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..exceptions import MetricNameError, RunError
from ..metrics.additive import Additive
from ..metrics.registry.names import MICRO, MetricName
from ..metrics.registry.scope import ALL_TASKS, check_task
from ..metrics.reports import Metrics, Report
from ..metrics.tasks import aggregate_named_reports, aggregate_unnamed_reports
from .throughput import NO_TASK

Tasks = str | Sequence[str] | None

_MIXED = "some recorded values name a task and some do not; say task= with each"


class Recorded:
    """What was recorded in this epoch.

    `global_metrics` takes values that belong to no task; they are recorded under the name alone.
    """

    def __init__(self) -> None:
        self.global_metrics = Metrics()
        self._local: dict[str, Metrics] = {}
        self._batch: tuple[Tasks, int] | None = None
        self._seen: set[str] = set()

    def batch(self, task: Tasks, rows: int) -> None:
        """Note the batch that local values will be about."""
        self._batch = task, rows
        self._seen.clear()

    def local(self, name: str, values: Iterable[Additive], task: Tasks) -> None:
        """Record a value per example.

        Raises:
            RunError: there are not as many as rows in the batch, the name was recorded for this batch, or it
                is not known which examples are meant.
            MetricInputError, MetricNameError, AdditionError: see `Metrics.add`.
        """
        values = list(values)
        task = self._of_last_batch(name, len(values)) if task is None else task
        tasks = [task] * len(values) if task is None or isinstance(task, str) else list(task)
        if len(tasks) != len(values):
            raise RunError(
                f"record_local({name!r}) takes a value per example, got {len(values)} for {len(tasks)} tasks"
            )
        for of, value in zip(tasks, values, strict=True):
            self.of(of).add(name, value)

    def of(self, task: str | None) -> Metrics:
        """What was recorded of one task; of None, of the only one.

        Raises:
            RunError: other values do name a task.
        """
        key = NO_TASK if task is None else check_task(task)
        if any((key == NO_TASK) != (held == NO_TASK) for held in self._local):
            raise RunError(_MIXED)
        return self._local.setdefault(key, Metrics())

    def state(self) -> dict[str, Report]:
        """What was recorded, of each task, the global values under `all`."""
        reports = {task: metrics.report() for task, metrics in self._local.items()}
        return {**reports, ALL_TASKS: self.global_metrics.report()}

    def reset(self) -> None:
        """Begin the next epoch."""
        self.global_metrics.clear()
        self._local.clear()
        self._batch = None

    def _of_last_batch(self, name: str, count: int) -> Tasks:
        if self._batch is None:
            raise RunError(
                f"record_local({name!r}) comes after run.update(...) of the examples that it is about, or "
                "says their task="
            )
        task, rows = self._batch
        if count != rows:
            raise RunError(
                f"record_local({name!r}) takes a value per example, got {count} for the {rows} rows of the "
                "last update"
            )
        if name in self._seen:
            raise RunError(f"record_local({name!r}): this batch has its values already; one call per batch")
        self._seen.add(name)
        return task


def together(states: Iterable[Mapping[str, Report]]) -> dict[str, Report]:
    """Add up what several processes recorded, task by task.

    Raises:
        RunError: some of them name tasks and some do not.
    """
    found: dict[str, Report] = {}
    for state in states:
        for task, report in state.items():
            found[task] = aggregate_unnamed_reports([found.get(task, {}), report])
    if NO_TASK in found and found.keys() - {NO_TASK, ALL_TASKS}:
        raise RunError(_MIXED)
    return found


def reading(state: Mapping[str, Report], asked: Iterable[str]) -> dict[str, Additive]:
    """Give what was recorded under the names that a record calls it.

    Args:
        state: see `Recorded.state`.
        asked: names of values that are to be there, which may say `all/` or `tasks=micro`.

    Raises:
        RunError: a name is both that of a task's value and a global one.
    """
    local = {task: report for task, report in state.items() if task != ALL_TASKS}
    overall = state.get(ALL_TASKS, {})
    named = NO_TASK not in local and bool(local)
    found = aggregate_named_reports(local) if named else dict(local.get(NO_TASK, {}))
    if clash := sorted(found.keys() & overall.keys()):
        raise RunError(f"{', '.join(clash)}: recorded both per example and globally; name them apart")
    found.update(overall)
    for text in asked:
        name = _parsed(text)
        if name is not None and text not in found and str(name.bare) in found:
            micro = named and name.over_tasks == MICRO
            told = aggregate_named_reports(local, micro_average=True) if micro else found
            found[text] = told[str(name.bare)]
    return found


def _parsed(asked: str) -> MetricName | None:
    """The name, if it is about all tasks; None of any other text."""
    try:
        name = MetricName.parse(asked)
    except MetricNameError:
        return None
    return name if name.task in (None, ALL_TASKS) and name.feature is None and name.split is None else None
