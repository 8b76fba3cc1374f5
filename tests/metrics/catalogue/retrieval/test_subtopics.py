"""Subtopics: by hand, by ndeval's values, and by a plain reading of the papers on random lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
import pytest
import torch
from matrix import covering, pairs
from ranked_cases import Case, make_case

from hpometrics import MetricCollection, Ranking
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.registry.register import get_metric

FEATURES = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 1, 1]])
SCORES = torch.tensor([[3.0, 5.0, 1.0, 2.0, 4.0]])  # items 1, 4, 0, 3, 2, of which item 4 is not relevant
RELEVANT = [[0, 1, 2, 3]]
NDEVAL = {
    "alpha_ndcg@2": 0.3800937667159343,
    "alpha_ndcg@5": 0.7596858739292867,
    "nerr_ia@5": 0.6537313432835821,
    "nrbp": 0.375,
    "nnrbp": 0.5581395348837209,
    "map_ia": 0.48333333333333334,
    "p_ia@5": 0.3333333333333333,
    "srecall@5": 1.0,
}
"""What ndeval prints of that list."""


def measured(
    names: Iterable[str], features: torch.Tensor, scores: object, target: object
) -> dict[str, float]:
    """The values of one batch."""
    return values_of(panel_of(names, features), scores, target)


def panel_of(names: Iterable[str], features: object) -> MetricCollection:
    """The metrics over items that have these features."""
    return MetricCollection(list(names), output=Ranking(item_features=torch.as_tensor(features)))


def values_of(panel: MetricCollection, scores: object, target: object) -> dict[str, float]:
    """The values of one batch alone, of a panel that may have measured others before."""
    panel.reset()
    panel.update(scores=scores, target=target)
    return {name: value.item() for name, value in panel.compute().items()}


def test_a_list_has_the_values_of_ndeval():
    """Five items of three subtopics."""
    assert measured(NDEVAL, FEATURES, SCORES, RELEVANT) == pytest.approx(NDEVAL)


def test_a_repeated_subtopic_counts_less():
    """Hits at ranks 1, 3, 4, 5 add 1, 1 + 1/2, 1/2 and 1; of three subtopics one is wanted."""
    added = {1: 1.0, 3: 1.5, 4: 0.5, 5: 1.0}
    found = measured(["alpha_dcg", "err_ia"], FEATURES, SCORES, RELEVANT)
    assert found["alpha_dcg"] == pytest.approx(sum(x / math.log2(r + 1) for r, x in added.items()))
    assert found["err_ia"] == pytest.approx(0.5 / 3 * sum(x / r for r, x in added.items()))


def added_by(order: Iterable[int], relevant: set[int], has: np.ndarray, alpha: float) -> list[float]:
    """What each item of a list adds."""
    counts, added = np.zeros(has.shape[1]), []
    for item in order:
        own = has[item] & (item in relevant)
        added.append(float(((1 - alpha) ** counts)[own].sum()))
        counts += own
    return added


def greedy(relevant: set[int], has: np.ndarray, alpha: float) -> list[float]:
    """What each item of the ideal list adds."""
    order: list[int] = []
    while left := sorted(relevant - set(order)):
        order.append(max(left, key=lambda item: added_by([*order, item], relevant, has, alpha)[-1]))
    return added_by(order, relevant, has, alpha)


DISCOUNTS: dict[str, Callable[[int], float]] = {
    "alpha_ndcg": lambda rank: 1 / math.log2(rank + 1),
    "nerr_ia": lambda rank: 1 / rank,
    "nnrbp": lambda rank: 0.5 ** (rank - 1),
}


@pytest.mark.parametrize(
    ("alpha", "name", "k", "kind"),
    covering(
        product([0.25, 0.5], DISCOUNTS, [None, 1, 4, 12], ["random", "ties", "masked", "short"]),
        lambda case: [pair for pair in pairs(*case) if pair[0][0] != 0],
        ids=str,
    ),
)
def test_a_list_agrees_with_a_plain_reading(name, alpha, k, kind):
    """Hits over an ideal list that is built one item at a time; users without a subtopic are left out."""
    case, has = _case(kind)
    plain = [
        _plain(list(order), set(grades.nonzero()[0].tolist()), has, alpha, k, DISCOUNTS[name])
        for order, grades in zip(case.orders(), case.grades, strict=True)
    ]
    full = f"{name}(alpha={alpha})" + ("" if k is None else f"@{k}")
    panel = panel_of([full], has)
    for user, wanted in enumerate(plain):
        relevant = [case.grades[user].nonzero()[0].tolist()]
        found = values_of(panel, torch.tensor(case.scores[[user]]), relevant)
        np.testing.assert_allclose(list(found.values()), wanted, rtol=1e-9)


def _case(kind: str) -> tuple[Case, np.ndarray]:
    """Scores and grades, and which of 4 features each item has; the last item has none."""
    case = make_case(kind, 12)
    has = np.random.default_rng(13).random((case.grades.shape[1], 4)) < 0.4
    has[-1] = False
    return case, has


def _plain(
    order: list[int], relevant: set[int], has: np.ndarray, alpha: float, k: int | None,
    discount: Callable[[int], float],
) -> float:  # fmt: skip
    def total(added: list[float]) -> float:
        return sum(x * discount(rank) for rank, x in enumerate(added[:k], 1))

    best = total(greedy(relevant, has, alpha))
    return total(added_by(order, relevant, has, alpha)) / best if best else math.nan


PLAIN = {"map_ia": "map(norm=n)", "map_ia@6": "map(norm=n)@6", "p_ia@6": "precision@6"}


@pytest.mark.parametrize("kind", ["random", "ties", "masked"])
def test_intents_are_measured_one_by_one(kind):
    """The mean over features of the metric of those relevant items alone that have the feature."""
    case, has = _case(kind)
    aware, plain = panel_of(PLAIN, has), panel_of(PLAIN.values(), has)
    for user, grades in enumerate(case.grades):
        scores = torch.tensor(case.scores[[user]])
        each = [[(grades * own).nonzero()[0].tolist()] for own in has.T if (grades * own).any()]
        if not each:
            continue
        values = values_of(aware, scores, [grades.nonzero()[0].tolist()])
        parts = [values_of(plain, scores, target) for target in each]
        for name, own in PLAIN.items():
            np.testing.assert_allclose(values[name], np.mean([part[own] for part in parts]), rtol=1e-6)


def test_without_repetition_nothing_is_lost():
    """With alpha 0 and one feature of all items it is binary nDCG."""
    case = make_case("random", 14)
    target = [grades.nonzero()[0].tolist() for grades in case.grades]
    found = measured(
        ["alpha_ndcg(alpha=0.0)@5", "ndcg@5"], torch.ones(30, 1), torch.tensor(case.scores), target
    )
    assert found["alpha_ndcg(alpha=0.0)@5"] == pytest.approx(found["ndcg@5"])


@pytest.mark.parametrize(
    ("name", "problem"), [("alpha_ndcg(alpha=1.5)", r"alpha.*got 1\.5"), ("nrbp(beta=-1)", r"beta.*got -1")]
)
def test_a_share_lies_between_0_and_1(name, problem):
    """Both parameters are chances."""
    with pytest.raises(MetricInputError, match=problem):
        get_metric(name, Ranking(item_features=FEATURES))


def test_users_without_a_subtopic_are_left_out():
    """The other user finds item 0 at the second rank; with the reason where there is no other."""
    metric = get_metric("alpha_ndcg@3", Ranking(item_features=torch.tensor([[1], [0]])))
    metric.update(torch.tensor([[0.9, 0.5], [0.5, 0.9]]), [[1], [0]])
    assert metric.compute().item() == pytest.approx(1 / math.log2(3))
    metric.reset()
    metric.update(torch.tensor([[0.9, 0.5]]), [[1]])
    assert metric.compute().isnan()
    assert metric.undefined_reason == "no user has a relevant item that has a feature"


def test_the_ideal_list_does_not_depend_on_the_order_of_what_is_relevant():
    """Of items that add as much, it takes that of the lowest number, however they are listed."""
    random = np.random.default_rng(0)
    features = torch.from_numpy(random.random((40, 4)) < 0.4)
    scores = torch.from_numpy(random.permuted(np.tile(np.arange(40.0), (30, 1)), axis=1))
    relevant = [np.flatnonzero(row).tolist() for row in random.integers(0, 2, (30, 40))]
    rising = measured(DISCOUNTS, features, scores, relevant)
    assert measured(DISCOUNTS, features, scores, [row[::-1] for row in relevant]) == rising
