"""Listed rankings: random ones, easy and awkward, with each user's list read off by plain Python."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hpometrics import MetricCollection
from hpometrics.metrics.features import Ranking

CUTOFFS = (1, 3, 8, 60)
ITEMS, TRAINED = 23, 50
"""Items of the catalogue, and users in training."""


@dataclass(frozen=True)
class Rankings:
    """Scores and grades of some users, of all items or of the candidates that `items` names."""

    name: str
    scores: np.ndarray
    target: np.ndarray
    items: np.ndarray | None
    popularity: np.ndarray
    features: np.ndarray
    propensity: np.ndarray | None

    def __str__(self) -> str:
        return self.name

    @property
    def output(self) -> Ranking:
        """The output with its side data."""
        return Ranking(
            num_items=ITEMS, num_users=TRAINED, item_popularity=self.popularity,
            item_features=self.features, propensity=self.propensity,
        )  # fmt: skip

    def id_of(self, user: int, column: int) -> int:
        """Which item a column is, -1 for none."""
        return column if self.items is None else int(self.items[user, column])

    def offered(self, user: int) -> list[int]:
        """The columns that can be recommended."""
        columns = range(self.scores.shape[1])
        return [c for c in columns if self.scores[user, c] > -np.inf and self.id_of(user, c) >= 0]

    def list_of(self, user: int, k: int) -> list[int]:
        """The items recommended, the best first; among equal scores the first column."""
        best = sorted(self.offered(user), key=lambda c: (-self.scores[user, c], c))
        return [self.id_of(user, c) for c in best[:k]]

    def relevant(self, user: int) -> dict[int, float]:
        """The relevant items with their grades."""
        grades = self.target[user]
        return {self.id_of(user, c): float(g) for c, g in enumerate(grades) if g > 0}

    @property
    def users(self) -> range:
        """All users."""
        return range(len(self.scores))


def _random(seed: int = 0) -> Rankings:
    random = np.random.default_rng(seed)
    shape = (41, ITEMS)
    target = random.integers(1, 4, shape) * (random.random(shape) < 0.25)
    target[[0, 7]] = 0  # users without a relevant item
    return Rankings(
        "random", random.normal(size=shape).astype(np.float32), target, None,
        popularity=random.integers(1, TRAINED, ITEMS),
        features=(random.random((ITEMS, 6)) < 0.3).astype(np.float32),
        propensity=random.uniform(0.05, 1, ITEMS),
    )  # fmt: skip


def _tied() -> Rankings:
    whole = _random(1)
    return replace(
        whole, name="tied", scores=np.round(whole.scores), popularity=whole.popularity // 15 * 15,
        propensity=None,
    )  # fmt: skip


def _masked() -> Rankings:
    """Few candidates each, one user with none, some of them items that nobody interacted with."""
    whole, random = _random(2), np.random.default_rng(3)
    scores = np.where(random.random(whole.scores.shape) < 0.8, -np.inf, whole.scores).astype(np.float32)
    scores[5] = -np.inf
    popularity = np.where(random.random(ITEMS) < 0.3, 0, whole.popularity)
    return replace(whole, name="masked", scores=scores, popularity=popularity)


def _sampled() -> Rankings:
    """Candidates in random order under their ids, some places of them padding."""
    whole, random = _random(4), np.random.default_rng(5)
    items = np.stack([random.permutation(ITEMS)[:11] for _ in whole.users])
    scores, target = (np.take_along_axis(x, items, 1) for x in (whole.scores, whole.target))
    padding = random.random(items.shape) < 0.3
    padding[9] = True
    return replace(
        whole, name="sampled", scores=scores, target=np.where(padding, 0, target),
        items=np.where(padding, -1, items),
    )  # fmt: skip


CASES = [_random(), _tied(), _masked(), _sampled()]


def measured(name: str, rankings: Rankings, output: Ranking | None = None) -> list[float]:
    """Our value at each cut-off, all measured together over uneven batches."""
    metric, _, params = name.partition("(")
    names = [f"{metric}({params}@{k}" if params else f"{metric}@{k}" for k in CUTOFFS]
    panel = MetricCollection(names, rankings.output if output is None else output)
    for rows in (slice(0, 4), slice(4, 5), slice(5, None)):
        panel.update(**batch_of(rankings, rows))
    return [float(value) for value in panel.compute().values()]


def batch_of(rankings: Rankings, rows: slice = slice(None)) -> dict[str, Any]:
    """The keyword arguments of an update with some of the users."""
    given = {"scores": rankings.scores, "target": rankings.target, "items": rankings.items}
    return {name: torch.tensor(value[rows]) for name, value in given.items() if value is not None}


def mean(values: list[float]) -> float:
    """The mean of those that are numbers."""
    counted = [value for value in values if not math.isnan(value)]
    return sum(counted) / len(counted) if counted else math.nan


def same(got: list[float], expected: list[float]) -> None:
    """Make sure that values are equal but for the last digits of float64 (side data may be float32)."""
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
