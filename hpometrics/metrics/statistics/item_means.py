"""Item means: what stands at an item's places in lists, averaged for each item, at several cut-offs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..batch import Outputs
from ..retrieval.lists import Lists
from .cutoffs import FormulaMeans, rankings_in
from .placed import placed_sums, weighed

Measure = Callable[[Lists], Tensor]


class ItemMeans(FormulaMeans[Measure]):
    """Sum and weight of the values of an item's places in lists, a row per cut-off.

    Args:
        owner: the name of the formula; the same owner means the same formula.
        measure: gives the values of all places of lists, (rows, depth) float64, nan where there is none.
        cutoffs: the lengths of lists.
    """

    def check(self, batch: Outputs) -> None:
        """Make sure that the groups of items, and with them the catalogue, are known.

        Raises:
            MetricInputError: they are not.
        """
        _ = rankings_in(batch).item_groups

    def update(self, batch: Outputs) -> None:
        """Add up the values of each item."""
        ranked = rankings_in(batch)
        lists, size = ranked.lists, len(ranked.item_groups)
        values = self._measure(lists)
        there = lists.real & ~values.isnan()
        sums = [
            placed_sums(lists.items, weighed(worth, ranked.weight), self.cutoffs, size)
            for worth in (torch.where(there, values, 0.0), there)
        ]
        self.add(total=sums[0], weight=sums[1])

    def means(self, cutoff: int) -> Tensor:
        """The mean of each item at a cut-off, (items,); nan where it has no value."""
        row = self.place(cutoff)
        means: Tensor = self._state["total"][row] / self._state["weight"][row]
        return means
