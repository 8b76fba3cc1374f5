"""Whole rankings: without a cut-off, of candidates, of sparse targets, the same numbers in the same order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ranked_cases import EVERY_CASE, by_user, make_case, together

from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.retrieval.ranking_batch import RankingBatch

WHOLE = ("mrr", "map", "map(norm=n)", "ndcg", "dcg(gain=exp)", "rbp", "err", "map(norm=hits)")


@EVERY_CASE
def test_without_a_cut_off_the_list_is_all(kind, seed):
    """The same number as a list as long as the scores are wide, for which everything is ranked."""
    case = make_case(kind, seed)
    deep = {name: f"{name}@{case.scores.shape[1]}" for name in WHOLE}
    ours = by_user([*WHOLE, *deep.values()], case)
    for name in WHOLE:
        np.testing.assert_allclose(ours[name], ours[deep[name]], atol=1e-12, err_msg=name)


def test_nothing_is_ranked_for_whole_lists(monkeypatch):
    """The ranks of relevant items are enough: no list, whatever the number of metrics."""
    case, calls = make_case("random", 0), []
    monkeypatch.setattr(RankingBatch, "_rank", lambda *_: pytest.fail("a list was ranked"))
    placed = RankingBatch._whole_lists
    monkeypatch.setattr(RankingBatch, "_whole_lists", lambda self: calls.append(1) or placed(self))
    together(WHOLE, case)
    assert len(calls) == 2  # once for each batch


SPARSE = (
    *WHOLE,
    "precision@5",
    "fall_out@5",
    "gauc",
    "auc",
    "lauc@5",
    "r_precision",
    "log_loss",
    "partial_auc@2",
)


@pytest.mark.parametrize("kind", ["random", "graded", "masked"])
def test_candidates_and_sparse_targets_are_the_same_batch(kind):
    """Items by name in another order, padded, beside a sparse target: nothing changes but ties."""
    case = make_case(kind, 5)
    scores = np.where(case.scores > -np.inf, case.scores + np.arange(30) / 4096, -np.inf).astype("float32")
    order = np.random.default_rng(1).permuted(np.tile(np.arange(30), (16, 1)), axis=1)
    items = np.concatenate([order, np.full((16, 2), -1)], axis=1)
    shown = np.concatenate([np.take_along_axis(scores, order, 1), np.full((16, 2), 9, "float32")], axis=1)
    target = [{int(item): float(row[item]) for item in row.nonzero()[0]} for row in case.grades]
    for name in SPARSE:
        dense, sparse = get_metric(name, Ranking()), get_metric(name, Ranking(num_items=30))
        dense.update(torch.tensor(scores), torch.tensor(case.grades))
        sparse.update(torch.tensor(shown), target=target, items=torch.tensor(items))
        assert sparse.compute().item() == pytest.approx(dense.compute().item(), abs=1e-9), name


def test_equal_scores_rank_in_the_order_of_columns_in_every_tile():
    """Constant scores of many items: the rank of a relevant one is its column, counted in parts."""
    target = torch.zeros(300, 5000, dtype=torch.int64)
    columns = torch.randint(5000, (300,), generator=torch.Generator().manual_seed(2))
    target[torch.arange(300), columns] = 1
    metric = get_metric("mrr", Ranking())
    metric.update(torch.zeros(300, 5000), target)
    assert metric.compute().item() == pytest.approx((1 / (columns + 1.0).double()).mean().item())
