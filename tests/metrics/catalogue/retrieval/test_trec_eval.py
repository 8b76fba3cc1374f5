"""Agreement with trec_eval (pytrec_eval, ir_measures) and ranx, user by user, also on adversarial data."""

from __future__ import annotations

import shutil

import ir_measures
import numpy as np
import plain_ranx
import pytest
import pytrec_eval
import torch
from matrix import covering
from ranked_cases import CASES, EVERY_CASE, Case, agree, by_user, make_case

from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.register import get_metric


def name_of(item: int) -> str:
    """trec_eval puts the largest name first where scores tie; we, the first column."""
    return f"d{900 - item}"


def judged(case: Case) -> dict[str, dict[str, int]]:
    """What is relevant, and what is ranked and not relevant."""
    known = (case.grades > 0) | (case.scores > -np.inf)
    return {
        str(user): {name_of(item): int(case.grades[user, item]) for item in known[user].nonzero()[0]}
        for user in range(len(known))
    }


def retrieved(case: Case) -> dict[str, dict[str, float]]:
    """The scores of what is ranked."""
    return {
        str(user): {name_of(item): float(case.scores[user, item]) for item in order}
        for user, order in enumerate(case.orders())
    }


IR_MEASURES = {
    "precision@3": "P@3",
    "precision@10": "P@10",
    "recall@3": "R@3",
    "recall@10": "R@10",
    "hit_rate@3": "Success@3",
    "success@10": "Success@10",
    "mrr": "RR",
    "map": "AP",
    "map(norm=n)": "AP",
    "map(norm=n)@5": "AP@5",
    "map_cut@50": "AP@50",
    "r_precision": "Rprec",
    "bpref": "Bpref",
    "ndcg": "nDCG",
    "ndcg@3": "nDCG@3",
    "ndcg@10": "nDCG@10",
    "interpolated_precision(recall=0.0)": "IPrec@0.0",
    "interpolated_precision(recall=0.3)": "IPrec@0.3",
    "interpolated_precision(recall=1.0)": "IPrec@1.0",
}


def measured(measure: str, case: Case) -> list[float]:
    """The value of ir_measures for each user; 0 for whom it knows none, or has no list."""
    wanted = ir_measures.parse_measure(measure)
    run = retrieved(case)
    found = {m.query_id: m.value for m in ir_measures.iter_calc([wanted], judged(case), run)}
    return [found.get(user, 0.0) if run[user] else 0.0 for user in run]


@EVERY_CASE
def test_a_ranking_agrees_with_ir_measures(kind, seed):
    """With ties, grades, lists shorter than k, and users of whom nothing is ranked."""
    case = make_case(kind, seed)
    agree(case, {name: measured(measure, case) for name, measure in IR_MEASURES.items()})


@pytest.mark.parametrize(
    ("kind", "seed"),
    covering([case for case in CASES if case[0] in ("random", "graded", "short")], lambda case: case[:1]),
)
def test_mrr_agrees_with_ms_marco(kind, seed):
    """Whose script has ties of its own order."""
    case = make_case(kind, seed)
    agree(case, {f"mrr@{k}": measured(f"RR@{k}", case) for k in (1, 3, 10)})


@EVERY_CASE
def test_eleven_points_agree_with_trec_eval(kind, seed):
    """The mean of interpolated precision at recall 0.0, 0.1, ... 1.0.

    Of three relevant items trec_eval takes int(0.7 * 3 + 0.9) = 2 for a recall of 0.7: they are left out.
    """
    case = make_case(kind, seed)
    plain = (case.grades > 0).sum(1) != 3
    case = Case(case.scores[plain], case.grades[plain])
    run = retrieved(case)
    found = pytrec_eval.RelevanceEvaluator(judged(case), {"11pt_avg"}).evaluate(run)
    agree(case, {"interpolated_precision": [found[user]["11pt_avg"] if run[user] else 0.0 for user in run]})


@pytest.mark.parametrize("kind", ["random", "ties", "graded", "masked"])
@pytest.mark.parametrize("threshold", [0, 1, 2])
def test_bpref_of_few_judgments_agrees_with_trec_eval(kind, threshold):
    """A sparse target judges its entries alone; those up to the threshold are judged not relevant."""
    case = make_case(kind, 3)
    known = np.random.default_rng(4).random(case.grades.shape) < 0.4
    target = [{int(item): float(row[item]) for item in own.nonzero()[0]}
              for row, own in zip(case.grades, known, strict=True)]  # fmt: skip
    qrels = {str(user): {name_of(item): int(grade) for item, grade in row.items()}
             for user, row in enumerate(target) if row}  # fmt: skip
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"bpref"}, relevance_level=threshold + 1)
    found = evaluator.evaluate(retrieved(case))
    for user, row in enumerate(target):
        metric = get_metric("bpref", Ranking(relevance_threshold=float(threshold)))
        metric.update(torch.tensor(case.scores[[user]]), target=[row])
        relevant = any(grade > threshold for grade in row.values())
        expected = found.get(str(user), {"bpref": 0.0})["bpref"] if relevant else np.nan
        np.testing.assert_allclose(metric.compute().item(), expected, atol=1e-6)


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a Perl script")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("name", "measure"), [("err", "ERR"), ("ndcg(gain=exp)", "nDCG(dcg='exp-log2')")])
def test_graded_measures_agree_with_gdeval(name, measure, seed):
    """Grades up to 4; the script prints five digits."""
    case = make_case("graded", seed)
    agree(case, {f"{name}@{k}": measured(f"{measure}@{k}", case) for k in (3, 10)}, tolerance=1e-5)


