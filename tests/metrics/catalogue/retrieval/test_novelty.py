"""Novelty is what plain loops over each user's list give, by the formulas of the papers and of WarpRec 2."""

from __future__ import annotations

import math

import pytest
import torch
from listed import CASES, CUTOFFS, ITEMS, TRAINED, mean, measured, same

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.register import get_metric


def unknown(rankings, item) -> float:
    """The share of users who do not know an item."""
    return 1 - max(1, rankings.popularity[item]) / TRAINED


def information(rankings, item) -> float:
    """The bits of the choice of an item among all interactions."""
    return -math.log2(max(1, rankings.popularity[item]) / sum(rankings.popularity))


def found(rankings, k, novelty, worth) -> float:
    """Discounted novelty of the hits, over the discounts of k places; users with a relevant item."""
    values = []
    for user in rankings.users:
        grades = rankings.relevant(user)
        gain = sum(
            worth(grades[item]) * novelty(rankings, item) / math.log2(place + 2)
            for place, item in enumerate(rankings.list_of(user, k))
            if item in grades
        )
        norm = sum(1 / math.log2(place + 2) for place in range(k))
        values.append(gain / norm if grades else math.nan)
    return mean(values)


def binary(grade) -> float:
    """What any hit is worth."""
    return 1.0


def discounted(grade) -> float:
    """What a hit is worth by its grade, in WarpRec."""
    return 2 ** (grade + 1) - 1


@pytest.mark.parametrize("rankings", CASES, ids=str)
@pytest.mark.parametrize("worth", [binary, discounted])
@pytest.mark.parametrize(("metric", "novelty"), [("epc", unknown), ("efd", information)])
def test_the_novelty_of_what_is_found(metric, novelty, worth, rankings):
    """Both forms of relevance, at every k, one beyond the catalogue."""
    got = measured(f"{metric}(relevance={worth.__name__})", rankings)
    same(got, [found(rankings, k, novelty, worth) for k in CUTOFFS])


@pytest.mark.parametrize("rankings", CASES, ids=str)
def test_self_information_is_the_mean_over_the_list(rankings):
    """Every user with a list counts; a short list is divided by its own length."""
    expected = []
    for k in CUTOFFS:
        lists = [rankings.list_of(user, k) for user in rankings.users]
        bits = [
            [-math.log2(max(1, rankings.popularity[item]) / TRAINED) for item in items] for items in lists
        ]
        expected.append(mean([sum(one) / len(one) if one else math.nan for one in bits]))
    same(measured("self_information", rankings), expected)


def test_self_information_is_what_rectools_says():
    """The example of its MeanInvUserFreq: of three users all know item 1, one item 2, and nobody item 3."""
    output = Ranking(item_popularity=torch.tensor([3, 1, 0]), num_users=3)
    lists = torch.tensor([[0.0, 0.0, 1.0], [0.0, 2.0, 1.0], [2.0, 1.0, 0.0]]).masked_fill(
        torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 1]]).bool(), -torch.inf
    )
    for k, values in ((1, [1.5849625, 1.5849625, 0.0]), (3, [1.5849625, 1.5849625, 0.79248125])):
        metric = get_metric(f"miuf@{k}", output)
        metric.update(lists, torch.zeros(3, 3))
        assert float(metric.compute()) == pytest.approx(sum(values) / 3)


@pytest.mark.parametrize("rankings", CASES, ids=str)
def test_serendipity_compares_two_ranks(rankings):
    """The place in the list against the place by popularity; equal popularities share one."""
    levels = sorted({count for count in rankings.popularity if count > 0}, reverse=True)
    by_popularity = [levels.index(count) + 1 if count > 0 else ITEMS + 1 for count in rankings.popularity]
    expected = []
    for k in CUTOFFS:
        values = []
        for user in rankings.users:
            grades = rankings.relevant(user)
            gaps = [
                max(by_popularity[item] - place, 0) / ITEMS
                for place, item in enumerate(rankings.list_of(user, k), 1)
                if item in grades
            ]
            values.append(sum(gaps) / k if grades else math.nan)
        expected.append(mean(values))
    same(measured("serendipity", rankings), expected)


def test_serendipity_is_what_rectools_says():
    """The example of its Serendipity at k = 1, of users with a relevant item: 0, 1/4, 0 and 1/4."""
    output = Ranking(item_popularity=torch.tensor([3, 2, 0, 0]))
    scores = torch.tensor([[4.0, 3, 2, 1], [1, 4, 3, 2], [1, 2, 4, 3], [1, 4, 3, 2]])
    metric = get_metric("serendipity@1", output)
    metric.update(scores, [[0, 1], [0, 1], [1], [1]])
    assert float(metric.compute()) == pytest.approx((0 + 0.25 + 0 + 0.25) / 4)


@pytest.mark.parametrize("name", ["epc@2", "efd@2", "self_information@2", "serendipity@2"])
def test_popularity_is_asked_for(name):
    """The message names the argument."""
    metric = get_metric(name, Ranking(num_users=5))
    with pytest.raises(
        MetricInputError, match=r"needs item_popularity, which .* Ranking\(item_popularity=...\)"
    ):
        metric.update(torch.zeros(1, 3), [[0]])


def test_the_number_of_users_is_asked_for():
    """It cannot be told from popularity."""
    metric = get_metric("epc@2", Ranking(item_popularity=torch.ones(3)))
    with pytest.raises(
        MetricInputError,
        match=r"number of users .* pass Ranking\(num_users=\.\.\.\) or Ranking\(seen=\.\.\.\)",
    ):
        metric.update(torch.zeros(1, 3), [[0]])


def test_more_interactions_than_users_are_refused():
    """A share of users above 1 would make novelty negative."""
    metric = get_metric("self_information@2", Ranking(item_popularity=torch.tensor([3, 8]), num_users=5))
    with pytest.raises(MetricInputError, match="an item has 8 interactions from 5 users"):
        metric.update(torch.zeros(1, 2), [[0]])


def test_seen_items_show_popularity_and_users():
    """Two users saw item 0, one item 1; nobody item 2, which counts as one user's."""
    metric = get_metric("self_information@3", Ranking(num_items=3, seen=[[0, 1], [0], [], []]))
    metric.update(torch.tensor([[0.3, 0.2, 0.1]]), [[0]], users=torch.tensor([3]))
    assert float(metric.compute()) == pytest.approx((1 + 2 + 2) / 3)
