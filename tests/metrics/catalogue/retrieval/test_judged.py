"""Rankings of which few items are judged: agreement with trec_eval and ir_measures, and by hand."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
import pytrec_eval
import torch
from ranked_cases import Case, make_case

from hpometrics import MetricCollection, Ranking
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.metric import Metric
from hpometrics.metrics.registry.register import get_metric

KINDS = ["random", "ties", "graded", "masked"]
NAMES = ["bpref", "infap", "judged@3", "judged@10"]


def name_of(item: int) -> str:
    """trec_eval puts the largest name first where scores tie; we, the first column."""
    return f"d{900 - item}"


def pooled(case: Case, seed: int) -> list[dict[int, float]]:
    """Of each user some items with their grade, some of which are -1, and nothing of the others."""
    random = np.random.default_rng(seed)
    known, left = random.random(case.grades.shape) < 0.5, random.random(case.grades.shape) < 0.4
    grades = np.where(left, -1, case.grades)
    return [
        {int(item): float(row[item]) for item in own.nonzero()[0]}
        for row, own in zip(grades, known, strict=True)
    ]


def trec_eval(case: Case, target: list[dict[int, float]], measure: str, threshold: int) -> dict[str, float]:
    """What trec_eval says of each user of whom it knows anything."""
    qrels = {
        str(user): {name_of(item): int(grade) for item, grade in row.items()}
        for user, row in enumerate(target)
        if row
    }
    run = {
        str(user): {name_of(item): float(case.scores[user, item]) for item in order}
        for user, order in enumerate(case.orders())
    }
    found = pytrec_eval.RelevanceEvaluator(qrels, {measure}, relevance_level=threshold + 1).evaluate(run)
    return {user: values[measure] for user, values in found.items()}


def value(metric: Metric, scores: np.ndarray, target: object) -> float:
    """The value of one user alone."""
    metric.reset()
    metric.update(torch.tensor(scores[None]), target=target)
    return metric.compute().item()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threshold", [0, 1])
@pytest.mark.parametrize(("name", "measure"), [("bpref", "bpref"), ("infap", "infAP")])
def test_a_pool_agrees_with_trec_eval(name, measure, threshold, kind):
    """Items of grade -1 were to be judged; others that have no entry were not; both may be ranked."""
    case = make_case(kind, 5)
    target = pooled(case, 6)
    expected = trec_eval(case, target, measure, threshold)
    metric = get_metric(name, Ranking(unjudged=-1, relevance_threshold=float(threshold)))
    for user, row in enumerate(target):
        relevant = any(grade > threshold for grade in row.values())
        wanted = expected.get(str(user), 0.0) if relevant else np.nan
        np.testing.assert_allclose(value(metric, case.scores[user], [row]), wanted, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 3, 10, 50])
def test_judged_agrees_with_ir_measures(kind, k):
    """Of each user who has a list, with entries of any grade."""
    case = make_case(kind, 7)
    target = [{item: max(grade, 0.0) for item, grade in row.items()} for row in pooled(case, 8)]
    qrels = {str(user): {f"d{item:02}": int(grade) for item, grade in row.items()}
             for user, row in enumerate(target) if row}  # fmt: skip
    run = {str(user): {f"d{item:02}": float(case.scores[user, item]) for item in order}
           for user, order in enumerate(case.orders()) if len(order)}  # fmt: skip
    wanted = ir_measures.parse_measure(f"Judged@{k}")
    found = {m.query_id: m.value for m in ir_measures.iter_calc([wanted], qrels, run)}
    metric = get_metric(f"judged@{k}", Ranking())
    for user, row in enumerate(target):
        known = found[str(user)] if row and str(user) in run else np.nan
        np.testing.assert_allclose(value(metric, case.scores[user], [row]), known)


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_says_the_same_as_entries_for_every_item(kind):
    """Dense or sparse, in one batch; every ranked item is an entry, those of grade -1 are not judged."""
    case = make_case(kind, 9)
    left = np.random.default_rng(10).random(case.grades.shape) < 0.3
    grades = np.where(left, -1, case.grades)
    entries = [
        {int(item): float(grade) for item, grade in enumerate(row) if grade > 0 or scores[item] > -np.inf}
        for row, scores in zip(grades, case.scores, strict=True)
    ]
    found = []
    for target in (torch.tensor(grades), entries):
        panel = MetricCollection(NAMES, output=Ranking(unjudged=-1, num_items=grades.shape[1]))
        panel.update(scores=torch.tensor(case.scores), target=target)
        found.append({name: value.item() for name, value in panel.compute().items()})
    assert found[0] == pytest.approx(found[1])
    assert found[0]["judged@10"] < 1


@pytest.mark.parametrize("kind", KINDS)
def test_where_everything_is_judged_nothing_is_inferred(kind):
    """Then it is average precision."""
    case = make_case(kind, 11)
    panel = MetricCollection(["infap", "map(norm=n)", "judged@5"], output=Ranking())
    panel.update(scores=torch.tensor(case.scores), target=torch.tensor(case.grades))
    found = panel.compute()
    assert found["infap"].item() == pytest.approx(found["map(norm=n)"].item(), abs=1e-4)
    assert found["judged@5"].item() == 1


def test_an_inferred_precision_by_hand():
    """Before the item at rank 4 there are one relevant, one not, one left: (1 + 3 * 1 / 2) / 4 = 0.625."""
    scores = np.array([0.9, 0.7, 0.5, 0.1], dtype="float32")
    grades = {0: 0.0, 1: 1.0, 2: -1.0, 3: 1.0}
    found = value(get_metric("infap", Ranking(unjudged=-1)), scores, [grades])
    assert found == pytest.approx((0.5 + 0.625) / 2, abs=1e-5)


def test_candidates_are_judged_by_their_ids():
    """Columns are items 7, 3 and 5; what is told of item 9 is of no column."""
    panel = MetricCollection(["judged@2", "bpref"], output=Ranking(num_items=10, unjudged=-1))
    target = [{3: 0.0, 5: 1.0, 7: -1.0, 9: 0.0}]
    panel.update(scores=[[0.9, 0.5, 0.1]], items=torch.tensor([[7, 3, 5]]), target=target)
    assert panel.compute() == pytest.approx({"judged@2": 0.5, "bpref": 0.0})


def test_what_is_unjudged_is_not_relevant():
    """A grade above the threshold cannot say that an item was not judged."""
    with pytest.raises(
        MetricInputError, match=r"unjudged must be a grade of at most relevance_threshold=1\.0.* got 2"
    ):
        Ranking(unjudged=2, relevance_threshold=1.0)
    assert str(Ranking(unjudged=-1)) == "ranking(unjudged=-1)"


def test_nobody_judged_has_no_value():
    """With the reason."""
    metric = get_metric("judged@2", Ranking())
    metric.update(torch.tensor([[0.9, 0.5]]), target=[{}])
    assert metric.compute().isnan()
    assert metric.undefined_reason == "no judged items for any user who has a list"
