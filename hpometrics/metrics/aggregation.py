"""Weighing: what a measurement of one batch adds to a mean over rows, as a whole and by row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .._redaction import excerpt
from ..exceptions import MetricInputError, StateError
from ._buffer import SHORT_LIST
from ._device import number, on_host, sent
from .batch import Outputs
from .statistics.totals import Sums

if TYPE_CHECKING:
    from .metric import MeanMetric


Value = Tensor | float | list[float | None] | None
Measured = Value | tuple[Value, Any]


class RowValues(NamedTuple):
    """What each row adds to a mean over rows: value and weight, (N,) float64; weight 0 is a row left out."""

    values: Tensor
    weights: Tensor


def of_known(measured: Measured, known: Tensor | None) -> Measured:
    """Let only those labels of a set count that are known, where each of them has a value.

    Args:
        measured: as `weighed` takes it.
        known: which labels are, (N, L) bool; None if all are.
    """
    value, weight = measured if isinstance(measured, tuple) else (measured, None)
    if known is None or not isinstance(value, Tensor) or value.shape != known.shape:
        return measured
    return value, known if weight is None else known * sent(torch.as_tensor(weight), known.device)


def weighed_rows(measured: Measured, target: Tensor, name: str) -> RowValues | None:
    """Return the value and the weight of each row of a batch; None where it has one value for all rows.

    Args:
        measured: as `weighed` takes it; several values of a row are averaged by their weights.
        target: that of the batch.
        name: whose measurement it is.

    Raises:
        MetricInputError: the values or weights do not have one entry per row.
    """
    value, weight = _opened(measured, name)
    rows = target.shape[0] if target.ndim else 0
    if value is None:
        zero = torch.zeros(rows, dtype=torch.float64, device=target.device)
        return RowValues(torch.full_like(zero, torch.nan), zero)
    if not value.ndim:
        return None
    _check_rows(value, rows, name)
    value = value.double()
    if weight is None:
        share = torch.ones_like(value)
    else:
        share = _checked(sent(torch.as_tensor(weight), value.device), value, name)
    counted = torch.where(share == 0, 0.0, value) * share
    total = share.reshape(rows, -1).sum(1)
    return RowValues(counted.reshape(rows, -1).sum(1) / total, total)


def weighed(measured: Measured, target: Tensor, row_weight: Tensor | None, name: str) -> Sums:
    """Return the weighted sum and the weight of a batch: on the CPU plain numbers will do, else 0-d float64.

    Args:
        measured: a value per row, or one for the batch, which weighs as much as the batch has rows; with it
            a weight or a mask of those that count. None leaves the batch out, and in a list its row.
        target: that of the batch.
        row_weight: how much each row counts, (N,); None if each counts 1.
        name: whose measurement it is.

    Raises:
        MetricInputError: the values or weights do not have one entry per row.
    """
    value, weight = _opened(measured, name)
    if value is None:
        zero = torch.zeros((), dtype=torch.float64, device=target.device)
        return zero, zero
    rows = target.shape[0] if target.ndim else 0
    _check_rows(value, rows, name)
    if weight is None and row_weight is None:
        return _counted(value, rows)
    if weight is None:
        share = _of_rows(value, row_weight, name)
    else:
        share = _checked(sent(torch.as_tensor(weight), value.device), value, name)
        share = share if row_weight is None else share * _of_rows(value, row_weight, name)
    counted = torch.where(share == 0, 0.0, value.double())
    return (counted * share).sum(), share.sum()


def _opened(measured: Measured, name: str) -> tuple[Tensor | None, Any]:
    """Take values and weights apart; a row whose value is None in a list weighs nothing."""
    value, weight = measured if isinstance(measured, tuple) else (measured, None)
    if value is None or isinstance(value, Tensor):
        return value, weight
    if not (isinstance(value, list) and any(one is None for one in value)):
        return _tensor(value, name), weight
    given = torch.tensor([one is not None for one in value])
    own = given if weight is None else torch.as_tensor(weight)
    held = _tensor([0.0 if one is None else one for one in value], name)
    return held, own * given if own.shape == given.shape else own


def _tensor(value: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise MetricInputError(
            f"{name}: get_current_value gives one value, or one per row, got {excerpt(value, 80)}"
        ) from None


def _check_rows(value: Tensor, rows: int, name: str) -> None:
    if value.ndim and value.shape[0] != rows:
        raise MetricInputError(
            f"{name}: get_current_value gives one value, or one per row; the batch has {rows} rows, got "
            f"shape {tuple(value.shape)}"
        )


def _counted(value: Tensor, rows: int) -> Sums:
    """Return the sum and the number of values that weigh 1 each; a few numbers are added up faster as a list."""
    if not on_host(value):
        count = number(value.numel() if value.ndim else rows, value, torch.float64)
        return (value.sum(dtype=torch.float64) if value.ndim else value.double() * count), count
    if not value.ndim:
        return float(value.item()) * rows, float(rows)
    few = value.ndim == 1 and value.numel() <= SHORT_LIST
    total = sum(value.tolist()) if few else value.sum(dtype=torch.float64).item()
    return float(total), float(value.numel())


def _of_rows(value: Tensor, weight: Tensor | None, name: str) -> Tensor:
    """Return the rows' weights in the shape of the values."""
    if not value.ndim or weight is None:
        raise MetricInputError(
            f"{name} gives one value for a whole batch, whose rows cannot be weighed; leave out "
            "sample_weight=, or give one value per row"
        )
    return weight.view(-1, *[1] * (value.ndim - 1)).expand(value.shape)


def _checked(weight: Tensor, value: Tensor, name: str) -> Tensor:
    """Return the measured weights as float64, one for each value."""
    if value.ndim and weight.shape != value.shape:
        raise MetricInputError(
            f"{name}: values have shape {tuple(value.shape)}, weights {tuple(weight.shape)}"
        )
    share = weight.double() if value.ndim else weight.sum(dtype=torch.float64)
    if on_host(share) and not bool(((weight >= 0) & weight.isfinite()).all()):
        raise MetricInputError(
            f"{name}: a weight is a finite number from 0, got {excerpt(weight.tolist(), 250)}"
        )
    return share


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
