"""Sums over rows: of a metric's own values, of counts that are pooled before any ratio, of masked squares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..._redaction import excerpt
from ...exceptions import MetricInputError
from .._device import on_host, send_to
from ..batch import Outputs, as_tensor
from .errors import Columns, ErrorSum, check_width
from .statistic import NumberStatistic, Reduction, block

Sums = tuple[Tensor, Tensor] | tuple[float, float]
Contribution = Callable[[Outputs], Sums]
Slots = dict[str, Any]
_EPS = 1e-9


class WeightedMean(NumberStatistic[list[float]]):
    """Weighted sum and weight of the values of one metric, float64; no other metric can share it.

    Args:
        owner: the name of the metric whose values these are.
        contribution: returns the weighted sum and the weight of a batch, both 0-d float64 or, for a batch on
            the CPU, both plain numbers, which are added up in a tenth of the time.
        regroups: whether `contribution` may receive several batches as one, or parts of one.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum", "weight": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, owner: str, contribution: Contribution, *, regroups: bool = False) -> None:
        super().__init__(owner=owner)
        self._contribution = contribution
        self._block = f"contribution to {owner}"
        self.regroups = regroups

    @property
    def total(self) -> Tensor:
        """The weighted sum of the values."""
        return self._state["total"]

    @property
    def weight(self) -> Tensor:
        """The sum of the weights."""
        return self._state["weight"]

    @property
    def mean(self) -> Tensor | None:
        """The weighted mean of the values, 0-d float64; None where all weights are 0."""
        if self._numbers is not None:
            total, weight = self._numbers
            return torch.scalar_tensor(total / weight, dtype=torch.float64) if weight > 0 else None
        return self.total / self.weight if self.weight > 0 else None

    def check(self, batch: Outputs) -> None:
        """Measure the batch without adding it, so that the owner may refuse it.

        Raises:
            MetricInputError: the owner refuses the batch.
        """
        self._measured(batch)

    def update(self, batch: Outputs) -> None:
        """Add the measured batch."""
        self.take(self._measured(batch))

    def take(self, sums: Sums) -> None:
        """Add a weighted sum and its weight."""
        total, weight = sums
        on_cpu = all(map(on_host, self._tensors.values()))
        if isinstance(total, Tensor) or isinstance(weight, Tensor) or not on_cpu:
            self.add(total=_as_state(total), weight=_as_state(weight))
            return
        current = self._numbers or [tensor.item() for tensor in self._tensors.values()] or [0.0, 0.0]
        self._numbers = [current[0] + total, current[1] + weight]
        self._derived = {}

    def _measured(self, batch: Outputs) -> Sums:
        return batch.block(self._block, self._contribution)

    def tensors_of(self, numbers: list[float]) -> dict[str, Tensor]:
        """Return the state that plain numbers stand for."""
        return dict(zip(self.reductions, map(_as_state, numbers), strict=True))


def _as_state(value: Tensor | float) -> Tensor:
    return value if isinstance(value, Tensor) else torch.scalar_tensor(value, dtype=torch.float64)


