"""Blocks of columns in the order of their scores: one sort of integers orders scores, labels and weights.

A score becomes an integer that sorts as it does, with the label of the row in the last bit. Columns are read,
sorted and measured many at a time, so that the work for each label of a wide set is that of its sort.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .scores import UNKNOWN, Scores

Values = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.signedinteger[Any]]
Flags = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float64]

_MOST_COLUMNS = 128  # more are not read faster from rows that lie one after the other
_ELEMENTS = 1 << 17  # of a block: what is made of them stays in the cache
_MARGIN = 1 << 20  # below it are integers whose bits, read as a float, are not a normal number


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
    """The same with weights.

    Attributes:
        scores: (columns, rows) integers, ascending as the scores descend.
        positive: (columns, rows) the weight of a positive row, 0 of all others.
        negative: (columns, rows) the weight of a negative row, 0 of all others.
    """

    scores: Integers
    positive: Weights
    negative: Weights


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
    if most - least > top // 2 - _MARGIN:
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
        self._together = max(1, min(_ELEMENTS // max(1, self._rows), _MOST_COLUMNS, self._classes))
        weight = scores.weight
        self._weight = (
            None if weight is None else np.append(weight.numpy(), 0.0)
        )  # that of unknown labels last

    def unweighted(self) -> Iterator[Block]:
        """Yield the columns in their order, without their weights."""
        room = self._room(integers_of(self._type))
        for keys, positive, known in self._columns(narrow=False):
            keys <<= 1
            keys |= positive
            if known is not None:
                keys[~known] = np.iinfo(keys.dtype).max - 1
            ordered = room[: keys.size].reshape(keys.T.shape)
            ordered[:] = keys.T
            ordered.sort(axis=1)
            rows = np.full(len(ordered), self._rows) if known is None else np.count_nonzero(known, axis=0)
            yield Block(ordered, rows)

    def weighted(self) -> Iterator[WeightedBlock]:
        """Yield the columns in their order; an unknown label has no weight."""
        if self._weight is None:
            raise ValueError("the rows have no weights")
        room = self._room(np.int64)
        numbers = np.arange(0, 2 * self._rows, 2)[:, None]
        for keys, positive, known in self._columns(narrow=True):
            row = numbers + positive
            if known is not None:
                row[~known] = 2 * self._rows
            ordered = room[: keys.size].reshape(keys.T.shape)
            ordered[:] = keys.T
            ordered += 1 << 30
            ordered <<= 32
            ordered |= row.T
            ordered.view(np.float64).sort(axis=1)  # positive floats sort as their bits do, and faster
            weight = self._weight.take((ordered & 0xFFFFFFFF) >> 1)
            weight_of_positives = weight * (ordered & 1)
            weight -= weight_of_positives
            ordered >>= 32
            yield WeightedBlock(ordered, weight_of_positives, weight)

    def _room(self, dtype: Any) -> npt.NDArray[Any]:
        return np.empty(self._together * self._rows, dtype)

    def _columns(self, *, narrow: bool) -> Iterator[tuple[Integers, Flags, Flags | None]]:
        """Yield for some columns: keys of the scores, which are positive, which are known; (rows, columns).

        With `narrow` the keys have at most 31 bits.
        """
        keys_of = descending_ranks if narrow and self._type != np.float32 else descending_keys
        room, key_room = self._room(self._type), self._room(integers_of(self._type))
        for first in range(0, self._classes, self._together):
            columns = slice(first, min(first + self._together, self._classes))
            shape = self._rows, columns.stop - first
            values, keys = (each[: math.prod(shape)].reshape(shape) for each in (room, key_room))
            np.concatenate([scores.numpy()[:, columns] for scores, _, _ in self._filled], out=values)
            yield keys_of(values, keys), *self._labels(columns)

    def _labels(self, columns: slice) -> tuple[Flags, Flags | None]:
        labels = [target.numpy() for _, target, _ in self._filled]
        if labels[0].ndim == 2:
            own = np.concatenate([label[:, columns] for label in labels])
            return (own == 1, own != UNKNOWN) if self._has_gaps else (own.view(np.bool_), None)
        joined = np.concatenate(labels)[:, None]
        return joined == (1 if self._classes == 1 else np.arange(columns.start, columns.stop)), None
