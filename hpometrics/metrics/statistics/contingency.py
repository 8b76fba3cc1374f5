"""Contingency counts of target and predicted labels, which may be any integers."""

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

_SPAN = 1 << 16  # labels within this range are counted without sorting


@dataclass(frozen=True)
class Table:
    """The cells of a contingency table that hold rows, float64, and its margins.

    Attributes:
        cells: (M,) the number of rows in each cell that is not empty.
        row, column: (M,) int64, the row (target) and the column (prediction) of each cell.
        rows, columns: (R,) and (C,), the sums over each row and column.
    """

    cells: Tensor
    row: Tensor
    column: Tensor
    rows: Tensor
    columns: Tensor

    @property
    def total(self) -> Tensor:
        """The number of all rows."""
        return self.cells.sum()

    @property
    def same(self) -> bool:
        """Whether both sides group the rows alike, whatever the groups are called."""
        return len(self.cells) == len(self.rows) == len(self.columns)

    @property
    def whole(self) -> bool:
        """Whether the cells are whole numbers, as they are without weights."""
        return bool((self.cells == self.cells.round()).all())


class Contingency(Statistic):
    """The number of rows of each pair of target and predicted label; only pairs that occur are stored.

    Labels are any int64, negative or huge: memory grows with the number of distinct pairs, never with the
    rows or the size of the labels. An update on an accelerator synchronizes to read the pairs of the batch.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"pairs": "own", "counts": "own"}
    weighted: ClassVar[bool] = True

    @property
    def table(self) -> Table:
        """The counts with their margins."""
        return self.derived("table", _table_of_pairs)

    def check(self, batch: Outputs) -> None:
        """Check that labels are integers and that predictions have the shape of the target.

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
        has_weight = counts > 0
        self._join(torch.stack([target[has_weight], predictions[has_weight]]), counts[has_weight])

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Merge the pairs of another statistic."""
        self._check_state(state)
        if state:
            device = self._state["pairs"].device if self._state else state["pairs"].device
            self._join(state["pairs"].to(device), state["counts"].to(device))

    def _join(self, pairs: Tensor, counts: Tensor) -> None:
        if self._state:
            pairs, counts = _merge_pairs(pairs, counts)
            pairs = torch.cat([self._state["pairs"], pairs], 1)
            counts = torch.cat([self._state["counts"], counts])
        pairs, counts = _merge_pairs(pairs, counts)
        self._state = {"pairs": pairs, "counts": counts}
        self._derived = {}


def table_of_matrix(matrix: Tensor) -> Table:
    """Return the table of a confusion matrix, without the classes that do not occur."""
    row, column = matrix.nonzero(as_tuple=True)
    return _table(row, column, matrix[row, column].double())


def _table_of_pairs(own: Contingency) -> Table:
    target, predictions = own._state["pairs"].unbind()
    return _table(target, predictions, own._state["counts"])


def _table(target: Tensor, predictions: Tensor, cells: Tensor) -> Table:
    rows, row = _unique(target)
    columns, column = _unique(predictions)
    return Table(
        cells, row, column, _sum_by_index(row, cells, len(rows)), _sum_by_index(column, cells, len(columns))
    )


def _merge_pairs(pairs: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return each distinct pair, in ascending order, with the sum of its counts."""
    first, rows = _encode(pairs[0])
    second, columns = _encode(pairs[1])
    codes, indices = _encode(rows * len(second) + columns)
    pairs = torch.stack([first[codes // max(len(second), 1)], second[codes % max(len(second), 1)]])
    return pairs, _sum_by_index(indices, counts, len(codes))


def _encode(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct labels, ascending, and the index of each given label among them."""
    if not on_host(labels) or not len(labels):
        return _unique(labels)
    low, high = (int(end) for end in labels.aminmax())
    if high - low >= _SPAN:
        return _unique(labels)
    occurs = torch.bincount(labels - low) > 0
    return occurs.nonzero().squeeze(1) + low, (occurs.cumsum(0) - 1)[labels - low]


def _unique(labels: Tensor) -> tuple[Tensor, Tensor]:
    distinct, indices = torch.unique(labels, return_inverse=True)
    return distinct, indices


def _sum_by_index(indices: Tensor, values: Tensor, size: int) -> Tensor:
    sums = torch.zeros(size, dtype=torch.float64, device=values.device)
    return sums.index_add_(0, indices, values)
