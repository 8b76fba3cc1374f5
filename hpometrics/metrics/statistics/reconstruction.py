"""Reconstruction: squared errors of the masked columns, each row sharing its own among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from ...exceptions import MetricInputError
from ..devices import on_host
from ..outputs import Outputs, as_tensor
from .moments import ERROR, check_width, columns
from .statistic import Reduction, Statistic

_EPS = 1e-9


class MaskedSquares(Statistic):
    """Sum over rows of mask * error ** 2 / (how many columns the row's mask has), per column; and the rows.

    The mask is the extra `mask`, (N, D) of 0 and 1. A row without a masked column adds 0.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "sum", "total": "sum"}
    weighted: ClassVar[bool] = True

    @property
    def rows(self) -> float:
        """How many rows were seen, or what they weigh."""
        return float(self._state["rows"])

    @property
    def total(self) -> Tensor:
        """The sum of each column: shape (D,)."""
        return self._state["total"]

    def check(self, batch: Outputs) -> None:
        """Refuse another number of columns and what is no mask.

        Raises:
            MetricInputError: naming what came.
        """
        check_width(batch, self._state.get("total"))
        if batch.extras.get("mask") is None:
            raise MetricInputError(
                "unsup_loss reads mask=, 1 where a column was hidden and is to be reconstructed, beside "
                "predictions and target; mask= is missing"
            )
        mask = batch.block("mask", _mask)
        if mask.shape != batch.target.shape:
            raise MetricInputError(
                f"unsup_loss reads mask= of shape {tuple(batch.target.shape)}, got {tuple(mask.shape)}"
            )
        if on_host(mask) and not bool(((mask == 0) | (mask == 1)).all()):
            raise MetricInputError(
                f"unsup_loss reads mask= of 0 and 1, got values up to {mask.abs().max():g}"
            )

    def update(self, batch: Outputs) -> None:
        """Add one batch."""
        mask, squares = batch.block("mask", _mask), columns(batch)[ERROR].square()
        each = mask * squares / (mask.sum(1, keepdim=True) + _EPS)
        self.add(rows=batch.weights.sum(), total=batch.weights @ each)


def _mask(batch: Outputs) -> Tensor:
    return as_tensor(batch.extras["mask"]).double()
