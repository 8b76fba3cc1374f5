"""Group means: the values of one formula added up over the users of each group, at several cut-offs."""

from __future__ import annotations

import torch
from torch import Tensor

from ..batch import Outputs
from .cutoffs import rankings_in
from .user_means import UserMeans


class GroupMeans(UserMeans):
    """Sum and weight of the values of users for each group of users, a column per cut-off.

    It is what `UserMeans` is, a row for each group; users of no known group count in none.
    """

    def check(self, batch: Outputs) -> None:
        """Measure the batch, and make sure that the groups of its users are known.

        Raises:
            MetricInputError: they are not.
        """
        super().check(batch)
        _ = rankings_in(batch).user_groups

    def update(self, batch: Outputs) -> None:
        """Add what was measured to the groups of the users."""
        ranked = rankings_in(batch)
        measured = self._measured(ranked)
        values, weights = measured.values, measured.weights
        groups, number = ranked.user_groups, ranked.side.num_user_groups
        known = (groups >= 0).unsqueeze(1)
        weights = torch.where(known, weights, 0.0)
        total = torch.where(weights > 0, values, 0.0) * weights
        none = weights.new_zeros(number, weights.shape[1])
        rows = groups.clamp(min=0)
        self.add(total=none.index_add(0, rows, total), weight=none.index_add(0, rows, weights))

    def means(self, cutoff: int) -> Tensor:
        """The mean over the users of each group at a cut-off, (groups,); nan where no user has a value."""
        column = self.cutoffs.index(cutoff)
        means: Tensor = self._state["total"][:, column] / self._state["weight"][:, column]
        return means
