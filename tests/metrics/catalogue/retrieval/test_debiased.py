"""Debiased values are what plain loops over hits give, each by the propensity of its item, not its place."""

from __future__ import annotations

import math

import pytest
import torch
from listed import CASES, CUTOFFS, ITEMS, mean, measured, same

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.register import get_metric


def propensity_of(rankings, item) -> float:
    """As given, or the root of the popularity over the largest one, 0.1 at least, as in WarpRec 2."""
    if rankings.propensity is not None:
        return float(rankings.propensity[item])
    return max(0.1, math.sqrt(rankings.popularity[item] / max(rankings.popularity)))


def of_user(rankings, user, k, by_rank, normalized) -> float:
    """The weight of the hits over the relevant items, over their weight, or alone."""
    relevant = rankings.relevant(user)
    if not relevant:
        return math.nan
    gain = sum(
        1 / propensity_of(rankings, item) / (math.log2(place + 1) if by_rank else 1)
        for place, item in enumerate(rankings.list_of(user, k), 1)
        if item in relevant
    )
    if normalized:
        return gain / sum(1 / propensity_of(rankings, item) for item in relevant)
    return gain if by_rank else gain / len(relevant)


USES = {
    "ips_recall": (False, False),
    "snips_recall": (False, True),
    "ips_dcg": (True, False),
    "snips_dcg": (True, True),
}


@pytest.mark.parametrize("rankings", CASES, ids=str)
@pytest.mark.parametrize("name", USES)
def test_hits_count_by_the_propensity_of_their_items(name, rankings):
    """With a propensity given, and with that of popularity; sampled candidates by their ids."""
    expected = [mean([of_user(rankings, user, k, *USES[name]) for user in rankings.users]) for k in CUTOFFS]
    same(measured(name, rankings), expected)


def test_popularity_stands_in_for_propensity():
    """100, 25, 0 interactions: propensity 1, 1/2, and 0.1 in the place of 0."""
    metric = get_metric("ips_dcg@1", Ranking(item_popularity=torch.tensor([100, 25, 0])))
    metric.update(torch.eye(3), [[0], [1], [2]])
    assert float(metric.compute()) == pytest.approx((1 + 2 + 10) / 3)


def test_a_drawn_sample_weighs_items_not_places():
    """With every item found, the self-normalized recall of a sampled evaluation is 1, never more."""
    random = torch.Generator().manual_seed(0)
    output = Ranking(num_items=ITEMS, num_negatives=5, propensity=torch.linspace(0.01, 1, ITEMS))
    metric = get_metric("snips_recall@60", output)
    metric.update(
        torch.randn(30, ITEMS, generator=random), (torch.rand(30, ITEMS, generator=random) < 0.2).long()
    )
    assert float(metric.compute()) == pytest.approx(1.0)


def test_relevant_items_that_are_no_candidates_weigh_too():
    """Item 9 was not retrieved: 1 / 0.5 of 1 / 0.5 + 1 / 0.25."""
    propensity = torch.ones(10)
    propensity[4], propensity[9] = 0.5, 0.25
    metric = get_metric("snips_recall@2", Ranking(num_items=10, propensity=propensity))
    metric.update(torch.tensor([[0.9, 0.5]]), [[4, 9]], items=torch.tensor([[4, 5]]))
    assert float(metric.compute()) == pytest.approx(2 / 6)


@pytest.mark.parametrize("name", USES)
def test_propensity_or_popularity_is_asked_for(name):
    """Without either there is nothing to correct by."""
    metric = get_metric(f"{name}@2", Ranking())
    with pytest.raises(MetricInputError, match="needs item_popularity, which the output lacks; pass"):
        metric.update(torch.zeros(1, 3), [[0]])


def test_propensity_is_that_of_the_catalogue():
    """Another length is refused with both."""
    metric = get_metric("ips_recall@2", Ranking(propensity=torch.ones(4)))
    with pytest.raises(MetricInputError, match="there are scores of 3 items, but the catalog has 4"):
        metric.update(torch.zeros(1, 3), [[0]])
