"""Row totals: the sum over rows of several numbers per row, as of counts that are pooled before any ratio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from ..batch import Outputs
from .statistic import Reduction, Statistic


class RowTotals(Statistic):
    """Sums of columns over rows, float64; a subclass gives the columns.

    Counts are whole numbers and therefore summed without error, in any order.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum", "rows": "sum"}
    weighted: ClassVar[bool] = True

    def columns(self, batch: Outputs) -> Tensor:
        """The numbers of each row of a batch: shape (N, D), float64."""
        raise NotImplementedError(f"{type(self).__name__} needs columns(batch)")

    def check(self, batch: Outputs) -> None:
        """Measure the batch; nothing is added yet, so that it may be refused.

        Raises:
            MetricInputError: the batch cannot be measured.
        """
        self._measured(batch)

    def update(self, batch: Outputs) -> None:
        """Add one batch."""
        columns = self._measured(batch)
        if batch.weight is not None:
            columns = columns * batch.weight.unsqueeze(1)
        weight = columns.new_ones(len(columns)) if batch.weight is None else batch.weight
        self.add(total=columns.sum(0), rows=weight.sum())

    @property
    def total(self) -> Tensor:
        """The sum of each column: shape (D,)."""
        return self._state["total"]

    @property
    def counted_nothing(self) -> bool:
        """Whether no row weighs anything."""
        return not self._state["rows"] > 0

    def _measured(self, batch: Outputs) -> Tensor:
        return batch.block(repr(self), self.columns)
