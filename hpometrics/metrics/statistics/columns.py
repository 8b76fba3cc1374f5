"""Columns of real outputs in float64, and units for those whose sums and squares leave its range."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import number, on_host
from ..batch import Outputs

PREDS, TARGET, ERROR = range(3)
_LEAST, _MOST = 2.0**-900, 2.0**900  # between these a sum has lost nothing that matters, and can grow on
_FAR = 2000  # powers of two that take any float64 to 0 or infinity
WHOLE = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
"""The types of whole numbers that int64 holds."""
_WRAPS = 2.0**62  # a difference of int64 may be wrong from about here


def columns(batch: Outputs) -> Tensor:
    """The block of predictions, target and error (predictions - target): shape (3, N, D), float64."""
    return batch.block("regression_columns", _columns)


def check_width(batch: Outputs, held: Tensor | None) -> None:
    """Refuse a batch of another number of columns than is held.

    Raises:
        MetricInputError: naming both numbers.
    """
    width = columns(batch).shape[-1]
    if held is not None and held.shape[-1] != width:
        raise MetricInputError(
            f"the batches before had {held.shape[-1]} columns, this one has {width}; keep it the same"
        )


def rows_of(batch: Outputs) -> Tensor:
    """How many rows a batch has, or what they weigh."""
    return number(len(batch), batch.target, torch.int64) if batch.weight is None else batch.weight.sum()


def over_rows(values: Tensor, weight: Tensor | None) -> Tensor:
    """Sum values (..., N, D) over their rows, with weights if there are any."""
    return values.sum(-2) if weight is None else torch.einsum("...nd,n->...d", values, weight)


def _columns(batch: Outputs) -> Tensor:
    parts = batch.predictions, batch.target
    block = torch.stack([*(part.double() for part in parts), difference(*parts)])
    return block.unsqueeze(-1) if block.ndim == 2 else block


def difference(first: Tensor, second: Tensor) -> Tensor:
    """Subtract real numbers in float64, whole ones without the rounding that float64 begins at 2^53."""
    gap = first.double() - second.double()
    if first.is_floating_point() or second.is_floating_point():
        return gap
    return (first.long() - second.long()).double().where(gap.abs() < _WRAPS, gap)


def first_counting(values: Tensor, weight: Tensor | None) -> Tensor:
    """The first row of (..., N, D) that weighs something, or the first one if none does: (..., D)."""
    if weight is None or (on_host(weight) and weight[0].item() > 0):
        return values.select(-2, 0)
    return values.index_select(-2, (weight > 0).int().argmax().view(1)).squeeze(-2)


def times_power(values: Tensor, exponent: Tensor) -> Tensor:
    """Multiply by a power of two in two steps: 2^1100 overflows, 2^1100 * 2^-600 does not."""
    exponent = exponent.clamp(-_FAR, _FAR)  # 0 * inf is nan
    half = exponent // 2
    return torch.ldexp(torch.ldexp(values, half), exponent - half)


def is_out_of_range(sums: Tensor) -> bool:
    """Check on the CPU whether a sum may have lost digits, or may soon be infinite; no device is read."""
    if not on_host(sums):
        return False
    least, most = sums.aminmax()
    return not (least.item() > _LEAST and most.item() < _MOST)


def in_range(sums: Tensor) -> Tensor:
    """Check for each sum whether it has kept its digits and can still grow."""
    return (sums > _LEAST) & (sums < _MOST)


def largest_of(values: Tensor, weight: Tensor | None) -> Tensor:
    """The largest size over the rows that count, (..., D) of values (..., N, D)."""
    size = values.abs()
    return (size if weight is None else torch.where(weight.unsqueeze(-1) > 0, size, 0.0)).amax(-2)


def unit_of(largest: Tensor, fits: Tensor) -> Tensor:
    """The exponent of a unit near the largest sizes, int64; 0 of those that fit or have none."""
    leaves = largest.isfinite() & (largest > 0) & ~fits
    return torch.where(leaves, torch.frexp(largest).exponent.long(), 0)


def exponent_of(state: Mapping[str, Tensor], name: str) -> Tensor:
    """The exponents of a state, each of the shape of a part of it."""
    exponent = state.get("exponent")
    return torch.zeros_like(state[name], dtype=torch.int64) if exponent is None else exponent


def larger_unit(ours: Tensor, theirs: Tensor, ours_are_0: Tensor, theirs_are_0: Tensor) -> Tensor:
    """The unit for numbers of two units; zeros fit any."""
    return torch.maximum(ours, theirs).where(~theirs_are_0, ours).where(~ours_are_0, theirs)
