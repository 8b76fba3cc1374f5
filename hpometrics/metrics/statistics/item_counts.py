"""Item counts: how often each item stands in the lists of users, at several cut-offs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host, sent
from ..batch import Outputs
from ..retrieval.lists import Lists
from ..retrieval.ranking_batch import RankingBatch
from ..retrieval.reading import known_users
from .cutoffs import AtCutoffs, FormulaMeans, rankings_in
from .statistic import Reduction, Statistic, tally


def placed_sums(numbers: Tensor, worth: Tensor | None, cutoffs: tuple[int, ...], size: int) -> Tensor:
    """Add up what each place of lists is worth, by the number that stands there.

    The arguments are those of `placed_between`.

    Returns:
        (cut-offs, size) float64.
    """
    return placed_between(numbers, worth, cutoffs, size).cumsum(0, dtype=torch.float64)


def placed_between(numbers: Tensor, worth: Tensor | None, cutoffs: tuple[int, ...], size: int) -> Tensor:
    """Add up what places behind one cut-off and up to the next are worth, by the number that stands there.

    Args:
        numbers: (rows, depth) int64; -1 counts for nothing.
        worth: (rows, depth) float64; None where each place counts 1.
        cutoffs: lengths of lists, rising.
        size: numbers lie below it.

    Returns:
        (cut-offs, size) int64, or float64 where places are worth something: the places that a cut-off has and
        the one before has not.
    """
    deepest = cutoffs[-1]
    width = size + 1  # the first of each part is for what counts for nothing
    codes = _narrow(numbers[:, :deepest], len(cutoffs) * width)
    codes += _beginnings(cutoffs, width, numbers.device).to(codes.dtype)
    each = None if worth is None else worth[:, :deepest].reshape(-1)
    sums = tally(codes.view(-1), each, len(cutoffs) * width)
    return sums.view(len(cutoffs), width)[:, 1:]


def _narrow(numbers: Tensor, most: int) -> Tensor:
    """A copy of numbers below this; on the host in 32 bits where these do, counted in half the time."""
    dtype = torch.int32 if on_host(numbers) and most < 2**31 else torch.int64
    return numbers.to(dtype, copy=True, memory_format=torch.contiguous_format)


@lru_cache(maxsize=8)
def _beginnings(cutoffs: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """Where number 0 stands among the sums, for each place of a list, (depth,) int64."""
    part = torch.bucketize(torch.arange(1, cutoffs[-1] + 1), torch.tensor(cutoffs))
    return sent(part * width + 1, device)


def weighed(worth: Tensor, weight: Tensor | None) -> Tensor:
    """What places (rows, depth) are worth in float64, where rows have weights times these."""
    return worth.double() if weight is None else worth.double() * weight.unsqueeze(1)


ItemSource = Literal["lists", "hits"]


class ItemCounts(AtCutoffs):
    """How often each item is recommended, or recommended and relevant, in lists of each cut-off.

    Places between two cut-offs are counted once; a cut-off is the sum of those up to it.

    Args:
        of: `lists` counts items of lists, `hits` those that are relevant to the user.
        cutoffs: the lengths of lists.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"counts": "sum", "users": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: ItemSource = "lists", cutoffs: tuple[int, ...] = ()) -> None:
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


