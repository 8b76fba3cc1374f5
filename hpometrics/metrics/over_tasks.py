"""Over tasks: one value of several tasks, the mean of theirs or that of all their rows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .collection import MetricCollection
from .registry.names import MACRO, MICRO

Value = tuple[Tensor, str | None]
"""A value, and why it is nan."""

_NAN = torch.tensor(torch.nan, dtype=torch.float64)


class OverTasks:
    """The values of all tasks together.

    Args:
        tasks: what measured each of them.
        values: what each measured, by metric.
    """

    def __init__(
        self, tasks: Mapping[str, MetricCollection], values: Mapping[str, Mapping[str, Tensor]]
    ) -> None:
        self._tasks, self._values = tasks, values
        self._whole: MetricCollection | None = None
        self._pooled: dict[str, Tensor] = {}

    def value(self, key: str, way: str | None) -> Value:
        """The value of a metric.

        Args:
            key: the metric's name.
            way: `macro`, `micro`, or None for the metric's own way.
        """
        pooled = way == MICRO or (way is None and self._pools(key))
        return self._of_all_rows(key) if pooled else self._mean(key)

    def _pools(self, key: str) -> bool:
        """Whether a metric is by its nature measured over the rows of all tasks."""
        having = next(task for task, values in self._values.items() if key in values)
        return self._tasks[having][key].pools_tasks or self._values[having][key].ndim > 0

    def _mean(self, key: str) -> Value:
        """The unweighted mean over the tasks that have the metric; nan if one of them is."""
        each = {task: values[key] for task, values in self._values.items() if key in values}
        if any(value.ndim for value in each.values()):
            return _NAN, f"{key} is no single number, so that tasks have no mean; leave tasks={MACRO} out"
        for task in each:
            if (reason := self._tasks[task].reasons.get(key)) is not None:
                return _NAN, f"{task}/{key}: {reason}"
        return torch.stack(list(each.values())).mean(), None

    def _of_all_rows(self, key: str) -> Value:
        if self._whole is None:
            self._whole = self._merged()
            self._pooled = self._whole.compute(synchronize=False)
        if key not in self._pooled:
            return _NAN, f"{key} could be measured in some of the tasks only"
        return self._pooled[key], self._whole.reasons.get(key)

    def _merged(self) -> MetricCollection:
        """The rows of all tasks as those of one, measured by the metrics that all of them have."""
        first, *others = sorted(self._tasks.values(), key=lambda part: len(part.names))
        if not others:
            return first
        whole = first.fresh()
        for part in self._tasks.values():
            whole.merge_state(whole.part_of(part.state_dict()))
        return whole
