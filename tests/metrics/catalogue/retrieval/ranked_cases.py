"""Ranked cases: scores and grades of users, random and adversarial, and our value for each of the users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from matrix import covering

from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import OutputFeature, Ranking
from hpometrics.metrics.registry.register import get_metric

KINDS = ("random", "ties", "graded", "masked", "short", "equal")
CASES = [(kind, seed) for kind in KINDS for seed in range(2)]
EVERY_CASE = pytest.mark.parametrize(("kind", "seed"), covering(CASES, lambda case: case[:1]))


@dataclass(frozen=True)
class Case:
    """Scores (users, items), -inf where an item is not ranked, and grades from 0."""

    scores: np.ndarray
    grades: np.ndarray

    def orders(self) -> Iterator[np.ndarray]:
        """The items of each user's list: the best score first, of equal ones the first column."""
        for scores in self.scores:
            order = np.argsort(-scores, kind="stable")
            yield order[scores[order] > -np.inf]


def make_case(kind: str, seed: int) -> Case:
    """16 users, the first of whom has nothing relevant and the second nothing else.

    Scores are distinct (`random`), of four values (`ties`), all the same (`equal`); grades go up to 4
    (`graded`); a third of the items is not ranked, and of two users none (`masked`); there are fewer items
    than the lists are long (`short`).
    """
    random = np.random.default_rng([seed, KINDS.index(kind)])
    shape = (16, 4 if kind == "short" else 30)
    levels = {"ties": 4, "masked": 12, "equal": 1}.get(kind)
    scores = random.permuted(np.tile(np.arange(1, shape[1] + 1), (16, 1)), axis=1) / 32
    if levels:
        scores = random.integers(1, levels + 1, shape) / 8
    grades = random.integers(1, 5, shape) if kind in ("graded", "masked") else np.ones(shape, int)
    grades = np.where(random.random(shape) < 0.2, grades, 0)
    grades[0], grades[1] = 0, 1
    if kind == "masked":
        scores = np.where(random.random(shape) < 0.3, -np.inf, scores)
        scores[2:4] = -np.inf
        scores[4][grades[4] > 0] = -np.inf
    return Case(scores.astype("float32"), grades)


class Panel:
    """All metrics in one collection, which is built once and measures one case after another."""

    def __init__(self, names: Iterable[str], output: OutputFeature | None = None) -> None:
        self.metrics = {name: get_metric(name, output or Ranking()) for name in names}
        self.collection = MetricCollection(list(self.metrics.values()), output or Ranking())

    def values(self, case: Case) -> dict[str, float]:
        """Measure a case over two uneven batches."""
        self.collection.reset()
        for part in (slice(None, 7), slice(7, None)):
            scores, grades = case.scores[part], case.grades[part]
            if len(scores):
                self.collection.update(scores=torch.tensor(scores), target=torch.tensor(grades))
        values = self.collection.compute()
        return {name: values[metric.name].item() for name, metric in self.metrics.items()}


def by_user(names: Iterable[str], case: Case, output: OutputFeature | None = None) -> dict[str, np.ndarray]:
    """Our values of each user alone, nan where there is none."""
    panel = Panel(names, output)
    rows = zip(case.scores, case.grades, strict=True)
    values = [panel.values(Case(scores[None], grades[None])) for scores, grades in rows]
    return {name: np.array([value[name] for value in values]) for name in panel.metrics}


def together(names: Iterable[str], case: Case, output: OutputFeature | None = None) -> dict[str, float]:
    """Our values over two uneven batches, all metrics in one collection."""
    return Panel(names, output).values(case)


def agree(case: Case, expected: dict[str, Sequence[float]], tolerance: float = 1e-6) -> None:
    """Compare users and the mean over them with what a library says of those who have something relevant.

    The others are left out, and count 0 with `Ranking(empty="neg")`, but for the length of a list.
    """
    for empty, counts in (("skip", np.nan), ("neg", 0.0)):
        output = Ranking(empty=empty)
        ours, means = by_user(expected, case, output), together(expected, case, output)
        for name, values in expected.items():
            without = np.nan if name.startswith("num_retrieved") else counts
            wanted = np.where((case.grades > 0).any(1), values, without)
            near = {"atol": tolerance, "rtol": 0, "err_msg": f"{name}, empty={empty}"}
            np.testing.assert_allclose(ours[name], wanted, **near)
            np.testing.assert_allclose(means[name], np.nanmean(wanted), **near)
