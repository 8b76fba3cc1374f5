"""Pooled rows: every row's predictions and target, for metrics that need the order of all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ...exceptions import StateError
from ..batch import Outputs
from .columns import WHOLE, check_width, columns, difference
from .statistic import Reduction, Statistic

_LOOSE = 512  # parts that are held apart before they are joined into one


class Rows(NamedTuple):
    """Rows that weigh something: predictions and target (N, D) and weight (N,).

    All are float64, but whole numbers in all rows are int64, as float64 ties some from 2^53.
    """

    preds: Tensor
    target: Tensor
    weight: Tensor

    @property
    def errors(self) -> Tensor:
        """Predictions - target, float64."""
        return difference(self.preds, self.target)

    @property
    def gaps(self) -> Tensor:
        """The target less that of the first row, float64."""
        return difference(self.target, self.target[0])


class Pooled(Statistic):
    """Predictions, target and weight of every row: memory grows by 16 bytes a value and 8 a row.

    >>> from hpometrics.metrics.features import Number
    >>> pooled = Pooled()
    >>> pooled.update(Outputs(Number(), predictions=[1.0, 2.0], target=[1.0, 4.0]))
    >>> pooled.rows.target.tolist()
    [[1.0], [4.0]]
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"values": "own", "weight": "own"}
    weighted: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    regroups = True

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._parts: list[tuple[Tensor, Tensor]] = []
        self._joined = 0

    @property
    def empty(self) -> bool:
        """True until the first row."""
        return not self._parts

    @property
    def rows(self) -> Rows:
        """All rows whose weight is above 0, in the order they came."""
        return self.derived("rows", lambda pooled: _counting(*pooled._all()))

    def check(self, batch: Outputs) -> None:
        """Refuse another number of columns.

        Raises:
            MetricInputError: naming both numbers.
        """
        check_width(batch, self._parts[0][0] if self._parts else None)

    def update(self, batch: Outputs) -> None:
        """Store one batch."""
        self._append(_values(batch), batch.weights.clone())

    def state(self) -> dict[str, Tensor]:
        """The rows by name; empty before the first one."""
        if self.empty:
            return {}
        values, weight = self._all()
        return {"values": values.clone(), "weight": weight.clone()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Replace the rows by those of a state."""
        self.reset()
        self.merge_state(state)

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Append the rows of a state.

        Raises:
            StateError: its names or its number of columns are others.
        """
        self._check_state(state)
        if not state:
            return
        values, weight = state["values"].clone(), state["weight"].clone()
        if self._parts:
            held = self._parts[0][0]
            if held.shape[-1] != values.shape[-1]:
                raise StateError(f"{self}: rows of {held.shape[-1]} columns merge, got {values.shape[-1]}")
            values, weight = values.to(held.device), weight.to(held.device)
        self._append(values, weight)

    def to(self, device: torch.device | str) -> None:
        """Move the rows to a device."""
        self._parts = [(values.to(device), weight.to(device)) for values, weight in self._parts]
        self._derived = {}

    def _append(self, values: Tensor, weight: Tensor) -> None:
        self._parts.append((values, weight))
        self._derived = {}
        if len(self._parts) - self._joined > _LOOSE:
            self._parts[self._joined :] = [_join(self._parts[self._joined :])]
            self._joined = len(self._parts)

    def _all(self) -> tuple[Tensor, Tensor]:
        if len(self._parts) > 1:
            self._parts = [_join(self._parts)]
            self._joined = 0
        return self._parts[0]


def _values(batch: Outputs) -> Tensor:
    parts = batch.predictions, batch.target
    if not all(part.dtype in WHOLE for part in parts):
        return columns(batch)[:2].transpose(0, 1).clone()
    values = torch.stack([part.long() for part in parts], 1)
    return values.unsqueeze(-1) if values.ndim == 2 else values


def _join(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    return torch.cat([values for values, _ in parts]), torch.cat([weight for _, weight in parts])


def _counting(values: Tensor, weight: Tensor) -> Rows:
    counts = weight > 0
    if not bool(counts.all()):
        values, weight = values[counts], weight[counts]
    return Rows(values[:, 0], values[:, 1], weight)


def quantile(values: Tensor, weight: Tensor, alpha: float) -> Tensor:
    """Give the weighted quantile of each column of (N, D): the least value with a share `alpha` up to it.

    Where a value ends exactly at the share, it is the middle between it and the next one, so that the median
    is the usual one (Hyndman & Fan's averaged inverse of the distribution function, as in scikit-learn).

    >>> quantile(torch.tensor([[1.0], [3.0], [4.0], [9.0]]), torch.ones(4), 0.5).item()
    3.5
    """
    ordered, order = values.sort(0)
    below = weight[order].double().cumsum(0)
    wanted = alpha * below[-1:]
    slack = 1e-12 * below[-1:]
    last = len(values) - 1
    place = (below < wanted - slack).sum(0, keepdim=True).clamp(max=last)
    found = ordered.gather(0, place)
    ends_here = below.gather(0, place) <= wanted + slack
    following = ordered.gather(0, (place + 1).clamp(max=last))
    middle = (found + following) / 2
    middle = torch.where(middle.isinf(), found / 2 + following / 2, middle)
    return torch.where(ends_here, middle, found).squeeze(0)
