"""Candidates: a few items for each user in the place of all, drawn by a seed, for sampled evaluation.

What is drawn for a user, and in which order, depends on the seed and the user's number alone, not on the
batch, the machine or the order of the users. Sampled values of metrics at a cut-off are not the full ones,
nor do they always order models alike (Krichene & Rendle 2020, On Sampled Metrics for Item Recommendation,
KDD).
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
from .reading import read_users

Words = npt.NDArray[np.uint64]
_DRAW, _ORDER = 1, 2  # streams of random numbers


@dataclass(frozen=True, eq=False)
class Candidates:
    """The items to be scored for each user.

    Attributes:
        items: (users, candidates) int64, -1 where a user has fewer.
        target: (users, candidates) float32 grades, 0 for negatives and padding.
    """

    items: Tensor
    target: Tensor

    def scores_of(self, scores: Tensor) -> Tensor:
        """Take the candidates' scores out of those of all items, (users, items); -inf for padding."""
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
    """Draw negatives for each user, without replacement, from the items neither relevant nor seen.

    Args:
        target: the relevant items of each user, in any form of `Interactions`.
        num_items: the size of the catalogue.
        num_negatives: how many to draw for each user.
        seen: interactions of the same users that are no candidates either.
        users: (users,) their numbers, which with the seed decide the draw; their places if left out.
        seed: of the draw.
        shuffle: whether each user's candidates are put in random order, so that their order carries nothing;
            if not, the relevant ones come first, padded to the same number, then the negatives.
        allow_fewer: whether a user with too few items left gets those there are.

    Raises:
        MetricInputError: a user has fewer items left than negatives are wanted, or users, seen and target are
            not of the same users.

    >>> drawn = sample_candidates([[3], [0, 1]], num_items=6, num_negatives=2, shuffle=False)
    >>> drawn.items.shape, drawn.target.tolist()
    (torch.Size([2, 4]), [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    """
    num_items, num_negatives = _count(num_items, "num_items"), _count(num_negatives, "num_negatives")
    relevant = Interactions.of(target, "target", num_items)
    rows = len(relevant)
    hidden = None if seen is None else _hidden(seen, rows, num_items)
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


def _count(value: Any, name: str) -> int:
    """Return a whole number, of NumPy's too, as one of Python's."""
    if not isinstance(value, Integral) or value < 0:
        raise MetricInputError(f"{name} is a whole number from 0, got {value!r}")
    return int(value)


def _hidden(seen: object, rows: int, num_items: int) -> Interactions:
    """Read what users have seen; an entry that is 0, as a matrix may hold, was not."""
    found = Interactions.of(seen, "seen", num_items)
    if len(found) != rows:
        raise MetricInputError(f"seen has the items of the same users as target, {rows}; got {len(found)}")
    return found if found.grades is None else found.where(found.grades != 0)


def _negatives(
    relevant: Interactions,
    hidden: Interactions | None,
    num_items: int,
    wanted: int,
    numbers: npt.NDArray[np.int64],
    seed: int,
    allow_fewer: bool,
) -> npt.NDArray[np.int64]:
    """Draw places among the items that are left, and count past those that are not."""
    taken, offsets = _taken(relevant, hidden, num_items)
    left = num_items - np.diff(offsets)
    short = left < wanted
    if short.any() and not allow_fewer:
        user = int(short.argmax())
        raise MetricInputError(
            f"{wanted} negatives are wanted, user {int(numbers[user])} has {int(left[user])} items left that "
            "are neither relevant nor seen; give a smaller num_negatives=, or draw those there are by "
            "sample_candidates(..., allow_fewer=True) and measure them as items="
        )
    drawn = _distinct(left, wanted, numbers, seed)
    return _past(drawn, taken, offsets, num_items)


def _taken(
    relevant: Interactions, hidden: Interactions | None, num_items: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The items of each row that cannot be drawn, rising, each once."""
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
    left: npt.NDArray[np.int64], wanted: int, numbers: npt.NDArray[np.int64], seed: int
) -> npt.NDArray[np.int64]:
    """Draw distinct numbers below `left` for each row: the first ones of an endless draw that are new.

    A row with fewer gets all there are, and -1 behind them.
    """
    found = np.full((len(left), wanted), -1, dtype=np.int64)
    waiting = np.flatnonzero(left > 0)
    drawn = 2 * wanted + 16
    while len(waiting):
        few = left[waiting] <= drawn
        if few.any():  # every number once, in random order
            _permuted(found, waiting[few], left, numbers, seed)
            waiting = waiting[~few]
            continue
        values = (
            _random(numbers[waiting], np.arange(drawn), seed, _DRAW) % left[waiting, None].astype(np.uint64)
        ).astype(np.int64)
        new = _first_seen(values)
        place = new.cumsum(axis=1) - 1
        done = place[:, -1] >= wanted - 1
        keep = new & (place < wanted) & done[:, None]
        row, column = keep.nonzero()
        found[waiting[row], place[row, column]] = values[row, column]
        waiting, drawn = waiting[~done], 2 * drawn
    return found


def _permuted(
    found: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    left: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
    seed: int,
) -> None:
    width = int(left[rows].max())
    keys = _random(numbers[rows], np.arange(width), seed, _DRAW)
    keys[np.arange(width) >= left[rows, None]] = np.iinfo(np.uint64).max
    order = keys.argsort(axis=1)[:, : found.shape[1]]
    found[rows, : order.shape[1]] = np.where(order < left[rows, None], order, -1)


def _first_seen(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Where a value stands in its row for the first time."""
    order = values.argsort(axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    new = np.ones(values.shape, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.empty_like(new)
    np.put_along_axis(first, order, new, axis=1)
    return first


def _past(
    drawn: npt.NDArray[np.int64], taken: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], num_items: int
) -> npt.NDArray[np.int64]:
    """Turn the number of a free item into its id: one more for each taken item at or before it."""
    row = np.repeat(np.arange(len(drawn)), np.diff(offsets))
    free_before = taken - (np.arange(len(taken)) - offsets[row])
    keys = row * (num_items + 1) + free_before
    asked = np.arange(len(drawn))[:, None] * (num_items + 1) + drawn
    passed = np.searchsorted(keys, asked.ravel(), side="right").reshape(drawn.shape) - offsets[:-1, None]
    return np.where(drawn < 0, -1, drawn + passed)


def _random(numbers: npt.NDArray[np.int64], places: npt.NDArray[np.int64], seed: int, stream: int) -> Words:
    """64 random bits for each user and place or item, a function of seed, stream, user and place alone.

    Args:
        numbers: (users,).
        places: (places,), or those of each user, (users, places).
        seed: of the bits.
        stream: which of several bits of the same seed.
    """
    start = _mixed(np.array([(seed * 4 + stream) % 2**64], dtype=np.uint64))
    by_user = _mixed(start ^ _mixed(numbers.astype(np.uint64)))
    steps = (places + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _mixed(by_user[:, None] + steps)


def _mixed(bits: Words) -> Words:
    """The finalizer of SplitMix64 (Steele, Lea & Flood 2014, Fast Splittable Pseudorandom Generators)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
