"""Item counts: how often each item stands in the lists of users, at several cut-offs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..batch import Outputs
from ..retrieval.lists import Lists
from .cutoffs import AtCutoffs, rankings_in
from .placed import placed_between, weighed
from .statistic import Reduction

Of = Literal["lists", "hits"]


class ItemCounts(AtCutoffs):
    """How often each item is recommended, or recommended and relevant, in lists of each cut-off.

    Places between two cut-offs are counted once; a cut-off is the sum of those up to it.

    Args:
        of: `lists` counts items of lists, `hits` those that are relevant to the user.
        cutoffs: the lengths of lists.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"counts": "sum", "users": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: Of = "lists", cutoffs: tuple[int, ...] = ()) -> None:
        super().__init__(cutoffs, of=of)

    @property
    def joins(self) -> bool:
        """It reads the items of lists, and their hits."""
        return True

    def check(self, batch: Outputs) -> None:
        """Make sure that the size of the catalogue is known, and that of the batches before.

        Raises:
            MetricInputError: it is not.
        """
        size = self._size(batch)
        if self._state and self._state["counts"].shape[1] != size:
            raise MetricInputError(
                f"items are counted over one catalogue; it had {self._state['counts'].shape[1]} items, now "
                f"{size}. Give Ranking(num_items=...), and items= where only candidates are scored"
            )

    def update(self, batch: Outputs) -> None:
        """Count the items of each place."""
        ranked = rankings_in(batch)
        lists = ranked.lists
        plain = self.params["of"] == "lists" and batch.weight is None
        counted = None if plain else weighed(self._counted(lists), batch.weight)
        counts = placed_between(lists.items, counted, self.cutoffs, ranked.num_items)
        users = counts.new_full((), len(batch)) if batch.weight is None else batch.weight.sum()
        self.add(counts=counts, users=users)

    def _counted(self, lists: Lists) -> Tensor:
        """Which places count, (rows, depth) bool."""
        return lists.hits if self.params["of"] == "hits" else lists.real

    def at(self, cutoff: int) -> Tensor:
        """How often each item stands in lists of a cut-off, (items,) float64."""
        return self.derived("counts", _up_to_each)[self.place(cutoff)]

    @property
    def users(self) -> Tensor:
        """The weight of all users."""
        return self._state["users"]

    def _size(self, batch: Outputs) -> int:
        return rankings_in(batch).num_items


def _up_to_each(counted: ItemCounts) -> Tensor:
    return counted._state["counts"].cumsum(0, dtype=torch.float64)
