"""Row values: what each row of a batch has by a metric that is a mean over rows, and whether one is."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ._device import without_autograd
from .aggregation import RowValues
from .batch import Outputs
from .metric import MeanMetric, Metric

_NEAR = 1e-5  # relative; a metric may measure in float32


def measured_rows(metrics: Iterable[Metric], batch: Outputs) -> dict[str, RowValues]:
    """Measure each row of a batch by itself; of a metric with one value for the whole batch there is none.

    A row that a metric leaves out weighs 0. A metric that does not have the values of rows at hand
    (`Metric.row_values`) is measured on one row after the other, which takes that many updates.

    Args:
        metrics: the caller's own, see `Metric.alone`; what they have measured is forgotten.
        batch: all of it.

    >>> from hpometrics.metrics.registry.register import get_metric
    >>> metric = get_metric("accuracy", "binary")
    >>> batch = metric.batch(None, [1, 0], {"predictions": [1, 1]})
    >>> measured_rows([metric], batch)["accuracy"].values.tolist()
    [1.0, 0.0]
    """
    listed = list(metrics)
    with without_autograd():
        for metric in listed:
            metric.prepare(batch)
            for statistic in metric.kept.values():
                statistic.prepare(batch)
        found = {metric.name: _measured(metric, batch) for metric in listed}
    return {name: rows for name, rows in found.items() if rows is not None}


def is_at_hand(metric: Metric) -> bool:
    """Whether it can have the values of rows at hand, and need not be measured on one after the other."""
    return type(metric).row_values is not Metric.row_values


def is_mean_of_rows(metric: Metric, batch: Outputs) -> bool:
    """Whether the value of a batch is the weighted mean of the values of its rows."""
    rows = measured_rows([metric], batch).get(metric.name)
    whole = _value(metric, batch)
    if rows is None or whole.ndim:
        return False
    values = torch.where(rows.weights > 0, rows.values, 0.0)
    mean = (values * rows.weights).sum() / rows.weights.sum()
    return bool(torch.isclose(mean, whole.double(), rtol=_NEAR, atol=1e-9))


def _measured(metric: Metric, batch: Outputs) -> RowValues | None:
    found = metric.row_values(batch)
    alone = found is None and not isinstance(metric, MeanMetric)
    return _one_by_one(metric, batch) if alone else found


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
    metric._to_sync = False  # a row is this process's own
    with without_autograd():
        metric.observe(batch)
    return torch.as_tensor(metric.compute())
