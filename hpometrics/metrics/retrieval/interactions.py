"""Interactions: the items of each row with their grades, packed as in a CSR matrix or padded as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..._redaction import excerpt
from ...exceptions import MetricInputError, NonFiniteError
from .._device import on_host, send_to
from ..batch import as_tensor

_FORMS = (
    "a matrix of rows x items (dense, torch.sparse or scipy.sparse), a list with the item ids of each row "
    "(or a mapping of item id to grade), or packed as (offsets, items) or (offsets, items, grades)"
)


@dataclass(frozen=True, eq=False)
class Interactions:
    """The items of each row, as in a CSR matrix.

    Attributes:
        offsets: (rows + 1,) int64; row r owns the entries from `offsets[r]` up to `offsets[r + 1]`.
        items: (entries,) int64.
        grades: (entries,) float32; None where each entry counts 1.

    >>> Interactions.of([[2, 0], [], {1: 3.0}], "target").offsets.tolist()
    [0, 2, 2, 3]
    """

    offsets: Tensor
    items: Tensor
    grades: Tensor | None = None

    @classmethod
    def of(cls, data: Any, name: str, num_items: int | None = None, *, finite: bool = True) -> Interactions:
        """Parse any of the supported forms of sparse data.

        Args:
            data: the data.
            name: the name of the data in messages.
            num_items: an upper bound of the ids, exclusive; None if it is unknown.
            finite: whether to refuse grades that are nan, or infinite in float32.

        Raises:
            MetricInputError: the form is not supported, an id is out of range, or a row has an item twice.
            NonFiniteError: a grade is not finite.
        """
        if isinstance(data, Interactions):
            return data
        entries = _parse(data, name)
        entries._check(name, num_items)
        if finite and entries.odd_rows is not None:
            raise NonFiniteError(f"{name}: grades must be finite numbers, not nan or infinite")
        return entries

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Tensor:
        """The number of entries of each row, (rows,) int64."""
        return self.offsets.diff()

    @property
    def row_of(self) -> Tensor:
        """The row of each entry, (entries,) int64."""
        if on_host(self.offsets):
            return torch.from_numpy(np.repeat(np.arange(len(self)), self.counts.numpy()))
        rows = torch.arange(len(self), device=self.offsets.device)
        return rows.repeat_interleave(self.counts, output_size=len(self.items))

    @property
    def sizes(self) -> Tensor:
        """The grade of each entry, 1 where none was given, (entries,) float32."""
        return torch.ones(len(self.items), device=self.items.device) if self.grades is None else self.grades

    @property
    def odd_rows(self) -> Tensor | None:
        """Whether each row has a grade that is nan or infinite, (rows,) bool; None where no row has."""
        odd = None if self.grades is None else ~self.grades.isfinite()
        if odd is None or not bool(odd.any()):
            return None
        rows = torch.zeros(len(self), dtype=torch.bool, device=odd.device)
        return rows.index_fill_(0, self.row_of[odd], True)

    @property
    def most(self) -> int:
        """The largest number of entries of a row."""
        return int(self.counts.max()) if len(self) else 0

    def real(self, values: Tensor, behind: float = 0.0) -> Tensor:
        """Return values (entries,), with `behind` for padding, of which there is none."""
        return values

    def means(self, facts: Tensor) -> Tensor:
        """Return the mean of facts (items,) over the items of each row, (rows,) float64; nan if empty."""
        none = torch.zeros(len(self), dtype=torch.float64, device=self.items.device)
        return none.index_add(0, self.row_of, self.real(facts.double()[self.items])) / self.counts

    def side_by_side(self, values: Tensor, behind: float) -> Tensor:
        """Arrange values of each entry, (entries,), as a table (rows, most), padded with `behind`."""
        filled = torch.arange(self.most, device=values.device) < self.counts.unsqueeze(1)
        return values.new_full(filled.shape, behind).masked_scatter_(filled, values)

    def rows(self, which: Tensor) -> Interactions:
        """Return the rows with these indices, in their order; a row may be repeated."""
        if on_host(which) and len(which) and bool((which.diff() == 1).all()):
            return self.part(int(which[0]), int(which[-1]) + 1)  # users as they come, without a copy
        counts = self.counts[which]
        offsets = _offsets(counts)
        inside = torch.arange(int(offsets[-1]), device=which.device)
        take = inside + (self.offsets[which] - offsets[:-1]).repeat_interleave(counts)
        return Interactions(offsets, self.items[take], None if self.grades is None else self.grades[take])

    def part(self, start: int, stop: int) -> Interactions:
        """Return the rows from `start` up to `stop`, without a copy of their entries."""
        low, high = int(self.offsets[start]), int(self.offsets[stop])
        grades = None if self.grades is None else self.grades[low:high]
        return Interactions(self.offsets[start : stop + 1] - low, self.items[low:high], grades)

    def places(self, width: int) -> Tensor:
        """Return the indices of the entries in a flattened matrix of `width` columns, (entries,) int64."""
        return self.row_of * width + self.items

    def places_on_host(self, start: int, stop: int, width: int) -> npt.NDArray[np.int64]:
        """Return the indices for the rows from `start` up to `stop`, by NumPy, whose calls cost a tenth."""
        offsets = self.offsets.numpy()[start : stop + 1]
        places = (np.arange(stop - start) * width).repeat(offsets[1:] - offsets[:-1])
        places += self.items.numpy()[offsets[0] : offsets[-1]]
        return places

    def sizes_on_host(self, start: int, stop: int) -> npt.NDArray[np.float32] | int:
        """Return the grades of the rows from `start` up to `stop`, by NumPy; 1 where none was given."""
        if self.grades is None:
            return 1
        low, high = self.offsets[start], self.offsets[stop]
        grades: npt.NDArray[np.float32] = self.grades.numpy()[low:high]
        return grades

    def where(self, keep: Tensor) -> Interactions:
        """Return the same rows with those of their entries where `keep`, (entries,) bool, is true."""
        grades = None if self.grades is None else self.grades[keep]
        return Interactions(_offsets(keep)[self.offsets], self.items[keep], grades)

    def renumbered(self, items: Tensor) -> Interactions:
        """Return the same entries with other item ids, (entries,), without those below 0."""
        return Interactions(self.offsets, items, self.grades).where(items >= 0)

    def ungraded(self) -> Interactions:
        """Return the same entries, each of which counts 1."""
        return Interactions(self.offsets, self.items)

    def packed(self) -> Interactions:
        """Return the same on the host."""
        return self.to("cpu")

    def to(self, device: torch.device | str) -> Interactions:
        """Return the same on a device."""
        grades = None if self.grades is None else send_to(self.grades, device)
        return Interactions(send_to(self.offsets, device), send_to(self.items, device), grades)

    def _check(self, name: str, num_items: int | None) -> None:
        if self.offsets.ndim != 1 or self.items.ndim != 1 or len(self.offsets) < 1:
            raise MetricInputError(f"{name}: packed offsets and items must have one dimension each")
        if (
            int(self.offsets[0]) != 0
            or int(self.offsets[-1]) != len(self.items)
            or bool((self.counts < 0).any())
        ):
            raise MetricInputError(
                f"{name}: offsets must rise from 0 to the number of items, {len(self.items)}; got "
                f"{excerpt(self.offsets.tolist(), 200)}"
            )
        if self.grades is not None and self.grades.shape != self.items.shape:
            raise MetricInputError(f"{name}: {len(self.items)} items have {len(self.grades)} grades")
        if len(self.items):
            self._check_items(name, num_items)

    def _check_items(self, name: str, num_items: int | None) -> None:
        low, high = (int(x) for x in self.items.aminmax())
        if low < 0 or (num_items is not None and high >= num_items):
            raise MetricInputError(
                f"{name}: item ids must be in 0..{'' if num_items is None else num_items - 1}, got values "
                f"from {low} to {high}"
            )
        rows, ids = self.row_of, self.items
        if (high + 1) * len(self) >= 2**63:  # as hashes may be: number them anew
            distinct, ids = torch.unique(ids, return_inverse=True)
            high = len(distinct) - 1
        keys = rows * (high + 1) + ids
        if bool((keys.diff() > 0).all()):
            return
        ordered, order = keys.sort()
        twice = order[:-1][ordered.diff() == 0]
        if len(twice):
            row, item = (int(values[twice[0]]) for values in (rows, self.items))
            raise MetricInputError(
                f"{name}: item {item} appears twice in row {row}; each row may list an item only once"
            )


def _parse(data: Any, name: str) -> Interactions:
    if hasattr(data, "tocsr"):
        return _from_scipy(data)
    if getattr(getattr(data, "dtype", None), "kind", "") == "O" and data.ndim == 1:  # a column of lists
        data = data.tolist()
    if isinstance(data, np.ndarray) and data.ndim == 2:
        data = torch.from_numpy(data)
    if isinstance(data, Tensor) and data.layout is not torch.strided:
        return _from_sparse(data)
    if isinstance(data, Tensor) and data.ndim == 2:
        return _from_dense(data)
    if isinstance(data, tuple) and len(data) in (2, 3):
        offsets, items, *grades = (as_tensor(part, f"{name}, packed,") for part in data)
        if grades and grades[0].is_complex():
            raise MetricInputError(f"{name}: grades must be real numbers, got {grades[0].dtype}")
        return Interactions(_ids(offsets, name), _ids(items, name), grades[0].float() if grades else None)
    if isinstance(data, list):
        return _from_lists(data, name)
    shape = f" of shape {tuple(data.shape)}" if hasattr(data, "shape") else ""
    raise MetricInputError(f"{name} is {_FORMS}; got {type(data).__name__}{shape}")


def flagged(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the indices of the set flags of a flattened array, ascending, of which few are expected.

    Flags are first read eight at a time: one in seventy is set, and with branch prediction each costs several
    times as much as a word of eight without any.

    >>> flagged(np.arange(12) % 5 == 1).tolist()
    [1, 6, 11]
    """
    flat = np.ascontiguousarray(flags).reshape(-1)
    whole = len(flat) // 8 * 8
    words = flat[:whole].view(np.uint64)
    some = np.flatnonzero(words != 0)
    inside = np.flatnonzero(words.take(some).view(np.bool_))
    indices: npt.NDArray[np.int64] = some.take(inside >> 3)
    indices *= 8
    indices += inside & 7
    return indices if whole == len(flat) else np.append(indices, whole + np.flatnonzero(flat[whole:]))