class RowTotals(NumberStatistic[tuple[NDArray[np.float64], float]]):
    """Sums of columns over rows, float64; a subclass defines the columns.

    Counts are whole numbers and are therefore summed without error, in any order.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum", "rows": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._block = repr(self)

    def columns(self, batch: Outputs) -> Tensor:
        """Return the numbers of each row of a batch: shape (N, D), float64."""
        raise NotImplementedError(f"{type(self).__name__} needs columns(batch)")

    def check(self, batch: Outputs) -> None:
        """Measure the batch without adding it, so that it may be refused.

        Raises:
            MetricInputError: the batch cannot be measured.
        """
        self._measured(batch)

    def update(self, batch: Outputs) -> None:
        """Add one batch."""
        columns = self._measured(batch)
        if batch.weight is None and on_host(columns) and not self._tensors:
            total, rows = columns.numpy().sum(0), float(len(batch))
            if self._numbers is not None:
                total, rows = self._numbers[0] + total, self._numbers[1] + rows
            self._numbers, self._derived = (total, rows), {}
            return
        if batch.weight is not None:
            columns = columns * batch.weight.unsqueeze(1)
        weight = columns.new_ones(len(columns)) if batch.weight is None else batch.weight
        self.add(total=columns.sum(0), rows=weight.sum())

    def tensors_of(self, numbers: tuple[NDArray[np.float64], float]) -> dict[str, Tensor]:
        """Return the state that plain numbers stand for."""
        total, rows = numbers
        return {"total": torch.from_numpy(total), "rows": _as_state(rows)}

    @property
    def total(self) -> Tensor:
        """The sum of each column: shape (D,)."""
        return self._state["total"]

    @property
    def counted_nothing(self) -> bool:
        """Whether the weight of all rows is 0."""
        return not self._state["rows"] > 0

    def _measured(self, batch: Outputs) -> Tensor:
        return batch.block(self._block, self.columns)


class States(NamedTuple):
    """The predicted and the correct slots of each turn of a batch."""

    predicted: list[Slots]
    right: list[Slots]


@block
def states(batch: Outputs) -> States:
    """Return the block of dialogue states, read from the extras `slots` and `gold_slots`.

    Raises:
        MetricInputError: one of them is missing, or is not a list of one mapping per row.
    """
    missing = [f"{name}=" for name in ("slots", "gold_slots") if name not in batch.extras]
    if missing:
        raise MetricInputError(
            "dialogue metrics need slots=[...] and gold_slots=[...], one mapping per row, beside the "
            f"texts; got no {' and no '.join(missing)}"
        )
    return States(_mappings(batch, "slots"), _mappings(batch, "gold_slots"))


def _mappings(batch: Outputs, name: str) -> list[Slots]:
    rows = batch.extras[name]
    if isinstance(rows, (str, Mapping)) or len(rows) != len(batch):
        raise MetricInputError(
            f"{name} must be a list of {len(batch)} mappings, one per row; got {excerpt(repr(rows), 150)}"
        )
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise MetricInputError(f"{name} must be mappings, got {type(row).__name__} in row {number}")
    return [dict(row) for row in rows]


class SlotCounts(RowTotals):
    """Counts of slots predicted with the correct value, of predicted slots, and of correct slots.

    >>> from hpometrics.metrics.features import Text
    >>> counts = SlotCounts()
    >>> slots, gold_slots = [{"area": "north", "stars": 4}], [{"area": "north"}]
    >>> counts.update(Outputs(Text(), predictions=[""], target=[""], slots=slots, gold_slots=gold_slots))
    >>> counts.total.tolist()
    [1.0, 2.0, 1.0]
    """

    def columns(self, batch: Outputs) -> Tensor:
        """Count each turn."""
        counts = [
            (
                sum(name in right and right[name] == value for name, value in slots.items()),
                len(slots),
                len(right),
            )
            for slots, right in zip(*states(batch), strict=True)
        ]
        return send_to(torch.from_numpy(np.array(counts, np.float64)), batch.target.device)


class MaskedSquares(ErrorSum):
    """Sum over rows of mask * error ** 2 / (how many columns the row's mask has), per column; and the rows.

    The mask is the extra `mask`, (N, D) of 0 and 1. A row without a masked column adds 0.
    """

    degree = 2

    def check(self, batch: Outputs) -> None:
        """Check the number of columns and the mask.

        Raises:
            MetricInputError: naming what came.
        """
        check_width(batch, self._state.get("total"))
        if batch.extras.get("mask") is None:
            raise MetricInputError(
                "unsup_loss needs mask=, with 1 for each hidden column to reconstruct, beside predictions "
                "and target; mask= is missing"
            )
        mask = batch.block("mask", _mask)
        if mask.shape != batch.target.shape:
            raise MetricInputError(
                f"unsup_loss needs mask= of shape {tuple(batch.target.shape)}, got {tuple(mask.shape)}"
            )
        if on_host(mask) and not bool(((mask == 0) | (mask == 1)).all()):
            raise MetricInputError(
                f"unsup_loss needs mask= of 0 and 1, got values up to {mask.abs().max():g}"
            )

    def measure(self, batch: Outputs, values: Columns) -> Tensor:
        """Measure each value."""
        mask = batch.block("mask", _mask)
        return mask * values.error.square() / (mask.sum(1, keepdim=True) + _EPS)


def _mask(batch: Outputs) -> Tensor:
    return as_tensor(batch.extras["mask"]).double()
