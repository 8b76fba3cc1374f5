"""The values and weights that one batch adds to a mean over rows, in total and by row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._redaction import excerpt
from ..exceptions import MetricInputError, StateError
from ._checks import SHORT_LIST
from ._device import number, on_host, send_to
from ._state import StatefulMetric
from .batch import Outputs
from .statistics.totals import Sums

Value = Tensor | float | list[float | None] | None
Measured = Value | tuple[Value, Any]
"""The result of `get_current_value`: values, or a pair of values and weights."""
SUM, WEIGHT = "avg_sum", "avg_weight"
"""The names of the metric's states that hold its average."""


class RowValues(NamedTuple):
    """The value and weight of each row in a mean over rows, (N,) float64; a row left out has weight 0."""

    values: Tensor
    weights: Tensor


def mask_unknown_labels(measured: Measured, mask: Tensor | None) -> Measured:
    """Return the measurement with weight 0 for the unknown labels of a set, if each label has a value.

    Args:
        measured: as for `weighed`.
        mask: which labels are known, (N, L) bool; None if all are.
    """
    value, weight = measured if isinstance(measured, tuple) else (measured, None)
    if mask is None or not isinstance(value, Tensor) or value.shape != mask.shape:
        return measured
    return value, mask if weight is None else mask * send_to(torch.as_tensor(weight), mask.device)


def weighed_rows(measured: Measured, target: Tensor, name: str) -> RowValues | None:
    """Return the value and the weight of each row of a batch; None if there is one value for all rows.

    Args:
        measured: as for `weighed`; several values of a row are averaged by their weights.
        target: the target of the batch.
        name: the name of the metric, for errors.

    Raises:
        MetricInputError: the values or weights do not have one entry per row.
    """
    value, weight = _split(measured, name)
    rows = target.shape[0] if target.ndim else 0
    if value is None:
        zero = torch.zeros(rows, dtype=torch.float64, device=target.device)
        return RowValues(torch.full_like(zero, torch.nan), zero)
    if not value.ndim:
        return None
    _check_rows(value, rows, name)
    value = value.double()
    if weight is None:
        weights = torch.ones_like(value)
    else:
        weights = _check_weights(send_to(torch.as_tensor(weight), value.device), value, name)
    weighted = torch.where(weights == 0, 0.0, value) * weights
    total = weights.reshape(rows, -1).sum(1)
    return RowValues(weighted.reshape(rows, -1).sum(1) / total, total)


def weighed(measured: Measured, target: Tensor, row_weight: Tensor | None, name: str) -> Sums:
    """Return the weighted sum and the weight of a batch, plain numbers on the CPU, else 0-d float64.

    Args:
        measured: a value per row, or one for the batch, whose weight is the number of rows; with it a weight
            or a mask of those that count. None leaves the batch out, and in a list its row.
        target: the target of the batch.
        row_weight: the weight of each row, (N,); None if each counts 1.
        name: the name of the metric, for errors.

    Raises:
        MetricInputError: the values or weights do not have one entry per row.
    """
    value, weight = _split(measured, name)
    if value is None:
        zero = torch.zeros((), dtype=torch.float64, device=target.device)
        return zero, zero
    rows = target.shape[0] if target.ndim else 0
    _check_rows(value, rows, name)
    if weight is None and row_weight is None:
        return _sum_and_count(value, rows)
    if weight is None:
        weights = _weights_by_value(value, row_weight, name)
    else:
        weights = _check_weights(send_to(torch.as_tensor(weight), value.device), value, name)
        weights = weights if row_weight is None else weights * _weights_by_value(value, row_weight, name)
    masked_values = torch.where(weights == 0, 0.0, value.double())
    return (masked_values * weights).sum(), weights.sum()


def _split(measured: Measured, name: str) -> tuple[Tensor | None, Any]:
    """Return values and weights; a row whose value is None in a list has weight 0."""
    value, weight = measured if isinstance(measured, tuple) else (measured, None)
    if value is None or isinstance(value, Tensor):
        return value, weight
    if not (isinstance(value, list) and any(one is None for one in value)):
        return _tensor(value, name), weight
    has_value = torch.tensor([one is not None for one in value])
    own = has_value if weight is None else torch.as_tensor(weight)
    values = _tensor([0.0 if one is None else one for one in value], name)
    return values, own * has_value if own.shape == has_value.shape else own


