"""Padded: interactions as a table, whose size is known without counting anything on a device."""

from __future__ import annotations

import torch
from torch import Tensor

from .._device import on_host, sent
from .interactions import Interactions


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
