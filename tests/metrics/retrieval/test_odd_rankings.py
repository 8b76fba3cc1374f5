"""Odd rankings: ids, seeds and batches at the edge of what can be given are measured, or refused by name."""

from __future__ import annotations

import pytest
import torch

from hpometrics import MetricCollection, Ranking
from hpometrics.exceptions import MetricInputError


def measured(name, output=None, **given):
    """The value of one batch."""
    panel = MetricCollection([name], output=output or Ranking())
    panel.update(**given)
    return panel.compute()[name].item()


def test_ids_that_are_hashes():
    """Ids may be any numbers of 62 bits: what is relevant to row 4 is no candidate there, though of row 0."""
    items = torch.tensor([[2**62 - 2, 7], [1, 2], [1, 2], [1, 2], [5, 6]])
    scores = torch.tensor([[2.0, 1.0]] * 5)
    assert measured("hit_rate@2", scores=scores, items=items, target=[[3], [3], [3], [3], [7]]) == 0
    assert measured("mrr", scores=scores, items=items, target=[[7], [2], [2], [2], [6]]) == 0.5


def test_an_id_in_two_rows_is_no_repetition():
    """However large the ids are; a repetition within a row still is one."""
    items, scores = torch.tensor([[7, 2**62 - 1]] * 5), torch.tensor([[2.0, 1.0]] * 5)
    target = [[7, 2**62 - 1], [1], [1], [1], [7]]
    assert measured("hit_rate@1", scores=scores, items=items, target=target) == 0.4
    with pytest.raises(MetricInputError, match="item 7 appears twice in row 4"):
        measured("hit_rate@1", scores=scores, items=items, target=[*target[:4], [7, 7]])


def test_a_batch_without_a_candidate():
    """Nobody has a list, and what is relevant is not found."""
    items = torch.zeros(2, 0, dtype=torch.int64)
    given = {"scores": torch.zeros(2, 0), "items": items, "target": [[1], [2]]}
    assert measured("recall@2", Ranking(num_items=5), **given) == 0
    assert measured("num_retrieved@2", Ranking(num_items=5), **given) == 0


def test_any_seed_draws():
    """A seed is any whole number from 0."""
    for seed in (2**62, 2**64 + 1):
        output = Ranking(num_negatives=2, seed=seed)
        assert 0 < measured("mrr", output, scores=torch.randn(3, 9), target=[[1], [0], [2]]) <= 1


def test_numbers_of_queries_are_whole():
    """0.5 and 0.7 are not the same query."""
    queries = torch.tensor([0.5, 0.7])
    with pytest.raises(MetricInputError, match=r"queries must be whole numbers.*float32"):
        measured("mrr", scores=torch.zeros(2), target=torch.ones(2), queries=queries)


@pytest.mark.parametrize("seen", [[[], []], [[0], [1]]])
def test_popularity_of_items_that_nobody_has_seen(seen):
    """Where only `seen` tells it, an item that no one has seen counts 1, the least there is."""
    given = {"scores": torch.tensor([[1.0, 2.0, 3.0]] * 2), "target": [[2], [2]], "users": torch.arange(2)}
    assert measured("arp@1", Ranking(seen=seen), **given) == 1
