"""The value of a metric for each row of a batch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from .._device import without_autograd
from .._state import disable_sync
from ..aggregation import RowValues
from ..batch import Outputs
from ..metric import MeanMetric, Metric

_NEAR = 1e-5  # relative; a metric may measure in float32


def measure_rows(metrics: Iterable[Metric], batch: Outputs) -> dict[str, RowValues]:
    """Measure each row of a batch by itself; a metric with one value for the whole batch has no entry.

    A row that a metric leaves out has weight 0. Some metrics cannot compute the values of all rows at once
    (`Metric.row_values`). They are measured on one row after the other, with an update for each.

    Args:
        metrics: copies that belong to the caller, see `Metric.alone`; they are reset.
        batch: the whole batch.

    >>> from hpometrics.metrics.registry.register import get_metric
    >>> metric = get_metric("accuracy", "binary")
    >>> batch = metric.batch(None, [1, 0], {"predictions": [1, 1]})
    >>> measure_rows([metric], batch)["accuracy"].values.tolist()
    [1.0, 0.0]
    """
    members = list(metrics)
    with without_autograd():
        for metric in members:
            metric.prepare(batch)
            for statistic in metric.kept.values():
                statistic.prepare(batch)
        row_values = {metric.name: _rows_of(metric, batch) for metric in members}
    return {name: rows for name, rows in row_values.items() if rows is not None}


def has_row_values(metric: Metric) -> bool:
    """Return whether the metric can compute the values of all rows at once, without an update for each."""
    return type(metric).row_values is not Metric.row_values


def is_mean_of_rows(metric: Metric, batch: Outputs) -> bool:
    """Return whether the value of a batch is the weighted mean of the values of its rows."""
    rows = measure_rows([metric], batch).get(metric.name)
    whole = _value(metric, batch)
    if rows is None or whole.ndim:
        return False
    values = torch.where(rows.weights > 0, rows.values, 0.0)
    mean = (values * rows.weights).sum() / rows.weights.sum()
    return bool(torch.isclose(mean, whole.double(), rtol=_NEAR, atol=1e-9))


def _rows_of(metric: Metric, batch: Outputs) -> RowValues | None:
    row_values = metric.row_values(batch)
    alone = row_values is None and not isinstance(metric, MeanMetric)
    return _one_by_one(metric, batch) if alone else row_values


def _one_by_one(metric: Metric, batch: Outputs) -> RowValues | None:
    places = torch.arange(len(batch), device=batch.target.device)
    values, weights = [], []
    for place in range(len(batch)):
        value = _value(metric, batch.rows(places == place))
        if value.ndim:
            return None
        values.append(value.double())
        weights.append(0.0 if metric.undefined_reason else 1.0)
    if not values:
        return None
    return RowValues(torch.stack(values), torch.tensor(weights, dtype=torch.float64, device=values[0].device))


def _value(metric: Metric, batch: Outputs) -> Tensor:
    metric.reset()
    disable_sync(metric)  # a row belongs to this process alone
    with without_autograd():
        metric.observe(batch)
    return torch.as_tensor(metric.compute())
