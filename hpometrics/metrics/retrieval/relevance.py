"""Relevance: what is relevant to each row of a batch, dense or sparse, and how much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host
from .interactions import Interactions, Padded
from .lists import of_each_length, of_lengths

_BUFFER = 1 << 20  # grades of rows over all columns that are held at a time
_BUFFER_ON_DEVICE = 1 << 28


class Relevance(Protocol):
    """The relevant entries of a batch by row and column; a grade that is not relevant counts 0."""

    @property
    def counts(self) -> Tensor:
        """How many items are relevant to each row, (rows,) int64, those that have no column included."""

    def at(self, columns: Tensor) -> Tensor:
        """Give the grades of columns (rows, k) of each row; of column -1 the grade is 0."""

    def ideal(self, k: int) -> Tensor:
        """The k largest grades of each row, falling, 0 behind them: (rows, k) float32."""

    def dense(self, start: int, stop: int) -> Tensor:
        """The grades of rows over all columns, (stop - start, width) float32."""

    @property
    def entries(self) -> Interactions:
        """The relevant columns of each row with their grades."""

    @property
    def graded(self) -> bool:
        """Whether grades other than 1 may be among them."""

    @property
    def refused(self) -> SparseRelevance | None:
        """What is judged and found not relevant; None where that is everything else."""

    @property
    def unjudged(self) -> SparseRelevance | None:
        """What was to be judged and was not; None where nothing can be."""

    @property
    def odd(self) -> Tensor | None:
        """Which rows were given a grade that is not finite, (rows,) bool; None where what is kept tells."""

    def only(self, which: Tensor) -> Relevance:
        """Return the relevance of some rows alone."""


class DenseRelevance:
    """Relevance given as a matrix of grades, of which those above a threshold are relevant.

    Every item is judged, but for those of the grade `void`.
    """

    refused: SparseRelevance | None = None

    def __init__(
        self, target: Tensor, threshold: float, void: float | None = None, *, odd: Tensor | None = None
    ) -> None:
        self._target, self._threshold, self._void, self.odd = target, threshold, void, odd

    @cached_property
    def counts(self) -> Tensor:
        """How many items are relevant to each row."""
        if on_host(self._target) and self._target.dtype in (torch.bool, torch.float32):
            grades = self._target.numpy()  # NumPy counts in half of torch's time
            all_flags = grades.dtype == np.bool_ and self._threshold < 1
            return torch.from_numpy(
                np.count_nonzero(grades if all_flags else grades > self._threshold, axis=1)
            )
        if self._target.dtype is not torch.float64:
            return (self._target > self._threshold).sum(1)
        some = max(1, _BUFFER // max(1, self._target.shape[1]))  # grades are float32 wherever they are read
        parts = torch.split(self._target, some)
        return torch.cat([(part.float() > self._threshold).sum(1) for part in parts])

    @cached_property
    def graded(self) -> bool:
        """Whether something is relevant by another grade than 1; on a device nobody looks."""
        if self._target.dtype is torch.bool:
            return False
        if not on_host(self._target) or self._threshold >= 1:
            return True
        return _ones(self._target) < int(self.counts.sum())

    def at(self, columns: Tensor) -> Tensor:
        """Give the grades of columns of each row."""
        if not self._target.shape[1]:
            return torch.zeros(columns.shape, device=columns.device)
        found = self._target.gather(1, columns.clamp(min=0)).float()
        return torch.where((columns >= 0) & (found > self._threshold), found, 0.0)

    def ideal(self, k: int) -> Tensor:
        """The k largest grades of each row; on a device, where entries are not counted, by `torch.topk`."""
        if not self.graded:
            return _of_counts(self.counts, k)
        if on_host(self._target):
            return _ideal(self.entries, k)
        width = min(k, self._target.shape[1])
        best = self._target.float().topk(width, dim=1).values
        best = torch.where(best > self._threshold, best, 0.0)
        return torch.nn.functional.pad(best, (0, k - width))

    def dense(self, start: int, stop: int) -> Tensor:
        """The grades of rows over all columns."""
        part = self._target[start:stop].float()
        return part if self._threshold == 0 else torch.where(part > self._threshold, part, 0.0)

    @cached_property
    def entries(self) -> Interactions:
        """The relevant columns of each row; on a device a place for each column, as nothing is counted."""
        if not on_host(self._target):
            return Padded.above(self._target, self._threshold)
        found = Interactions.of(self._target, "target", finite=False)
        return found.where((found.sizes > self._threshold) & found.sizes.isfinite())

    @cached_property
    def unjudged(self) -> SparseRelevance | None:
        """What has the grade of what is not judged."""
        if self._void is None:
            return None
        void = self._target == self._void
        entries = Interactions.of(void, "target") if on_host(void) else Padded.above(void, 0)
        return SparseRelevance(entries, void.shape[1], entries.counts)

    def only(self, which: Tensor) -> DenseRelevance:
        """Return the relevance of some rows alone."""
        odd = None if self.odd is None else self.odd[which]
        return DenseRelevance(self._target[which], self._threshold, self._void, odd=odd)


class SparseRelevance:
    """Relevance given as entries; `counts` may exceed them, where relevant items have no column.

    `named` are the ids and grades of all of them, where columns are not items. What was judged otherwise is
    made when it is asked for.

    A buffer holds the grades of some rows over all columns: entries are written into it, read at the columns
    asked for, and taken out again, so that nobody pays for the columns in between.
    """

    def __init__(
        self,
        entries: Interactions,
        width: int,
        counts: Tensor,
        *,
        named: Interactions | None = None,
        refused: Callable[[], SparseRelevance] | None = None,
        unjudged: Callable[[], SparseRelevance] | None = None,
        odd: Tensor | None = None,
    ) -> None:
        self.entries, self.counts, self._width = entries, counts, width
        self.named = entries if named is None else named
        self._refused, self._unjudged, self.odd = refused, unjudged, odd

    @cached_property
    def refused(self) -> SparseRelevance | None:
        """What is judged and found not relevant."""
        return None if self._refused is None else self._refused()

    @cached_property
    def unjudged(self) -> SparseRelevance | None:
        """What was to be judged and was not."""
        return None if self._unjudged is None else self._unjudged()

    @property
    def graded(self) -> bool:
        """Whether entries were given grades."""
        return self.entries.grades is not None

    def at(self, columns: Tensor) -> Tensor:
        """Give the grades of columns of each row."""
        if isinstance(self.entries, Padded):
            return self._at_on_device(self.entries, columns)
        return torch.from_numpy(self._at_on_host(columns.numpy()))

    def has(self, columns: Tensor) -> Tensor:
        """Which columns (rows, k) of each row are entries, whatever their grades: (rows, k) bool."""
        return SparseRelevance(self.entries.ungraded(), self._width, self.counts).at(columns) > 0

    def _at_on_device(self, entries: Padded, columns: Tensor) -> Tensor:
        stride = self._width + 1
        found = torch.empty(columns.shape, device=columns.device)
        for start, stop in _blocks(len(columns), _BUFFER_ON_DEVICE // stride):
            first = torch.arange(stop - start, device=columns.device).unsqueeze(1) * stride
            flat = torch.zeros((stop - start) * stride, device=columns.device)
            found[start:stop] = _added(flat, entries.part(start, stop), stride)[first + columns[start:stop]]
        return found

    def _at_on_host(self, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The same by NumPy, which writes and reads single places several times faster."""
        entries, stride = self.entries, self._width + 1  # column -1 is the last of the row before
        height = min(max(1, _BUFFER // stride), len(columns))
        first = np.arange(height)[:, None] * stride
        buffer = np.zeros(height * stride, np.uint8 if entries.grades is None else np.float32)
        found = np.empty(columns.shape, np.float32)
        for start, stop in _blocks(len(columns), height):
            places = entries.places_on_host(start, stop, stride)
            buffer[places] = entries.sizes_on_host(start, stop)
            found[start:stop] = buffer.take(first[: stop - start] + columns[start:stop])
            buffer[places] = 0
        return found

    def ideal(self, k: int) -> Tensor:
        """The k largest grades of each row, those of relevant items that have no column included."""
        return _ideal(self.named, k, self.counts)

    def dense(self, start: int, stop: int) -> Tensor:
        """The grades of rows over all columns."""
        part = self.entries.part(start, stop)
        full = torch.zeros(stop - start, self._width, device=part.items.device)
        if isinstance(part, Padded):
            return _added(full.view(-1), part, self._width).view_as(full)
        full[part.row_of, part.items] = part.sizes
        return full

    def only(self, which: Tensor) -> SparseRelevance:
        """Return the relevance of some rows alone."""
        refused, unjudged = (
            None if others is None else lambda others=others: others().only(which)
            for others in (self._refused, self._unjudged)
        )
        return SparseRelevance(
            self.entries.rows(which), self._width, self.counts[which], named=self.named.rows(which),
            refused=refused, unjudged=unjudged, odd=None if self.odd is None else self.odd[which],
        )  # fmt: skip


def _ones(grades: Tensor) -> int:
    """How many grades are 1; counted by NumPy, which does not know one of the types, in half the time."""
    found = grades == 1 if grades.dtype is torch.bfloat16 else torch.from_numpy(grades.numpy() == 1)
    return int(found.count_nonzero())


def may_be_odd(grades: Tensor) -> bool:
    """Whether a target is a matrix of grades, some of which may be nan or infinite."""
    return grades.ndim == 2 and grades.is_floating_point() and grades.numel() > 0


def odd_rows(grades: Tensor) -> Tensor:
    """Which rows of a matrix have a grade that is nan, or that float32 does not hold, (rows,) bool."""
    return ~held(*grades.aminmax(dim=1))


def held(low: Tensor, high: Tensor) -> Tensor:
    """Whether float32 holds all numbers from the lowest to the highest, none of which is nan."""
    most = torch.finfo(torch.float32).max
    return (low >= -most) & (high <= most)


def _added(flat: Tensor, part: Padded, width: int) -> Tensor:
    """Add grades to a matrix of zeros that is laid out flat; what only fills up adds none."""
    return flat.index_add_(0, part.places(width), part.sizes)


def _blocks(rows: int, height: int) -> Iterator[tuple[int, int]]:
    """First row and end of blocks of at most so many rows each, of one at least."""
    height = max(1, height)
    for start in range(0, rows, height):
        yield start, min(rows, start + height)


def _of_counts(counts: Tensor, k: int) -> Tensor:
    """The k largest grades of rows with so many relevant items, none more so than others."""
    if len(counts) <= k:
        return of_lengths(counts, k)
    return of_each_length(k, counts.device).index_select(0, counts.clamp(max=k))


def _ideal(entries: Interactions, k: int, counts: Tensor | None = None) -> Tensor:
    """The k largest grades of each row; a relevant item that is no entry counts 1."""
    best = _of_counts(entries.counts if counts is None else counts, k)
    if entries.grades is None or not len(entries.items):
        return best
    if isinstance(entries, Padded):
        found = entries.side_by_side(entries.grades, -torch.inf).topk(min(k, entries.most), dim=1).values
        found = torch.nn.functional.pad(found, (0, k - found.shape[1]), value=-torch.inf)
        return torch.where(found > -torch.inf, found, best)
    order = entries.grades.argsort(descending=True, stable=True)
    row = entries.row_of[order]
    by_row = row.argsort(stable=True)
    row, order = row[by_row], order[by_row]
    place = torch.arange(len(row), device=row.device) - entries.offsets[row]
    near = place < k
    best[row[near], place[near]] = entries.grades[order[near]]
    return best
