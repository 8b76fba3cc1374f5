"""Recording: how an engine and its data sets record values of their own, per example or of the whole run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..metrics.additive import Additive
from ..metrics.registry.scope import VALIDATION
from ..metrics.reports import Metrics
from .epoch import Panels
from .teachers import Teachers


class Recording:
    """The part of a run that takes additive values; see `Run`."""

    def __init__(self, panels: Panels) -> None:
        self._panels = panels
        self._teachers = Teachers()

    @property
    def global_metrics(self) -> Metrics:
        """Takes additive values of the run that belong to no task, from anywhere in the engine.

        `run.global_metrics.add("my_metric", AverageMetric(1, 2))`
        """
        return self._panels.recorded(VALIDATION).global_metrics

    def record_local(
        self,
        name: str,
        values: Iterable[Additive],
        *,
        task: str | Sequence[str] | None = None,
        split: str = VALIDATION,
    ) -> None:
        """Record a value for each example of the last update, so that every task has its own.

        Args:
            name: the record calls it that, and `task/name` of each task.
            values: one per row, as `AverageMetric.many(hits, tokens)` makes them.
            task: the task of all, or of each, where there was no update.
            split: the split of that update.

        Raises:
            RunError: there are more or fewer than rows, or the name is taken.
            MetricInputError, MetricNameError, AdditionError: see `Metrics.add`.
        """
        self._panels.refuse_measured(name)
        self._begin("record_local")
        self._panels.recorded(split).local(name, values, task)

    def record_global(self, name: str, value: Additive, *, split: str = VALIDATION) -> None:
        """Record a value of the run that belongs to no task, as `run.global_metrics.add` does.

        Raises:
            RunError: the name is taken.
            MetricInputError, MetricNameError, AdditionError: see `Metrics.add`.
        """
        self._panels.refuse_measured(name)
        self._begin("record_global")
        self._panels.recorded(split).global_metrics.add(name, value)

    def teach(self, teacher: Any, *, task: str | None = None) -> None:
        """Register what measures the answers to one data set.

        Args:
            teacher: an object or class with `custom_evaluation(teacher_action, labels, model_response)` that
                adds to `self.metrics` (see `Teacher`), or a function of these three and `metrics`.
            task: the data set's; None where there is one.

        Raises:
            RunError: the task has a teacher.
        """
        self._teachers.add(teacher, task)

    def evaluate_response(
        self,
        teacher_action: Any,
        labels: Any,
        model_response: Any,
        *,
        task: str | None = None,
        split: str = VALIDATION,
    ) -> None:
        """Let the teacher of a task measure one answer.

        Args:
            teacher_action: what the model was shown.
            labels: the right answers, or None.
            model_response: what the model answered.
            task: whose teacher.
            split: what it was shown of.

        Raises:
            RunError: the task has no teacher, or it records a name that is taken.
        """
        self._begin("evaluate_response")
        recorded = self._panels.recorded(split).of(task)
        self._teachers.evaluate(task, teacher_action, labels, model_response, recorded)

    def _begin(self, what: str) -> None:
        """Take something into the epoch."""
        raise NotImplementedError(f"a run says what {what} begins")

    def _collect(self) -> None:
        """Take in what teachers have measured that the data sets themselves called."""
        for task, metrics in self._teachers.left():
            self._panels.recorded(VALIDATION).of(task).add_metrics(metrics)
            metrics.clear()
