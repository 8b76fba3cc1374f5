"""Relevance: the relevant items of each row of a batch and their grades, dense or sparse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host
from .interactions import Interactions, PaddedInteractions, of_flags
from .lists import of_each_length, of_lengths
from .row_areas import are_few, count_flags

_BUFFER = 1 << 20  # grades of rows over all columns in memory at a time
_BUFFER_ON_DEVICE = 1 << 28


class DenseRelevance:
    """Relevance as a matrix of grades, of which those above a threshold are relevant.

    Every item is judged, except those of the grade `void`. `odd` states which rows have a grade that is not
    finite, (rows,) bool; None if the matrix itself shows it.
    """

    refused: SparseRelevance | None = None

    def __init__(
        self, target: Tensor, threshold: float, void: float | None = None, *, odd: Tensor | None = None
    ) -> None:
        self._target, self._threshold, self._void, self.odd = target, threshold, void, odd

    @property
    def _plain(self) -> bool:
        """Whether each set flag is a relevant item."""
        return self._target.dtype is torch.bool and 0 <= self._threshold < 1

    @cached_property
    def counts(self) -> Tensor:
        """The number of relevant items of each row, (rows,) int64."""
        if on_host(self._target) and self._target.dtype in (torch.bool, torch.float32):
            grades = self._target.numpy()  # NumPy counts in half of torch's time
            all_flags = grades.dtype == np.bool_ and self._threshold < 1
            return torch.from_numpy(count_flags(grades if all_flags else grades > self._threshold))
        if self._target.dtype is not torch.float64:
            return (self._target > self._threshold).sum(1)
        some = max(1, _BUFFER // max(1, self._target.shape[1]))  # grades are compared as float32
        parts = torch.split(self._target, some)
        return torch.cat([(part.float() > self._threshold).sum(1) for part in parts])

    @cached_property
    def few(self) -> bool:
        """Whether there are so few relevant items that their ranks take less time than lists."""
        return on_host(self._target) and are_few(int(self.counts.sum()), len(self._target))

    @cached_property
    def graded(self) -> bool:
        """Whether an item is relevant with another grade than 1; always true on a device."""
        if self._target.dtype is torch.bool:
            return False
        if not on_host(self._target) or self._threshold >= 1:
            return True
        return _ones(self._target) < int(self.counts.sum())

    def at(self, columns: Tensor) -> Tensor:
        """Return the grades of columns (rows, k) of each row; the grade of column -1 is 0."""
        if not self._target.shape[1]:
            return torch.zeros(columns.shape, device=columns.device)
        grades = self._target.gather(1, columns.clamp(min=0))
        if self._plain:
            return grades.logical_and_(columns >= 0).float()
        grades = grades.float()
        return torch.where((columns >= 0) & (grades > self._threshold), grades, 0.0)

    def ideal(self, k: int) -> Tensor:
        """Return the k largest grades of each row, descending, then 0, (rows, k); on a device by `topk`."""
        if not self.graded:
            return _of_counts(self.counts, k)
        if on_host(self._target):
            return _ideal(self.entries, k)
        width = min(k, self._target.shape[1])
        best = self._target.float().topk(width, dim=1).values
        best = torch.where(best > self._threshold, best, 0.0)
        return torch.nn.functional.pad(best, (0, k - width))

    def dense(self, start: int, stop: int) -> Tensor:
        """Return the grades of rows over all columns, (stop - start, width) float32."""
        part = self._target[start:stop].float()
        return part if self._threshold == 0 else torch.where(part > self._threshold, part, 0.0)

    @cached_property
    def entries(self) -> Interactions:
        """The relevant columns of each row; on a device a table of all columns, to avoid a count."""
        if not on_host(self._target):
            return PaddedInteractions.above(self._target, self._threshold)
        if self._plain:
            return of_flags(self._target)
        entries = Interactions.of(self._target, "target", finite=False)
        return entries.where((entries.sizes > self._threshold) & entries.sizes.isfinite())

    @cached_property
    def unjudged(self) -> SparseRelevance | None:
        """The items with the grade `void`."""
        if self._void is None:
            return None
        void = self._target == self._void
        entries = Interactions.of(void, "target") if on_host(void) else PaddedInteractions.above(void, 0)
        return SparseRelevance(entries, void.shape[1], entries.counts)

    def only(self, which: Tensor) -> DenseRelevance:
        """Return the relevance of some rows alone."""
        odd = None if self.odd is None else self.odd[which]
        return DenseRelevance(self._target[which], self._threshold, self._void, odd=odd)


class SparseRelevance:
    """Relevance as entries; `counts` may exceed their number, where relevant items have no column.

    `by_id` has the ids and grades of all relevant items, where columns are not items. `refused` and
    `unjudged` are created when they are first read.

    Grades are read through a buffer of some rows over all columns: the entries are written into it, read at
    the requested columns, and reset, so that the other columns cost nothing.
    """

    def __init__(
        self,
        entries: Interactions,
        width: int,
        counts: Tensor,
        *,
        by_id: Interactions | None = None,
        refused: Callable[[], SparseRelevance] | None = None,
        unjudged: Callable[[], SparseRelevance] | None = None,
        odd: Tensor | None = None,
    ) -> None:
        self.entries, self.counts, self._width = entries, counts, width
        self.by_id = entries if by_id is None else by_id
        self._refused, self._unjudged, self.odd = refused, unjudged, odd

    @cached_property
    def refused(self) -> SparseRelevance | None:
        """The items that are judged and not relevant."""
        return None if self._refused is None else self._refused()

    @cached_property
    def unjudged(self) -> SparseRelevance | None:
        """The items marked as not judged."""
        return None if self._unjudged is None else self._unjudged()

    @property
    def few(self) -> bool:
        """Whether there are so few entries that their ranks take less time than lists."""
        return on_host(self.counts) and are_few(len(self.entries.items), len(self.counts))

    @property
    def graded(self) -> bool:
        """Whether the entries have grades."""
        return self.entries.grades is not None

    def at(self, columns: Tensor) -> Tensor:
        """Return the grades of columns of each row."""
        if isinstance(self.entries, PaddedInteractions):
            return self._at_on_device(self.entries, columns)
        return torch.from_numpy(self._at_on_host(columns.numpy()))

    def has(self, columns: Tensor) -> Tensor:
        """Return which columns (rows, k) of each row are entries, whatever their grades: (rows, k) bool."""
        return SparseRelevance(self.entries.ungraded(), self._width, self.counts).at(columns) > 0

    def _at_on_device(self, entries: PaddedInteractions, columns: Tensor) -> Tensor:
        stride = self._width + 1
        grades = torch.empty(columns.shape, device=columns.device)
        for start, stop in _row_blocks(len(columns), _BUFFER_ON_DEVICE // stride):
            first = torch.arange(stop - start, device=columns.device).unsqueeze(1) * stride
            flat = torch.zeros((stop - start) * stride, device=columns.device)
            grades[start:stop] = _add_grades(flat, entries.part(start, stop), stride)[
                first + columns[start:stop]
            ]
        return grades

    def _at_on_host(self, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the grades of columns by NumPy, which reads and writes single positions faster."""
        entries, stride = self.entries, self._width + 1  # column -1 is the last of the row before
        height = min(max(1, _BUFFER // stride), len(columns))
        first = np.arange(height)[:, None] * stride
        buffer = np.zeros(height * stride, np.uint8 if entries.grades is None else np.float32)
        grades = np.empty(columns.shape, np.float32)
        for start, stop in _row_blocks(len(columns), height):
            places = entries.places_on_host(start, stop, stride)
            buffer[places] = entries.sizes_on_host(start, stop)
            grades[start:stop] = buffer.take(first[: stop - start] + columns[start:stop])
            buffer[places] = 0
        return grades

    def ideal(self, k: int) -> Tensor:
        """Return the k largest grades of each row, including relevant items without a column."""
        return _ideal(self.by_id, k, self.counts)

    def dense(self, start: int, stop: int) -> Tensor:
        """Return the grades of rows over all columns."""
        part = self.entries.part(start, stop)
        full = torch.zeros(stop - start, self._width, device=part.items.device)
        if isinstance(part, PaddedInteractions):
            return _add_grades(full.view(-1), part, self._width).view_as(full)
        full[part.row_of, part.items] = part.sizes
        return full

    def only(self, which: Tensor) -> SparseRelevance:
        """Return the relevance of some rows alone."""
        refused, unjudged = (
            None if others is None else lambda others=others: others().only(which)
            for others in (self._refused, self._unjudged)
        )
        return SparseRelevance(
            self.entries.rows(which), self._width, self.counts[which], by_id=self.by_id.rows(which),
            refused=refused, unjudged=unjudged, odd=None if self.odd is None else self.odd[which],
        )  # fmt: skip


Relevance = DenseRelevance | SparseRelevance
"""The relevant entries of a batch by row and column; the grade of other items is 0."""


def _ones(grades: Tensor) -> int:
    """Return the number of grades that are 1; NumPy, which has no bfloat16, takes half the time."""
    flags = grades == 1 if grades.dtype is torch.bfloat16 else torch.from_numpy(grades.numpy() == 1)
    return int(flags.count_nonzero())


def may_be_odd(grades: Tensor) -> bool:
    """Return whether a target is a matrix of grades that may contain nan or infinite values."""
    return grades.ndim == 2 and grades.is_floating_point() and grades.numel() > 0


def odd_rows(grades: Tensor) -> Tensor:
    """Return which rows of a matrix have a grade that is nan or infinite in float32, (rows,) bool."""
    return ~fits_float32(*grades.aminmax(dim=1))


def fits_float32(low: Tensor, high: Tensor) -> Tensor:
    """Return whether float32 can hold all numbers from `low` to `high`; False for nan."""
    most = torch.finfo(torch.float32).max
    return (low >= -most) & (high <= most)


def _add_grades(flat: Tensor, part: PaddedInteractions, width: int) -> Tensor:
    """Add grades to a flattened matrix of zeros; padding adds 0."""
    return flat.index_add_(0, part.places(width), part.sizes)


def _row_blocks(rows: int, height: int) -> Iterator[tuple[int, int]]:
    """Yield the first row and the end of blocks of at most `height` rows, and at least one."""
    height = max(1, height)
    for start in range(0, rows, height):
        yield start, min(rows, start + height)


def _of_counts(counts: Tensor, k: int) -> Tensor:
    """Return the k largest grades of rows with so many equally relevant items."""
    if len(counts) <= k:
        return of_lengths(counts, k)
    return of_each_length(k, counts.device).index_select(0, counts.clamp(max=k))


def _ideal(entries: Interactions, k: int, counts: Tensor | None = None) -> Tensor:
    """Return the k largest grades of each row; a relevant item without an entry counts 1."""
    best = _of_counts(entries.counts if counts is None else counts, k)
    if entries.grades is None or not len(entries.items):
        return best
    if isinstance(entries, PaddedInteractions):
        grades = entries.side_by_side(entries.grades, -torch.inf).topk(min(k, entries.most), dim=1).values
        grades = torch.nn.functional.pad(grades, (0, k - grades.shape[1]), value=-torch.inf)
        return torch.where(grades > -torch.inf, grades, best)
    order = entries.grades.argsort(descending=True, stable=True)
    row = entries.row_of[order]
    by_row = row.argsort(stable=True)
    row, order = row[by_row], order[by_row]
    position = torch.arange(len(row), device=row.device) - entries.offsets[row]
    is_listed = position < k
    best[row[is_listed], position[is_listed]] = entries.grades[order[is_listed]]
    return best
