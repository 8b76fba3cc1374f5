"""Lists: the best items of each row of a batch, with what of them is relevant, and the same cut at each k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from typing import ClassVar

import torch
from torch import Tensor

from .._device import on_host, sent
from .interactions import Interactions, Padded


class Lists:
    """The ranked lists of a batch, to the depth of the largest cut-off that anyone asked for.

    Args:
        values: (rows, depth) float32 scores, falling; -inf behind the end of a list.
        columns: (rows, depth) int64, where the items stand in the scores; -1 behind the end.
        items: (rows, depth) int64 item ids; -1 behind the end. In a full evaluation these are the columns.
        grades: (rows, depth) float32, how relevant each item is, 0 if not.
        relevant: (rows,) int64, how many items are relevant to each row.
        best: gives `ideal`, which few formulas ask for.
        graded: whether there may be grades other than 0 and 1.
    """

    endless: ClassVar[bool] = False
    """Whether they go on to the last item, and have a place for what is relevant alone."""

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
    def joined(cls, parts: Sequence[Lists]) -> Lists:
        """Put the lists of several batches, of one depth and without grades, one below the other."""
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
    def _own(self) -> tuple[Tensor, ...]:
        return self.values, self.columns, self.items, self.grades, self.relevant

    @cached_property
    def ideal(self) -> Tensor:
        """The largest grades of each row, falling, 0 behind them, (rows, depth) float32."""
        return self._best()

    @cached_property
    def real(self) -> Tensor:
        """Where a list has an item, (rows, depth) bool."""
        return self.items >= 0

    @cached_property
    def hits(self) -> Tensor:
        """Where an item of a list is relevant, (rows, depth) bool."""
        return self.grades > 0

    @cached_property
    def worth(self) -> Tensor:
        """The grades in float64, (rows, depth)."""
        return self.grades.double()

    @cached_property
    def marks(self) -> Tensor:
        """1 where an item of a list is relevant, else 0, (rows, depth) float64."""
        return self.grades.sign().clamp_(min=0).double() if self.graded else self.worth

    @cached_property
    def found(self) -> Tensor:
        """How many relevant items each list has at each cut-off, (rows, depth) float64."""
        return self.marks.cumsum(1)

    @cached_property
    def lengths(self) -> Tensor:
        """How many items each list has, (rows, 1) float64."""
        return self.real.sum(1, keepdim=True).double()

    @cached_property
    def full(self) -> bool:
        """Whether no list ends early, as far as that is known without waiting for a device."""
        return on_host(self.items) and bool(self.items.numpy()[:, -1].min(initial=0) >= 0)

    @cached_property
    def _room(self) -> Tensor:
        return torch.empty(self.items.shape, dtype=torch.float64, device=self.items.device)

    def product(self, values: Tensor, weights: Tensor) -> Tensor:
        """Multiply what belongs to each place, (rows, depth) float64; it holds until the next product."""
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
        """Which rows have a relevant item, (rows,) bool."""
        return self.relevant > 0

    def of_valid(self, values: Tensor) -> Tensor:
        """Put nan, which leaves a row out of an average, where nothing is relevant."""
        return values.masked_fill(~self.valid.unsqueeze(1), torch.nan)

    def of_items(self, facts: Tensor) -> Tensor:
        """Facts (items, ...) of each item of the lists, (rows, depth, ...); 0 behind their end."""
        if not self.full:
            facts = torch.cat([facts, facts.new_zeros(1, *facts.shape[1:])])  # where -1 leads to
        if on_host(facts):  # NumPy takes in a quarter of the time
            return torch.from_numpy(facts.numpy().take(self.items.numpy(), axis=0))
        return facts[self.items]

    def cut(self, cutoffs: tuple[int, ...]) -> Cut:
        """Cut the lists at several k; it holds the lists, which do not hold it, so that both go at once."""
        return Cut(self, cutoffs)

    def within(self, k: Tensor) -> Tensor:
        """Which places belong to a list of each k, (cutoffs, depth) bool."""
        return self.places <= k.unsqueeze(1)

    def ends(self, k: Tensor) -> Tensor:
        """In which column a list of each k ends, (cutoffs,) int64."""
        return k - 1

    def alone(self) -> Lists:
        """Return the same lists, none with grades, without the batch that they are of."""
        return Lists(*self._own, best=partial(of_lengths, self.relevant, self.depth), graded=False)

    def part(self, start: int, stop: int) -> Lists:
        """Return the lists of some rows."""
        parts = (tensor[start:stop] for tensor in self._own)
        return Lists(*parts, best=lambda: self.ideal[start:stop], graded=self.graded)


class Cut:
    """The lists of a batch, cut at several k at once; each tensor has a column per k.

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
        """How many relevant items a list of each k has, (rows, cutoffs) float64."""
        return self.last(self.lists.found)

    @cached_property
    def lengths(self) -> Tensor:
        """How many items a list of each k has, (rows, cutoffs) float64; fewer than k at its end."""
        if self.lists.full:
            return self.k.expand(len(self.lists), -1)
        return torch.minimum(self.lists.lengths, self.k)

    @cached_property
    def relevant(self) -> Tensor:
        """How many items are relevant to each row, (rows, 1) float64."""
        return self.lists.relevant.double().unsqueeze(1)

    @cached_property
    def best_found(self) -> Tensor:
        """How many relevant items an ideal list of each k has, (rows, cutoffs) float64; a whole one all."""
        return self.relevant if self.lists.endless else torch.minimum(self.relevant, self.k)

    def sum(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Add up what belongs to each place, (rows, depth) or (depth,), within a list of each k.

        With weights, (depth,) or (rows, depth), each place counts so much.
        """
        within = self._within
        if weights is not None and weights.ndim == 1:
            within = within * weights
        elif weights is not None:
            values = values * weights
        values = values.double()
        return within @ values if values.ndim == 1 else (within @ values.T).T

    def sum_of_ideal(self, worth: Callable[[Tensor], Tensor], weights: Tensor) -> Tensor:
        """As `sum` of what the grades of the ideal lists are worth, (rows, cutoffs).

        Where none is other than 1, ideal lists differ in their length alone: one of each is added up.
        """
        lists = self.lists
        if lists.graded or len(lists) <= lists.depth:
            return self.sum(worth(lists.ideal), weights)
        sums = self.sum(worth(of_each_length(lists.depth, weights.device)), weights)
        return sums[lists.relevant.clamp(max=lists.depth)]

    def last(self, values: Tensor) -> Tensor:
        """Take what a running value, (rows, depth), is at each k."""
        return values.T.index_select(0, self._last).T


@lru_cache(maxsize=32)
def _each(cutoffs: tuple[int, ...], device: torch.device) -> Tensor:
    """Each k as a tensor, (cutoffs,) int64, sent once."""
    return sent(torch.tensor(cutoffs), device)


def of_each_length(depth: int, device: torch.device) -> Tensor:
    """The ideal grades of 0, 1, ... depth relevant items, none more so, (depth + 1, depth) float32."""
    return of_lengths(torch.arange(depth + 1, device=device), depth)


def of_lengths(relevant: Tensor, depth: int) -> Tensor:
    """The ideal grades of rows with so many relevant items, where none is more so, (rows, depth) float32."""
    return (torch.arange(depth, device=relevant.device) < relevant.unsqueeze(1)).float()


def earlier(values: Tensor, first: float) -> Tensor:
    """The value of the place before each, (rows, depth), which the first place is given."""
    return torch.nn.functional.pad(values[:, :-1], (1, 0), value=first)


@lru_cache(maxsize=8)
def _ranks(depth: int, device: torch.device) -> Tensor:
    """Nobody writes into it, nor into discounts."""
    return torch.arange(1, depth + 1, device=device, dtype=torch.float64)


@lru_cache(maxsize=8)
def _discounts(depth: int, device: torch.device) -> Tensor:
    return 1 / (_ranks(depth, device) + 1).log2()


class WholeLists(Lists):
    """The relevant items of each row in the order of their ranks, in the place of lists that hold all items.

    A formula that adds up over places where something is relevant reads them as any other lists: `places` are
    the ranks that those items have among all that is ranked, and (rows, depth) here; depth is the largest
    number of relevant items.
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
        """Put relevant items in order.

        Args:
            entries: the relevant columns of each row, with their grades.
            facts: the rank, score and item of each of them; a rank of inf is that of what is not ranked.
            relevant: (rows,) how many items are relevant.
            depth: the largest of these, and 1 at least.
            best: gives `ideal`.
        """
        if isinstance(entries, Padded):
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
        entries: Padded,
        facts: tuple[Tensor, Tensor, Tensor],
        relevant: Tensor,
        depth: int,
        best: Callable[[], Tensor],
    ) -> WholeLists:
        """The same of a table, each row of which is sorted on its own."""
        rank, value, item = facts
        ranks, order = rank.view(entries.held.shape).sort(dim=1)
        behind = depth - entries.most

        def table(values: Tensor, fill: float) -> Tensor:
            found = values.view(order.shape).gather(1, order).masked_fill(ranks == torch.inf, fill)
            return torch.nn.functional.pad(found, (0, behind), value=fill)

        lists = table(value, -torch.inf), table(entries.items, -1), table(item, -1), table(entries.sizes, 0.0)
        return cls(table(rank, torch.inf), *lists, relevant, best=best)

    @property
    def places(self) -> Tensor:
        """The ranks of the relevant items, (rows, depth) float64; inf behind the last."""
        return self._ranks

    @property
    def discounts(self) -> Tensor:
        """The weight 1 / log2(rank + 1) of each of these ranks, (rows, depth) float64."""
        return 1 / (self.places + 1).log2()

    def within(self, k: Tensor) -> Tensor:
        """All places, whatever the k."""
        return torch.ones(len(k), self.depth, dtype=torch.bool, device=k.device)

    def ends(self, k: Tensor) -> Tensor:
        """The last column, whatever the k."""
        return torch.full_like(k, self.depth - 1)

    def part(self, start: int, stop: int) -> WholeLists:
        """Return the lists of some rows."""
        own = (self._ranks, self.values, self.columns, self.items, self.grades, self.relevant)
        parts = (tensor[start:stop] for tensor in own)
        return WholeLists(*parts, best=lambda: self.ideal[start:stop])
