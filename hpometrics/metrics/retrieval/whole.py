"""Whole: lists that go on to the last item, of which only the places of relevant items are held."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .interactions import Interactions
from .lists import Lists
from .padded import Padded


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
