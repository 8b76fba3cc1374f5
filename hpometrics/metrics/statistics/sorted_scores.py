"""Columns of stored scores, each sorted once for all areas and thresholds.

Large stores are sorted in stretches. A stretch holds all scores between two values, so equal scores are never
separated. Little memory is used beside the store: one stretch at a time, in a buffer that all columns share.
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
"""The number of classes up to which one pass per class is cheaper than sorting all rows by class."""
_STRETCH = 1 << 16  # the fewest scores of a stretch, for which the whole column is read
_MOST = 8  # stretches of all columns together: a stretch is at most this fraction of the store
_LOOK = 1 << 12, 1 << 14  # the fewest and the most rows that are read at a time
_GLANCE = 128  # between the two, this fraction of all scores
_SAMPLE = 1 << 12  # scores from which the cuts are chosen
_AT_ONCE = 16  # columns sorted at a time, an eighth of fewer than 128: bounds the memory beside the store
_SMALL = 1 << 18  # up to so many scores are cached sorted: as many as a new store has room for
_CACHED = 64  # up to so many columns each is cached for all metrics; more would outgrow the store


class Stretch(NamedTuple):
    """Scores of the negative and of the positive rows, both ascending; stretches ascend as well.

    They are valid until the next stretch is requested, which reuses their buffer.
    """

    negative: Values
    positive: Values


def can_be_partitioned(scores: Scores) -> bool:
    """Return whether scores can be partitioned: unweighted, on the CPU, few classes, no unknown labels."""
    alike = scores.weight is None and not scores.has_gaps
    return scores.classes <= FEW and alike and on_host(scores.filled[0][0])


class PartitionedScores:
    """The columns of a store, sorted a few at a time, positives and negatives separately.

    Args:
        scores: a store for which `can_be_partitioned` is true.

    Attributes:
        rows: the number of rows.
        look: how many rows are read at a time: few beside the store, and no more than a cache holds.
    """

    def __init__(self, scores: Scores) -> None:
        self._filled = scores.filled
        self._classes = scores.classes
        self._type = np.result_type(*(chunk.numpy().dtype for chunk, _, _ in self._filled))
        self._room: Values = np.empty(0, self._type)
        self.rows = scores.rows
        self.look = int(np.clip(self.rows * self._classes // _GLANCE, *_LOOK))

    def __iter__(self) -> Iterator[tuple[int, Iterable[Stretch]]]:
        """Yield for each class its number of rows, and the sorted scores of these and of the other rows."""
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
        """Return the number of positive rows of one column, and its stretches."""
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
        stretches = [Stretch(room[:head], room[head:]) for room, head in zip(rooms, heads, strict=True)]
        for part in itertools.chain.from_iterable(stretches):
            part.sort()
        return stretches

    def _reserve(self, columns: int, size: int) -> npt.NDArray[np.floating[Any]]:
        if len(self._room) < columns * size:
            self._room = np.empty(columns * size, self._type)
        return self._room[: columns * size].reshape(columns, size)

    def _blocks(self, columns: slice) -> Iterator[tuple[Values, Flags]]:
        """Yield some rows at a time: scores of some classes and which are positive; each (classes, rows)."""
        for scores, target, _ in self._filled:
            matrix, labels = scores.numpy()[:, columns], target.numpy()
            for start in range(0, len(matrix), self.look):
                rows = slice(start, start + self.look)
                yield np.ascontiguousarray(matrix[rows].T, self._type), self._flags(labels[rows], columns)

    def _flags(self, labels: npt.NDArray[Any], columns: slice) -> Flags:
        if labels.ndim == 2:
            return np.ascontiguousarray(labels[:, columns].T).view(np.bool_)
        if self._classes == 1:
            return labels.view(np.bool_)[None]
        classes = np.arange(columns.start, columns.stop, dtype=labels.dtype)
        flags: Flags = classes[:, None] == labels
        return flags

    def _cuts(self, index: int) -> list[Value]:
        """Return the values that split a column into stretches of similar size; none for a short one."""
        stretches = min(_MOST // self._classes, self.rows // _STRETCH)
        if stretches < 2:
            return []
        every = max(1, self.rows // _SAMPLE)
        sample = np.concatenate([scores[::every, index].numpy() for scores, _, _ in self._filled])
        sample.sort()
        cuts = np.unique(sample[np.arange(1, stretches) * len(sample) // stretches])
        return list(cuts[~np.isnan(cuts)])

    def _sizes(self, column: slice, cuts: list[Value]) -> tuple[int, list[int]]:
        """Return the number of positive rows, and the number of rows of each stretch."""
        positives, below = 0, [0] * len(cuts)
        for values, flags in self._blocks(column):
            positives += int(np.count_nonzero(flags))
            counts = (int(np.count_nonzero(values < cut)) for cut in cuts)
            below = [total + count for total, count in zip(below, counts, strict=True)]
        return positives, [high - low for low, high in pairwise([0, *below, self.rows])]


def _inside(values: Values, low: Value | None, high: Value | None) -> npt.NDArray[np.intp] | None:
    """Return where scores lie in [`low`, `high`), nan above all numbers; None means everywhere."""
    if high is None:
        return None if low is None else np.flatnonzero(~(values < low))
    return np.flatnonzero(values < high if low is None else (values >= low) & (values < high))


class UnweightedColumn(NamedTuple):
    """A column without weights: all scores, and those of the positive rows, both ascending."""

    every: Tensor
    positive: Tensor


class WeightedColumn(NamedTuple):
    """A column with weights: all scores, ascending, and the weight of each.

    `positive_weight` is the weight of the positive rows, 0 for the others. Rows of weight 0 are left out.
    """

    every: Tensor
    weight: Tensor
    positive_weight: Tensor


SortedColumn = UnweightedColumn | WeightedColumn


def sort_column(values: Tensor, positive: Tensor, weight: Tensor | None = None) -> SortedColumn:
    """Sort a column.

    Args:
        values: (N,) scores.
        positive: (N,) bool.
        weight: (N,) float64, not negative; rows of weight 0 are ignored.
    """
    if weight is None:
        return UnweightedColumn(sort(values.clone()), sort(values[positive]))
    counts = weight > 0
    values, positive, weight = values[counts], positive[counts], weight[counts]
    order = ascending_order(values)
    return WeightedColumn(values[order], weight[order], (weight * positive)[order])


def sorted_columns(scores: Scores) -> Iterable[SortedColumn]:
    """Return each class against the rest, cached until the next update unless that outgrows the store."""
    return scores.derived("ascending", _all_columns) if _are_cached(scores) else _columns(scores)


def is_sorted(scores: Scores) -> bool:
    """Return whether the sorted columns are cached, or small enough to be cached."""
    return _is_small(scores) or scores.has("ascending")


def sorted_column(scores: Scores, index: int) -> SortedColumn:
    """Return the sorted scores of one class against the rest."""
    if _are_cached(scores):
        return scores.derived("ascending", _all_columns)[index]
    return sort_column(*scores.column(index))


def pooled_column(scores: Scores) -> SortedColumn:
    """Return the sorted scores of all columns as one: each class of each row counts as a binary row."""
    if scores.classes == 1:
        return sorted_column(scores, 0)
    if _are_cached(scores):
        return scores.derived("ascending pooled", lambda own: sort_column(*_pool_columns(own)))
    return sort_column(*_pool_columns(scores))


def sort(values: Tensor) -> Tensor:
    """Sort the last dimension; on the CPU in place by NumPy, whose vectorized sort is many times faster."""
    if not on_host(values):
        return values.sort(-1).values
    values.numpy().sort(-1)
    return values


def ascending_order(values: Tensor) -> Tensor:
    """Return the indices that sort the values in ascending order."""
    if not on_host(values):
        return values.argsort()
    return torch.from_numpy(np.argsort(values.numpy()))


def _are_cached(scores: Scores) -> bool:
    """Return whether sorted columns are cached: a binary output's, whose sort needs a copy anyway, or few."""
    return scores.classes == 1 or _is_small(scores)


