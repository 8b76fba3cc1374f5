"""Interactions: which items belong to each row, and how much, one row behind the other."""

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
from .._device import on_host, sent
from ..batch import as_tensor

_FORMS = (
    "a matrix of rows x items (dense, torch.sparse or scipy.sparse), a list with the item ids of each row "
    "(or a mapping of item id to grade), or packed as (offsets, items) or (offsets, items, grades)"
)


@dataclass(frozen=True, eq=False)
class Interactions:
    """Items of each row, as in a CSR matrix.

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
    def of(cls, given: Any, name: str, num_items: int | None = None, *, finite: bool = True) -> Interactions:
        """Read any of the forms of sparse data.

        Args:
            given: the data.
            name: what it is called where it came from, for messages.
            num_items: ids lie below it; unchecked where it is not known.
            finite: whether to refuse grades that are nan or infinite, or that float32 makes infinite.

        Raises:
            MetricInputError: another form, an id out of range, or an item twice in a row.
            NonFiniteError: a grade that is not finite.
        """
        if isinstance(given, Interactions):
            return given
        made = _read(given, name)
        made._check(name, num_items)
        if finite and made.odd_rows is not None:
            raise NonFiniteError(f"{name}: grades are finite numbers, not nan or infinite")
        return made

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
        """Which rows have a grade that is nan or infinite, (rows,) bool; None where no row has."""
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
        """Return values (entries,), with `behind` for entries that only fill up, of which there are none."""
        return values

    def means(self, facts: Tensor) -> Tensor:
        """The mean of facts (items,) over the items of each row, (rows,) float64; nan without any."""
        none = torch.zeros(len(self), dtype=torch.float64, device=self.items.device)
        return none.index_add(0, self.row_of, self.real(facts.double()[self.items])) / self.counts

    def side_by_side(self, values: Tensor, behind: float) -> Tensor:
        """Put values of each entry, (entries,), side by side: (rows, most), with `behind` behind them."""
        filled = torch.arange(self.most, device=values.device) < self.counts.unsqueeze(1)
        return values.new_full(filled.shape, behind).masked_scatter_(filled, values)

    def rows(self, which: Tensor) -> Interactions:
        """Return the rows of these numbers, in their order; a row may be asked for more than once."""
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
        """Where the entries stand in a matrix of so many columns, laid out flat: (entries,) int64."""
        return self.row_of * width + self.items

    def places_on_host(self, start: int, stop: int, width: int) -> npt.NDArray[np.int64]:
        """The same of the rows from `start` up to `stop` alone, by NumPy, whose calls cost a tenth."""
        offsets = self.offsets.numpy()[start : stop + 1]
        places = (np.arange(stop - start) * width).repeat(offsets[1:] - offsets[:-1])
        places += self.items.numpy()[offsets[0] : offsets[-1]]
        return places

    def sizes_on_host(self, start: int, stop: int) -> npt.NDArray[np.float32] | int:
        """The grades of the rows from `start` up to `stop`, by NumPy; 1 where none was given."""
        if self.grades is None:
            return 1
        low, high = self.offsets[start], self.offsets[stop]
        grades: npt.NDArray[np.float32] = self.grades.numpy()[low:high]
        return grades

    def where(self, keep: Tensor) -> Interactions:
        """Return the same rows with those of their entries where `keep`, (entries,) bool, is true."""
        grades = None if self.grades is None else self.grades[keep]
        return Interactions(_offsets(keep)[self.offsets], self.items[keep], grades)

    def named(self, items: Tensor) -> Interactions:
        """Return the same entries under other numbers, (entries,), without those below 0."""
        return Interactions(self.offsets, items, self.grades).where(items >= 0)

    def ungraded(self) -> Interactions:
        """Return the same entries, each of which counts 1."""
        return Interactions(self.offsets, self.items)

    def packed(self) -> Interactions:
        """Return the same on the host."""
        return self.to("cpu")

    def to(self, device: torch.device | str) -> Interactions:
        """Return the same on a device."""
        grades = None if self.grades is None else sent(self.grades, device)
        return Interactions(sent(self.offsets, device), sent(self.items, device), grades)

    def _check(self, name: str, num_items: int | None) -> None:
        if self.offsets.ndim != 1 or self.items.ndim != 1 or len(self.offsets) < 1:
            raise MetricInputError(f"{name}: packed offsets and items have one dimension each")
        if (
            int(self.offsets[0]) != 0
            or int(self.offsets[-1]) != len(self.items)
            or bool((self.counts < 0).any())
        ):
            raise MetricInputError(
                f"{name}: offsets rise from 0 to the number of items, {len(self.items)}; "
                f"got {excerpt(self.offsets.tolist(), 200)}"
            )
        if self.grades is not None and self.grades.shape != self.items.shape:
            raise MetricInputError(f"{name}: {len(self.items)} items have {len(self.grades)} grades")
        if len(self.items):
            self._check_items(name, num_items)

    def _check_items(self, name: str, num_items: int | None) -> None:
        low, high = (int(x) for x in self.items.aminmax())
        if low < 0 or (num_items is not None and high >= num_items):
            raise MetricInputError(
                f"{name}: item ids lie in 0..{'' if num_items is None else num_items - 1}, "
                f"got values from {low} to {high}"
            )
        rows, ids = self.row_of, self.items
        if (high + 1) * len(self) >= 2**63:  # as hashes may be: number them anew
            known, ids = torch.unique(ids, return_inverse=True)
            high = len(known) - 1
        keys = rows * (high + 1) + ids
        if bool((keys.diff() > 0).all()):
            return
        ordered, order = keys.sort()
        twice = order[:-1][ordered.diff() == 0]
        if len(twice):
            row, item = (int(values[twice[0]]) for values in (rows, self.items))
            raise MetricInputError(
                f"{name}: item {item} stands twice in row {row}; each item of a row is given once"
            )


def _read(given: Any, name: str) -> Interactions:
    if hasattr(given, "tocsr"):
        return _from_scipy(given)
    if getattr(getattr(given, "dtype", None), "kind", "") == "O" and given.ndim == 1:  # a column of lists
        given = given.tolist()
    if isinstance(given, np.ndarray) and given.ndim == 2:
        given = torch.from_numpy(given)
    if isinstance(given, Tensor) and given.layout is not torch.strided:
        return _from_sparse(given)
    if isinstance(given, Tensor) and given.ndim == 2:
        return _from_dense(given)
    if isinstance(given, tuple) and len(given) in (2, 3):
        offsets, items, *grades = (as_tensor(part, f"{name}, packed,") for part in given)
        if grades and grades[0].is_complex():
            raise MetricInputError(f"{name}: grades are real numbers, got {grades[0].dtype}")
        return Interactions(_ids(offsets, name), _ids(items, name), grades[0].float() if grades else None)
    if isinstance(given, list):
        return _from_lists(given, name)
    shape = f" of shape {tuple(given.shape)}" if hasattr(given, "shape") else ""
    raise MetricInputError(f"{name} is {_FORMS}; got {type(given).__name__}{shape}")


def _from_dense(matrix: Tensor) -> Interactions:
    places = matrix.nonzero()
    counts = torch.bincount(places[:, 0], minlength=len(matrix))
    plain = matrix.dtype is torch.bool
    grades = None if plain else matrix[places[:, 0], places[:, 1]].float()
    return Interactions(_offsets(counts), places[:, 1].contiguous(), grades)


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
    graded = [isinstance(row, Mapping) for row in rows]
    listed = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
    try:
        counts = torch.tensor([len(row) for row in listed], dtype=torch.int64)
        items = torch.tensor(list(chain.from_iterable(listed)))
        grades = torch.tensor(list(_grades(rows))) if any(graded) else None
    except (TypeError, ValueError) as err:
        raise MetricInputError(f"{name} is {_FORMS}; got a list with something else in it: {err}") from err
    return Interactions(_offsets(counts), _ids(items, name), grades)


def _grades(rows: Sequence[Any]) -> Iterator[float]:
    for row in rows:
        yield from map(float, row.values()) if isinstance(row, Mapping) else (1.0 for _ in row)


def _ids(values: Tensor, name: str) -> Tensor:
    if values.numel() and (values.is_floating_point() or values.dtype is torch.bool):
        raise MetricInputError(f"{name}: item ids and offsets are whole numbers, got {values.dtype}")
    return values.long()


def _offsets(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class Padded(Interactions):
    """Items of each row side by side, as many places for each row as for any other.

    What only fills up a row is an entry of item 0 and grade 0 that is not held; `real` tells it apart.

    Args:
        table: (rows, most) int64, the items of each row.
        held: (rows, most) bool, which places have an item.
        grades: (rows, most) the grade of each; None where each counts 1.
        source: the same on the host, where it came from there.

    >>> few = Padded.unpacked(Interactions.of([[2, 5], [], [7]], "target"))
    >>> few.items.tolist(), few.counts.tolist()
    ([2, 5, 0, 0, 7, 0], [2, 0, 1])
    """

    held: Tensor

    def __init__(
        self, table: Tensor, held: Tensor, grades: Tensor | None = None, source: Interactions | None = None
    ) -> None:
        offsets = torch.arange(len(table) + 1, device=table.device) * table.shape[1]
        if grades is not None:
            grades = torch.where(held, grades.float(), 0.0).reshape(-1)
        super().__init__(offsets, torch.where(held, table, 0).reshape(-1), grades)
        self.held, self._source = held, source

    @classmethod
    def unpacked(cls, entries: Interactions) -> Padded:
        """Put packed entries side by side."""
        rows = torch.arange(len(entries), device=entries.offsets.device)
        made = cls.gathered(entries, entries.most, rows)
        made._source = entries if on_host(rows) else None
        return made

    @classmethod
    def gathered(cls, entries: Interactions, most: int, which: Tensor) -> Padded:
        """Put the packed entries of some rows side by side; no row has more than `most`."""
        places = torch.arange(most, device=which.device)
        held = places < entries.counts[which].unsqueeze(1)
        if not most:  # no entry at all, which could be taken
            return cls(torch.zeros_like(held, dtype=torch.int64), held)
        take = torch.where(held, entries.offsets[which].unsqueeze(1) + places, 0)
        grades = None if entries.grades is None else entries.grades[take]
        return cls(entries.items[take], held, grades)

    @classmethod
    def above(cls, matrix: Tensor, threshold: float) -> Padded:
        """Take the entries of a matrix that are above a threshold: a place for each of its columns."""
        columns = torch.arange(matrix.shape[1], device=matrix.device).expand(matrix.shape)
        return cls(columns, matrix > threshold, None if matrix.dtype is torch.bool else matrix)

    @property
    def most(self) -> int:
        """How many places each row has."""
        return self.held.shape[1]

    @property
    def counts(self) -> Tensor:
        """The number of items of each row, (rows,) int64."""
        return self.held.sum(1)

    @property
    def row_of(self) -> Tensor:
        """The row of each place, (places,) int64."""
        rows = torch.arange(len(self.held), device=self.held.device)
        return rows.unsqueeze(1).expand(self.held.shape).reshape(-1)

    @property
    def sizes(self) -> Tensor:
        """The grade of each place, (places,) float32."""
        return self.held.float().view(-1) if self.grades is None else self.grades

    def real(self, values: Tensor, behind: float = 0.0) -> Tensor:
        """Put `behind` in the place of the values, (places,), of what only fills up."""
        return values.masked_fill(~self.held.view(-1), behind)

    def side_by_side(self, values: Tensor, behind: float) -> Tensor:
        """Values of each place, (rows, most)."""
        return self.real(values, behind).view(self.held.shape)

    def rows(self, which: Tensor) -> Padded:
        """Return the rows of these numbers."""
        return self._made(self.held[which], which)

    def part(self, start: int, stop: int) -> Padded:
        """Return the rows from `start` up to `stop`."""
        return self._made(self.held[start:stop], slice(start, stop))

    def where(self, keep: Tensor) -> Padded:
        """Return the same places, of which only those hold an item where `keep`, (places,) bool, is true."""
        return self._made(self.held & keep.view(self.held.shape), slice(None))

    def named(self, items: Tensor) -> Padded:
        """Return the same places under other numbers, (places,); what is below 0 holds no item."""
        held = self.held & (items >= 0).view(self.held.shape)
        return Padded(items.view(self.held.shape), held, self._table_of(self.grades))

    def ungraded(self) -> Padded:
        """Return the same places, each item of which counts 1."""
        return Padded(self.items.view(self.held.shape), self.held)

    def to(self, device: torch.device | str) -> Padded:
        """Return the same on a device."""
        grades = self._table_of(self.grades)
        table = sent(self.items.view(self.held.shape), device)
        grades = None if grades is None else sent(grades, device)
        return Padded(table, sent(self.held, device), grades, self._source)

    def packed(self) -> Interactions:
        """Return the same one behind the other, on the host, which waits for it unless it came from there."""
        if self._source is not None:
            return self._source
        held = self.held.cpu()
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), held.sum(1).cumsum(0)])
        grades = None if self.grades is None else self.grades.cpu()[held.view(-1)]
        return Interactions(offsets, self.items.cpu()[held.view(-1)], grades)

    def _table_of(self, values: Tensor | None) -> Tensor | None:
        return None if values is None else values.view(self.held.shape)

    def _made(self, held: Tensor, which: Tensor | slice) -> Padded:
        grades = self._table_of(self.grades)
        table = self.items.view(self.held.shape)[which]
        return Padded(table, held, None if grades is None else grades[which])
