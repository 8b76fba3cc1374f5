"""Teacher: what a data set measures of a model's answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from .reports import Metrics


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
