"""Ranked lists: the best items of each row and whether they are relevant, whole and cut at each k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from .._device import on_host, send_to
from .interactions import Interactions, PaddedInteractions


class Lists:
    """The ranked lists of a batch, to the largest requested cut-off.

    Args:
        values: (rows, depth) float32 scores, descending; -inf after the end of a list.
        columns: (rows, depth) int64, the columns of the items in the scores; -1 after the end.
        items: (rows, depth) int64 item ids; -1 after the end. In a full evaluation these are the columns.
        grades: (rows, depth) float32, how relevant each item is, 0 if it is not.
        relevant: (rows,) int64, the number of items that are relevant to each row.
        best: returns `ideal`, which few formulas read.
        graded: whether there may be grades other than 0 and 1.
    """

    endless: ClassVar[bool] = False
    """Whether the lists contain all items, with positions for the relevant ones only."""

    def __init__(
        self,
        values: Tensor,
        columns: Tensor,
        items: Tensor,
        grades: Tensor,
        relevant: Tensor,
        *,
        best: Callable[[], Tensor],
        graded: bool = True,
    ) -> None:
        self.values, self.columns, self.items = values, columns, items
        self.grades, self.relevant = grades, relevant
        self.graded = graded
        self._best = best

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Lists:
        """Concatenate the lists of several batches, of one depth and without grades."""
        values, columns, grades, relevant = (
            torch.cat([getattr(part, name) for part in parts])
            for name in ("values", "columns", "grades", "relevant")
        )
        full = all(part.items is part.columns for part in parts)
        items = columns if full else torch.cat([part.items for part in parts])
        best = partial(of_lengths, relevant, parts[0].depth)
        return cls(values, columns, items, grades, relevant, best=best, graded=False)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def depth(self) -> int:
        """The length of the lists."""
        return self.values.shape[1]

    @property
    def _tensors(self) -> tuple[Tensor, ...]:
        return self.values, self.columns, self.items, self.grades, self.relevant

    @cached_property
    def ideal(self) -> Tensor:
        """The largest grades of each row, descending, then 0, (rows, depth) float32."""
        return self._best()

    @cached_property
    def real(self) -> Tensor:
        """Whether a list has an item at each position, (rows, depth) bool."""
        return self.items >= 0

    @cached_property
    def hits(self) -> Tensor:
        """Whether the item at each position of a list is relevant, (rows, depth) bool."""
        return self.grades > 0

    @cached_property
    def worth(self) -> Tensor:
        """The grades in float64, (rows, depth)."""
        return self.grades.double()

    @cached_property
    def marks(self) -> Tensor:
        """1 where the item of a list is relevant, else 0, (rows, depth) float64."""
        return self.grades.sign().clamp_(min=0).double() if self.graded else self.worth

    @cached_property
    def found(self) -> Tensor:
        """The number of relevant items in each list up to each position, (rows, depth) float64."""
        return self.marks.cumsum(1)

    @cached_property
    def lengths(self) -> Tensor:
        """The number of items of each list, (rows, 1) float64."""
        return self.real.sum(1, keepdim=True).double()

    @cached_property
    def full(self) -> bool:
        """Whether no list ends early; False on a device, where the check would synchronize."""
        return on_host(self.items) and bool(self.items.numpy()[:, -1].min(initial=0) >= 0)

    @cached_property
    def _room(self) -> Tensor:
        return torch.empty(self.grades.shape, dtype=torch.float64, device=self.grades.device)

    def product(self, values: Tensor, weights: Tensor) -> Tensor:
        """Multiply values per position, (rows, depth) float64; the result is valid until the next product."""
        return torch.mul(values, weights, out=self._room)

    @cached_property
    def places(self) -> Tensor:
        """The ranks 1, 2, ... depth, float64."""
        return _ranks(self.depth, self.values.device)

    @cached_property
    def discounts(self) -> Tensor:
        """The weight 1 / log2(rank + 1) of each rank, (depth,) float64."""
        return self.ideal_discounts

    @cached_property
    def ideal_discounts(self) -> Tensor:
        """The weight of each rank of the ideal list, (depth,) float64."""
        return _discounts(self.depth, self.values.device)

    @cached_property
    def valid(self) -> Tensor:
        """Whether each row has a relevant item, (rows,) bool."""
        return self.relevant > 0

    def of_valid(self, values: Tensor) -> Tensor:
        """Replace the values of rows without a relevant item by nan, which excludes them from averages."""
        return values.masked_fill(~self.valid.unsqueeze(1), torch.nan)

    def of_items(self, facts: Tensor) -> Tensor:
        """Return facts (items, ...) of the items of the lists, (rows, depth, ...); 0 after their end."""
        if not self.full:
            facts = torch.cat([facts, facts.new_zeros(1, *facts.shape[1:])])  # read by index -1
        if on_host(facts):  # NumPy takes in a quarter of the time
            return torch.from_numpy(facts.numpy().take(self.items.numpy(), axis=0))
        return facts[self.items]

    def cut(self, cutoffs: tuple[int, ...]) -> Cut:
        """Return the lists cut at several k; the lists keep no reference to it, so both are freed at once."""
        return Cut(self, cutoffs)

    def within(self, k: Tensor) -> Tensor:
        """Return which positions belong to a list of each k, (cutoffs, depth) bool."""
        return _ranks(self.depth, self.values.device) <= k.unsqueeze(1)

    def ends(self, k: Tensor) -> Tensor:
        """Return the last column of a list of each k, (cutoffs,) int64."""
        return k - 1

    def alone(self) -> Lists:
        """Return the same lists without grades and without a reference to their batch."""
        return Lists(*self._tensors, best=partial(of_lengths, self.relevant, self.depth), graded=False)

    def part(self, start: int, stop: int) -> Lists:
        """Return the lists of some rows."""
        parts = (tensor[start:stop] for tensor in self._tensors)
        return Lists(*parts, best=lambda: self.ideal[start:stop], graded=self.graded)


class Cut:
    """The lists of a batch cut at several k at once; each tensor has a column per k.

    Args:
        lists: the lists.
        cutoffs: each k, from 1 up to the depth of the lists.
    """

    def __init__(self, lists: Lists, cutoffs: tuple[int, ...]) -> None:
        self.lists = lists
        each = _each(cutoffs, lists.values.device)
        self.k = each.double()
        """Each k, (cutoffs,) float64."""
        self._last, self._within = lists.ends(each), lists.within(self.k).double()

    @cached_property
    def found(self) -> Tensor:
        """The number of relevant items in a list of each k, (rows, cutoffs) float64."""
        return self.last(self.lists.found)

    @cached_property
    def lengths(self) -> Tensor:
        """The number of items in a list of each k, (rows, cutoffs) float64; fewer than k if it ends early."""
        if self.lists.full:
            return self.k.expand(len(self.lists), -1)
        return torch.minimum(self.lists.lengths, self.k)

    @cached_property
    def relevant(self) -> Tensor:
        """The number of items that are relevant to each row, (rows, 1) float64."""
        return self.lists.relevant.double().unsqueeze(1)

    @cached_property
    def best_found(self) -> Tensor:
        """The number of relevant items in an ideal list of each k, (rows, cutoffs) float64; all if whole."""
        return self.relevant if self.lists.endless else torch.minimum(self.relevant, self.k)

    def sum(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Add up the values of the positions, (rows, depth) or (depth,), within a list of each k.

        Positions may have weights, (depth,) or (rows, depth).
        """
        return self._sum(values, weights)

    def _sum(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        within = self._within
        if weights is not None and weights.ndim == 1:
            within = within * weights
        elif weights is not None:
            values = values * weights
        values = values.double()
        return within @ values if values.ndim == 1 else (within @ values.T).T

    def sum_of_ideal(self, worth: Callable[[Tensor], Tensor], weights: Tensor) -> Tensor:
        """Add up the worth of the grades of the ideal lists within each k, (rows, cutoffs).

        Where all grades are 1, ideal lists differ only in their length: one of each length is added up.
        """
        lists = self.lists
        if lists.graded or len(lists) <= lists.depth:
            return self._sum(worth(lists.ideal), weights)
        sums = self._sum(worth(of_each_length(lists.depth, weights.device)), weights)
        return sums[lists.relevant.clamp(max=lists.depth)]

    def last(self, values: Tensor) -> Tensor:
        """Return a running value, (rows, depth), at each k."""
        return values.T.index_select(0, self._last).T


class WholeLists(Lists):
    """The relevant items of each row in the order of their ranks, instead of lists of all items.

    A formula that adds up over positions of relevant items reads them like any other lists: `places` are the
    ranks of these items among all ranked items, (rows, depth), where depth is the largest number of relevant
    items.
    """

    endless = True

    def __init__(self, ranks: Tensor, *tensors: Tensor, best: Callable[[], Tensor]) -> None:
        super().__init__(*tensors, best=best)
        self._ranks = ranks

    @classmethod
    def of(
        cls,
        entries: Interactions,
        facts: tuple[Tensor, Tensor, Tensor],
        relevant: Tensor,
        depth: int,
        best: Callable[[], Tensor],
    ) -> WholeLists:
        """Sort the relevant items by rank.

        Args:
            entries: the relevant columns of each row, with their grades.
            facts: the rank, score and item of each entry; the rank is inf where the item is not ranked.
            relevant: (rows,) the number of relevant items.
            depth: the largest of these numbers, at least 1.
            best: returns `ideal`.
        """
        if isinstance(entries, PaddedInteractions):
            return cls._sorted(entries, facts, relevant, depth, best)
        rank, value, item = facts
        ranked = (rank < torch.inf).nonzero().squeeze(1)
        order = ranked[rank[ranked].argsort(stable=True)]
        order = order[entries.row_of[order].argsort(stable=True)]
        row = entries.row_of[order]
        counts = torch.zeros_like(relevant).index_add_(0, row, torch.ones_like(row))
        place = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]

        def table(values: Tensor, behind: float) -> Tensor:
            return values.new_full((len(relevant), depth), behind).index_put_((row, place), values[order])

        lists = table(value, -torch.inf), table(entries.items, -1), table(item, -1), table(entries.sizes, 0.0)
        return cls(table(rank, torch.inf), *lists, relevant, best=best)

    @classmethod
    def _sorted(
        cls,
        entries: PaddedInteractions,
        facts: tuple[Tensor, Tensor, Tensor],
        relevant: Tensor,
        depth: int,
        best: Callable[[], Tensor],
    ) -> WholeLists:
        """Sort a table, each row on its own."""
        rank, value, item = facts
        ranks, order = rank.view(entries.mask.shape).sort(dim=1)
        behind = depth - entries.most

        def table(values: Tensor, fill: float) -> Tensor:
            ordered = values.view(order.shape).gather(1, order).masked_fill(ranks == torch.inf, fill)
            return torch.nn.functional.pad(ordered, (0, behind), value=fill)

        lists = table(value, -torch.inf), table(entries.items, -1), table(item, -1), table(entries.sizes, 0.0)
        return cls(table(rank, torch.inf), *lists, relevant, best=best)

    @property
    def places(self) -> Tensor:
        """The ranks of the relevant items, (rows, depth) float64; inf after the last."""
        return self._ranks

    @property
    def discounts(self) -> Tensor:
        """The weight 1 / log2(rank + 1) of each of these ranks, (rows, depth) float64."""
        return 1 / (self.places + 1).log2()

    def within(self, k: Tensor) -> Tensor:
        """Return all positions for each k."""
        return torch.ones(len(k), self.depth, dtype=torch.bool, device=k.device)

    def ends(self, k: Tensor) -> Tensor:
        """Return the last column for each k."""
        return torch.full_like(k, self.depth - 1)

    def part(self, start: int, stop: int) -> WholeLists:
        """Return the lists of some rows."""
        parts = (tensor[start:stop] for tensor in (self._ranks, *self._tensors))
        return WholeLists(*parts, best=lambda: self.ideal[start:stop])


