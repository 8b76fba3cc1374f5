"""Group rates: of the items of each group that could be listed, the share that is, at several cut-offs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from ..outputs import Outputs
from ..ranking.batch import RankingBatch
from ..ranking.host import on_host
from .placed import placed_sums, weighed
from .statistic import Reduction, Statistic
from .tally import tally
from .user_means import rankings_in

Of = Literal["relevant", "offered"]


class GroupRates(Statistic):
    """How many items of each group of items the lists take, and how many there were to take.

    Args:
        of: `relevant` counts hits among the relevant items, `offered` items of lists among all that could be
            ranked, which seen items and those that are no candidates could not.
        cutoffs: the lengths of lists.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"taken": "sum", "there": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: Of, cutoffs: tuple[int, ...]) -> None:
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
        """Make sure that the groups of items are known.

        Raises:
            MetricInputError: they are not.
        """
        _ = rankings_in(batch).side.item_groups

    def update(self, batch: Outputs) -> None:
        """Count what the lists take, and what there is."""
        ranked = rankings_in(batch)
        lists, side, relevant = ranked.lists, ranked.side, self.params["of"] == "relevant"
        groups = side.item_groups[lists.items.clamp(min=0)]
        counted = weighed(lists.hits if relevant else lists.real, ranked.weight)
        taken = placed_sums(groups, counted, self.cutoffs, side.num_item_groups)
        there = _relevant(ranked) if relevant else _offered(ranked)
        self.add(taken=taken, there=there)

    def rates(self, cutoff: int) -> Tensor:
        """The share of each group that lists of a cut-off take, (groups,); nan where there is none."""
        rates: Tensor = self._state["taken"][self.cutoffs.index(cutoff)] / self._state["there"]
        return rates


def _relevant(batch: RankingBatch) -> Tensor:
    """How many relevant items there are of each group."""
    if not on_host(batch.target):  # to find the entries would be to wait for them
        return _there(batch, 0, batch.relevance.dense(0, len(batch)).sign())
    entries = batch.relevance.entries
    row = entries.row_of
    items = entries.items if batch.items is None else batch.items[row, entries.items]
    groups = batch.side.item_groups[items.clamp(min=0)].masked_fill(items < 0, -1)
    weight = torch.ones_like(row, dtype=torch.float64) if batch.weight is None else batch.weight[row]
    return _of_groups(batch, groups, weight)


def _offered(batch: RankingBatch) -> Tensor:
    """How many items of each group could be ranked, over all rows."""
    total = torch.zeros(batch.side.num_item_groups, dtype=torch.float64, device=batch.target.device)
    for start, scores in batch.tiles():
        total += _there(batch, start, torch.gt(scores, -torch.inf, out=torch.empty_like(scores)))
    return total


def _there(batch: RankingBatch, start: int, counted: Tensor) -> Tensor:
    """How many columns of some rows count, 1 or 0 as numbers that can be multiplied, by group."""
    rows = slice(start, start + len(counted))
    every = batch.side.item_groups
    weight = None if batch.weight is None else batch.weight[rows]
    if batch.items is None:
        columns = counted.new_ones(len(counted)) @ counted if weight is None else weight @ counted.double()
        return _of_groups(batch, every[: batch.width], columns.double())
    items = batch.items[rows]
    groups = every[items.clamp(min=0)].masked_fill(items < 0, -1)
    return _of_groups(batch, groups.view(-1), weighed(counted, weight).view(-1))


def _of_groups(batch: RankingBatch, groups: Tensor, worth: Tensor) -> Tensor:
    return tally(groups.clamp(min=0), worth.masked_fill(groups < 0, 0.0), batch.side.num_item_groups)
