from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import hpometrics.metrics.retrieval.side_data as popular
from hpometrics import MetricCollection, MetricInputError, Ranking
from hpometrics.metrics.retrieval.side_data import SideData

GIVEN = {
    "seen": [[0, 2], [2]],
    "item_popularity": [3, 0, 1],
    "item_groups": np.array([0, 1, -1]),
    "user_groups": [1, 0],
    "item_features": [[1, 0], [0, 1], [1, 1]],
    "propensity": [0.5, 1.0, 0.1],
}


def test_each_is_read_in_its_form():
    """Lists and arrays become tensors, each once."""
    side = SideData.of(Ranking(num_items=3, **GIVEN))
    assert side.item_popularity.tolist() == [3, 0, 1] and side.item_popularity.dtype is torch.float64
    assert side.item_groups.tolist() == [0, 1, -1] and side.user_groups.tolist() == [1, 0]
    assert side.item_features.shape == (3, 2) and side.propensity.dtype is torch.float64
    assert side.seen.items.tolist() == [0, 2, 2] and side.seen is side.seen


@pytest.mark.parametrize("name", GIVEN)
def test_what_was_not_given_is_named(name):
    """With the argument to give."""
    with pytest.raises(
        MetricInputError,
        match=rf"the metric needs {name}, which the output lacks; pass Ranking\({name}=",
    ):
        getattr(SideData(Ranking()), name)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"seen": [[3]]}, r"seen: item ids must be in 0\.\.2, got values from 3 to 3"),
        ({"item_popularity": [1, 2]}, r"item_popularity must have shape \(3,\), got \(2,\)"),
        ({"item_popularity": [1, float("nan"), 2]}, "item_popularity contains nan or infinite values"),
        (
            {"item_groups": [0.5, 1, 2]},
            r"item_groups must be whole numbers .* got torch.float64 of shape \(3,\)",
        ),
        ({"item_groups": [0, -2, 1]}, "item_groups must be whole numbers from 0"),
        ({"user_groups": [[0, 1]]}, r"user_groups must be whole numbers .* of shape \(1, 2\)"),
        ({"item_features": [1, 2, 3]}, r"item_features must have shape \(3, features\), got \(3,\)"),
        ({"propensity": [0.5, 0.0, 1.0]}, "propensity must be a probability above 0, got values from 0 to 1"),
        (
            {"propensity": [0.5, 2.0, 1.0]},
            "propensity must be a probability above 0, got values from 0.5 to 2",
        ),
        ({"item_popularity": ["a", "b", "c"]}, "item_popularity must be a .* got list with the text 'a'"),
        ({"item_popularity": {0: 1, 1: 2, 2: 3}}, "item_popularity must be a .* got dict"),
        ({"item_groups": [0, None, 1]}, "item_groups must be a .* got list with None"),
        ({"user_groups": ["x"]}, "user_groups must be a .* got list with the text 'x'"),
        ({"item_features": [[0], [0, 1], [1]]}, "item_features must be a .* got list"),
        (
            {"item_features": torch.eye(3).to_sparse()},
            r"item_features must be a dense tensor.*to_dense\(\)",
        ),
    ],
)
def test_what_is_wrong_is_refused(given, text):
    """The first time it is read."""
    side = SideData(Ranking(num_items=3, **given))
    with pytest.raises(MetricInputError, match=text):
        getattr(side, next(iter(given)))


def test_sparse_features_are_refused_where_they_alone_tell_the_number_of_items():
    """As a sparse matrix of SciPy, which has no length."""
    side = SideData(Ranking(item_features=csr_matrix(np.eye(3))))
    assert side.num_items == 3
    with pytest.raises(MetricInputError, match=r"item_features must be a .* got csr_matrix"):
        _ = side.item_features


def test_what_follows_from_the_rest():
    """Popularity and the number of users from what was seen, the number of items from facts of items."""
    side = SideData(Ranking(num_items=4, seen=[[0, 2], [2]]))
    assert side.item_popularity.tolist() == [1, 0, 2, 0] and side.num_users == 2
    assert SideData(Ranking(num_users=9)).num_users == 9
    assert SideData(Ranking(item_groups=[0, 1])).num_items == 2 and SideData(Ranking()).num_items is None


