"""Counts of items and groups of items in the lists of users, at several cut-offs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host, send_to
from ..batch import Outputs
from ..retrieval.lists import Lists
from ..retrieval.ranking_batch import RankingBatch, rankings_in
from ..retrieval.side_data import known_users
from .statistic import Reduction, Statistic, tally
from .user_values import AtCutoffs, FormulaMeans

Measure = Callable[[Lists], Tensor]
PairSource = Literal["lists", "seen"]
ItemSource = Literal["lists", "hits"]


class ItemCounts(AtCutoffs):
    """How often each item is recommended, or is recommended and relevant, in lists of each cut-off.

    Positions between two cut-offs are counted once; the counts of a cut-off are the sums up to it.

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
        """True: the items of lists and their hits are all that is read."""
        return True

    def check(self, batch: Outputs) -> None:
        """Check that the size of the catalog is known, and that of earlier batches.

        Raises:
            MetricInputError: it is unknown or differs.
        """
        size = rankings_in(batch).num_items
        if self._state and self._state["counts"].shape[1] != size:
            raise MetricInputError(
                f"all batches must have the same catalog; it had {self._state['counts'].shape[1]} items, "
                f"now {size}. Pass Ranking(num_items=...), and items= if only candidates are scored"
            )

    def update(self, batch: Outputs) -> None:
        """Count the items of each position."""
        rankings = rankings_in(batch)
        lists = rankings.lists
        hits = self.params["of"] == "hits"
        plain = not hits and batch.weight is None
        worth = None if plain else weigh(lists.hits if hits else lists.real, batch.weight)
        counts = sum_between_cutoffs(lists.items, worth, self.cutoffs, rankings.num_items)
        users = counts.new_full((), len(batch)) if batch.weight is None else batch.weight.sum()
        self.add(counts=counts, users=users)

    def at(self, cutoff: int) -> Tensor:
        """Return how often each item is in lists of a cut-off, (items,) float64."""
        counts = self.derived("counts", lambda own: own._state["counts"].cumsum(0, dtype=torch.float64))
        return counts[self.place(cutoff)]

    @property
    def users(self) -> Tensor:
        """The weight of all users."""
        return self._state["users"]


class ItemMeans(FormulaMeans[Measure]):
    """The sum and weight of the values at the positions of each item in lists, a row per cut-off.

    Args:
        owner: the name of the formula; the same owner means the same formula.
        measure: returns the values of all positions of lists, (rows, depth) float64, nan for none.
        cutoffs: the lengths of lists.
    """

    def check(self, batch: Outputs) -> None:
        """Check that the groups of items, and with them the catalog, are known.

        Raises:
            MetricInputError: they are not.
        """
        _ = rankings_in(batch).item_groups

    def update(self, batch: Outputs) -> None:
        """Add up the values of each item."""
        rankings = rankings_in(batch)
        lists, size = rankings.lists, len(rankings.item_groups)
        values = self._measure(lists)
        has_value = lists.real & ~values.isnan()
        sums = [
            sum_positions(lists.items, weigh(worth, rankings.weight), self.cutoffs, size)
            for worth in (torch.where(has_value, values, 0.0), has_value)
        ]
        self.add(total=sums[0], weight=sums[1])

    def means(self, cutoff: int) -> Tensor:
        """Return the mean of each item at a cut-off, (items,); nan where it has no value."""
        row = self.place(cutoff)
        means: Tensor = self._state["total"][row] / self._state["weight"][row]
        return means