class ItemTotals(Statistic):
    """How many users each item is relevant to, or was on offer to; no lists are read.

    On offer is what has a score above -inf and is not masked: of a sampled evaluation the candidates.

    Args:
        of: `relevant` or `offered`.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"counts": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: Literal["relevant", "offered"]) -> None:
        super().__init__(of=of)

    def check(self, batch: Outputs) -> None:
        """Make sure that the size of the catalogue is known.

        Raises:
            MetricInputError: it is not.
        """
        self._size(batch)

    def update(self, batch: Outputs) -> None:
        """Count the items of each user."""
        ranked = rankings_in(batch)
        count = _relevant if self.params["of"] == "relevant" else _offered
        self.add(counts=count(ranked, ranked.weights, self._size(batch)))

    @property
    def counts(self) -> Tensor:
        """How many users each item has, (items,) float64."""
        return self._state["counts"]

    def _size(self, batch: Outputs) -> int:
        return rankings_in(batch).num_items


def _relevant(batch: RankingBatch, weights: Tensor, size: int) -> Tensor:
    entries = batch.relevant_items
    return tally(entries.items, entries.real(weights[entries.row_of]), size)


def _offered(batch: RankingBatch, weights: Tensor, size: int) -> Tensor:
    counts = torch.zeros(size, dtype=torch.float64, device=weights.device)
    for start, scores in batch.tiles():
        rows = slice(start, start + len(scores))
        offered = (scores > -torch.inf).double()
        if batch.items is None:
            counts += weights[rows] @ offered
        else:
            ids = batch.items[rows].clamp(min=0).view(-1)
            counts += tally(ids, (offered * weights[rows].unsqueeze(1)).view(-1), size)
    return counts


PairSource = Literal["lists", "seen"]


class GroupPairs(AtCutoffs):
    """How often users of each group meet items of each group, in lists or in what they have seen.

    Args:
        of: `lists` counts items of lists of each cut-off, `seen` the training interactions of the users that
            are measured.
        cutoffs: the lengths of lists; none of `seen`.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"pairs": "sum", "all": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: PairSource, cutoffs: tuple[int, ...] = ()) -> None:
        super().__init__(cutoffs, of=of)

    def check(self, batch: Outputs) -> None:
        """Make sure that both groups are known, and what the users have seen.

        Raises:
            MetricInputError: they are not.
        """
        ranked = rankings_in(batch)
        _ = ranked.item_groups, ranked.user_groups
        if self.params["of"] == "seen":
            _ = _known(ranked)

    def update(self, batch: Outputs) -> None:
        """Count pairs of groups; what has no known group counts among all."""
        ranked = rankings_in(batch)
        groups = ranked.side.num_item_groups
        users = torch.where(ranked.user_groups < 0, ranked.side.num_user_groups, ranked.user_groups)
        counts = self._listed(ranked, users) if self.params["of"] == "lists" else _seen(ranked, users)
        counts = counts.view(-1, ranked.side.num_user_groups + 1, groups + 1)[:, :-1]
        self.add(pairs=counts[..., :groups], all=counts.sum(2))

    def shares(self, cutoff: int | None = None) -> Tensor:
        """Of all items that users of a group meet, the share of each group of items, (groups, groups).

        A row is nan where the users meet none.
        """
        row = self.place(cutoff)
        shares: Tensor = self._state["pairs"][row] / self._state["all"][row].unsqueeze(1)
        return shares

    def _listed(self, batch: RankingBatch, users: Tensor) -> Tensor:
        lists = batch.lists
        codes = _codes(batch, users.unsqueeze(1), lists.items.clamp(min=0))
        size = (batch.side.num_user_groups + 1) * (batch.side.num_item_groups + 1)
        return placed_sums(
            codes.masked_fill(~lists.real, -1), weighed(lists.real, batch.weight), self.cutoffs, size
        )


def _seen(batch: RankingBatch, users: Tensor) -> Tensor:
    seen = batch.side.seen_by(_known(batch))
    row = seen.row_of
    size = (batch.side.num_user_groups + 1) * (batch.side.num_item_groups + 1)
    return tally(_codes(batch, users[row], seen.items), seen.real(batch.weights[row]), size)


def _known(batch: RankingBatch) -> Tensor:
    """The users, of all of whom it is known what they have seen."""
    return known_users(batch.users, len(batch.side.seen), "seen", "seen items are counted")


def _codes(batch: RankingBatch, users: Tensor, items: Tensor) -> Tensor:
    """Number the pair of a group of users and one of items; unknown ones have the last number."""
    own, groups = batch.side.num_item_groups, batch.item_groups[items]
    return users * (own + 1) + torch.where(groups < 0, own, groups)