def _is_small(scores: Scores) -> bool:
    return scores.rows * scores.classes <= _SMALL


def _all_columns(own: Scores) -> tuple[SortedColumn, ...]:
    return tuple(_columns(own))


def _columns(own: Scores) -> Iterator[SortedColumn]:
    """Sort a few columns at a time, to bound the memory beside the store."""
    if own.weight is not None or own.has_gaps:
        yield from (sort_column(*own.column(index)) for index in range(own.classes))
        return
    positive_of = _positive_selector(own)
    at_once = min(_AT_ONCE, max(1, own.classes // 8))
    for first in range(0, own.classes, at_once):
        columns = torch.cat([scores[:, first : first + at_once].t() for scores, _, _ in own.filled], dim=1)
        positive = [sort(positive_of(first + i, column)) for i, column in enumerate(columns)]
        yield from map(UnweightedColumn, sort(columns), positive)


def _pool_columns(scores: Scores) -> Stored:
    """Return scores, positives and weight of all columns, one after the other."""
    values, target, weight = scores.pooled()
    classes = values.shape[1]
    positive = target == 1 if target.ndim == 2 else torch.nn.functional.one_hot(target, classes).bool()
    spread = None if weight is None else weight.unsqueeze(1).expand(values.shape)
    if scores.has_gaps:
        is_known = target != UNKNOWN
        return values[is_known], positive[is_known], None if spread is None else spread[is_known]
    return values.reshape(-1), positive.reshape(-1), None if spread is None else spread.reshape(-1)


def _positive_selector(own: Scores) -> Callable[[int, Tensor], Tensor]:
    """Return a function that selects from a class's column the scores of its positive rows."""
    labels = [target for _, target, _ in own.filled]
    if labels[0].ndim == 2:
        return lambda index, column: _compress(column, [label[:, index] for label in labels])
    if own.classes == 1:
        return lambda _, column: _compress(column, labels)
    if own.classes <= FEW:
        return lambda index, column: _compress(column, [label == index for label in labels])
    joined = torch.cat(labels)
    rows = torch.split(_stable_order(joined), torch.bincount(joined, minlength=own.classes).tolist())
    return lambda index, column: column[rows[index]]


def _compress(column: Tensor, flags: list[Tensor]) -> Tensor:
    """Return the scores whose flag is 1, chunk by chunk, so that no index of all rows is created."""
    parts = torch.split(column, [len(part) for part in flags])
    if not on_host(column):
        return torch.cat([part[flag.bool()] for part, flag in zip(parts, flags, strict=True)])
    own = [flag.view(torch.bool).numpy() for flag in flags]
    ends = np.cumsum([np.count_nonzero(flag) for flag in own])
    selected = np.empty(ends[-1], column.numpy().dtype)
    for part, flag, room in zip(parts, own, np.split(selected, ends[:-1]), strict=True):
        part.numpy().compress(flag, out=room)
    return torch.from_numpy(selected)


def _stable_order(labels: Tensor) -> Tensor:
    if not on_host(labels):
        return labels.argsort(stable=True)
    return torch.from_numpy(labels.numpy().argsort(kind="stable"))  # a radix sort of 16-bit labels


class Cuts(NamedTuple):
    """Some cuts of a column, each of which predicts 1 from some score up.

    Attributes:
        tp: float64, weight of the positive rows that are predicted 1.
        fp: float64, the same of the negative rows.
        positives: the weight of all positive rows, 0-d.
        negatives: the same of the negative rows.
    """

    tp: Tensor
    fp: Tensor
    positives: Tensor
    negatives: Tensor

    @property
    def has_both(self) -> bool:
        """Whether there are positive and negative rows; with one kind only a curve is not defined."""
        return bool((self.positives > 0) & (self.negatives > 0))

    def at(self, place: int) -> Cuts:
        """Return one of the cuts, 0-d."""
        return Cuts(self.tp[place], self.fp[place], self.positives, self.negatives)


@dataclass(frozen=True)
class RankedColumn:
    """The distinct scores of a column, descending, and the weight of the rows at or above each.

    Attributes:
        scores: (D,), in the type of the stored scores.
        tp: (D,) float64, weight of the positive rows whose score is at least this one.
        fp: (D,) float64, the same of the negative rows.
    """

    scores: Tensor
    tp: Tensor
    fp: Tensor

    @property
    def positives(self) -> Tensor:
        """The weight of the positive rows, 0-d: an accelerator divides by a Python number inexactly."""
        return self.tp[-1] if len(self.tp) else self.tp.new_zeros(())

    @property
    def negatives(self) -> Tensor:
        """The weight of the negative rows, a 0-d tensor."""
        return self.fp[-1] if len(self.fp) else self.fp.new_zeros(())

    @property
    def has_both(self) -> bool:
        """Whether there are positive and negative rows; with one kind only a curve is not defined."""
        return bool((self.positives > 0) & (self.negatives > 0))

    @property
    def cuts(self) -> Cuts:
        """Every cut: first above all scores (nothing is predicted), then at each score."""
        zero = self.tp.new_zeros(1)
        return Cuts(torch.cat([zero, self.tp]), torch.cat([zero, self.fp]), self.positives, self.negatives)

    @property
    def rates(self) -> tuple[Tensor, Tensor]:
        """False and true positive rate of every cut, both ascending."""
        cuts = self.cuts
        return cuts.fp / cuts.negatives, cuts.tp / cuts.positives


def rank_column(column: SortedColumn) -> RankedColumn:
    """Return the distinct scores of a column, with sums of the rows at or above each."""
    starts = _starts(column.every)
    scores = column.every[starts].flip(0)
    if isinstance(column, UnweightedColumn):
        tp = len(column.positive) - positions(column.positive, column.every[starts], "left")
        fp = len(column.every) - starts - tp
        return RankedColumn(scores, tp.flip(0).double(), fp.flip(0).double())
    parts = column.positive_weight, column.weight - column.positive_weight
    return RankedColumn(scores, *(part.flip(0).cumsum(0).flip(0)[starts].flip(0) for part in parts))


def ranked_column(scores: Scores, index: int) -> RankedColumn:
    """Return the distinct scores of a class against all other classes."""

    def make(own: Scores) -> RankedColumn:
        return rank_column(sorted_column(own, index))

    return scores.derived(f"ranked {index}", make) if scores.classes <= _CACHED else make(scores)


def ranked_pooled(scores: Scores) -> RankedColumn:
    """Return the distinct scores of all columns as one: each class of each row counts as a binary row."""
    if scores.classes == 1:
        return ranked_column(scores, 0)
    return scores.derived("ranked pooled", lambda own: rank_column(pooled_column(own)))


def positions(ordered: Tensor, values: Tensor, side: Literal["left", "right"]) -> Tensor:
    """Return where values belong in ascending ones; NumPy is faster with ascending values."""
    if not on_host(ordered):
        return torch.searchsorted(ordered, values, side=side)
    return torch.from_numpy(np.searchsorted(ordered.numpy(), values.numpy(), side=side))


def _starts(ordered: Tensor) -> Tensor:
    """Return the index at which each run of equal values begins."""
    if not len(ordered):
        return torch.zeros(0, dtype=torch.int64, device=ordered.device)
    changes = (ordered[1:] != ordered[:-1]).nonzero().squeeze(1) + 1
    return torch.cat([changes.new_zeros(1), changes])