def test_one_of_each_output_and_device():
    """Metrics of one output share it."""
    output = Ranking(num_items=3)
    assert SideData.of(output) is SideData.of(output, "cpu") is not SideData.of(Ranking(num_items=3))


def test_side_data_are_of_one_catalogue():
    """Groups of four items beside the popularity of three, where nobody says how many there are."""
    side = SideData(Ranking(item_popularity=[1, 2, 3], item_groups=[0, 1, 0, 1]))
    with pytest.raises(MetricInputError, match=r"item_groups must have shape \(3,\), got \(4,\)"):
        side.item_groups  # noqa: B018  # read


def test_a_stored_zero_was_not_seen():
    """A sparse matrix may hold zeros; only what is not 0 is an interaction."""
    matrix = torch.sparse_coo_tensor([[0, 0], [0, 2]], [0.0, 4.0], (1, 3), check_invariants=True)
    assert SideData(Ranking(num_items=3, seen=matrix)).seen.items.tolist() == [2]


def side(**given) -> SideData:
    """Side data of four items, unless it says otherwise."""
    return SideData.of(Ranking(**{"item_popularity": torch.tensor([4, 0, 4, 2]), **given}))


@pytest.mark.parametrize(
    ("ratio", "tail"),
    [(0.1, [1, 2, 3]), (0.4, [1, 3]), (0.8, [1]), (0.99, [1]), (1.0, [])],
)
def test_the_head_ends_with_the_item_that_exceeds_the_ratio(ratio, tail):
    """Of 10 interactions 4, 4, 2: exactly 0.4 or 0.8 is not yet more; of equal items the first is head."""
    found = popular.long_tail(side(), 4, ratio)
    assert found.nonzero().squeeze(1).tolist() == tail


@pytest.mark.parametrize(
    ("ratio", "rare"), [(0.1, [1]), (0.5, [1, 3]), (0.75, [0, 1, 3]), (1.0, [0, 1, 2, 3])]
)
def test_the_rarest_are_one_item_at_least(ratio, rare):
    """Rounded down, of equal items the first."""
    assert popular.rarest(side(), 4, ratio).nonzero().squeeze(1).tolist() == rare


def test_a_share_of_the_rarest_is_whole():
    """0.29 of 100 items are 29, though the product of the two is less."""
    counted = SideData.of(Ranking(item_popularity=torch.arange(100.0)))
    assert popular.rarest(counted, 100, 0.29).sum() == 29


def test_items_that_nobody_saw_are_part_of_the_catalogue():
    """Where popularity is counted from what was seen, the last items may be missing there."""
    counted = SideData.of(Ranking(seen=[[0, 1], [1]]))
    assert popular.popularity(counted, 4).tolist() == [1, 2, 0, 0]
    with pytest.raises(MetricInputError, match="for 1 items; got 2 items"):
        popular.popularity(counted, 1)


def test_expected_items_stand_high_by_popularity():
    """Ranks 1, none, 1, 2 of four items."""
    assert popular.expectedness(side(), 4).tolist() == [1.0, 0.0, 1.0, 0.75]


def test_propensity_is_taken_as_given():
    """Else it is the root of the popularity over the largest, 0.1 at least."""
    given = torch.tensor([0.5, 0.25, 1.0, 0.125])
    assert popular.propensity(side(propensity=given), 4).tolist() == given.tolist()
    assert popular.propensity(side(), 4).tolist() == pytest.approx([1, 0.1, 1, 0.5**0.5])


def test_what_follows_from_side_data_is_made_once(monkeypatch):
    """However many batches and metrics read it."""
    made = []
    derived = SideData.derived

    def watched(own, name, make):
        return derived(own, name, lambda side: made.append(name) or make(side))

    monkeypatch.setattr(SideData, "derived", watched)
    names = ["aplt@1", "aplt@2", "aclt@3", "pop_rsp@2", "pop_reo@1"]
    panel = MetricCollection(names, Ranking(item_popularity=torch.tensor([4, 0, 4, 2])))
    for _ in range(3):
        panel.update(scores=torch.rand(5, 4), target=torch.ones(5, 4))
    panel.compute()
    assert "long_tail of (4, 0.8)" in made and len(made) == len(set(made))
