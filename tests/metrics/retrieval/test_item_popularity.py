from __future__ import annotations

import pytest
import torch

import hpometrics.metrics.retrieval.side_data as popular
from hpometrics import MetricCollection
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.retrieval.side_data import SideData


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
    tail = popular._tail
    monkeypatch.setattr(popular, "_tail", lambda *args: made.append(args) or tail(*args))
    names = ["aplt@1", "aplt@2", "aclt@3", "pop_rsp@2", "pop_reo@1"]
    panel = MetricCollection(names, Ranking(item_popularity=torch.tensor([4, 0, 4, 2])))
    for _ in range(3):
        panel.update(scores=torch.rand(5, 4), target=torch.ones(5, 4))
    panel.compute()
    assert len(made) == 1
