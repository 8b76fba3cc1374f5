"""Placed sums: what falls on each number, of an item or a group, within lists of each cut-off."""

from __future__ import annotations

import torch
from torch import Tensor

from .tally import tally


def placed_sums(numbers: Tensor, worth: Tensor, cutoffs: tuple[int, ...], size: int) -> Tensor:
    """Add up what each place of lists is worth, by the number that stands there.

    Places between two cut-offs are added once; a cut-off is the sum of those up to it.

    Args:
        numbers: (rows, depth) int64; what is below 0 counts for nothing.
        worth: (rows, depth) float64.
        cutoffs: lengths of lists, rising.
        size: numbers lie below it.

    Returns:
        (cut-offs, size) float64.
    """
    deepest = cutoffs[-1]
    numbers, worth = numbers[:, :deepest], worth[:, :deepest]
    part = torch.bucketize(torch.arange(1, deepest + 1), torch.tensor(cutoffs)).to(numbers.device)
    codes = part * size + numbers.clamp(min=0)
    sums = tally(codes.view(-1), worth.masked_fill(numbers < 0, 0).reshape(-1), len(cutoffs) * size)
    return sums.view(len(cutoffs), size).cumsum(0)


def weighed(worth: Tensor, weight: Tensor | None) -> Tensor:
    """What places (rows, depth) are worth in float64, where rows have weights times these."""
    return worth.double() if weight is None else worth.double() * weight.unsqueeze(1)
