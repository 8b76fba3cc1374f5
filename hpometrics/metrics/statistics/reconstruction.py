"""Reconstruction: squared errors of the masked columns, each row sharing its own among them."""

from __future__ import annotations

from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host
from ..batch import Outputs, as_tensor
from .columns import ERROR, check_width
from .errors import ErrorSum

_EPS = 1e-9


class MaskedSquares(ErrorSum):
    """Sum over rows of mask * error ** 2 / (how many columns the row's mask has), per column; and the rows.

    The mask is the extra `mask`, (N, D) of 0 and 1. A row without a masked column adds 0.
    """

    degree = 2

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

    def measure(self, batch: Outputs, values: Tensor) -> Tensor:
        """Measure each value."""
        mask = batch.block("mask", _mask)
        return mask * values[ERROR].square() / (mask.sum(1, keepdim=True) + _EPS)


def _mask(batch: Outputs) -> Tensor:
    return as_tensor(batch.extras["mask"]).double()
