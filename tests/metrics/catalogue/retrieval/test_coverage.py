"""Coverage is what counting the items of every list by hand gives."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from listed import CASES, CUTOFFS, ITEMS, batch_of, mean, measured, same

from hpometrics import MetricCollection
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.register import get_metric


def counts_of(rankings, k) -> list[int]:
    """How often each item of the catalogue is recommended, rising."""
    counter = Counter(item for user in rankings.users for item in rankings.list_of(user, k))
    return sorted(counter[item] for item in range(ITEMS))


def gini(counts) -> float:
    """Sum the ranks of all recommendations, as WarpRec does."""
    size = len(counts)
    weighed = sum((2 * (j + 1) - size - 1) * count for j, count in enumerate(counts))
    return weighed / sum(counts) / (size - 1)


def entropy(counts) -> float:
    """-sum of p ln p over the items that occur."""
    shares = [count / sum(counts) for count in counts if count]
    return -sum(share * math.log(share) for share in shares)


OF_COUNTS = {
    "item_coverage": lambda counts: sum(count > 0 for count in counts),
    "catalog_coverage": lambda counts: sum(count > 0 for count in counts) / ITEMS,
    "gini": gini,
    "shannon_entropy": entropy,
    "shannon_entropy(normalized=true)": lambda counts: entropy(counts) / math.log(ITEMS),
}


@pytest.mark.parametrize("rankings", CASES, ids=str)
@pytest.mark.parametrize("name", OF_COUNTS)
def test_a_value_of_counts_is_that_of_all_lists(name, rankings):
    """Every user counts; masked and padded places count nowhere; candidates count under their ids."""
    same(measured(name, rankings), [OF_COUNTS[name](counts_of(rankings, k)) for k in CUTOFFS])


@pytest.mark.parametrize("rankings", CASES, ids=str)
@pytest.mark.parametrize(
    ("name", "of_length", "everyone"),
    [
        ("user_coverage", lambda length, k: length > 0, False),
        ("user_coverage_at_n", lambda length, k: length >= k, True),
        ("num_retrieved", lambda length, k: length, False),
    ],
)
def test_users_are_covered_by_the_length_of_their_lists(name, of_length, everyone, rankings):
    """A list ends where candidates end; only `user_coverage_at_n` counts users without a relevant item."""
    users = [user for user in rankings.users if everyone or rankings.relevant(user)]
    expected = [
        mean([float(of_length(len(rankings.list_of(user, k)), k)) for user in users]) for k in CUTOFFS
    ]
    same(measured(name, rankings), expected)


def test_coverage_of_users_says_something_of_the_model():
    """A model that leaves a user without candidates covers fewer, whatever is relevant."""
    target = torch.tensor([[1, 0], [0, 1]])
    metric = get_metric("user_coverage@1", Ranking())
    metric.update(torch.tensor([[0.5, 0.1], [0.3, 0.2]]), target)
    assert float(metric.compute()) == 1.0
    metric.update(torch.full((2, 2), -torch.inf), target)
    assert float(metric.compute()) == 0.5


def test_a_shift_of_the_scores_changes_nothing():
    """Coverage at n does not ask for scores above 0."""
    scores, target = torch.randn(20, 9, generator=torch.Generator().manual_seed(0)), torch.eye(20, 9)
    values = []
    for shift in (0.0, -100.0):
        panel = MetricCollection(["user_coverage_at_n@4", "num_retrieved@4"], Ranking())
        panel.update(scores=scores + shift, target=target)
        values.append({name: float(value) for name, value in panel.compute().items()})
    assert values == [{"user_coverage_at_n@4": 1.0, "num_retrieved@4": 4.0}] * 2


def test_gini_by_hand():
    """One item for all is 1, every item as often 0; RecBole would divide by the 4 items, not by 3."""
    same_for_all = torch.tensor([[0.9, 0.1, 0.2, 0.3]] * 4)
    one_each = torch.eye(4)
    for scores, value in ((same_for_all, 1.0), (one_each, 0.0)):
        metric = get_metric("gini@1", Ranking())
        metric.update(scores, torch.eye(4))
        assert float(metric.compute()) == pytest.approx(value, abs=1e-12)


def test_entropy_by_hand():
    """Shares 1/2, 1/4, 1/4: 1.5 bits, 1.5 ln 2 nats, three quarters of the two bits of four items."""
    scores = torch.tensor([[0.9, 0, 0, 0], [0.9, 0, 0, 0], [0, 0.9, 0, 0], [0, 0, 0.9, 0]])
    panel = MetricCollection(["shannon_entropy@1", "shannon_entropy(normalized=true)@1"], Ranking())
    panel.update(scores=scores, target=torch.eye(4))
    assert [float(value) for value in panel.compute().values()] == pytest.approx([1.5 * math.log(2), 0.75])


@pytest.mark.parametrize("name", ["gini@3", "shannon_entropy@3"])
def test_nothing_recommended_has_no_shares(name):
    """The reason says so; the number of items recommended is 0."""
    metric = get_metric(name, Ranking())
    metric.update(torch.full((2, 4), -torch.inf), [[0], [1]])
    assert metric.compute().isnan()
    assert metric.undefined_reason == "every list is empty, so nothing was recommended"
    covered = get_metric("item_coverage@3", Ranking())
    covered.update(torch.full((2, 4), -torch.inf), [[0], [1]])
    assert float(covered.compute()) == 0.0


@pytest.mark.parametrize("name", ["gini@1", "shannon_entropy(normalized=true)@1"])
def test_a_catalogue_of_one_item_cannot_be_uneven(name):
    """I - 1 and ln I are 0."""
    metric = get_metric(name, Ranking())
    metric.update(torch.zeros(2, 1), torch.ones(2, 1))
    assert metric.compute().isnan()
    assert metric.undefined_reason == "the catalog has one item"


def test_candidates_do_not_show_the_size_of_the_catalogue():
    """It is asked for, before anything is counted."""
    metric = get_metric("item_coverage@2", Ranking())
    with pytest.raises(
        MetricInputError,
        match=r"unknown, because the batch has only candidates; pass Ranking\(num_items=\.\.\.\)",
    ):
        metric.update(torch.zeros(1, 2), torch.ones(1, 2), items=torch.tensor([[4, 9]]))


def test_weights_count_users():
    """A user of weight 0 is not there, one of weight 2 twice."""
    rankings = CASES[0]
    weights = torch.arange(len(rankings.scores)) % 3
    panel = MetricCollection(["gini@3", "num_retrieved@3", "item_coverage@3"], rankings.output)
    panel.update(**batch_of(rankings), sample_weight=weights)
    repeated = panel.fresh()
    repeated.update(
        **{name: value.repeat_interleave(weights, 0) for name, value in batch_of(rankings).items()}
    )
    same([float(v) for v in panel.compute().values()], [float(v) for v in repeated.compute().values()])
