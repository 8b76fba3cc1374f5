"""Group pairs: how many items of each group the users of each group are given, at several cut-offs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ..batch import Outputs
from ..retrieval.ranking_batch import RankingBatch
from ..retrieval.reading import known_users
from .cutoffs import AtCutoffs, rankings_in
from .placed import placed_sums, weighed
from .statistic import Reduction
from .tally import tally

Of = Literal["lists", "seen"]


class GroupPairs(AtCutoffs):
    """How often users of each group meet items of each group, in lists or in what they have seen.

    Args:
        of: `lists` counts items of lists of each cut-off, `seen` the training interactions of the users that
            are measured.
        cutoffs: the lengths of lists; none of `seen`.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"pairs": "sum", "all": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, of: Of, cutoffs: tuple[int, ...] = ()) -> None:
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
