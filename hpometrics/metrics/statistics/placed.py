"""Placed sums: what falls on each number, of an item or a group, within lists of each cut-off."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from .._device import on_host, sent
from .tally import tally


def placed_sums(numbers: Tensor, worth: Tensor | None, cutoffs: tuple[int, ...], size: int) -> Tensor:
    """Add up what each place of lists is worth, by the number that stands there.

    The arguments are those of `placed_between`.

    Returns:
        (cut-offs, size) float64.
    """
    return placed_between(numbers, worth, cutoffs, size).cumsum(0, dtype=torch.float64)


def placed_between(numbers: Tensor, worth: Tensor | None, cutoffs: tuple[int, ...], size: int) -> Tensor:
    """Add up what places behind one cut-off and up to the next are worth, by the number that stands there.

    Args:
        numbers: (rows, depth) int64; -1 counts for nothing.
        worth: (rows, depth) float64; None where each place counts 1.
        cutoffs: lengths of lists, rising.
        size: numbers lie below it.

    Returns:
        (cut-offs, size) int64, or float64 where places are worth something: the places that a cut-off has and
        the one before has not.
    """
    deepest = cutoffs[-1]
    width = size + 1  # the first of each part is for what counts for nothing
    codes = _narrow(numbers[:, :deepest], len(cutoffs) * width)
    codes += _beginnings(cutoffs, width, numbers.device).to(codes.dtype)
    each = None if worth is None else worth[:, :deepest].reshape(-1)
    sums = tally(codes.view(-1), each, len(cutoffs) * width)
    return sums.view(len(cutoffs), width)[:, 1:]


def _narrow(numbers: Tensor, most: int) -> Tensor:
    """A copy of numbers below this; on the host in 32 bits where these do, counted in half the time."""
    dtype = torch.int32 if on_host(numbers) and most < 2**31 else torch.int64
    return numbers.to(dtype, copy=True, memory_format=torch.contiguous_format)


@lru_cache(maxsize=8)
def _beginnings(cutoffs: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """Where number 0 stands among the sums, for each place of a list, (depth,) int64."""
    part = torch.bucketize(torch.arange(1, cutoffs[-1] + 1), torch.tensor(cutoffs))
    return sent(part * width + 1, device)


def weighed(worth: Tensor, weight: Tensor | None) -> Tensor:
    """What places (rows, depth) are worth in float64, where rows have weights times these."""
    return worth.double() if weight is None else worth.double() * weight.unsqueeze(1)
