"""Sets, pairs and overlap against ir_measures (trec_eval, its own scripts), user by user."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
import torch
from ranked_cases import EVERY_CASE, Case, agree, by_user, make_case, together
from test_trec_eval import judged, measured, retrieved

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.register import get_metric

SETS = {
    "set_precision": "SetP",
    "set_precision(relative=true)": "SetP(relative=True)",
    "set_recall": "SetR",
    "set_f": "SetF",
    "set_f(beta=0.5)": "SetF(beta=0.25)",
    "set_ap": "SetAP",
    "num_hits": "NumRet(rel=1)",
    "num_retrieved": "NumRet",
}


@EVERY_CASE
def test_sets_agree_with_trec_eval(kind, seed):
    """All that is ranked, also where that is nothing, or nothing relevant."""
    case = make_case(kind, seed)
    agree(case, {name: measured(measure, case) for name, measure in SETS.items()})


@pytest.mark.parametrize("k", [1, 3, 40])
def test_counts_of_a_list_are_cut(k):
    """Hits and items among the first k."""
    case = make_case("masked", 1)
    hits = [(case.grades[row][order[:k]] > 0).sum() for row, order in enumerate(case.orders())]
    agree(case, {f"num_hits@{k}": hits, f"num_retrieved@{k}": [len(order[:k]) for order in case.orders()]})


def test_what_is_relevant_is_counted_whatever_the_lists():
    """Of users who have anything."""
    case = make_case("masked", 0)
    agree(case, {"num_relevant": (case.grades > 0).sum(1)})


@EVERY_CASE
@pytest.mark.parametrize("k", [None, 5, 40])
def test_pairs_of_a_list_agree_with_ir_measures(kind, seed, k):
    """It says nothing of a list without a relevant item, and divides by zero where there is no other."""
    case, at = make_case(kind, seed), "" if k is None else f"@{k}"
    wanted, qrels, run = ir_measures.parse_measure(f"Accuracy{at}"), judged(case), retrieved(case)
    expected = np.full(len(case.grades), np.nan)
    for row, order in enumerate(case.orders()):
        hits = case.grades[row][order[:k]] > 0
        if 0 < hits.sum() < len(hits):
            user = str(row)
            found = ir_measures.iter_calc([wanted], {user: qrels[user]}, {user: run[user]})
            expected[row] = next(iter(found)).value
    name = f"pairwise_accuracy{at}"
    np.testing.assert_allclose(by_user([name], case)[name], expected, atol=1e-9)
    assert together([name], case)[name] == pytest.approx(np.nanmean(expected))


def overlapping(measure: str, case: Case) -> list[float]:
    """Of each user; of equal scores the smaller name comes first, in the ideal list too."""
    values = []
    for scores, grades in zip(case.scores, case.grades, strict=True):
        qrels = {"u": {f"d{item:03}": int(grade) for item, grade in enumerate(grades)}}
        run = {"u": {f"d{item:03}": float(s) for item, s in enumerate(scores) if s > -np.inf}}
        found = list(ir_measures.iter_calc([ir_measures.parse_measure(measure)], qrels, run))
        values.append(found[0].value if found else 0.0)
    return values


@EVERY_CASE
def test_overlap_agrees_with_ir_measures(kind, seed):
    """With the ideal list that is nearest, of grades, ties, and relevant items that are not ranked."""
    case = make_case(kind, seed)
    names = {
        "compat": "Compat",
        "compat(p=0.8)": "Compat(p=0.8)",
        "compat(normalize=false)": "Compat(normalize=False)",
        "compat(normalize=false, p=0.5)": "Compat(normalize=False,p=0.5)",
    }
    agree(case, {name: overlapping(measure, case) for name, measure in names.items()})


def overlap(ranking: list[int], ideal: list[int], depth: int) -> float:
    """The weighted shares of the first d items that both lists have."""
    return sum(0.95 ** (d - 1) * len({*ranking[:d]} & {*ideal[:d]}) / d for d in range(1, depth + 1))


@pytest.mark.parametrize("k", [1, 4, 40])
def test_overlap_ends_at_the_cut_off(k):
    """Both lists do, so that one of the best k items is 1."""
    case, expected = make_case("graded", 0), []
    for row, order in enumerate(case.orders()):
        grades, place = case.grades[row], {item: rank for rank, item in enumerate(order)}
        ideal = sorted(np.flatnonzero(grades), key=lambda item: (-grades[item], place[item]))[:k]
        both = list(order[:k]), ideal, max(len(order[:k]), len(ideal))
        expected.append(overlap(*both) / (overlap(ideal, ideal, both[2]) or 1))
    agree(case, {f"compat@{k}": expected})
    perfect = Case(case.grades.astype("float32"), case.grades)
    assert together([f"compat@{k}"], perfect)[f"compat@{k}"] == pytest.approx(1)


@pytest.mark.parametrize("k", [1, 2])
def test_an_ideal_list_may_end_before_what_is_found(k):
    """The only candidates are no part of an ideal list of k, as items 7 and 8 are more relevant."""
    metric = get_metric(f"compat@{k}", Ranking(num_items=9))
    target = [{0: 1.0, 1: 1.0, 7: 3.0, 8: 2.0}]
    metric.update(torch.tensor([[0.9, 0.5][:k]]), target, items=torch.tensor([[0, 1][:k]]))
    assert metric.compute().item() == 0


def test_an_average_over_the_whole_ranking_divides_by_all_that_is_relevant():
    """Also by what is no candidate: two of five relevant items are offered, and come first."""
    metric = get_metric("map", Ranking(num_items=9))
    metric.update(torch.tensor([[0.9, 0.5, 0.1]]), [[0, 1, 6, 7, 8]], items=torch.tensor([[0, 1, 2]]))
    assert metric.compute().item() == pytest.approx(2 / 5)


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        (
            "compat(p=0.0)",
            MetricInputError,
            "p must be a probability between 0 and 1, both excluded, got 0.0",
        ),
        ("set_f(beta=0.0)", MetricInputError, "beta must be a number above 0, got 0.0"),
        ("pairwise_accuracy@0", MetricNameError, "k must be a whole number of at least 1, got 0"),
    ],
)
def test_what_makes_no_set_is_refused(name, error, text):
    """Each message says what was wanted and what came."""
    with pytest.raises(error, match=text):
        get_metric(name, "ranking")
