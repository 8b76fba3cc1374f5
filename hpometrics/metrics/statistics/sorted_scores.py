"""Ascending: columns of stored scores, each sorted once for every area and threshold that is read from it.

A stretch holds every score between two values, so that equal scores are never parted. Little is held beside
the store: one stretch at a time, in a room that all columns share.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host
from .scores import UNKNOWN, Scores, Stored

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


_AT_ONCE = 16  # columns sorted at a time, of fewer than 128 an eighth: bounds what is held beside the store
_LITTLE = 1 << 18  # so many scores are kept sorted: as many as the store has room for from the start


class Counted(NamedTuple):
    """A column whose rows count alike: all scores, and those of the positive rows, both ascending."""

    every: Tensor
    positive: Tensor


class Weighed(NamedTuple):
    """A column whose rows have weights: all scores, ascending, and what each weighs.

    `won` is the weight of the positive rows, 0 of the others. Rows of weight 0 are left out.
    """

    every: Tensor
    weight: Tensor
    won: Tensor


Ascending = Counted | Weighed


def ascending(values: Tensor, positive: Tensor, weight: Tensor | None = None) -> Ascending:
    """Sort a column.

    Args:
        values: (N,) scores.
        positive: (N,) bool.
        weight: (N,) float64 from 0; rows of weight 0 are as if absent.
    """
    if weight is None:
        return Counted(sort(values.clone()), sort(values[positive]))
    counts = weight > 0
    values, positive, weight = values[counts], positive[counts], weight[counts]
    order = places_in_order(values)
    return Weighed(values[order], weight[order], (weight * positive)[order])


def ascending_columns(scores: Scores) -> Iterable[Ascending]:
    """Each class against the rest; kept until the next update, unless that would outgrow the store."""
    return scores.derived("ascending", _all_columns) if _are_kept(scores) else _columns(scores)


def is_sorted(scores: Scores) -> bool:
    """Whether its sorted columns are at hand, or so little that they are kept for whoever asks next."""
    return _is_little(scores) or scores.has("ascending")


def ascending_column(scores: Scores, index: int) -> Ascending:
    """One class against the rest."""
    if _are_kept(scores):
        return scores.derived("ascending", _all_columns)[index]
    return ascending(*scores.column(index))


def ascending_pooled(scores: Scores) -> Ascending:
    """All columns as one: each class of each row is a yes-or-no question of its own."""
    if scores.classes == 1:
        return ascending_column(scores, 0)
    if _are_kept(scores):
        return scores.derived("ascending pooled", lambda own: ascending(*_pooled(own)))
    return ascending(*_pooled(scores))


def sort(values: Tensor) -> Tensor:
    """Sort the last dimension; on the CPU in place, by NumPy, whose vectorized sort is many times faster."""
    if not on_host(values):
        return values.sort(-1).values
    values.numpy().sort(-1)
    return values


def places_in_order(values: Tensor) -> Tensor:
    """The places of the values from the least to the largest."""
    if not on_host(values):
        return values.argsort()
    return torch.from_numpy(np.argsort(values.numpy()))


def _are_kept(scores: Scores) -> bool:
    """The one column of a binary output is, whose copy is needed to sort it at all, and what is little."""
    return scores.classes == 1 or _is_little(scores)


def _is_little(scores: Scores) -> bool:
    return scores.rows * scores.classes <= _LITTLE


def _all_columns(own: Scores) -> tuple[Ascending, ...]:
    return tuple(_columns(own))


def _columns(own: Scores) -> Iterator[Ascending]:
    """Sort a few columns at a time, so that little is held beside the store."""
    if own.weight is not None or own.has_gaps:
        yield from (ascending(*own.column(index)) for index in range(own.classes))
        return
    positive_of = _positive_of(own)
    at_once = min(_AT_ONCE, max(1, own.classes // 8))
    for first in range(0, own.classes, at_once):
        columns = torch.cat([scores[:, first : first + at_once].t() for scores, _, _ in own.filled], dim=1)
        positive = [sort(positive_of(first + i, column)) for i, column in enumerate(columns)]
        yield from map(Counted, sort(columns), positive)


def _pooled(scores: Scores) -> Stored:
    """Scores, positives and weight of all columns, one after the other."""
    values, target, weight = scores.pooled()
    classes = values.shape[1]
    positive = target == 1 if target.ndim == 2 else torch.nn.functional.one_hot(target, classes).bool()
    spread = None if weight is None else weight.unsqueeze(1).expand(values.shape)
    if scores.has_gaps:
        known = target != UNKNOWN
        return values[known], positive[known], None if spread is None else spread[known]
    return values.reshape(-1), positive.reshape(-1), None if spread is None else spread.reshape(-1)


def _positive_of(own: Scores) -> Callable[[int, Tensor], Tensor]:
    """What takes, for each class, the scores of its positive rows out of its column."""
    labels = [target for _, target, _ in own.filled]
    if labels[0].ndim == 2:
        return lambda index, column: _flagged(column, [label[:, index] for label in labels])
    if own.classes == 1:
        return lambda _, column: _flagged(column, labels)
    if own.classes <= FEW:
        return lambda index, column: _flagged(column, [label == index for label in labels])
    joined = torch.cat(labels)
    rows = torch.split(_stable_order(joined), torch.bincount(joined, minlength=own.classes).tolist())
    return lambda index, column: column[rows[index]]


def _flagged(column: Tensor, flags: list[Tensor]) -> Tensor:
    """The scores whose flag is 1; chunk by chunk, or the places of all would be held beside them."""
    parts = torch.split(column, [len(part) for part in flags])
    if not on_host(column):
        return torch.cat([part[flag.bool()] for part, flag in zip(parts, flags, strict=True)])
    own = [flag.view(torch.bool).numpy() for flag in flags]
    ends = np.cumsum([np.count_nonzero(flag) for flag in own])
    found = np.empty(ends[-1], column.numpy().dtype)
    for part, flag, room in zip(parts, own, np.split(found, ends[:-1]), strict=True):
        part.numpy().compress(flag, out=room)
    return torch.from_numpy(found)


def _stable_order(labels: Tensor) -> Tensor:
    if not on_host(labels):
        return labels.argsort(stable=True)
    return torch.from_numpy(labels.numpy().argsort(kind="stable"))  # a radix sort of 16-bit labels


_KEPT = 64  # up to so many columns each is kept for all metrics; more would outgrow the store


@dataclass(frozen=True)
class Ranked:
    """The distinct scores of a column, descending, and what lies at or above each.

    Attributes:
        scores: (D,), in the type in which they were given.
        tp: (D,) float64, weight of the positive rows whose score is at least this one.
        fp: (D,) float64, the same of the negative rows.
    """

    scores: Tensor
    tp: Tensor
    fp: Tensor

    @property
    def positives(self) -> Tensor:
        """Weight of the positive rows, a 0-d tensor: an accelerator divides by a Python number inexactly."""
        return self.tp[-1] if len(self.tp) else self.tp.new_zeros(())

    @property
    def negatives(self) -> Tensor:
        """Weight of the negative rows, likewise."""
        return self.fp[-1] if len(self.fp) else self.fp.new_zeros(())

    @property
    def has_both(self) -> bool:
        """Whether there are positive and negative rows: with one kind only there is nothing to tell apart."""
        return bool((self.positives > 0) & (self.negatives > 0))

    @property
    def cuts(self) -> tuple[Tensor, Tensor]:
        """`tp` and `fp` of every cut: above all scores first (nothing is predicted), then at each score."""
        zero = self.tp.new_zeros(1)
        return torch.cat([zero, self.tp]), torch.cat([zero, self.fp])

    @property
    def rates(self) -> tuple[Tensor, Tensor]:
        """False and true positive rate of every cut, both ascending."""
        tp, fp = self.cuts
        return fp / self.negatives, tp / self.positives


def ranked(column: Ascending) -> Ranked:
    """Take the distinct scores of a column, and sum up what lies above each."""
    starts = _starts(column.every)
    scores = column.every[starts].flip(0)
    if isinstance(column, Counted):
        tp = len(column.positive) - places(column.positive, column.every[starts], "left")
        fp = len(column.every) - starts - tp
        return Ranked(scores, tp.flip(0).double(), fp.flip(0).double())
    won, lost = (part.flip(0).cumsum(0).flip(0)[starts] for part in (column.won, column.weight - column.won))
    return Ranked(scores, won.flip(0), lost.flip(0))


def ranked_column(scores: Scores, index: int) -> Ranked:
    """The sorted column of a class, against all other classes."""

    def make(own: Scores) -> Ranked:
        return ranked(ascending_column(own, index))

    return scores.derived(f"ranked {index}", make) if scores.classes <= _KEPT else make(scores)


def ranked_pooled(scores: Scores) -> Ranked:
    """All columns as one: each class of each row is a yes-or-no question of its own."""
    if scores.classes == 1:
        return ranked_column(scores, 0)
    return scores.derived("ranked pooled", lambda own: ranked(ascending_pooled(own)))


def places(ordered: Tensor, values: Tensor, side: Literal["left", "right"]) -> Tensor:
    """Where values belong in ascending ones; NumPy profits from values that ascend as well."""
    if not on_host(ordered):
        return torch.searchsorted(ordered, values, side=side)
    return torch.from_numpy(np.searchsorted(ordered.numpy(), values.numpy(), side=side))


def _starts(ordered: Tensor) -> Tensor:
    """Where each run of equal values begins."""
    if not len(ordered):
        return torch.zeros(0, dtype=torch.int64, device=ordered.device)
    changes = (ordered[1:] != ordered[:-1]).nonzero().squeeze(1) + 1
    return torch.cat([changes.new_zeros(1), changes])
