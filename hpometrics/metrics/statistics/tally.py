"""Tallies: how often each number from 0 occurs, or what its rows weigh."""

from __future__ import annotations

import torch
from torch import Tensor

from .._device import on_host


def tally(codes: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Count numbers in [0, size): (size,) int64, or float64 where there are weights.

    On a device `bincount` would wait for the largest number; there the counts are added by index.
    """
    if on_host(codes):
        return torch.bincount(codes, weight, minlength=size)
    ones = torch.ones_like(codes) if weight is None else weight
    return torch.zeros(size, dtype=ones.dtype, device=codes.device).index_add_(0, codes, ones)
