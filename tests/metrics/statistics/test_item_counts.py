from __future__ import annotations

import pytest
import torch

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.retrieval.ranking_batch import RankingBatch
from hpometrics.metrics.statistics.item_counts import ItemTotals, _narrow, sum_positions

NONE = -torch.inf


def counted(of: str, output: Ranking, **given) -> list[float]:
    """The counts of one batch."""
    statistic = ItemTotals(of)
    batch = RankingBatch(output, **given)
    statistic.check(batch)
    statistic.update(batch)
    return statistic.counts.tolist()


def test_relevant_items_count_by_user():
    """Dense or as lists, of all items or beside candidates that leave one out."""
    scores = torch.zeros(2, 3)
    assert counted("relevant", Ranking(), scores=scores, target=torch.tensor([[0, 2, 1], [0, 1, 0]])) == [
        0,
        2,
        1,
    ]
    assert counted("relevant", Ranking(), scores=scores, target=[[1, 2], [1]]) == [0, 2, 1]
    candidates = {"scores": torch.zeros(2, 2), "items": torch.tensor([[2, 0], [1, -1]])}
    assert counted("relevant", Ranking(num_items=3), target=[[1, 2], [1]], **candidates) == [0, 2, 1]
    dense = torch.tensor([[1, 0], [1, 0]])
    assert counted("relevant", Ranking(num_items=3), target=dense, **candidates) == [0, 1, 1]


def test_offered_items_are_those_that_can_be_ranked():
    """Neither -inf nor seen, and of candidates not the padding."""
    scores = torch.tensor([[0.5, NONE, -9.0], [0.1, 0.2, 0.3]])
    assert counted("offered", Ranking(), scores=scores, target=[[0], [0]]) == [2, 1, 2]
    seen = Ranking(seen=[[], [0]])
    assert counted("offered", seen, scores=scores, target=[[0], [1]], users=[0, 1]) == [1, 1, 2]
    items = torch.tensor([[4, -1, 0], [0, 3, 4]])
    assert counted("offered", Ranking(num_items=5), scores=scores, target=[[0], [0]], items=items) == [
        2,
        0,
        0,
        1,
        2,
    ]


@pytest.mark.parametrize("of", ["relevant", "offered"])
def test_users_count_by_their_weight(of):
    """One of weight 0 is not there."""
    given = {"scores": torch.zeros(2, 2), "target": [[0, 1], [0, 1]], "sample_weight": [2.5, 0.0]}
    assert counted(of, Ranking(), **given) == [2.5, 2.5]


@pytest.mark.parametrize("of", ["relevant", "offered"])
def test_the_size_of_the_catalogue_is_asked_for(of):
    """Candidates do not show it."""
    with pytest.raises(
        MetricInputError,
        match=r"unknown, because the batch has only candidates; pass Ranking\(num_items=\.\.\.\)",
    ):
        counted(of, Ranking(), scores=torch.zeros(1, 2), target=[[0]], items=torch.tensor([[0, 7]]))


NUMBERS = torch.tensor([[2, 0, -1], [1, 2, 0]])


def test_each_place_counts_once_up_to_each_cutoff():
    """Within one place stand 2 and 1, within three 0 and 2 twice and 1 once; -1 counts for nothing."""
    counts = sum_positions(NUMBERS, None, (1, 3), 3)
    assert counts.tolist() == [[0, 1, 1], [2, 1, 2]]
    assert counts.dtype is torch.float64


def test_places_are_worth_what_they_are_worth():
    """Row 0 weighs a half: what stands at -1 adds nothing, whatever it is worth."""
    worth = torch.tensor([[0.5, 0.5, 9.0], [1.0, 1.0, 1.0]]).double()
    assert sum_positions(NUMBERS, worth, (1, 3), 3).tolist() == [[0, 1, 0.5], [1.5, 1, 1.5]]


def test_another_catalogue_is_counted_anew():
    """Numbers of a larger catalogue, at the same cut-offs, do not fall on those of a smaller one."""
    assert sum_positions(NUMBERS, None, (1, 3), 4).tolist() == [[0, 1, 1, 0], [2, 1, 2, 0]]


def test_numbers_that_32_bits_do_not_hold_are_kept_in_64():
    """As many cut-offs of a large catalogue have."""
    dtypes = [_narrow(NUMBERS, most).dtype for most in (2**31 - 1, 3 * 2**30)]
    assert dtypes == [torch.int32, torch.int64]
