from __future__ import annotations

import numpy as np
import pytest
import torch
from grouped_rankings import USERS, grouped, measured

from hpometrics import Ranking, get_metric
from hpometrics.exceptions import MetricNameError

ERRORS = {"mae": abs, "mse": np.square, "rmse": np.square}
NAMES = [f"{name}(average={average})" for name in ERRORS for average in ("user", "pooled")]


@pytest.mark.parametrize("candidates", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_errors_are_those_of_loops(seed, candidates):
    """A user's error is averaged before users are; a rating whose item is not ranked is left out."""
    case = grouped(seed, candidates)
    gaps = [
        np.array([score - grade for _, score, grade in case.ranked(row) if grade > 0]) for row in range(USERS)
    ]
    found = measured(NAMES, case)
    for name, error in ERRORS.items():
        root = np.sqrt if name == "rmse" else np.asarray
        by_user = np.mean([root(error(own).mean()) for own in gaps if len(own)])
        assert found[f"{name}(average=user)"] == pytest.approx(by_user, rel=1e-12)
        pooled = root(error(np.concatenate(gaps)).mean())
        assert found[f"{name}(average=pooled)"] == pytest.approx(pooled, rel=1e-12)


def test_rmse_by_hand():
    """Errors 1 of one user, 0 and 3 of the other: (1 + sqrt(4.5)) / 2 by user, sqrt(10 / 3) pooled."""
    scores, target = torch.tensor([[4.0, 9], [3.0, 5]]), torch.tensor([[5, 0], [3, 2]])
    for average, expected in (("user", (1 + 4.5**0.5) / 2), ("pooled", (10 / 3) ** 0.5)):
        metric = get_metric(f"rmse_{average}", Ranking())
        metric.update(scores, target)
        assert metric.name == f"rmse(average={average})"
        assert metric.compute().item() == pytest.approx(expected)


def test_ratings_in_sparse_form_are_the_same():
    """Grades given by item id, and scores that are products of factors."""
    users, items = torch.tensor([[1.0, 2], [0.0, 1]]), torch.tensor([[1.0, 0], [0.0, 1], [1, 1]])
    target = [{0: 2.0, 2: 3.0}, {1: 4.0}]
    metric = get_metric("mae(average=pooled)", Ranking())
    metric.update(user_factors=users, item_factors=items, target=target)
    assert metric.compute().item() == pytest.approx((1 + 0 + 3) / 3)  # scores 1, 2, 3 and 0, 1, 1


def test_the_average_must_be_named():
    """The field disagrees, so that the bare name is refused with the choices."""
    with pytest.raises(MetricNameError, match=r"mae_user.*mae\(average=pooled\)"):
        get_metric("mae", Ranking())


def test_nothing_rated_is_undefined():
    """No rating, or none whose item has a score."""
    for scores in ([[1.0, 2.0]], [[-torch.inf, 2.0]]):
        metric = get_metric("rmse_pooled", Ranking())
        metric.update(torch.tensor(scores), torch.tensor([[float(scores[0][0] < 0), 0]]))
        assert metric.compute().isnan()
        assert metric.undefined_reason == "no user has a relevant item that is ranked"


@pytest.mark.parametrize("drawn", [None, 1])
@pytest.mark.parametrize("name", ["mae(average=user)", "mae(average=pooled)", "rmse(average=user)"])
def test_a_rated_item_that_was_seen_is_not_ranked(name, drawn):
    """As if its score were -inf, in sampled evaluation too: errors are 1 and 3, not the 4 of item 0."""
    scores, target = torch.tensor([[9.0, 3.0, 1.0], [2.0, 1.0, 0.0]]), [{0: 5.0, 1: 2.0}, {1: 4.0}]
    metric = get_metric(name, Ranking(seen=[[0], []], num_negatives=drawn))
    metric.update(scores, target, users=[0, 1])
    assert metric.compute().item() == 2
