"""Strata: groups of users, by a number that is told of them or by how popular what they like is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..features import Ranking
from ..metric import Metric
from ..statistics.user_facts import UserFacts
from .interactions import Interactions
from .side_data import SideData

Column = tuple[Tensor, Tensor]

GROUP, POPULARITY = "group", "popularity"
STRATA = (GROUP, POPULARITY)
"""What users are told apart by: `Ranking(user_groups=...)`, or thirds by the popularity of what they like."""


@dataclass(frozen=True)
class Stratum:
    """The mean of a metric over the users of one group, and how many of them have a value."""

    mean: float
    users: int


def strata(column: Column, groups: Any) -> dict[int, Stratum]:
    """Average a metric over each group of users.

    Args:
        column: users and their values, as `per_user()` gives them.
        groups: (users,) int, the group of each user by number, as `Ranking(user_groups=...)`; -1 is in none.

    Returns:
        The strata of the groups that have a user with a value, by their number.

    Raises:
        MetricInputError: a user has no place among the groups.

    >>> found = strata((torch.tensor([0, 1, 3]), torch.tensor([1.0, 0.0, 0.5])), torch.tensor([0, 1, 1, 0]))
    >>> found[0]
    Stratum(mean=0.75, users=2)
    """
    users, values = column
    groups = torch.as_tensor(groups)
    if len(users) and not 0 <= int(users.min()) <= int(users.max()) < len(groups):
        raise MetricInputError(
            f"groups tell of users 0..{len(groups) - 1}, got users from {int(users.min())} "
            f"to {int(users.max())}"
        )
    own = groups[users]
    counted = ~values.isnan() & (own >= 0)
    own, values = own[counted], values[counted].double()
    return {
        group: Stratum(float(values[own == group].mean()), int((own == group).sum()))
        for group in own.unique().tolist()
    }


def groups_by_popularity(relevant: Any, item_popularity: Tensor, number: int = 3) -> Tensor:
    """Group users by how popular the items are that are relevant to them, for `strata`.

    Args:
        relevant: the relevant items of each user, in any form of `Interactions`.
        item_popularity: (items,) how often each item was interacted with.
        number: how many groups, of about as many users each; group 0 likes the least popular items.

    Returns:
        (users,) int64, -1 where nothing is relevant.
    """
    entries = Interactions.of(relevant, "relevant", len(item_popularity))
    return parted(entries.means(item_popularity), number)


def parted(means: Tensor, number: int = 3) -> Tensor:
    """Part users by a number of theirs, into groups of about as many each: (users,) int64, -1 for nan."""
    known = ~means.isnan()
    if not bool(known.any()):
        return torch.full((len(means),), -1)
    bounds = means[known].quantile(torch.arange(1, number, dtype=means.dtype) / number)
    return torch.bucketize(means, bounds, right=True).masked_fill(~known, -1)


def strata_of(metric: Metric, users: Tensor) -> dict[str, Column]:
    """The strata of the users whose values a metric keeps, by what they are told apart by; -1 is in none.

    Args:
        metric: of a ranking.
        users: (n,) their numbers.
    """
    found, output = {}, metric.output
    if isinstance(output, Ranking) and output.user_groups is not None:
        groups = SideData.of(output).user_groups
        known = (users >= 0) & (users < len(groups))
        found[GROUP] = (users, torch.where(known, groups[torch.where(known, users, 0)], -1))
    for facts in metric.kept.values():
        if isinstance(facts, UserFacts) and not facts.empty:
            told, means = facts.by_user()
            found[POPULARITY] = (told, parted(means))
    return found