def of_flags(matrix: Tensor) -> Interactions:
    """Return the columns of the set flags of each row of a matrix on the host."""
    rows, width = matrix.shape
    places = flagged(matrix.numpy())
    row = places // max(1, width)
    offsets = np.concatenate([[0], np.bincount(row, minlength=rows).cumsum()])
    return Interactions(torch.from_numpy(offsets), torch.from_numpy(places - row * width))


def _from_dense(matrix: Tensor) -> Interactions:
    if matrix.dtype is torch.bool and on_host(matrix):
        return of_flags(matrix)
    positions = matrix.nonzero()
    counts = torch.bincount(positions[:, 0], minlength=len(matrix))
    plain = matrix.dtype is torch.bool
    grades = None if plain else matrix[positions[:, 0], positions[:, 1]].float()
    return Interactions(_offsets(counts), positions[:, 1].contiguous(), grades)


def _from_sparse(matrix: Tensor) -> Interactions:
    if matrix.layout is torch.sparse_csr:
        offsets, items = matrix.crow_indices(), matrix.col_indices()
        return Interactions(offsets.long(), items.long(), matrix.values().float())
    pairs = matrix.to_sparse().coalesce()
    rows, items = pairs.indices()
    return Interactions(_offsets(torch.bincount(rows, minlength=len(matrix))), items, pairs.values().float())


