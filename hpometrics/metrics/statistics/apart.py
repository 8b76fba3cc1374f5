"""Apart: the negative and the positive scores of a column, each in order, stretch by stretch of its values.

A stretch holds every score between two values, so that equal scores are never parted. Little is held beside
the store: one stretch at a time, in a room that all columns share.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .scores import Scores

Values = npt.NDArray[np.floating[Any]]
Value = np.floating[Any]
Flags = npt.NDArray[np.bool_]

FEW = 64
"""Classes up to which a look for each of them is cheaper than an order of all rows."""

_STRETCH = 1 << 16  # scores that are worth a look at the whole column
_MOST = 8  # stretches of all columns together: none is larger than this part of the store
_LOOK = 1 << 13  # rows that are looked at at a time
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
    return scores.classes <= FEW and alike and scores.filled[0][0].device.type == "cpu"


class Apart:
    """The columns of a store, to be put in order one by one.

    Args:
        scores: of which `can_be_apart`.
    """

    def __init__(self, scores: Scores) -> None:
        self._filled = scores.filled
        self._classes = scores.classes
        self._type = np.result_type(*(held.numpy().dtype for held, _, _ in self._filled))
        self._room: Values = np.empty(0, self._type)
        self.rows = scores.rows

    def column(self, index: int) -> tuple[int, Iterator[Stretch]]:
        """How many rows of a class there are, and the scores of it and of the rest in order."""
        cuts = self._cuts(index)
        if not cuts:
            stretch = self._stretch(index, None, None, self.rows)
            return len(stretch.positive), iter([stretch])
        positives, sizes = self._sizes(index, cuts)
        self._reserve(max(sizes))
        ends = pairwise([None, *cuts, None])
        return positives, (self._stretch(index, *each, size) for each, size in zip(ends, sizes, strict=True))

    def _stretch(self, index: int, low: Value | None, high: Value | None, size: int) -> Stretch:
        """Sort the scores from `low` up to below `high`."""
        self._reserve(size)
        room, head, tail = self._room[:size], 0, size
        for values, flags in self._blocks(index):
            inside = _inside(values, low, high)
            if inside is not None:
                values, flags = values.take(inside), flags.take(inside)
            negative, positive = np.flatnonzero(~flags), np.flatnonzero(flags)
            values.take(negative, out=room[head : head + len(negative)], mode="clip")
            values.take(positive, out=room[tail - len(positive) : tail], mode="clip")
            head, tail = head + len(negative), tail - len(positive)
        room[:head].sort()
        room[head:].sort()
        return Stretch(room[:head], room[head:])

    def _reserve(self, size: int) -> None:
        if len(self._room) < size:
            self._room = np.empty(size, self._type)

    def _blocks(self, index: int) -> Iterator[tuple[Values, Flags]]:
        """The scores of a class, some rows at a time, and which of them are positive."""
        for scores, target, _ in self._filled:
            column, labels = scores[:, index].numpy(), target.numpy()
            for start in range(0, len(column), _LOOK):
                some = slice(start, start + _LOOK)
                yield np.ascontiguousarray(column[some], self._type), self._flags(labels[some], index)

    def _flags(self, labels: npt.NDArray[Any], index: int) -> Flags:
        if labels.ndim == 2:
            return labels[:, index].view(np.bool_)
        return labels.view(np.bool_) if self._classes == 1 else labels == index

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

    def _sizes(self, index: int, cuts: list[Value]) -> tuple[int, list[int]]:
        """How many rows are positive, and how many each stretch has."""
        positives, below = 0, [0] * len(cuts)
        for values, flags in self._blocks(index):
            positives += int(np.count_nonzero(flags))
            here = (int(np.count_nonzero(values < cut)) for cut in cuts)
            below = [held + more for held, more in zip(below, here, strict=True)]
        return positives, [high - low for low, high in pairwise([0, *below, self.rows])]


def _inside(values: Values, low: Value | None, high: Value | None) -> npt.NDArray[np.intp] | None:
    """Where scores lie from `low` up to below `high`, above all else what is no number; None: everywhere."""
    if high is None:
        return None if low is None else np.flatnonzero(~(values < low))
    return np.flatnonzero(values < high if low is None else (values >= low) & (values < high))