RANX = {
    "precision@3": ("precision", 3),
    "precision@10": ("precision", 10),
    "recall@10": ("recall", 10),
    "f1@3": ("f1", 3),
    "f1@10": ("f1", 10),
    "hit_rate@3": ("hit_rate", 3),
    "mrr@3": ("reciprocal_rank", 3),
    "mrr": ("reciprocal_rank", 0),
    "map(norm=n)@10": ("average_precision", 10),
    "map": ("average_precision", 0),
    "r_precision": ("r_precision", 0),
    "dcg": ("dcg", 0),
    "dcg@5": ("dcg", 5),
    "dcg(gain=exp)@5": ("dcg_burges", 5),
    "dcg_burges": ("dcg_burges", 0),
    "ndcg@5": ("ndcg", 5),
    "ndcg": ("ndcg", 0),
    "ndcg_burges@5": ("ndcg_burges", 5),
    "rbp": ("rank_biased_precision", 0.8),
    "rbp(p=0.5)": ("rank_biased_precision", 0.5),
}


def ranked_by_ranx(name: str, case: Case) -> list[float]:
    """The value of ranx for each user who has something relevant and a list, else 0; lists come in order."""
    theirs, parameter = RANX[name]
    values = []
    for order, grades in zip(case.orders(), case.grades, strict=True):
        best = np.argsort(-grades, kind="stable")[: (grades > 0).sum()]
        worth = np.minimum(grades[best], 1) if name.startswith("rbp") else grades[best]  # it adds grades up
        qrels, run = np.stack([best, worth], 1), np.stack([order, -np.arange(len(order))], 1)
        known = len(best) and len(order)
        values.append(getattr(plain_ranx.metrics, theirs)([qrels], [run], parameter)[0] if known else 0.0)
    return values


@EVERY_CASE
def test_a_ranking_agrees_with_ranx(kind, seed):
    """All that ranx has, of lists cut and whole."""
    case = make_case(kind, seed)
    agree(case, {name: ranked_by_ranx(name, case) for name in RANX})


def test_the_comparison_can_fail():
    """One place further down is another number."""
    case = make_case("random", 0)
    late = Case(np.roll(case.scores, 1, axis=1), case.grades)
    with pytest.raises(AssertionError, match="map"):
        agree(late, {"map": measured("AP", case)})
    assert not np.allclose(by_user(["map"], late)["map"][2:], by_user(["map"], case)["map"][2:])


@pytest.mark.parametrize("kind", ["graded", "masked"])
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_relevant_items_that_are_no_candidates_are_in_the_ideal_list(kind, shift):
    """With their own grades, be they above or below 1; the first half of the items are candidates."""
    case = make_case(kind, 1)
    grades = case.grades - shift * (case.grades > 0)
    half = grades.shape[1] // 2
    items = torch.arange(half).expand(len(grades), -1)
    target = [{int(item): float(row[item]) for item in row.nonzero()[0]} for row in grades]
    few, every = torch.tensor(case.scores[:, :half]), torch.tensor(case.scores)
    every[:, half:] = -torch.inf
    for name in ("ndcg", "ndcg@3", "ndcg(gain=exp)@10", "ndcg(gain=warprec)", "compat", "compat@3"):
        part, whole = (get_metric(name, Ranking(grades.shape[1])) for _ in range(2))
        part.update(few, target=target, items=items)
        whole.update(every, torch.tensor(grades))
        np.testing.assert_allclose(part.compute().item(), whole.compute().item(), atol=1e-9)


def test_an_ideal_list_of_candidates_agrees_with_ir_measures():
    """1 of a best (3 + 1 / log2(3)): the item of grade 3 is not among the candidates."""
    target = [{0: 1.0, 1: 0.0, 2: 3.0}]
    qrels = {"0": {str(item): int(grade) for item, grade in target[0].items()}}
    wanted = ir_measures.calc_aggregate([ir_measures.nDCG], qrels, {"0": {"0": 0.9, "1": 0.5}})
    metric = get_metric("ndcg", Ranking(3))
    metric.update(torch.tensor([[0.9, 0.5]]), target=target, items=torch.tensor([[0, 1]]))
    assert metric.compute().item() == pytest.approx(wanted[ir_measures.nDCG], abs=1e-6)


def test_bpref_of_items_that_are_not_ranked_agrees_with_trec_eval():
    """Four are relevant, of which one is not ranked; another one that is not ranked is judged, or is not.

    One judged other comes before all three: of two judged others 3 (1 - 1 / 2) / 4, of one 3 (1 - 1 / 1) / 4.
    """
    scores, grades = torch.tensor([[0.9, 0.8, -torch.inf, 0.6, -torch.inf, 0.5]]), [0, 1, 0, 1, 1, 1]
    run = {"0": {str(item): score for item, score in enumerate(scores[0].tolist()) if score > -np.inf}}
    every = {item: float(grade) for item, grade in enumerate(grades)}
    ranked = {item: grade for item, grade in every.items() if item != 2}
    for target, known, value in (
        ([every], every, 0.375), ([ranked], ranked, 0.0), (torch.tensor([grades]), ranked, 0.0)
    ):  # fmt: skip
        metric = get_metric("bpref", Ranking())
        metric.update(scores, target=target)
        qrels = {"0": {str(item): int(grade) for item, grade in known.items()}}
        trec = pytrec_eval.RelevanceEvaluator(qrels, {"bpref"}).evaluate(run)["0"]["bpref"]
        assert metric.compute().item() == pytest.approx(value) == pytest.approx(trec)