def _from_scipy(matrix: Any) -> Interactions:
    csr = matrix.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    parts = (torch.from_numpy(np.asarray(part)) for part in (csr.indptr, csr.indices, csr.data))
    offsets, items, grades = parts
    return Interactions(offsets.long(), items.long(), grades.float())


def _from_lists(rows: Sequence[Any], name: str) -> Interactions:
    kinds = {*map(type, rows)}  # to look at the type of each row alone would take longer than all else
    has_grades = any(issubclass(kind, Mapping) for kind in kinds)
    are_plain = kinds <= {list, tuple}
    listed = rows if are_plain else [row.tolist() if hasattr(row, "tolist") else row for row in rows]
    try:
        counts = torch.from_numpy(np.fromiter(map(len, listed), np.int64, len(listed)))
        flat = list(chain.from_iterable(listed))
        numbers = np.array(flat)  # in half the time of `torch.tensor`, which explains what is no integer
        items = torch.from_numpy(numbers) if numbers.dtype == np.int64 else torch.tensor(flat)
        grades = torch.tensor(list(_grades(rows))) if has_grades else None
    except (TypeError, ValueError) as err:
        raise MetricInputError(f"{name} must be {_FORMS}; got a list with other content: {err}") from err
    return Interactions(_offsets(counts), _ids(items, name), grades)


