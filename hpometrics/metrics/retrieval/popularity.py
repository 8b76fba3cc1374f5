"""Popularity: what follows from how often each item was interacted with in training.

Each fact is (items,), as long as the catalogue, and made once for all batches.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .side_data import SideData

_POWER, _LEAST = 0.5, 0.1


def popularity(side: SideData, num_items: int) -> Tensor:
    """How often each item was interacted with, float64.

    Raises:
        MetricInputError: it was not given, or for another number of items.
    """
    return side.derived(f"popularity of {num_items}", lambda own: _counted(own, num_items))


def _counted(side: SideData, num_items: int) -> Tensor:
    counts = side.item_popularity
    missing = num_items - len(counts)  # items that nobody has seen
    if missing < 0 or bool((counts < 0).any()):
        raise MetricInputError(
            f"item_popularity counts from 0, for {num_items} items; got {len(counts)} items, "
            f"the lowest {float(counts.min()):.6g}"
        )
    return torch.nn.functional.pad(counts, (0, missing))


def at_least_one(side: SideData, num_items: int) -> Tensor:
    """The same, where an item that nobody interacted with counts as one interaction."""
    return side.derived(
        f"popularity of {num_items}, at least one", lambda own: popularity(own, num_items).clamp(min=1)
    )


def share_of_users(side: SideData, num_items: int) -> Tensor:
    """Which share of the users interacted with each item, at least one of them.

    Raises:
        MetricInputError: an item has more interactions than there are users.
    """
    return side.derived(f"share of users of {num_items}", lambda own: _shared(own, num_items))


def _shared(side: SideData, num_items: int) -> Tensor:
    shares = at_least_one(side, num_items) / side.num_users
    if bool((shares > 1).any()):
        raise MetricInputError(
            f"an item has {float(shares.max()) * side.num_users:.6g} interactions of {side.num_users} users; "
            "item_popularity counts each user once, num_users are all users in training"
        )
    return shares


def long_tail(side: SideData, num_items: int, pop_ratio: float) -> Tensor:
    """Which items are no head, bool: the head are the most popular up to the one that exceeds `pop_ratio`.

    That is a share of all interactions. Of equally popular items the first ones are head; with a ratio of 1
    all of them.
    """
    return side.derived(f"tail of {num_items} by {pop_ratio}", lambda own: _tail(own, num_items, pop_ratio))


def _tail(side: SideData, num_items: int, pop_ratio: float) -> Tensor:
    counts, order = popularity(side, num_items).sort(descending=True, stable=True)
    before = counts.cumsum(0) - counts
    return torch.empty_like(before, dtype=torch.bool).scatter_(0, order, before > pop_ratio * counts.sum())


def rarest(side: SideData, num_items: int, ratio: float) -> Tensor:
    """Which items are the least popular share of all, bool: one at least, of equal ones the first."""
    return side.derived(f"rarest of {num_items} by {ratio}", lambda own: _rarest(own, num_items, ratio))


def _rarest(side: SideData, num_items: int, ratio: float) -> Tensor:
    counts = popularity(side, num_items)
    rare = torch.zeros_like(counts, dtype=torch.bool)
    rare[counts.argsort(stable=True)[: max(1, int(num_items * ratio))]] = True
    return rare


def propensity(side: SideData, num_items: int) -> Tensor:
    """The chance that a relevant item is observed, float64, as given or else estimated from popularity.

    The estimate is the root of the popularity over the largest one, 0.1 at least.

    Raises:
        MetricInputError: neither propensity nor popularity is given, or for another number of items.
    """
    return side.derived(f"propensity of {num_items}", lambda own: _observed(own, num_items))


def _observed(side: SideData, num_items: int) -> Tensor:
    if side.gives("propensity"):
        if len(side.propensity) != num_items:
            raise MetricInputError(
                f"propensity has {len(side.propensity)} items, the catalogue has {num_items}"
            )
        return side.propensity
    counts = popularity(side, num_items)
    return (counts / counts.max().clamp(min=1)).pow(_POWER).clamp(min=_LEAST)


def expected(side: SideData, num_items: int) -> Tensor:
    """How surely each item is recommended to anyone, by its rank among popularities alone, float64.

    From 1 of the most popular down by 1 / items a rank; items of the same popularity have the same rank, and
    one that nobody interacted with is not expected at all.
    """
    return side.derived(f"expected of {num_items}", lambda own: _expected(own, num_items))


def _expected(side: SideData, num_items: int) -> Tensor:
    counts = popularity(side, num_items)
    levels: Tensor = torch.unique_consecutive(counts.sort().values)
    rank = (len(levels) - torch.searchsorted(levels, counts)).double()
    return torch.where(counts > 0, (num_items + 1 - rank) / num_items, 0.0)
