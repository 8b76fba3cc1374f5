"""Diversity is what plain loops over features, and over pairs of items, give."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from listed import CASES, CUTOFFS, mean, measured, same

import hpometrics.metrics.catalogue.retrieval.coverage as diversity
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.register import get_metric


def subtopic_recall(rankings, user, k) -> float:
    """Features of the hits over features of all relevant items."""
    relevant = rankings.relevant(user)
    wanted = {f for item in relevant for f in np.flatnonzero(rankings.features[item])}
    hits = [item for item in rankings.list_of(user, k) if item in relevant]
    found = {f for item in hits for f in np.flatnonzero(rankings.features[item])}
    return len(found) / len(wanted) if wanted else math.nan


def distance(one, other) -> float:
    """1 - cosine; an item without features is at 1."""
    norm = np.linalg.norm(one) * np.linalg.norm(other)
    return 1 - float(one @ other) / norm if norm else 1.0


def intra_list_diversity(rankings, user, k) -> float:
    """The mean over pairs of the list."""
    features = [rankings.features[item].astype(float) for item in rankings.list_of(user, k)]
    return mean([distance(*pair) for pair in combinations(features, 2)])


@pytest.mark.parametrize("tile", [1, 2**20])
@pytest.mark.parametrize("rankings", CASES, ids=str)
@pytest.mark.parametrize("of_user", [subtopic_recall, intra_list_diversity])
def test_diversity_is_that_of_loops(of_user, rankings, tile, monkeypatch):
    """At every k at once, cut into tiles or whole."""
    monkeypatch.setattr(diversity, "_TILE", tile)
    expected = [mean([of_user(rankings, user, k) for user in rankings.users]) for k in CUTOFFS]
    same(measured(of_user.__name__, rankings), expected)


def test_relevant_items_that_are_no_candidates_are_wanted_too():
    """Item 3 alone has the third feature; it was not retrieved."""
    output = Ranking(item_features=torch.eye(4, 3).roll(1, 0))
    metric = get_metric("srecall@2", output)
    metric.update(torch.tensor([[0.9, 0.5]]), [[1, 2, 3]], items=torch.tensor([[1, 2]]))
    assert float(metric.compute()) == pytest.approx(2 / 3)


def test_opposite_items_are_at_distance_2():
    """Features may be embeddings, of any length and sign."""
    metric = get_metric("ild@2", Ranking(item_features=torch.tensor([[2.0, 0.0], [-0.5, 0.0]])))
    metric.update(torch.tensor([[0.9, 0.5]]), [[0]])
    assert float(metric.compute()) == pytest.approx(2.0)


def test_a_list_of_one_item_has_no_pairs():
    """So lists of one have no diversity, and the reason says so."""
    metric = get_metric("intra_list_diversity@1", Ranking(item_features=torch.eye(2)))
    metric.update(torch.tensor([[0.9, 0.5]]), [[0]])
    assert metric.compute().isnan()
    assert metric.undefined_reason == "no list has two items"


def test_relevant_items_without_features_want_none():
    """Nothing to be found is no recall of 0."""
    metric = get_metric("srecall@1", Ranking(item_features=torch.zeros(2, 3)))
    metric.update(torch.tensor([[0.9, 0.5]]), [[0]])
    assert metric.compute().isnan()
    assert metric.undefined_reason == "no user has a relevant item that has a feature"


@pytest.mark.parametrize("name", ["srecall@2", "intra_list_diversity@2"])
def test_features_are_asked_for(name):
    """The message names the argument."""
    metric = get_metric(name, Ranking())
    with pytest.raises(MetricInputError, match=r"needs item_features, which .* Ranking\(item_features=...\)"):
        metric.update(torch.zeros(1, 3), [[0]])