def _grades(rows: Sequence[Any]) -> Iterator[float]:
    for row in rows:
        yield from map(float, row.values()) if isinstance(row, Mapping) else (1.0 for _ in row)


def _ids(values: Tensor, name: str) -> Tensor:
    if values.numel() and (values.is_floating_point() or values.dtype is torch.bool):
        raise MetricInputError(f"{name}: item ids and offsets must be whole numbers, got {values.dtype}")
    return values.long()


def _offsets(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class PaddedInteractions(Interactions):
    """The items of each row as a table, padded so that all rows have the same length.

    Padding is an entry of item 0 and grade 0 where `mask` is false; `real` replaces its values.

    Args:
        table: (rows, most) int64, the items of each row.
        mask: (rows, most) bool, which positions have an item.
        grades: (rows, most) the grade of each; None where each counts 1.
        source: the packed interactions on the host that the table was created from, if any.

    >>> few = PaddedInteractions.from_packed(Interactions.of([[2, 5], [], [7]], "target"))
    >>> few.items.tolist(), few.counts.tolist()
    ([2, 5, 0, 0, 7, 0], [2, 0, 1])
    """

    mask: Tensor

    def __init__(
        self, table: Tensor, mask: Tensor, grades: Tensor | None = None, source: Interactions | None = None
    ) -> None:
        offsets = torch.arange(len(table) + 1, device=table.device) * table.shape[1]
        if grades is not None:
            grades = torch.where(mask, grades.float(), 0.0).reshape(-1)
        super().__init__(offsets, torch.where(mask, table, 0).reshape(-1), grades)
        self.mask, self._source = mask, source

    @classmethod
    def from_packed(cls, entries: Interactions) -> PaddedInteractions:
        """Create a table from packed entries."""
        rows = torch.arange(len(entries), device=entries.offsets.device)
        table = cls.from_rows(entries, entries.most, rows)
        table._source = entries if on_host(rows) else None
        return table

    @classmethod
    def from_rows(cls, entries: Interactions, most: int, which: Tensor) -> PaddedInteractions:
        """Create a table from the packed entries of some rows, none of which has more than `most`."""
        positions = torch.arange(most, device=which.device)
        mask = positions < entries.counts[which].unsqueeze(1)
        if not most:  # no entry to index
            return cls(torch.zeros_like(mask, dtype=torch.int64), mask)
        take = torch.where(mask, entries.offsets[which].unsqueeze(1) + positions, 0)
        grades = None if entries.grades is None else entries.grades[take]
        return cls(entries.items[take], mask, grades)

    @classmethod
    def above(cls, matrix: Tensor, threshold: float) -> PaddedInteractions:
        """Create a table of the entries of a matrix above a threshold, with a position for each column."""
        columns = torch.arange(matrix.shape[1], device=matrix.device).expand(matrix.shape)
        return cls(columns, matrix > threshold, None if matrix.dtype is torch.bool else matrix)

    @property
    def most(self) -> int:
        """The number of positions of each row."""
        return self.mask.shape[1]

    @property
    def counts(self) -> Tensor:
        """The number of items of each row, (rows,) int64."""
        return self.mask.sum(1)

    @property
    def row_of(self) -> Tensor:
        """The row of each position, (positions,) int64."""
        rows = torch.arange(len(self.mask), device=self.mask.device)
        return rows.unsqueeze(1).expand(self.mask.shape).reshape(-1)

    @property
    def sizes(self) -> Tensor:
        """The grade of each position, (positions,) float32."""
        return self.mask.float().view(-1) if self.grades is None else self.grades

    def real(self, values: Tensor, behind: float = 0.0) -> Tensor:
        """Return values (positions,), with `behind` for padding."""
        return values.masked_fill(~self.mask.view(-1), behind)

    def side_by_side(self, values: Tensor, behind: float) -> Tensor:
        """Arrange values of each position as a table (rows, most), with `behind` for padding."""
        return self.real(values, behind).view(self.mask.shape)

    def rows(self, which: Tensor) -> PaddedInteractions:
        """Return the rows with these indices."""
        return self._select(self.mask[which], which)

    def part(self, start: int, stop: int) -> PaddedInteractions:
        """Return the rows from `start` up to `stop`."""
        return self._select(self.mask[start:stop], slice(start, stop))

    def where(self, keep: Tensor) -> PaddedInteractions:
        """Return the same table, in which positions without `keep`, (positions,) bool, become padding."""
        return self._select(self.mask & keep.view(self.mask.shape), slice(None))

    def renumbered(self, items: Tensor) -> PaddedInteractions:
        """Return the same table with other item ids, (positions,); ids below 0 become padding."""
        mask = self.mask & (items >= 0).view(self.mask.shape)
        return PaddedInteractions(items.view(self.mask.shape), mask, self._table_of(self.grades))

    def ungraded(self) -> PaddedInteractions:
        """Return the same table, in which each item counts 1."""
        return PaddedInteractions(self.items.view(self.mask.shape), self.mask)

    def to(self, device: torch.device | str) -> PaddedInteractions:
        """Return the same on a device."""
        grades = self._table_of(self.grades)
        table = send_to(self.items.view(self.mask.shape), device)
        grades = None if grades is None else send_to(grades, device)
        return PaddedInteractions(table, send_to(self.mask, device), grades, self._source)

    def packed(self) -> Interactions:
        """Return the entries packed on the host; synchronizes unless the table was created on the host."""
        if self._source is not None:
            return self._source
        mask = self.mask.cpu()
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), mask.sum(1).cumsum(0)])
        grades = None if self.grades is None else self.grades.cpu()[mask.view(-1)]
        return Interactions(offsets, self.items.cpu()[mask.view(-1)], grades)

    def _table_of(self, values: Tensor | None) -> Tensor | None:
        return None if values is None else values.view(self.mask.shape)

    def _select(self, mask: Tensor, which: Tensor | slice) -> PaddedInteractions:
        grades = self._table_of(self.grades)
        table = self.items.view(self.mask.shape)[which]
        return PaddedInteractions(table, mask, None if grades is None else grades[which])


