"""Rankings of users and items in groups, with all that is awkward, and their lists found by plain sorting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Ranking

USERS, ITEMS = 30, 14


@dataclass(frozen=True)
class Grouped:
    """Scores of items for users: some items seen, some no candidates, some groups unknown or empty.

    With `candidates`, columns are a few items of each row in any order, -1 where a place only fills up.
    """

    scores: np.ndarray
    grades: np.ndarray
    users: np.ndarray
    items: np.ndarray | None
    seen: list[list[int]]
    user_groups: np.ndarray
    item_groups: np.ndarray

    @property
    def output(self) -> Ranking:
        """The output feature with the side data."""
        return Ranking(
            num_items=ITEMS, seen=self.seen, user_groups=self.user_groups, item_groups=self.item_groups
        )

    @property
    def batch(self) -> dict[str, Any]:
        """What `update` takes."""
        items = {} if self.items is None else {"items": torch.tensor(self.items)}
        scores, target, users = map(torch.tensor, (self.scores, self.grades, self.users))
        return {"scores": scores, "target": target, "users": users, **items}

    def part(self, rows: slice) -> Grouped:
        """Some of the rows."""
        items = None if self.items is None else self.items[rows]
        own = (self.scores[rows], self.grades[rows], self.users[rows], items)
        return Grouped(*own, self.seen, self.user_groups, self.item_groups)

    def ranked(self, row: int) -> list[tuple[int, float, float]]:
        """Item, score and grade of everything that can be listed, the best first, ties by column."""
        found = []
        for column in range(self.scores.shape[1]):
            item = column if self.items is None else self.items[row, column]
            hidden = self.items is None and item in self.seen[self.users[row]]
            if item >= 0 and not hidden and self.scores[row, column] > -np.inf:
                found.append((int(item), float(self.scores[row, column]), float(self.grades[row, column])))
        return sorted(found, key=lambda entry: -entry[1])  # stable

    def relevant(self, row: int) -> list[tuple[int, float, float]]:
        """Item, score and grade of the relevant entries."""
        items = np.arange(ITEMS) if self.items is None else self.items[row]
        entries = zip(items, self.scores[row], self.grades[row], strict=True)
        return [(int(item), float(score), float(grade)) for item, score, grade in entries if grade > 0]


def grouped(seed: int, candidates: bool = False, known: bool = False) -> Grouped:
    """Draw one; with `known` every group is known and no group is empty, as WarpRec has it."""
    random = np.random.default_rng(seed)
    width = 9 if candidates else ITEMS
    scores = random.integers(0, 12, (USERS, width)) / 4  # many ties
    scores[random.random((USERS, width)) < 0.1] = -np.inf
    scores[3] = -np.inf
    grades = random.integers(1, 5, (USERS, width)) * (random.random((USERS, width)) < 0.3)
    grades[5] = 0
    items = None
    if candidates:
        items = np.stack([random.permutation(ITEMS)[:width] for _ in range(USERS)])
        items[random.random(items.shape) < 0.15] = -1
        grades[items < 0] = 0
    user_groups, item_groups = random.integers(0, 3, USERS), random.integers(0, 4, ITEMS)
    if not known:
        user_groups = np.where(user_groups == 1, 4, user_groups) - (np.arange(USERS) % 7 == 0) * 9
        item_groups = np.where(item_groups == 2, 5, item_groups) - (np.arange(ITEMS) % 5 == 0) * 9
    seen = [random.permutation(ITEMS)[: random.integers(1, 5)].tolist() for _ in range(USERS)]
    users = random.permutation(USERS)
    return Grouped(
        scores, grades, users, items, seen, np.maximum(user_groups, -1), np.maximum(item_groups, -1)
    )


def measured(names: list[str], case: Grouped, output: Ranking | None = None) -> dict[str, Any]:
    """Measure in two batches."""
    panel = MetricCollection(names, output=output or case.output)
    for rows in (slice(0, 11), slice(11, USERS)):
        panel.update(**case.part(rows).batch)
    return {name: value.numpy() for name, value in panel.compute().items()}
