"""Popularity bias is what plain loops over head and tail give, as WarpRec 2 and RecBole define it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from listed import CASES, CUTOFFS, ITEMS, mean, measured, same

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.register import get_metric


def tail_of(rankings, ratio) -> set[int]:
    """Walk down from the most popular item until the head has more than the ratio of all interactions."""
    order = sorted(range(ITEMS), key=lambda item: (-rankings.popularity[item], item))
    head, reached = [], 0
    for item in order:
        head.append(item)
        reached += rankings.popularity[item]
        if reached > ratio * rankings.popularity.sum():
            break
    return set(order) - set(head)


def of_valid(rankings, k, measure) -> float:
    """The mean over users with a relevant item; nan where a list is empty."""
    lists = [rankings.list_of(user, k) for user in rankings.users if rankings.relevant(user)]
    return mean([measure(items) for items in lists])


def over_length(total, items) -> float:
    """Divide by the length of a list, if it has any."""
    return total / len(items) if items else math.nan


@pytest.mark.parametrize("ratio", [0.8, 0.35, 1.0])
@pytest.mark.parametrize("rankings", CASES, ids=str)
def test_the_tail_is_counted_in_each_list(rankings, ratio):
    """Number and share, with the whole catalogue as head as well."""
    tail = tail_of(rankings, ratio)
    for name, measure in (
        ("aclt", lambda items: float(len(tail.intersection(items)))),
        ("aplt", lambda items: over_length(len(tail.intersection(items)), items)),
    ):
        expected = [of_valid(rankings, k, measure) for k in CUTOFFS]
        same(measured(f"{name}(pop_ratio={ratio})", rankings), expected)


def test_full_lists_have_the_share_that_warprec_gives():
    """It divides by k, which is their length."""
    rankings = CASES[0]
    tail = tail_of(rankings, 0.8)
    got = measured("aplt", rankings)
    for k, value in zip(CUTOFFS[:3], got, strict=False):
        assert value == pytest.approx(of_valid(rankings, k, lambda items, k=k: len(tail & set(items)) / k))


@pytest.mark.parametrize("rankings", CASES, ids=str)
def test_average_popularity_is_the_mean_over_the_list(rankings):
    """At least one interaction each."""
    expected = [
        of_valid(
            rankings, k, lambda items: over_length(sum(max(1, rankings.popularity[i]) for i in items), items)
        )
        for k in CUTOFFS
    ]
    same(measured("arp", rankings), expected)


@pytest.mark.parametrize("ratio", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("rankings", CASES, ids=str)
def test_the_rarest_items_are_counted_in_each_list(rankings, ratio):
    """As RecBole cuts them off, items without interaction included; every user with a list counts."""
    order = sorted(range(ITEMS), key=lambda item: (rankings.popularity[item], item))
    rare = set(order[: max(1, int(ITEMS * ratio))])
    expected = []
    for k in CUTOFFS:
        lists = [rankings.list_of(user, k) for user in rankings.users]
        expected.append(mean([over_length(len(rare.intersection(items)), items) for items in lists]))
    same(measured(f"tail_percentage(tail_ratio={ratio})", rankings), expected)


def spread(of, out_of) -> float:
    """The deviation of two rates over their mean, by NumPy."""
    if 0 in out_of or sum(of) == 0:
        return math.nan
    rates = np.array(of) / np.array(out_of)
    return float(np.std(rates) / np.mean(rates))


@pytest.mark.parametrize("ratio", [0.8, 0.35, 1.0])
@pytest.mark.parametrize("rankings", CASES, ids=str)
def test_head_and_tail_are_compared(rankings, ratio):
    """Hits of relevant items, and list items of those on offer; all users pooled."""
    tail = tail_of(rankings, ratio)

    def split(items) -> list[int]:
        return [sum(item not in tail for item in items), sum(item in tail for item in items)]

    relevant = split([item for user in rankings.users for item in rankings.relevant(user)])
    offered = split([rankings.id_of(u, c) for u in rankings.users for c in rankings.offered(u)])
    reo, rsp = [], []
    for k in CUTOFFS:
        pairs = [(user, item) for user in rankings.users for item in rankings.list_of(user, k)]
        hits = split([item for user, item in pairs if item in rankings.relevant(user)])
        reo.append(spread(hits, relevant))
        rsp.append(spread(split([item for _, item in pairs]), offered))
    same(measured(f"pop_reo(pop_ratio={ratio})", rankings), reo)
    same(measured(f"pop_rsp(pop_ratio={ratio})", rankings), rsp)


def test_seen_items_are_not_on_offer():
    """User 0 saw the head: the only item left for it is the tail, which it gets: rates 1/1 and 1/2."""
    output = Ranking(num_items=2, seen=[[0], []], item_popularity=torch.tensor([9, 1]))
    metric = get_metric("pop_rsp@1", output)
    metric.update(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), [[1], [0]], users=torch.arange(2))
    assert float(metric.compute()) == pytest.approx(0.25 / 0.75)


@pytest.mark.parametrize(
    ("name", "target", "reason"),
    [
        ("pop_reo@1", [[0], [0]], "no item of the tail is relevant"),
        ("pop_reo@1", [[1], [1]], "no item of the head is relevant"),
        ("pop_reo@1", [[1, 2], [2, 0]], "nothing to compare"),
        ("pop_rsp(pop_ratio=1.0)@1", [[0], [1]], "no item of the tail is offered"),
    ],
)
def test_a_group_without_a_rate_has_a_reason(name, target, reason):
    """One rate is nothing to compare, nor are two of 0."""
    metric = get_metric(name, Ranking(item_popularity=torch.tensor([9, 1, 1])))
    scores = [[0.9, 0.5, 0.1], [0.1, 0.9, 0.5]]
    metric.update(torch.tensor(scores), target)
    assert metric.compute().isnan()
    assert metric.undefined_reason == reason


@pytest.mark.parametrize("name", ["aclt", "aplt", "arp", "tail_percentage", "pop_reo", "pop_rsp"])
def test_popularity_is_asked_for_before_anything_is_counted(name):
    """Also where it is needed only in the end."""
    metric = get_metric(f"{name}@2", Ranking())
    with pytest.raises(
        MetricInputError, match=r"needs item_popularity, which .* Ranking\(item_popularity=...\)"
    ):
        metric.update(torch.zeros(1, 3), [[0]])


@pytest.mark.parametrize("name", ["aclt(pop_ratio=0.0)@2", "tail_percentage(tail_ratio=1.5)@2"])
def test_a_ratio_is_a_share(name):
    """Neither 0 nor more than all."""
    with pytest.raises(MetricInputError, match="ratio must be a share above 0 and at most 1; got"):
        get_metric(name, Ranking())


def test_popularity_counts_from_0():
    """A negative number of interactions is refused with the lowest."""
    metric = get_metric("arp@1", Ranking(item_popularity=torch.tensor([3, -2])))
    with pytest.raises(MetricInputError, match="got 2 items, the lowest is -2"):
        metric.update(torch.zeros(1, 2), [[0]])


@pytest.mark.parametrize(
    ("name", "value"),
    [("arp@1", 10.0), ("aplt@1", 1.0), ("aclt@1", 1.0), ("num_retrieved@2", 2.0), ("user_coverage@2", 1.0),
     ("user_mad_rating@1", 0.0), ("pairwise_accuracy", 1.0)],
)  # fmt: skip
def test_a_user_without_a_relevant_item_is_not_counted_0(name, value):
    """With `empty="neg"` only what no hit brings to 0 is counted: popularity 0 would be the best of all."""
    for empty in ("skip", "neg"):
        output = Ranking(item_popularity=[10, 90], user_groups=[0, 1, 1], empty=empty)
        metric = get_metric(name, output)
        metric.update([[4.0, 3.0]] * 3, [[0], [0], []], users=[0, 1, 2])
        assert metric.compute().item() == value
