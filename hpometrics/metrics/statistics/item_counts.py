"""Item counts: how often each item stands in the lists of users, at several cut-offs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..outputs import Outputs
from .statistic import Reduction, Statistic
from .tally import tally
from .user_means import rankings_in

Of = Literal["lists", "hits", "relevant"]


class ItemCounts(Statistic):
    """How often each item is recommended, or recommended and relevant, in lists of each cut-off.

    Places between two cut-offs are counted once; a cut-off is the sum of those up to it.

    Args:
        of: `lists` counts items of lists, `hits` those that are relevant to the user.
        cutoffs: the lengths of lists.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"counts": "sum", "users": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: Of = "lists", cutoffs: tuple[int, ...] = ()) -> None:
        super().__init__(of=of)
        self.cutoffs = cutoffs

    def fresh(self) -> Self:
        """Return an empty one with the same cut-offs."""
        return type(self)(self.params["of"], self.cutoffs)

    def join(self, other: Self) -> None:
        """Count at the cut-offs of another one as well."""
        self.cutoffs = tuple(sorted({*self.cutoffs, *other.cutoffs}))

    def prepare(self, batch: Outputs) -> None:
        """Ask for lists of the largest cut-off."""
        rankings_in(batch).reach(max(self.cutoffs))

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
        lists, size = rankings_in(batch).lists, self._size(batch) + 1
        deepest, parts = self.cutoffs[-1], len(self.cutoffs)
        numbers = lists.items[:, :deepest] + 1  # 0 is no item
        if self.params["of"] == "hits":
            numbers = numbers * lists.hits[:, :deepest]
        part = torch.bucketize(torch.arange(1, deepest + 1), torch.tensor(self.cutoffs)).to(numbers.device)
        weight = None if batch.weight is None else batch.weight.unsqueeze(1).expand_as(numbers).reshape(-1)
        counts = tally((part * size + numbers).view(-1), weight, parts * size).view(parts, size)[:, 1:]
        rows = torch.tensor(float(len(batch)), device=counts.device, dtype=torch.float64)
        self.add(counts=counts.double(), users=rows if batch.weight is None else batch.weight.sum())

    def at(self, cutoff: int) -> Tensor:
        """How often each item stands in lists of a cut-off, (items,)."""
        upto = self.derived("upto", lambda own: own._state["counts"].cumsum(0))
        return upto[self.cutoffs.index(cutoff)]

    @property
    def users(self) -> Tensor:
        """The weight of all users."""
        return self._state["users"]

    def _size(self, batch: Outputs) -> int:
        return rankings_in(batch).num_items
