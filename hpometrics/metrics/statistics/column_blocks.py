"""Blocks of columns in the order of their scores: one sort of integers orders scores, labels and weights.

A score becomes an integer that sorts as it does, with the label of the row in the last bit. Columns are read,
sorted and measured many at a time, so that the work for each label of a wide set is that of its sort.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from .._device import on_host
from .scores import UNKNOWN, Scores

Values = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.signedinteger[Any]]
Flags = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float64]

_MOST_COLUMNS = 128  # more are not read faster from rows that lie one after the other
_READ = 16  # columns that are read at a time, an eighth of fewer than 128, even if fewer make a block
_ELEMENTS = 1 << 17  # of a block: what is made of them stays in the cache
_LOOK = 1 << 14  # rows of a single column that are read at a time


class Block(NamedTuple):
    """Some columns, each from the highest score down; of equal scores the negative rows come first.

    The last bit of a key is 1 in a positive row, the others are those of the score. Unknown labels come last.

    Attributes:
        keys: (columns, rows) integers, ascending.
        known: (columns,) the number of rows whose label is known.
    """

    keys: Integers
    known: npt.NDArray[np.intp]


class WeightedBlock(NamedTuple):
    """The same with weights; a large column is cut into several, each with all rows of its scores.

    Attributes:
        scores: (columns, rows) integers, ascending as the scores descend.
        positive: (columns, rows) the weight of a positive row, 0 of all others.
        negative: (columns, rows) the weight of a negative row, 0 of all others.
    """

    scores: Integers
    positive: Weights
    negative: Weights


def is_measured_in_blocks(scores: Scores) -> bool:
    """Return whether blocks are the fastest: not for many rows of a category, each in few of its columns."""
    is_set = scores.filled[0][1].ndim == 2
    short = scores.rows <= _ELEMENTS // 8
    return on_host(scores.filled[0][0]) and (is_set or short or scores.weight is not None)


def descending_keys(values: Values, room: Integers | None = None) -> Integers:
    """Return integers that ascend as scores descend, equal where these are.

    Without their sign, the bits of floats are integers in the order of their magnitudes. The integers between
    0 and the least magnitude are skipped, so that two bits of the type remain unused; where they do not, the
    ranks of the scores take the place of their bits.

    Args:
        values: the scores, which are overwritten.
        room: where to write, integers as long as the scores.

    >>> descending_keys(np.array([0.5, -2.0, 0.0, -0.0, 0.5], np.float32)).tolist()
    [-1, 16777217, 0, 0, -1]
    """
    bits = values.view(integers_of(values.dtype))
    top = np.iinfo(bits.dtype).max
    keys: Integers = np.bitwise_and(bits, bits.dtype.type(top), out=room)
    least, most = int(keys.min(initial=top)), int(keys.max(initial=0))
    has_zeros = least == 0
    if has_zeros:
        least = max(1, int(keys.min(initial=most, where=keys > 0)))
    if most - least > top // 2 - 2:
        return descending_ranks(values, keys)
    keys -= least - 1
    if has_zeros:
        np.maximum(keys, 0, out=keys)
    bits >>= bits.itemsize * 8 - 1  # -1 where the score is negative
    keys ^= bits
    return np.subtract(bits, keys, out=keys)


def descending_ranks(values: Values, room: Integers) -> Integers:
    """Return what `descending_keys` does, each less than the number of scores from 0."""
    ranks = np.unique(values, return_inverse=True)[1].reshape(values.shape)
    return np.negative(ranks, out=room, casting="same_kind")


def ordered_bits(values: Values) -> Integers:
    """Return integers in the order of the scores, equal where these are, which take all bits of their type.

    >>> ordered_bits(np.array([0.5, -2.0, 0.0, -0.0], np.float32)).tolist()
    [1056964608, -1073741825, 0, 0]
    """
    bits: Integers = (values + values.dtype.type(0)).view(f"i{values.itemsize}")  # -0 is 0
    signs = bits >> (8 * bits.itemsize - 1)
    signs &= np.iinfo(bits.dtype).max
    bits ^= signs
    return bits


def integers_of(scores: np.dtype[Any]) -> type[np.signedinteger[Any]]:
    """Return the type of the keys of scores."""
    return np.int32 if scores.itemsize == 4 else np.int64


class ColumnBlocks:
    """The columns of a store on the CPU, a block at a time; a block is valid until the next is requested.

    Args:
        scores: the store.
    """

    def __init__(self, scores: Scores) -> None:
        self._filled = scores.filled
        self._classes = scores.classes
        self._rows = scores.rows
        self._has_gaps = scores.has_gaps
        self._type = np.result_type(*(chunk.numpy().dtype for chunk, _, _ in self._filled))
        self._weight = scores.weight

    def unweighted(self) -> Iterator[Block]:
        """Yield the columns in their order, without their weights."""
        together = self._together(_ELEMENTS)
        key_room, room = (np.empty(together * self._rows, integers_of(self._type)) for _ in range(2))
        for values, positive, known in self._columns(max(together, min(_READ, self._classes // 8))):
            for part in _slices(values.shape[1], together):
                own = values[:, part]
                keys = key_room[: own.size].reshape(own.shape)
                descending_keys(own, keys)
                keys <<= 1
                keys |= positive[:, part]
                counts = np.full(own.shape[1], self._rows)
                if known is not None:
                    keys[~known[:, part]] = np.iinfo(keys.dtype).max - 1
                    counts = np.count_nonzero(known[:, part], axis=0)
                ordered = room[: own.size].reshape(own.shape[::-1])
                ordered[:] = keys.T
                ordered.sort(axis=1)
                yield Block(ordered, counts)

    def weighted(self) -> Iterator[Iterator[WeightedBlock]]:
        """Yield the columns in their order, in one block after the other; an unknown label has no weight."""
        if self._weight is None:
            raise ValueError("the rows have no weights")
        codes = _WeightCodes(self._weight.numpy())
        together = self._together(2 * _ELEMENTS)
        room = np.empty(together * self._rows, np.int64)
        for columns in _slices(self._classes, together):
            width = columns.stop - columns.start
            ordered = room[: width * self._rows].reshape(width, self._rows)
            for rows, keys, positive, known in self._parts(columns):
                keys <<= 32
                keys |= codes.of(rows)[:, None]
                keys |= positive
                if known is not None:
                    keys[~known] = codes.unknown
                ordered[:, rows] = keys.T
            ordered.sort(axis=1)
            yield (codes.block(ordered[:, part]) for part in _whole_scores(ordered))

    def _together(self, elements: int) -> int:
        return max(1, min(elements // max(1, self._rows), _MOST_COLUMNS, self._classes))

    def _columns(self, at_once: int) -> Iterator[tuple[Values, Flags, Flags | None]]:
        """Yield copies of some columns: scores, which are positive, which are known; each (rows, columns)."""
        room = np.empty(at_once * self._rows, self._type)
        for columns in _slices(self._classes, at_once):
            width = columns.stop - columns.start
            values = room[: width * self._rows].reshape(self._rows, width)
            np.concatenate([scores.numpy()[:, columns] for scores, _, _ in self._filled], out=values)
            yield values, *self._labels([target for _, target, _ in self._filled], columns)

    def _parts(self, columns: slice) -> Iterator[tuple[slice, Integers, Flags, Flags | None]]:
        """Yield for some rows: which, the keys of their scores, which are positive, and which known."""
        if self._type != np.float32:
            values = np.concatenate([part.numpy()[:, columns] for part, _, _ in self._filled])
            labels = self._labels([target for _, target, _ in self._filled], columns)
            yield slice(0, self._rows), descending_ranks(values, np.empty(values.shape, np.int64)), *labels
            return
        start = 0
        for scores, target, _ in self._filled:
            for first in range(0, len(scores), _LOOK):
                part = slice(first, first + _LOOK)
                keys = ordered_bits(scores[part].numpy()[:, columns])
                np.invert(keys, out=keys)
                rows = slice(start, start + len(keys))
                yield rows, keys.astype(np.int64), *self._labels([target[part]], columns)
                start = rows.stop

    def _labels(self, targets: list[Tensor], columns: slice) -> tuple[Flags, Flags | None]:
        """Return which rows are positive in each column, and which are known, or None if all are."""
        labels = [target.numpy() for target in targets]
        if labels[0].ndim == 2:
            own = np.concatenate([label[:, columns] for label in labels])
            return (own == 1, own != UNKNOWN) if self._has_gaps else (own.view(np.bool_), None)
        joined = np.concatenate(labels)[:, None]
        return joined == (1 if self._classes == 1 else np.arange(columns.start, columns.stop)), None


class _WeightCodes:
    """Numbers of 31 bits, shifted by one, for weights: the bits of weights in float32, else row numbers."""

    def __init__(self, weight: Weights) -> None:
        with np.errstate(over="ignore"):
            narrow = weight.astype(np.float32)
        self._bits = np.abs(narrow, out=narrow).view(np.int32) if np.array_equal(narrow, weight) else None
        self._weight = np.append(weight, 0.0) if self._bits is None else weight
        self.unknown = 0 if self._bits is not None else 2 * len(weight)

    def of(self, rows: slice) -> Integers:
        """Return the codes of some rows."""
        if self._bits is None:
            return np.arange(2 * rows.start, 2 * rows.stop, 2)
        codes = self._bits[rows].astype(np.int64)
        codes <<= 1
        return codes

    def block(self, ordered: Integers) -> WeightedBlock:
        """Return what some sorted keys stand for."""
        codes = (ordered & 0xFFFFFFFF) >> 1
        if self._bits is None:
            weight = self._weight.take(codes)
        else:
            weight = codes.astype(np.int32).view(np.float32).astype(np.float64)
        positive = weight * (ordered & 1)
        weight -= positive
        return WeightedBlock(ordered >> 32, positive, weight)


def _slices(size: int, length: int) -> Iterator[slice]:
    for first in range(0, size, length):
        yield slice(first, min(first + length, size))


def _whole_scores(ordered: Integers) -> Iterator[slice]:
    """Yield parts of the rows of sorted keys; a single long column is cut between different scores."""
    columns, rows = ordered.shape
    start = 0
    while start < rows:
        stop = rows if columns > 1 else min(start + _LOOK, rows)
        if stop < rows:
            stop = int(np.searchsorted(ordered[0], ordered[0, stop - 1] | 0xFFFFFFFF, side="right"))
        yield slice(start, stop)
        start = stop
