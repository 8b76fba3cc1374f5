"""Readers of ranked lists against the chances of going on that papers give them, rank by rank."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from ranked_cases import EVERY_CASE, Case, agree, by_user, make_case, together

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.catalogue.retrieval.cwl import CWLMetric
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.retrieval.ranking_batch import RankingBatch

GOES_ON = {
    "sdcg(max_rel=4)": lambda i, g, had: math.log2(i + 1) / math.log2(i + 2),
    "nerr8(max_rel=4)": lambda i, g, had: 1 - g,
    "nerr9(max_rel=4)": lambda i, g, had: i / (i + 1) * (1 - g),
    "nerr10(max_rel=4)": lambda i, g, had: 0.9 * (1 - g),
    "nerr10(max_rel=4, p=0.5)": lambda i, g, had: 0.5 * (1 - g),
    "nerr11(max_rel=4)": lambda i, g, had: ((i + 1) / (i + 2)) ** 2 * (1 - g),
    "nerr11(T=0.3, max_rel=4)": lambda i, g, had: ((i - 0.4) / (i + 0.6)) ** 2 * (1 - g),
    "insq(max_rel=4)": lambda i, g, had: ((i + 1) / (i + 2)) ** 2,
    "insq(T=2.5, max_rel=4)": lambda i, g, had: ((i + 4) / (i + 5)) ** 2,
    "inst(max_rel=4)": lambda i, g, had: ((i + 1 - had) / (i + 2 - had)) ** 2,
    "inst(T=2.5, max_rel=4)": lambda i, g, had: ((i + 4 - had) / (i + 5 - had)) ** 2,
    "bpm(max_rel=4)": lambda i, g, had: float(had < 1),
    "bpm(T=0.5, max_rel=4)": lambda i, g, had: float(had < 0.5),
}
"""The chance to go on from rank i, of an item worth g, with so much had, that one included."""
ENDLESS = [name for name in GOES_ON if not name.startswith(("sdcg", "nerr8", "nerr9", "bpm"))]


def walked(name: str, worth: np.ndarray, k: int) -> float:
    """What an item is worth to the reader of a list, who looks at k places if nothing stops him before."""
    looked_at, had, total, items = 1.0, 0.0, 0.0, 0.0
    for rank, own in enumerate([*worth[:k], *np.zeros(max(0, k - len(worth)))], 1):
        total, items, had = total + looked_at * own, items + looked_at, had + own
        looked_at *= GOES_ON[name](rank, own, had)
    return total / items


def worth_of(case: Case) -> list[np.ndarray]:
    """What the items of each user's list are worth, in its order, on a scale to 4."""
    return [case.grades[row][order] / 4 for row, order in enumerate(case.orders())]


@EVERY_CASE
def test_a_reader_walks_down_the_list(kind, seed):
    """Of lists of 1 and 5, and of 40, which is more than there are items."""
    case = make_case(kind, seed)
    agree(case, {f"{n}@{k}": [walked(n, w, k) for w in worth_of(case)] for n in GOES_ON for k in (1, 5, 40)})


@pytest.mark.parametrize("name", ENDLESS)
def test_without_a_cut_off_the_list_has_no_end(name):
    """The sums behind the last find are closed: those up to rank n come as near as what lies behind n."""
    case = make_case("graded", 1)
    ours = by_user([name], case)[name]
    far = np.array([[walked(name, worth, k) for k in (2000, 4000)] for worth in worth_of(case)])
    beyond = 2 * far[:, 1] - far[:, 0]  # what lies behind n falls as 1 / n
    np.testing.assert_allclose(ours[1:], beyond[1:], rtol=3e-6)
    assert np.isnan(ours[0])


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_list_needs_no_ranking(name, monkeypatch):
    """The ranks of relevant items are enough, and no list is made."""
    case = make_case("masked", 0)
    monkeypatch.setattr(RankingBatch, "_rank", lambda *_: pytest.fail("a list was ranked"))
    assert 0 < together([name], case)[name] < 1


@pytest.mark.parametrize(("grades", "expected"), [([1, 0, 3], 0.0), ([2, 0, 3], 0.25), ([9, 0, 0], 0.5)])
def test_grades_count_from_min_rel_to_max_rel(grades, expected):
    """Grade 1 is worth nothing, 2 half, 3 and whatever is above it all, at two places looked at."""
    metric = get_metric("sdcg(min_rel=1, max_rel=3)@1", Ranking())
    metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([grades]))
    assert metric.compute().item() == pytest.approx(2 * expected)


@pytest.mark.parametrize("name", ["INST", "INSQ", "NERR10", "NERR11"])
def test_a_list_of_cwl_eval_ends_at_rank_1000(name):
    """Its name alone means its depth, and a k of one's own counts before."""
    assert str(find_metric(f"{name}(max_rel=3)", "ranking").name) == f"{name.lower()}(max_rel=3)@1000"
    assert str(find_metric(f"{name}(max_rel=3)@20", "ranking").name) == f"{name.lower()}(max_rel=3)@20"


@pytest.mark.parametrize(
    "name", ["SDCG@5", "INSQ", "insq@5", "NERR8@5", "nerr9@5", "NERR10", "NERR11", "BPM@5", "INST"]
)
def test_the_highest_grade_is_stated(name):
    """By default it would be 1, and a grade of 3 would count like one of 1; ir_measures wants it, too."""
    with pytest.raises(MetricNameError, match="needs max_rel="):
        find_metric(name, "ranking")


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("sdcg(max_rel=1)", MetricNameError, "sdcg of ranking needs its k"),
        (
            "bpm(T=0.0, max_rel=1)@3",
            MetricInputError,
            "BejeweledPlayerModel: T must be a number above 0, got 0.0",
        ),
        ("inst(T=0.5, max_rel=1)", MetricInputError, "GoalAdaptive: T must be a number above 0.5, got 0.5"),
        (
            "nerr10(p=1.0, max_rel=1)",
            MetricInputError,
            "p must be a probability between 0 and 1, both excluded, got 1.0",
        ),
        ("insq(min_rel=2, max_rel=2)", MetricInputError, "max_rel a higher grade, got 2 and 2"),
        (
            "nerr8(min_rel=-1, max_rel=1)@3",
            MetricInputError,
            "min_rel must be a grade of at least 0 .* got -1 and 1",
        ),
    ],
)
def test_what_no_reader_does_is_refused(name, error, text):
    """Each message says what was wanted and what came."""
    with pytest.raises(error, match=text):
        get_metric(name, "ranking")


def test_a_reader_of_your_own_needs_a_cut_off_or_a_closed_sum():
    """Without one there is no value, and the message says so."""

    class Restless(CWLMetric):
        def looked_at(self, places, worth):
            return (places == 1).double()

    metric = Restless(None)
    metric.output = Ranking()
    with pytest.raises(NotImplementedError, match="Restless has no value without k"):
        metric.update(torch.rand(2, 3), torch.ones(2, 3, dtype=torch.int64))