class HitLists(Lists):
    """The hits of ranked lists at their ranks, for formulas that read nothing else of a list.

    Where few items are relevant, there are few hits, and their ranks are counted: no list is sorted.

    Args:
        places: (rows, most) float64, the ranks of the hits of each row, ascending; inf after the last.
        grades: (rows, most) float32, the grade of each hit, 0 after the last.
        relevant: (rows,) the number of relevant items.
        depth: the length of the lists.
        best: returns `ideal`.
        graded: whether there may be grades other than 0 and 1.
    """

    def __init__(
        self,
        places: Tensor,
        grades: Tensor,
        relevant: Tensor,
        depth: int,
        *,
        best: Callable[[], Tensor],
        graded: bool = True,
    ) -> None:
        none = relevant.new_empty(len(relevant), 0)
        super().__init__(grades[:, :0], none, none, grades, relevant, best=best, graded=graded)
        self._places, self._depth = places, depth

    @classmethod
    def of(
        cls,
        ranks: Tensor,
        entries: Interactions,
        relevant: Tensor,
        depth: int,
        *,
        best: Callable[[], Tensor],
        graded: bool,
    ) -> HitLists:
        """Arrange the relevant items of each row, on the host, by their ranks, (entries,) float64 from 1."""
        near = np.flatnonzero(ranks.numpy() <= depth)
        row = entries.row_of.numpy()[near]
        counts = np.bincount(row, minlength=len(relevant))
        column = np.arange(len(near)) - (counts.cumsum() - counts)[row]
        places = np.full((len(relevant), max(1, counts.max(initial=0))), np.inf)
        places[row, column] = ranks.numpy()[near]
        if entries.grades is None:
            places.sort(axis=1)
            grades = (places < np.inf).astype(np.float32)
        else:
            grades = np.zeros(places.shape, np.float32)
            grades[row, column] = entries.grades.numpy()[near]
            order = places.argsort(axis=1)
            places, grades = (np.take_along_axis(table, order, axis=1) for table in (places, grades))
        ranked, worth = torch.from_numpy(places), torch.from_numpy(grades)
        return cls(ranked, worth, relevant, depth, best=best, graded=graded)

    @classmethod
    def joined(cls, parts: Sequence[HitLists]) -> HitLists:
        """Concatenate the hits of several batches."""
        most = max(part.grades.shape[1] for part in parts)
        places, grades = (
            torch.cat(
                [torch.nn.functional.pad(table, (0, most - table.shape[1]), value=fill) for table in tables]
            )
            for tables, fill in (([p.places for p in parts], torch.inf), ([p.grades for p in parts], 0.0))
        )
        relevant, depth = torch.cat([part.relevant for part in parts]), parts[0].depth
        best = partial(of_lengths, relevant, depth)
        return cls(places, grades, relevant, depth, best=best, graded=False)

    @property
    def depth(self) -> int:
        """The length of the lists."""
        return self._depth

    @property
    def places(self) -> Tensor:
        """The ranks of the hits, (rows, most) float64; inf after the last."""
        return self._places

    @property
    def discounts(self) -> Tensor:
        """The weight 1 / log2(rank + 1) of each of these ranks, (rows, most) float64."""
        return 1 / (self.places + 1).log2()

    def cut(self, cutoffs: tuple[int, ...]) -> Cut:
        """Return the hits within each of several k."""
        return _HitCut(self, cutoffs)

    def alone(self) -> HitLists:
        """Return the same hits without grades and without a reference to their batch."""
        best = partial(of_lengths, self.relevant, self.depth)
        return HitLists(self.places, self.grades, self.relevant, self.depth, best=best, graded=False)

    def part(self, start: int, stop: int) -> HitLists:
        """Return the hits of some rows."""
        places, grades, relevant = (x[start:stop] for x in (self.places, self.grades, self.relevant))
        return HitLists(
            places, grades, relevant, self.depth, best=lambda: self.ideal[start:stop], graded=self.graded
        )