def _tensor(value: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise MetricInputError(
            f"{name}: get_current_value must return one value, or one per row, got {excerpt(value, 80)}"
        ) from None


def _check_rows(value: Tensor, rows: int, name: str) -> None:
    if value.ndim and value.shape[0] != rows:
        raise MetricInputError(
            f"{name}: get_current_value must return one value, or one per row; the batch has {rows} rows, "
            f"got shape {tuple(value.shape)}"
        )


def _sum_and_count(value: Tensor, rows: int) -> Sums:
    """Return the sum and the number of values with weight 1; few values are added up faster as a list."""
    if not on_host(value):
        count = number(value.numel() if value.ndim else rows, value, torch.float64)
        return (value.sum(dtype=torch.float64) if value.ndim else value.double() * count), count
    if not value.ndim:
        return float(value.item()) * rows, float(rows)
    few = value.ndim == 1 and value.numel() <= SHORT_LIST
    total = sum(value.tolist()) if few else value.sum(dtype=torch.float64).item()
    return float(total), float(value.numel())


def _weights_by_value(value: Tensor, weight: Tensor | None, name: str) -> Tensor:
    """Return the weights of the rows in the shape of the values."""
    if not value.ndim or weight is None:
        raise MetricInputError(
            f"{name} returns one value for a whole batch, so its rows cannot be weighted; leave out "
            "sample_weight=, or return one value per row"
        )
    return weight.view(-1, *[1] * (value.ndim - 1)).expand(value.shape)


def _check_weights(weight: Tensor, value: Tensor, name: str) -> Tensor:
    """Return the measured weights as float64, one for each value, or raise if they are not weights."""
    if value.ndim and weight.shape != value.shape:
        raise MetricInputError(
            f"{name}: values have shape {tuple(value.shape)}, but weights have {tuple(weight.shape)}"
        )
    share = weight.double() if value.ndim else weight.sum(dtype=torch.float64)
    if on_host(share) and not bool(((weight >= 0) & weight.isfinite()).all()):
        raise MetricInputError(
            f"{name}: a weight must be a finite number of at least 0, got {excerpt(weight.tolist(), 250)}"
        )
    return share


class Average:
    """The mean over rows of the values that `update` adds; its sum and weight are states of the metric.

    Args:
        metric: the metric whose states these are.
    """

    def __init__(self, metric: StatefulMetric) -> None:
        self._metric = metric
        self._batch: Outputs | None = None
        for name in (SUM, WEIGHT):
            metric.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    @property
    def is_open(self) -> bool:
        """Whether the metric is measuring a batch."""
        return self._batch is not None

    @contextmanager
    def of(self, batch: Outputs) -> Iterator[None]:
        """Assign the values that are added inside this context to a batch."""
        self._batch = batch
        try:
            yield
        finally:
            self._batch = None

    def update(self, value: Any, weight: Any = None) -> None:
        """Add values of the batch that the metric is measuring.

        Args:
            value: as `get_current_value` returns it: one per row, or one for the batch, whose weight is then
                its number of rows.
            weight: the weight of each value, or a bool mask of those that count.

        Raises:
            MetricInputError: the values or weights do not have one entry per row.
            StateError: the metric is not measuring a batch.
        """
        metric, batch = self._metric, self._batch
        if batch is None:
            raise StateError(f"{metric.name}: call avg.update in update(preds, target)")
        measured = mask_unknown_labels(value if weight is None else (value, weight), batch.known)
        for name, more in zip((SUM, WEIGHT), weighed(measured, batch.target, None, metric.name), strict=True):
            setattr(metric, name, getattr(metric, name) + more)

    @property
    def mean(self) -> Tensor | None:
        """The mean, 0-d float64; None if the total weight is 0."""
        total, weight = getattr(self._metric, SUM), getattr(self._metric, WEIGHT)
        return total / weight if weight > 0 else None

    def compute(self) -> Tensor:
        """Return the mean; nan if the total weight is 0."""
        mean = self.mean
        return torch.tensor(torch.nan, dtype=torch.float64) if mean is None else mean
