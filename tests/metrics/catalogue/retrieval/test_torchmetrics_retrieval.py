"""Agreement with torchmetrics' retrieval metrics, query by query.

Its precision, recall, average precision and reciprocal rank take a score up to 0 for an item that is not
retrieved; the scores here are positive.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torchmetrics.functional.retrieval as tm
from ranked_cases import CASES, Case, agree, make_case, together
from torchmetrics.retrieval import RetrievalRecallAtFixedPrecision

from hpometrics.metrics.registry.register import get_metric

RANKED = {
    "precision@3": (tm.retrieval_precision, {"top_k": 3}),
    "precision@40": (tm.retrieval_precision, {"top_k": 40}),
    "precision(shown=true)@40": (tm.retrieval_precision, {"top_k": 40, "adaptive_k": True}),
    "recall@3": (tm.retrieval_recall, {"top_k": 3}),
    "hit_rate@3": (tm.retrieval_hit_rate, {"top_k": 3}),
    "mrr": (tm.retrieval_reciprocal_rank, {}),
    "mrr@3": (tm.retrieval_reciprocal_rank, {"top_k": 3}),
    "map": (tm.retrieval_average_precision, {}),
    "retrieval_map@5": (tm.retrieval_average_precision, {"top_k": 5}),
    "r_precision": (tm.retrieval_r_precision, {}),
    "ndcg": (tm.retrieval_normalized_dcg, {}),
    "ndcg@5": (tm.retrieval_normalized_dcg, {"top_k": 5}),
}


def per_query(theirs, options: dict, case: Case, graded: bool) -> list[float]:
    """Each user alone, of the items that are ranked and those that are relevant."""
    values = []
    for scores, grades in zip(case.scores, case.grades, strict=True):
        known = torch.tensor((scores > -np.inf) | (grades > 0))
        preds, target = torch.tensor(scores)[known], torch.tensor(grades)[known]
        values.append(theirs(preds, target if graded else target > 0, **options).item())
    return values


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["random", "short"])
def test_a_ranking_agrees_with_torchmetrics(kind, seed):
    """Scores without ties, whose order its sorts leave open."""
    case = make_case(kind, seed)
    agree(case, {name: per_query(*theirs, case, "ndcg" in name) for name, theirs in RANKED.items()})


@pytest.mark.parametrize("seed", range(2))
def test_graded_gain_agrees_with_torchmetrics(seed):
    """Grades up to 4; over a list longer than all items."""
    case = make_case("graded", seed)
    agree(case, {f"ndcg@{k}": per_query(*RANKED["ndcg"], case, True) for k in (30, 90)})


@pytest.mark.parametrize("seed", range(2))
def test_fall_out_agrees_with_torchmetrics(seed):
    """Of users who have both; it takes a user without other items for the worst."""
    case = make_case("random", seed)
    case = Case(case.scores[2:], case.grades[2:])
    agree(
        case, {f"fall_out@{k}": per_query(tm.retrieval_fall_out, {"top_k": k}, case, False) for k in (1, 7)}
    )


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("level", "k"), [(0.0, 3), (0.2, 30), (0.3, 5), (1.0, 4)])
def test_recall_at_precision_agrees_with_torchmetrics(level, k, seed):
    """One length of list for all users, who each have something relevant."""
    case = make_case("random", seed)
    case = Case(case.scores[1:], case.grades[1:])
    case.grades[0, 0] = 1
    theirs = RetrievalRecallAtFixedPrecision(min_precision=level, max_k=k)
    users = torch.arange(len(case.scores)).repeat_interleave(case.scores.shape[1])
    theirs.update(*(torch.tensor(part).flatten() for part in (case.scores, case.grades)), indexes=users)
    name = f"recall_at_precision(min_precision={level})@{k}"
    assert together([name], case)[name] == pytest.approx(theirs.compute()[0].item(), abs=1e-6)


@pytest.mark.parametrize(("kind", "seed"), [case for case in CASES if case[0] not in ("masked", "equal")])
def test_area_per_user_agrees_with_torchmetrics(kind, seed):
    """With ties, which its area counts by half as well."""
    case = make_case(kind, seed)
    both = (case.grades > 0).any(1) & (case.grades == 0).any(1)
    case = Case(case.scores[both], case.grades[both])
    agree(case, {name: per_query(tm.retrieval_auroc, {}, case, False) for name in ("gauc", "roc_auc")})


def test_a_score_below_0_is_a_score():
    """Only the order counts: torchmetrics finds nothing here."""
    scores, target = torch.tensor([[-0.1, -0.5, -0.9]]), torch.tensor([[1, 0, 1]])
    for name, theirs in (("map", tm.retrieval_average_precision), ("recall@2", tm.retrieval_recall)):
        ours = [get_metric(name, "ranking") for _ in range(2)]
        for metric, shift in zip(ours, (0.0, 1.0), strict=True):
            metric.update(scores + shift, target)
        assert ours[0].compute() == ours[1].compute() > theirs(scores[0], target[0]) == 0
