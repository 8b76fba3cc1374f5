"""Teachers: what the data sets of a run measure of the model's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import isclass
from typing import Any

from ..exceptions import RunError
from ..metrics.reports import Metrics

Function = Callable[[Any, Any, Any, Metrics], object]


class Teachers:
    """The teacher of each task: an object with `custom_evaluation`, or a function."""

    def __init__(self) -> None:
        self._by_task: dict[str | None, Any] = {}

    def add(self, teacher: Any, task: str | None) -> None:
        """Register the teacher of a task; a class is called without arguments.

        Raises:
            RunError: the task has one, or it is neither.
        """
        if task in self._by_task:
            raise RunError(f"{_named(task)} has a teacher already; one can call others")
        made: Any = teacher() if isclass(teacher) else teacher
        if hasattr(made, "custom_evaluation"):
            if not isinstance(getattr(made, "metrics", None), Metrics):
                made.metrics = Metrics()
        elif not callable(made):
            raise RunError(
                "a teacher has custom_evaluation(teacher_action, labels, model_response), or is a function "
                f"of these and metrics; got {type(teacher).__name__}"
            )
        self._by_task[task] = made

    def evaluate(self, task: str | None, action: Any, labels: Any, response: Any, metrics: Metrics) -> None:
        """Let the teacher of a task measure one answer, and take in what it adds.

        Raises:
            RunError: the task has no teacher.
        """
        if task not in self._by_task:
            known = ", ".join(_named(each) for each in self._by_task) or "none has"
            raise RunError(
                f"{_named(task)} has no teacher ({known}); run.teach(teacher, task=...) gives it one"
            )
        teacher = self._by_task[task]
        if hasattr(teacher, "custom_evaluation"):
            teacher.custom_evaluation(action, labels, response)
        else:
            teacher(action, labels, response, metrics)
        for of, own in self.left():
            if of == task:
                metrics.add_metrics(own)
                own.clear()

    def left(self) -> Iterator[tuple[str | None, Metrics]]:
        """What teachers have added to their own metrics and nobody has taken in, by task."""
        for task, teacher in self._by_task.items():
            own = getattr(teacher, "metrics", None)
            if isinstance(own, Metrics) and own.report():
                yield task, own


def _named(task: str | None) -> str:
    return "the run" if task is None else f"task {task!r}"
