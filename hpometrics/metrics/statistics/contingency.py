"""Contingency counts: how often which label met which, whatever numbers the labels are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host
from ..batch import Outputs
from .statistic import Reduction, Statistic

_SPAN = 1 << 16  # labels that lie this close together are counted without sorting them


@dataclass(frozen=True)
class Table:
    """The cells of a contingency table that hold rows, float64, and its margins.

    Attributes:
        cells: (M,) rows in each cell that is not empty.
        row, column: (M,) int64, which row (target) and which column (prediction) a cell lies in.
        rows, columns: (R,) and (C,), the sums over each row and column.
    """

    cells: Tensor
    row: Tensor
    column: Tensor
    rows: Tensor
    columns: Tensor

    @property
    def total(self) -> Tensor:
        """All rows."""
        return self.cells.sum()

    @property
    def same(self) -> bool:
        """Whether both sides group the rows alike, whatever the groups are called."""
        return len(self.cells) == len(self.rows) == len(self.columns)

    @property
    def whole(self) -> bool:
        """Whether the cells are whole numbers, as without weights or with whole ones."""
        return bool((self.cells == self.cells.round()).all())


class Contingency(Statistic):
    """Rows by pair of target and predicted label; only pairs that occur are held.

    Labels are any int64, negative or huge: memory grows with the number of different pairs, never with the
    rows or the labels' size. Which pairs a batch holds is read back from an accelerator, which waits for it.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"pairs": "own", "counts": "own"}
    weighted: ClassVar[bool] = True

    @property
    def table(self) -> Table:
        """The counts with their margins."""
        return self.derived("table", _table_of_pairs)

    def check(self, batch: Outputs) -> None:
        """Refuse labels that are no whole numbers, and predictions that do not lie beside the target.

        Raises:
            MetricInputError: naming the type or both shapes.
        """
        predictions, target = batch.predictions, batch.target
        if predictions.shape != target.shape or target.ndim != 1:
            raise MetricInputError(
                "predictions and target of groups have one label per row, got shapes "
                f"{tuple(predictions.shape)} and {tuple(target.shape)}"
            )
        for name, labels in (("predictions", predictions), ("target", target)):
            if labels.is_floating_point():
                raise MetricInputError(f"labels of groups are whole numbers, got {name} of {labels.dtype}")

    def update(self, batch: Outputs) -> None:
        """Count one batch."""
        target, predictions, weight = batch.decided
        counts = torch.ones_like(target, dtype=torch.float64) if weight is None else weight
        held = counts > 0
        self._join(torch.stack([target[held], predictions[held]]), counts[held])

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in the pairs of another one."""
        self._check_state(state)
        if state:
            device = self._state["pairs"].device if self._state else state["pairs"].device
            self._join(state["pairs"].to(device), state["counts"].to(device))

    def _join(self, pairs: Tensor, counts: Tensor) -> None:
        if self._state:
            pairs, counts = _gathered(pairs, counts)
            pairs = torch.cat([self._state["pairs"], pairs], 1)
            counts = torch.cat([self._state["counts"], counts])
        pairs, counts = _gathered(pairs, counts)
        self._state = {"pairs": pairs, "counts": counts}
        self._derived = {}


def table_of_matrix(matrix: Tensor) -> Table:
    """The table of a confusion matrix; classes that do not occur are left out."""
    row, column = matrix.nonzero(as_tuple=True)
    return _table(row, column, matrix[row, column].double())


def _table_of_pairs(own: Contingency) -> Table:
    target, predictions = own._state["pairs"].unbind()
    return _table(target, predictions, own._state["counts"])


def _table(target: Tensor, predictions: Tensor, cells: Tensor) -> Table:
    rows, row = _unique(target)
    columns, column = _unique(predictions)
    return Table(cells, row, column, _summed(row, cells, len(rows)), _summed(column, cells, len(columns)))


def _gathered(pairs: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Each pair once, in ascending order, with the sum of its counts."""
    first, rows = _coded(pairs[0])
    second, columns = _coded(pairs[1])
    found, places = _coded(rows * len(second) + columns)
    pairs = torch.stack([first[found // max(len(second), 1)], second[found % max(len(second), 1)]])
    return pairs, _summed(places, counts, len(found))


def _coded(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The different labels, ascending, and where each of the given ones stands among them."""
    if not on_host(labels) or not len(labels):
        return _unique(labels)
    low, high = (int(end) for end in labels.aminmax())
    if high - low >= _SPAN:
        return _unique(labels)
    held = torch.bincount(labels - low) > 0
    return held.nonzero().squeeze(1) + low, (held.cumsum(0) - 1)[labels - low]


def _unique(labels: Tensor) -> tuple[Tensor, Tensor]:
    found, places = torch.unique(labels, return_inverse=True)
    return found, places


def _summed(places: Tensor, values: Tensor, size: int) -> Tensor:
    sums = torch.zeros(size, dtype=torch.float64, device=values.device)
    return sums.index_add_(0, places, values)
