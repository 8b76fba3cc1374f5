from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from hpometrics.metrics.retrieval import row_areas
from hpometrics.metrics.retrieval.interactions import Interactions
from hpometrics.metrics.retrieval.row_areas import ranks_of, right_pairs


@pytest.fixture(params=["all rows", "row by row", "counted", "sorted"], autouse=True)
def way(request, monkeypatch):
    """Every way to count pairs: all rows at once, and one after the other, some of them or all counted."""
    if request.param != "all rows":
        monkeypatch.setattr(row_areas, "_WIDE", 1)
        few = {"row by row": 4, "counted": 1000, "sorted": -1}
        monkeypatch.setattr(row_areas, "_FEW", few[request.param])
        monkeypatch.setattr(row_areas, "_IN_CACHE", 7)


def counted(scores, relevant):
    """The pairs of each row by a double loop."""
    found = []
    for own, chosen in zip(scores.tolist(), relevant.tolist(), strict=True):
        ranked = [(s, c) for s, c in zip(own, chosen, strict=True) if s > -np.inf]
        yes, no = ([s for s, c in ranked if c == kind] for kind in (1, 0))
        found.append((sum((p > n) + (p == n) / 2 for p in yes for n in no), len(yes), len(no)))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("levels", [2, 8, 1e6])
def test_pairs_are_those_of_a_double_loop(levels, dtype):
    """Ties count half; what is not ranked, on either side, is in no pair."""
    torch.manual_seed(0)
    scores = (torch.randn(12, 40, dtype=dtype) * levels).round()
    scores[torch.rand(12, 40) < 0.3] = -torch.inf
    relevant = (torch.rand(12, 40) < torch.linspace(0, 1, 12).unsqueeze(1)).long()
    wanted = counted(scores, relevant)
    found = right_pairs([(0, scores)], Interactions.of(relevant, "target"), scores.shape[1])
    assert [tuple(row) for row in torch.stack(found, 1).tolist()] == wanted


def test_tiles_make_no_difference():
    """Rows are counted a tile at a time, the last one being smaller."""
    torch.manual_seed(0)
    scores, relevant = torch.randn(11, 30).mul(3).round(), (torch.rand(11, 30) < 0.2).long()
    scores[torch.rand(11, 30) < 0.2] = -torch.inf
    tiles = [(start, scores[start : start + 4].clone()) for start in (0, 4, 8)]
    found = right_pairs(tiles, Interactions.of(relevant, "target"), 30)
    assert [tuple(row) for row in torch.stack(found, 1).tolist()] == counted(scores, relevant)


def test_areas_are_those_of_scikit_learn():
    """Row by row, with ties."""
    torch.manual_seed(0)
    scores, relevant = torch.randn(20, 300).mul(9).round(), (torch.rand(20, 300) < 0.1).long()
    wanted = [roc_auc_score(chosen, own) for chosen, own in zip(relevant, scores, strict=True)]
    right, positives, others = right_pairs([(0, scores.clone())], Interactions.of(relevant, "target"), 300)
    assert (right / positives / others).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (3, 1)])
def test_where_there_is_no_pair(shape):
    """No rows, no columns, nothing relevant: nothing is counted."""
    found = right_pairs([(0, torch.zeros(shape))], Interactions.of(torch.zeros(shape), "target"), shape[1])
    assert [part.tolist() for part in found] == [[0] * shape[0], [0] * shape[0], [shape[1]] * shape[0]]


def test_everything_relevant_and_nothing_ranked():
    """All pairs need another item; a row of -inf has none either."""
    scores = torch.tensor([[1.0, 2.0], [-torch.inf, -torch.inf]])
    found = right_pairs([(0, scores)], Interactions.of([[0, 1], [1]], "target"), 2)
    assert [part.tolist() for part in found] == [[0, 0], [2, 0], [0, 0]]


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ranks_are_those_of_a_stable_sort(few, dtype, monkeypatch):
    """Counted or sorted: equal scores rank by column, and what is not ranked has no rank."""
    monkeypatch.setattr(row_areas, "_COUNTED", 2 if few else 0)
    random = torch.Generator().manual_seed(1)
    scores = torch.randn(60, 101, generator=random, dtype=dtype).mul(3).round()
    scores[torch.rand(60, 101, generator=random) < 0.2] = -torch.inf
    target = torch.rand(60, 101, generator=random) < 0.015
    target[0], target[1, :5] = False, True
    order = scores.argsort(dim=1, descending=True, stable=True)
    ranks = torch.empty(60, 101, dtype=torch.float64).scatter_(
        1, order, torch.arange(1.0, 102.0).double().expand(60, -1)
    )
    wanted = ranks.masked_fill(scores == -torch.inf, torch.inf)[target]
    entries = Interactions.of(target, "target")
    assert torch.equal(ranks_of(scores, entries), wanted)
    near = ranks_of(scores, entries, within=10)
    assert torch.equal(near[wanted <= 10], wanted[wanted <= 10]) and (near[wanted > 10] > 10).all()
