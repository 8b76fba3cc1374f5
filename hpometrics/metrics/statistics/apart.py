"""Apart: the negative and the positive scores of a column, each in order, stretch by stretch of its values.

A stretch holds every score between two values, so that equal scores are never parted. Little is held beside
the store: one stretch at a time, in a room that all columns share.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._device import on_host
from .scores import Scores

Values = npt.NDArray[np.floating[Any]]
Value = np.floating[Any]
Flags = npt.NDArray[np.bool_]

FEW = 64
"""Classes up to which a look for each of them is cheaper than an order of all rows."""

_STRETCH = 1 << 16  # scores that are worth a look at the whole column
_MOST = 8  # stretches of all columns together: none is larger than this part of the store
_LOOK = 1 << 12, 1 << 14  # the fewest and the most rows that are looked at at a time
_GLANCE = 128  # between the two, as many rows as this part of all scores
_SAMPLE = 1 << 12  # scores that say where to cut


class Stretch(NamedTuple):
    """Scores of the negative and of the positive rows, both ascending; none is less than those of one before.

    They hold until the next stretch is asked for, whose room they are in.
    """

    negative: Values
    positive: Values


def can_be_apart(scores: Scores) -> bool:
    """Whether its columns can: scores on the CPU of a few classes whose rows count alike, none left out."""
    alike = scores.weight is None and not scores.has_gaps
    return scores.classes <= FEW and alike and on_host(scores.filled[0][0])


class Apart:
    """The columns of a store, put in order a few at a time.

    Args:
        scores: of which `can_be_apart`.

    Attributes:
        rows: how many there are.
        look: how many are looked at at a time: few beside what is stored, and no more than a cache holds.
    """

    def __init__(self, scores: Scores) -> None:
        self._filled = scores.filled
        self._classes = scores.classes
        self._type = np.result_type(*(held.numpy().dtype for held, _, _ in self._filled))
        self._room: Values = np.empty(0, self._type)
        self.rows = scores.rows
        self.look = int(np.clip(self.rows * self._classes // _GLANCE, *_LOOK))

    def __iter__(self) -> Iterator[tuple[int, Iterable[Stretch]]]:
        """Of each class how many rows there are, and the scores of it and of the rest in order."""
        together = max(1, self._classes // _MOST)
        for first in range(0, self._classes, together):
            columns = slice(first, min(first + together, self._classes))
            cuts = self._cuts(first)
            if cuts:
                yield self._cut(columns, cuts)
            else:
                for stretch in self._stretches(columns, None, None, self.rows):
                    yield len(stretch.positive), [stretch]

    def _cut(self, column: slice, cuts: list[Value]) -> tuple[int, Iterator[Stretch]]:
        """One column, in stretches."""
        positives, sizes = self._sizes(column, cuts)
        self._reserve(1, max(sizes))
        ends = zip(pairwise([None, *cuts, None]), sizes, strict=True)
        return positives, (self._stretches(column, *each, size)[0] for each, size in ends)

    def _stretches(self, columns: slice, low: Value | None, high: Value | None, size: int) -> list[Stretch]:
        """Sort the scores of each column from `low` up to below `high`."""
        rooms = self._reserve(columns.stop - columns.start, size)
        heads, tails = [0] * len(rooms), [size] * len(rooms)
        for block in self._blocks(columns):
            for i, (values, flags) in enumerate(zip(*block, strict=True)):
                inside = _inside(values, low, high)
                if inside is not None:
                    values, flags = values.take(inside), flags.take(inside)
                negative, positive = np.flatnonzero(~flags), np.flatnonzero(flags)
                head, tail = heads[i] + len(negative), tails[i] - len(positive)
                values.take(negative, out=rooms[i, heads[i] : head], mode="clip")
                values.take(positive, out=rooms[i, tail : tails[i]], mode="clip")
                heads[i], tails[i] = head, tail
        found = [Stretch(room[:head], room[head:]) for room, head in zip(rooms, heads, strict=True)]
        for part in itertools.chain.from_iterable(found):
            part.sort()
        return found

    def _reserve(self, columns: int, size: int) -> npt.NDArray[np.floating[Any]]:
        if len(self._room) < columns * size:
            self._room = np.empty(columns * size, self._type)
        return self._room[: columns * size].reshape(columns, size)

    def _blocks(self, columns: slice) -> Iterator[tuple[Values, Flags]]:
        """Some rows at a time: the scores of some classes, and which are positive; each (classes, rows)."""
        for scores, target, _ in self._filled:
            held, labels = scores.numpy()[:, columns], target.numpy()
            for start in range(0, len(held), self.look):
                some = slice(start, start + self.look)
                yield np.ascontiguousarray(held[some].T, self._type), self._flags(labels[some], columns)

    def _flags(self, labels: npt.NDArray[Any], columns: slice) -> Flags:
        if labels.ndim == 2:
            return np.ascontiguousarray(labels[:, columns].T).view(np.bool_)
        if self._classes == 1:
            return labels.view(np.bool_)[None]
        classes = np.arange(columns.start, columns.stop, dtype=labels.dtype)
        flags: Flags = classes[:, None] == labels
        return flags

    def _cuts(self, index: int) -> list[Value]:
        """The values that part a column into stretches of about the same size; none of a short one."""
        stretches = min(_MOST // self._classes, self.rows // _STRETCH)
        if stretches < 2:
            return []
        every = max(1, self.rows // _SAMPLE)
        sample = np.concatenate([scores[::every, index].numpy() for scores, _, _ in self._filled])
        sample.sort()
        cuts = np.unique(sample[np.arange(1, stretches) * len(sample) // stretches])
        return list(cuts[~np.isnan(cuts)])

    def _sizes(self, column: slice, cuts: list[Value]) -> tuple[int, list[int]]:
        """How many rows are positive, and how many each stretch has."""
        positives, below = 0, [0] * len(cuts)
        for values, flags in self._blocks(column):
            positives += int(np.count_nonzero(flags))
            here = (int(np.count_nonzero(values < cut)) for cut in cuts)
            below = [held + more for held, more in zip(below, here, strict=True)]
        return positives, [high - low for low, high in pairwise([0, *below, self.rows])]


def _inside(values: Values, low: Value | None, high: Value | None) -> npt.NDArray[np.intp] | None:
    """Where scores lie from `low` up to below `high`, above all else what is no number; None: everywhere."""
    if high is None:
        return None if low is None else np.flatnonzero(~(values < low))
    return np.flatnonzero(values < high if low is None else (values >= low) & (values < high))
