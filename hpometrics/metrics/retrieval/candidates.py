"""Candidates: a few items for each user instead of all, drawn with a seed, for sampled evaluation.

The items drawn for a user, and their order, depend on the seed and the user's number only, not on the batch,
the machine or the order of the users. Sampled values of metrics at a cut-off differ from the full ones, and
do not always order models alike (Krichene & Rendle 2020, On Sampled Metrics for Item Recommendation, KDD).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .interactions import Interactions
from .side_data import read_interactions, read_users

Words = npt.NDArray[np.uint64]
_DRAW, _ORDER = 1, 2  # streams of random numbers


@dataclass(frozen=True, eq=False)
class Candidates:
    """The items to score for each user.

    Attributes:
        items: (users, candidates) int64, -1 where a user has fewer.
        target: (users, candidates) float32 grades, 0 for negatives and padding.
    """

    items: Tensor
    target: Tensor

    def scores_of(self, scores: Tensor) -> Tensor:
        """Return the scores of the candidates from those of all items, (users, items); -inf for padding."""
        return scores.gather(1, self.items.clamp(min=0)).masked_fill(self.items < 0, -torch.inf)


def sample_candidates(
    target: object,
    num_items: int,
    num_negatives: int,
    *,
    seen: object = None,
    users: Any = None,
    seed: int = 0,
    shuffle: bool = True,
    allow_fewer: bool = False,
) -> Candidates:
    """Draw negatives for each user, without replacement, from the items that are neither relevant nor seen.

    Args:
        target: the relevant items of each user, in any form of `Interactions`.
        num_items: the size of the catalog.
        num_negatives: the number to draw for each user.
        seen: interactions of the same users, which are excluded as well.
        users: (users,) their numbers, which with the seed determine the draw; by default 0, 1, ...
        seed: the seed of the draw.
        shuffle: whether each user's candidates are in random order, so that the order carries no information;
            if not, the relevant ones come first, padded to the same number, then the negatives.
        allow_fewer: whether a user with too few remaining items gets all of them.

    Raises:
        MetricInputError: a user has fewer remaining items than `num_negatives`, or users, seen and target do
            not have the same number of users.

    >>> candidates = sample_candidates([[3], [0, 1]], num_items=6, num_negatives=2, shuffle=False)
    >>> candidates.items.shape, candidates.target.tolist()
    (torch.Size([2, 4]), [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    """
    num_items, num_negatives = (
        _check_count(num_items, "num_items"),
        _check_count(num_negatives, "num_negatives"),
    )
    relevant = Interactions.of(target, "target", num_items)
    rows = len(relevant)
    hidden = None if seen is None else read_interactions(seen, num_items)
    if hidden is not None and len(hidden) != rows:
        raise MetricInputError(f"seen must cover the same users as target, {rows}; got {len(hidden)}")
    numbers = np.arange(rows) if users is None else read_users(users, rows).cpu().numpy()
    negatives = _negatives(relevant, hidden, num_items, num_negatives, numbers, seed, allow_fewer)
    width = relevant.most
    items = np.full((rows, width), -1, dtype=np.int64)
    grades = np.zeros((rows, width + num_negatives), dtype=np.float32)
    row = relevant.row_of.numpy()
    place = np.arange(len(row)) - relevant.offsets.numpy()[row]
    items[row, place] = relevant.items.numpy()
    grades[row, place] = relevant.sizes.numpy()
    both = np.concatenate([items, negatives], axis=1)
    if shuffle:
        fills = num_items + np.arange(both.shape[1])
        keys = _random(numbers, np.where(both < 0, fills, both), seed, _ORDER)
        order = keys.argsort(axis=1)
        both, grades = (np.take_along_axis(part, order, axis=1) for part in (both, grades))
    return Candidates(torch.from_numpy(both), torch.from_numpy(grades))


def _check_count(value: Any, name: str) -> int:
    """Check a whole number, which may be one of NumPy's, and return it as an int."""
    if not isinstance(value, Integral) or value < 0:
        raise MetricInputError(f"{name} must be a whole number of at least 0, got {value!r}")
    return int(value)


def _negatives(
    relevant: Interactions,
    hidden: Interactions | None,
    num_items: int,
    num_negatives: int,
    numbers: npt.NDArray[np.int64],
    seed: int,
    allow_fewer: bool,
) -> npt.NDArray[np.int64]:
    """Draw numbers of the items that are available, and convert them to item ids."""
    excluded, offsets = _excluded_items(relevant, hidden, num_items)
    available = num_items - np.diff(offsets)
    short = available < num_negatives
    if short.any() and not allow_fewer:
        user = int(short.argmax())
        raise MetricInputError(
            f"cannot draw {num_negatives} negatives: user {int(numbers[user])} has {int(available[user])} "
            "items that are neither relevant nor seen; pass a smaller num_negatives=, or draw as many as "
            "possible with sample_candidates(..., allow_fewer=True) and pass them as items="
        )
    draws = _distinct(available, num_negatives, numbers, seed)
    return _free_items(draws, excluded, offsets, num_items)


def _excluded_items(
    relevant: Interactions, hidden: Interactions | None, num_items: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the items of each row that cannot be drawn, ascending, each once."""
    keys = [
        part.row_of.numpy() * num_items + part.items.numpy()
        for part in (relevant, hidden)
        if part is not None
    ]
    every = np.sort(np.concatenate(keys))
    every = every[np.diff(every, prepend=-1) > 0]
    offsets = np.searchsorted(every, np.arange(len(relevant) + 1) * num_items)
    return every % num_items, offsets


def _distinct(
    available: npt.NDArray[np.int64], count: int, numbers: npt.NDArray[np.int64], seed: int
) -> npt.NDArray[np.int64]:
    """Draw distinct numbers below `available` for each row: the first distinct ones of an endless draw.

    A row with too few gets all of them, and then -1.
    """
    draws = np.full((len(available), count), -1, dtype=np.int64)
    waiting = np.flatnonzero(available > 0)
    width = 2 * count + 16
    while len(waiting):
        few = available[waiting] <= width
        if few.any():  # every number once, in random order
            _permute(draws, waiting[few], available, numbers, seed)
            waiting = waiting[~few]
            continue
        values = (
            _random(numbers[waiting], np.arange(width), seed, _DRAW)
            % available[waiting, None].astype(np.uint64)
        ).astype(np.int64)
        new = _first_seen(values)
        place = new.cumsum(axis=1) - 1
        is_complete = place[:, -1] >= count - 1
        keep = new & (place < count) & is_complete[:, None]
        row, column = keep.nonzero()
        draws[waiting[row], place[row, column]] = values[row, column]
        waiting, width = waiting[~is_complete], 2 * width
    return draws


def _permute(
    draws: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    available: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
    seed: int,
) -> None:
    width = int(available[rows].max())
    keys = _random(numbers[rows], np.arange(width), seed, _DRAW)
    keys[np.arange(width) >= available[rows, None]] = np.iinfo(np.uint64).max
    order = keys.argsort(axis=1)[:, : draws.shape[1]]
    draws[rows, : order.shape[1]] = np.where(order < available[rows, None], order, -1)


def _first_seen(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return whether each value occurs in its row for the first time."""
    order = values.argsort(axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    new = np.ones(values.shape, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.empty_like(new)
    np.put_along_axis(first, order, new, axis=1)
    return first


def _free_items(
    draws: npt.NDArray[np.int64],
    excluded: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    num_items: int,
) -> npt.NDArray[np.int64]:
    """Convert the number of a free item to its id, which is one more for each excluded item before it."""
    row = np.repeat(np.arange(len(draws)), np.diff(offsets))
    free_before = excluded - (np.arange(len(excluded)) - offsets[row])
    keys = row * (num_items + 1) + free_before
    queries = np.arange(len(draws))[:, None] * (num_items + 1) + draws
    passed = np.searchsorted(keys, queries.ravel(), side="right").reshape(draws.shape) - offsets[:-1, None]
    return np.where(draws < 0, -1, draws + passed)


def _random(numbers: npt.NDArray[np.int64], places: npt.NDArray[np.int64], seed: int, stream: int) -> Words:
    """Return 64 random bits for each user and place or item, a function of seed, stream, user and place.

    Args:
        numbers: (users,).
        places: (places,), or those of each user, (users, places).
        seed: the seed of the bits.
        stream: the number of one of several streams of the same seed.
    """
    start = _mix(np.array([(seed * 4 + stream) % 2**64], dtype=np.uint64))
    by_user = _mix(start ^ _mix(numbers.astype(np.uint64)))
    steps = (places + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _mix(by_user[:, None] + steps)


def _mix(bits: Words) -> Words:
    """Mix bits by the finalizer of SplitMix64.

    Source: Steele, Lea & Flood 2014, Fast Splittable Pseudorandom Number Generators.
    """
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
