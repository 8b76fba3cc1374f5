"""The data of `ranking.py`: users, items, what is relevant, what was seen, and the forty values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from hpometrics import Ranking
from hpometrics.metrics.retrieval.interactions import Interactions

Values = dict[str, float]

CUTOFFS = (5, 10, 20, 50)
OF_USERS = ("precision", "recall", "hit_rate", "ndcg", "mrr", "map")
OF_ITEMS = ("item_coverage", "gini", "shannon_entropy", "arp")
RELEVANT, SEEN = 20, 145  # items of each user, as in MovieLens-1M


def at_each_cutoff(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names with `@k` for each cut-off."""
    return tuple(f"{name}@{k}" for name in names for k in CUTOFFS)


@dataclass(frozen=True)
class Evaluation:
    """Scores of so many users for so many items, in batches of so many users."""

    users: int
    items: int
    batch: int = 1024

    def __str__(self) -> str:
        return f"{self.users:,} x {self.items:,}"

    @cached_property
    def interactions(self) -> tuple[Interactions, Interactions]:
        """The relevant and the seen items of each user, none twice; items have a long tail."""
        random = torch.Generator().manual_seed(7)
        per_user = min(RELEVANT + SEEN, self.items // 2)
        tail = 1 / torch.arange(1, self.items + 1).double().sqrt()
        drawn = torch.cat(
            [
                torch.multinomial(tail.expand(min(256, self.users - first), -1), per_user, generator=random)
                for first in range(0, self.users, 256)
            ]
        )
        relevant = min(RELEVANT, per_user // 2)
        return _packed(drawn[:, :relevant]), _packed(drawn[:, relevant:])

    @cached_property
    def scores(self) -> Tensor:
        """Normal scores, in which relevant items and popular ones stand out, (users, items)."""
        random = torch.Generator().manual_seed(8)
        scores = torch.randn(self.users, self.items, generator=random)
        scores += torch.linspace(1, 0, self.items)
        scores[self.relevant.row_of, self.relevant.items] += 1.5
        return scores

    @property
    def relevant(self) -> Interactions:
        """The relevant items of each user."""
        return self.interactions[0]

    @property
    def seen(self) -> Interactions:
        """The seen items of each user."""
        return self.interactions[1]

    @cached_property
    def masked(self) -> Tensor:
        """The scores with -inf for what was seen."""
        scores = self.scores.clone()
        scores[self.seen.row_of, self.seen.items] = -torch.inf
        return scores

    @cached_property
    def output(self) -> Ranking:
        """The output feature with its side data."""
        return Ranking(num_items=self.items, seen=self.seen)

    @cached_property
    def popularity(self) -> Tensor:
        """How often each item was seen, (items,) float64."""
        return torch.bincount(self.seen.items, minlength=self.items).double()

    @property
    def parts(self) -> Iterator[tuple[int, int]]:
        """First and last user of each batch."""
        for first in range(0, self.users, self.batch):
            yield first, min(self.users, first + self.batch)


def _packed(items: Tensor) -> Interactions:
    rows, per_row = items.shape
    return Interactions(torch.arange(rows + 1) * per_row, items.sort(dim=1).values.reshape(-1))
