"""Order: ranks with ties, and pairs of rows in two orders at once, both in O(n log n)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def mean_ranks(values: Tensor, weight: Tensor) -> Tensor:
    """Rank (N,) values by the weight below them; equal values share the middle of their places.

    >>> mean_ranks(torch.tensor([5.0, 1.0, 5.0]), torch.ones(3)).tolist()  # places 2 and 3 are shared
    [2.0, 0.5, 2.0]
    """
    _, group = torch.unique(values, return_inverse=True)
    held = torch.bincount(group, weight.double())
    return (held.cumsum(0) - held / 2)[group]


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows in two orders, each pair weighing the product of its rows' weights.

    Attributes:
        concordant: in the same order in both.
        discordant: in opposite orders.
        total: squared weight of all rows; `same_x` and `same_y` that of each group of equal values, summed.
        groups: how many different values the side with fewer of them has.
    """

    concordant: float
    discordant: float
    total: float
    same_x: float
    same_y: float
    groups: int

    @classmethod
    def of(cls, x: Tensor, y: Tensor, weight: Tensor) -> Pairs:
        """Count the pairs of (N,) values x and y.

        >>> Pairs.of(torch.tensor([1, 2, 3]), torch.tensor([1, 3, 2]), torch.ones(3)).discordant
        1.0
        """
        x, y, weight = _codes(x), _codes(y), weight.double()
        width = int(y.max()) + 1
        both = x * width + y
        order = both.argsort()
        discordant = _inversions(y[order], weight[order])
        same_x, same_y, same = (_squares(codes, weight) for codes in (x, y, _codes(both)))
        total = float(weight.sum().square())
        concordant = (total - same_x - same_y + same) / 2 - discordant
        return cls(concordant, discordant, total, same_x, same_y, min(int(x.max()) + 1, width))


def _codes(values: Tensor) -> Tensor:
    _, codes = torch.unique(values, return_inverse=True)
    return codes  # type: ignore[no-any-return]  # torch does not say what unique returns


def _squares(codes: Tensor, weight: Tensor) -> float:
    return float(torch.bincount(codes, weight).square().sum())


def _inversions(codes: Tensor, weight: Tensor) -> float:
    """Weigh the pairs of which the earlier has the higher code, one bit of the codes at a time.

    Rows that agree in all higher bits stand together, in their first order: a pair is inverted at the bit in
    which it differs first, if its earlier row has the 1. `first` says where the block of a code begins.
    """
    bits = max(1, int(codes.max()).bit_length())
    held = torch.bincount(codes, minlength=1 << bits)
    first = held.cumsum(0) - held
    places = torch.arange(len(codes), device=codes.device)
    total = torch.zeros((), dtype=torch.float64, device=codes.device)
    for bit in reversed(range(bits)):
        is_one = (codes >> bit) & 1 == 1
        start = first[codes >> (bit + 1) << (bit + 1)]
        ones, heavier = _before(is_one.long(), start), _before(torch.where(is_one, weight, 0.0), start)
        total += torch.where(is_one, 0.0, weight * heavier).sum()
        place = first[codes >> bit << bit] + torch.where(is_one, ones, places - start - ones)
        codes = torch.empty_like(codes).scatter_(0, place, codes)
        weight = torch.empty_like(weight).scatter_(0, place, weight)
    return float(total)


def _before(values: Tensor, start: Tensor) -> Tensor:
    """The sum of values from each row's start up to the row itself, which does not count."""
    sums = values.cumsum(0) - values
    return sums - sums[start]