class _HitCut(Cut):
    """The hits of lists cut at several k at once: positions are those of hits."""

    @cached_property
    def found(self) -> Tensor:
        """The number of relevant items in a list of each k, (rows, cutoffs) float64."""
        return self.sum(self.lists.marks)

    def sum(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Add up the values of hits, (rows, most), within a list of each k; they may have weights."""
        worth = values.double() if weights is None else values.double() * weights
        ranks = self.lists.places
        return torch.stack([torch.where(ranks <= k, worth, 0.0).sum(1) for k in self.k], dim=1)


@lru_cache(maxsize=32)
def _each(cutoffs: tuple[int, ...], device: torch.device) -> Tensor:
    """Return each k as a tensor, (cutoffs,) int64, sent to the device once."""
    return send_to(torch.tensor(cutoffs), device)


def of_each_length(depth: int, device: torch.device) -> Tensor:
    """Return the ideal grades of 0, 1, ... depth equally relevant items, (depth + 1, depth) float32."""
    return of_lengths(torch.arange(depth + 1, device=device), depth)


def of_lengths(relevant: Tensor, depth: int) -> Tensor:
    """Return the ideal grades of rows with so many equally relevant items, (rows, depth) float32."""
    return (torch.arange(depth, device=relevant.device) < relevant.unsqueeze(1)).float()


def earlier(values: Tensor, first: float) -> Tensor:
    """Return the value of the previous position for each, (rows, depth), `first` for the first."""
    return torch.nn.functional.pad(values[:, :-1], (1, 0), value=first)


@lru_cache(maxsize=8)
def _ranks(depth: int, device: torch.device) -> Tensor:
    """Return the ranks from 1; the cached tensor must not be changed."""
    return torch.arange(1, depth + 1, device=device, dtype=torch.float64)


@lru_cache(maxsize=8)
def _discounts(depth: int, device: torch.device) -> Tensor:
    return 1 / (_ranks(depth, device) + 1).log2()
