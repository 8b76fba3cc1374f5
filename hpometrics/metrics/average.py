"""Average: what an `update` of one's own adds to, as the `self.avg` of Ludwig's MeanMetric."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..exceptions import StateError
from .aggregation import of_known, weighed
from .batch import Outputs

if TYPE_CHECKING:
    from .metric import MeanMetric

SUM, WEIGHT = "avg_sum", "avg_weight"
"""The states of its metric that hold it."""


class Average:
    """The mean over rows of what `update` measures; its sum and weight are states of the metric.

    Args:
        metric: whose mean it is.
    """

    def __init__(self, metric: MeanMetric) -> None:
        self._metric = metric
        self._batch: Outputs | None = None
        for name in (SUM, WEIGHT):
            metric.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    @property
    def is_open(self) -> bool:
        """Whether the metric is being given a batch."""
        return self._batch is not None

    @contextmanager
    def of(self, batch: Outputs) -> Iterator[None]:
        """Take what is measured meanwhile for that of a batch."""
        self._batch = batch
        try:
            yield
        finally:
            self._batch = None

    def update(self, value: Any, weight: Any = None) -> None:
        """Add what was measured of the batch that the metric is being given.

        Args:
            value: as `get_current_value` returns it: one per row, or one for the batch, which then weighs as
                much as the batch has rows.
            weight: of each value, or a bool mask of those that count.

        Raises:
            MetricInputError: the values or weights do not have one entry per row.
            StateError: the metric is not being given a batch.
        """
        metric, batch = self._metric, self._batch
        if batch is None:
            raise StateError(f"{metric.name}: avg.update belongs into update(preds, target)")
        measured = of_known(value if weight is None else (value, weight), batch.known)
        for name, more in zip((SUM, WEIGHT), weighed(measured, batch.target, None, metric.name), strict=True):
            setattr(metric, name, getattr(metric, name) + more)

    @property
    def mean(self) -> Tensor | None:
        """The mean, 0-d float64; None where nothing weighs anything."""
        total, weight = getattr(self._metric, SUM), getattr(self._metric, WEIGHT)
        return total / weight if weight > 0 else None

    def compute(self) -> Tensor:
        """Return the mean; nan where nothing weighs anything."""
        mean = self.mean
        return torch.tensor(torch.nan, dtype=torch.float64) if mean is None else mean