def beside(entries: Interactions, like: Tensor) -> Interactions:
    """Return entries on the device of a tensor; they are sent as a table, whose size is known on the host."""
    return entries if on_host(like) else PaddedInteractions.from_packed(entries).to(like.device)


def columns_of_items(entries: Interactions, items: Tensor) -> Interactions:
    """Replace item ids by columns of each row's candidates, and drop items that are not candidates."""
    rows, width = items.shape
    if not items.numel() or not len(entries.items):
        return entries.where(torch.zeros(len(entries.items), dtype=torch.bool, device=items.device))
    if on_host(items):
        items, entries = _renumber_large(items, entries)
    most = torch.maximum(items.amax(), entries.items.amax()) + 2
    first = torch.arange(rows, device=items.device).unsqueeze(1) * most
    ordered, order = (first + items + 1).view(-1).sort()
    keys = entries.row_of * most + entries.items + 1
    indices = torch.searchsorted(ordered, keys).clamp(max=len(ordered) - 1)
    return entries.renumbered(torch.where(ordered[indices] == keys, order[indices] % width, -1))


def _renumber_large(items: Tensor, entries: Interactions) -> tuple[Tensor, Interactions]:
    """Renumber ids, in their order, if their product with rows exceeds 64 bits, as for hashes."""
    if (max(int(items.max()), int(entries.items.max())) + 2) * (len(items) + 1) < 2**63:
        return items, entries
    every = torch.cat([items.reshape(-1), entries.items, items.new_full((1,), -1)])
    numbers = torch.unique(every, return_inverse=True)[1] - 1  # no item, -1, comes first and stays -1
    split = items.numel()
    return numbers[:split].view(items.shape), entries.renumbered(numbers[split:-1])