class ItemTotals(Statistic):
    """How many users each item is relevant to, or was offered to; no lists are read.

    An item is offered if its score is above -inf and not masked: in a sampled evaluation, the candidates.

    Args:
        of: `relevant` or `offered`.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"counts": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: Literal["relevant", "offered"]) -> None:
        super().__init__(of=of)

    def check(self, batch: Outputs) -> None:
        """Check that the size of the catalog is known.

        Raises:
            MetricInputError: it is not.
        """
        _ = rankings_in(batch).num_items

    def update(self, batch: Outputs) -> None:
        """Count the items of each user."""
        rankings = rankings_in(batch)
        count = _count_relevant if self.params["of"] == "relevant" else _count_offered
        self.add(counts=count(rankings, rankings.weights, rankings.num_items))

    @property
    def counts(self) -> Tensor:
        """How many users each item has, (items,) float64."""
        return self._state["counts"]


def _count_relevant(batch: RankingBatch, weights: Tensor, size: int) -> Tensor:
    entries = batch.relevant_items
    return tally(entries.items, entries.real(weights[entries.row_of]), size)


def _count_offered(batch: RankingBatch, weights: Tensor, size: int) -> Tensor:
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


class GroupPairs(AtCutoffs):
    """How often users of each group encounter items of each group, in lists or in their seen items.

    Args:
        of: `lists` counts items in lists of each cut-off, `seen` the training interactions of the measured
            users.
        cutoffs: the lengths of lists; empty for `seen`.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"pairs": "sum", "all": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: PairSource, cutoffs: tuple[int, ...] = ()) -> None:
        super().__init__(cutoffs, of=of)

    def check(self, batch: Outputs) -> None:
        """Check that both groups are known, and for `seen` the items that the users have seen.

        Raises:
            MetricInputError: they are not.
        """
        rankings = rankings_in(batch)
        _ = rankings.item_groups, rankings.user_groups
        if self.params["of"] == "seen":
            _ = _known_users(rankings)

    def update(self, batch: Outputs) -> None:
        """Count pairs of groups; items of no known group count in `all` only."""
        rankings = rankings_in(batch)
        groups = rankings.side.num_item_groups
        users = torch.where(rankings.user_groups < 0, rankings.side.num_user_groups, rankings.user_groups)
        counts = (
            self._count_listed(rankings, users)
            if self.params["of"] == "lists"
            else _count_seen(rankings, users)
        )
        counts = counts.view(-1, rankings.side.num_user_groups + 1, groups + 1)[:, :-1]
        self.add(pairs=counts[..., :groups], all=counts.sum(2))

    def shares(self, cutoff: int | None = None) -> Tensor:
        """Return the share of each group of items among those that users of a group meet, (groups, groups).

        A row is nan where the users meet none.
        """
        row = self.place(cutoff)
        shares: Tensor = self._state["pairs"][row] / self._state["all"][row].unsqueeze(1)
        return shares

    def _count_listed(self, batch: RankingBatch, users: Tensor) -> Tensor:
        lists = batch.lists
        codes = _group_codes(batch, users.unsqueeze(1), lists.items.clamp(min=0))
        size = (batch.side.num_user_groups + 1) * (batch.side.num_item_groups + 1)
        return sum_positions(
            codes.masked_fill(~lists.real, -1), weigh(lists.real, batch.weight), self.cutoffs, size
        )


def _count_seen(batch: RankingBatch, users: Tensor) -> Tensor:
    entries = batch.side.seen_by(_known_users(batch))
    row = entries.row_of
    size = (batch.side.num_user_groups + 1) * (batch.side.num_item_groups + 1)
    return tally(_group_codes(batch, users[row], entries.items), entries.real(batch.weights[row]), size)


def _known_users(batch: RankingBatch) -> Tensor:
    """Return the users, after checking that the seen items of all of them are known."""
    return known_users(batch.users, len(batch.side.seen), "seen", "seen items are counted")


def _group_codes(batch: RankingBatch, users: Tensor, items: Tensor) -> Tensor:
    """Encode pairs of a group of users and a group of items; unknown groups have the last number."""
    own, groups = batch.side.num_item_groups, batch.item_groups[items]
    return users * (own + 1) + torch.where(groups < 0, own, groups)


def sum_positions(numbers: Tensor, worth: Tensor | None, cutoffs: tuple[int, ...], size: int) -> Tensor:
    """Add up the worth of each position of lists, by the number at the position.

    The arguments are those of `sum_between_cutoffs`.

    Returns:
        (cut-offs, size) float64.
    """
    return sum_between_cutoffs(numbers, worth, cutoffs, size).cumsum(0, dtype=torch.float64)


def sum_between_cutoffs(numbers: Tensor, worth: Tensor | None, cutoffs: tuple[int, ...], size: int) -> Tensor:
    """Add up the worth of the positions between one cut-off and the next, by the number at the position.

    Args:
        numbers: (rows, depth) int64; -1 is ignored.
        worth: (rows, depth) float64; None where each position counts 1.
        cutoffs: lengths of lists, ascending.
        size: an upper bound of the numbers, exclusive.

    Returns:
        (cut-offs, size) int64, or float64 with `worth`: sums over the positions that a cut-off includes and
        the previous one does not.
    """
    deepest = cutoffs[-1]
    width = size + 1  # the first entry of each part is for -1
    codes = _narrow(numbers[:, :deepest], len(cutoffs) * width)
    codes += _offsets(cutoffs, width, numbers.device).to(codes.dtype)
    each = None if worth is None else worth[:, :deepest].reshape(-1)
    sums = tally(codes.view(-1), each, len(cutoffs) * width)
    return sums.view(len(cutoffs), width)[:, 1:]


def _narrow(numbers: Tensor, most: int) -> Tensor:
    """Return a copy of numbers below `most`; on the CPU in 32 bits if these suffice, for half the time."""
    dtype = torch.int32 if on_host(numbers) and most < 2**31 else torch.int64
    return numbers.to(dtype, copy=True, memory_format=torch.contiguous_format)


def weigh(worth: Tensor, weight: Tensor | None) -> Tensor:
    """Return the worth of positions (rows, depth) in float64, multiplied by the weights of rows if any."""
    return worth.double() if weight is None else worth.double() * weight.unsqueeze(1)


@lru_cache(maxsize=8)
def _offsets(cutoffs: tuple[int, ...], width: int, device: torch.device) -> Tensor:
    """Return the index of number 0 among the sums for each position of a list, (depth,) int64."""
    part = torch.bucketize(torch.arange(1, cutoffs[-1] + 1), torch.tensor(cutoffs))
    return send_to(part * width + 1, device)
