"""Formulas of WarpRec and of papers, written out item by item, where no library has them; and by hand."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from ranked_cases import EVERY_CASE, Case, agree, by_user, make_case, together

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.features import Ranking
from hpometrics.metrics.registry.register import get_metric


def each(case: Case):
    """Of each user: whether each item of the list is relevant, its grade, how many are relevant, the row."""
    for row, order in enumerate(case.orders()):
        grades = case.grades[row]
        yield grades[order] > 0, grades[order], int((grades > 0).sum()), row


def average_recall(hits, n, k):
    """Mean of recall at the hits, over min(n, k)."""
    return (
        sum(hits[: place + 1].sum() / n for place in np.flatnonzero(hits[:k])) / max(1, min(n, k))
        if n
        else 0.0
    )


def f_score(hits, n, k, beta):
    """From precision and recall of the user, 0 if both are 0."""
    precision, recall = hits[:k].sum() / k, hits[:k].sum() / max(n, 1)
    if precision + recall == 0:
        return 0.0
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def expected_reciprocal_rank(grades, k, largest):
    """A reader goes down the list and stops at each item with the chance that its grade gives."""
    going_on, total = 1.0, 0.0
    for place, grade in enumerate(grades[:k], 1):
        content = (2.0**grade - 1) / 2**largest
        total += going_on * content / place
        going_on *= 1 - content
    return total


def warprec_gain(grades):
    """2^(r + 1) - 1 where an item is relevant, discounted."""
    return sum(
        (2.0 ** (grade + 1) - 1) / math.log2(place + 1) for place, grade in enumerate(grades, 1) if grade
    )


@EVERY_CASE
def test_what_libraries_lack_agrees_with_loops(kind, seed):
    """Average recall, F with a beta, capped recall, precision of what is shown, both further gains, ERR."""
    case = make_case(kind, seed)
    rows = list(each(case))
    best = [np.sort(grades)[::-1] for grades in case.grades]
    expected = {
        f"mar@{k}": [average_recall(hits, n, k) for hits, _, n, _ in rows] for k in (1, 5, 40)
    } | {
        "f1@5": [f_score(hits, n, 5, 1.0) for hits, _, n, _ in rows],
        "fbeta(beta=2.0)@5": [f_score(hits, n, 5, 2.0) for hits, _, n, _ in rows],
        "recall(capped=true)@2": [hits[:2].sum() / max(1, min(n, 2)) for hits, _, n, _ in rows],
        "precision(shown=true)@10": [hits[:10].sum() / max(1, len(hits[:10])) for hits, _, _, _ in rows],
        "err@5": [expected_reciprocal_rank(grades, 5, 4) for _, grades, _, _ in rows],
        "err(max_grade=5)": [expected_reciprocal_rank(grades, None, 5) for _, grades, _, _ in rows],
        "dcg(gain=warprec)@5": [warprec_gain(grades[:5]) for _, grades, _, _ in rows],
        "ndcg(gain=warprec)@5": [
            warprec_gain(grades[:5]) / (warprec_gain(best[row][:5]) or 1) for _, grades, _, row in rows
        ],
        "ndcg_rendle2020@5": [
            warprec_gain(hits[:5].astype(int)) / (warprec_gain(np.minimum(best[row][:5], 1)) or 1)
            for hits, _, _, row in rows
        ],
    }  # fmt: skip
    agree(case, expected)


@pytest.mark.parametrize("place", range(3))
def test_average_recall_depends_on_the_number_of_hits_alone(place):
    """It is 1 wherever the only relevant item is, and (min(n, k) + 1) / (2 n) for an ideal list."""
    metric = get_metric("mar@3", Ranking())
    metric.update(torch.tensor([[0.9, 0.5, 0.3, 0.1]]), [[place]])
    assert metric.compute().item() == 1
    for n in (2, 3, 4):
        metric = get_metric("mar@3", Ranking())
        metric.update(torch.tensor([[0.9, 0.5, 0.3, 0.1]]), [list(range(n))])
        assert metric.compute().item() == pytest.approx((min(n, 3) + 1) / (2 * n))


@EVERY_CASE
def test_average_precision_over_what_could_be_found(kind, seed):
    """WarpRec's and RecBole's divisor is min(n, k), torchmetrics' the hits."""
    case = make_case(kind, seed)
    expected = {}
    for k in (3, 40):
        sums = [sum(hits[: p + 1].mean() for p in np.flatnonzero(hits[:k])) for hits, _, _, _ in each(case)]
        found = [(min(n, k), hits[:k].sum()) for hits, _, n, _ in each(case)]
        expected[f"map@{k}"] = [total / max(1, most) for total, (most, _) in zip(sums, found, strict=True)]
        expected[f"map(norm=hits)@{k}"] = [t / max(1, own) for t, (_, own) in zip(sums, found, strict=True)]
    agree(case, expected)


def pairs(case: Case):
    """Of each user: the scores of relevant items and of others, among those that are ranked."""
    for scores, grades in zip(case.scores, case.grades, strict=True):
        ranked = scores > -np.inf
        yield scores[ranked & (grades > 0)], scores[ranked & (grades == 0)]


@EVERY_CASE
def test_areas_are_shares_of_pairs(kind, seed):
    """Every pair is looked at: gauc averages users, auc relevant items; scikit-learn has the same area."""
    case = make_case(kind, seed)
    shares, weights = [], []
    for right, other in pairs(case):
        wins = (
            (right[:, None] > other).mean() + (right[:, None] == other).mean() / 2
            if len(right) and len(other)
            else np.nan
        )
        shares.append(wins)
        weights.append(0.0 if np.isnan(wins) else len(right))
        if not np.isnan(wins):
            label = np.repeat([1, 0], [len(right), len(other)])
            assert sk.roc_auc_score(label, np.concatenate([right, other])) == pytest.approx(wins)
    ours = together(["gauc", "auc"], case)
    np.testing.assert_allclose(by_user(["gauc"], case)["gauc"], shares)
    assert ours["gauc"] == pytest.approx(np.nanmean(shares))
    assert ours["auc"] == pytest.approx(np.average(np.nan_to_num(shares), weights=weights))


@pytest.mark.parametrize("seed", range(2))
def test_area_of_warprec_is_ours_but_for_one_item(seed):
    """It counts one more other item, below everything: (m * ours + 1) / (m + 1), of m others."""
    case = make_case("random", seed)
    ours = by_user(["gauc"], case)["gauc"]
    for hits, _, n, row in each(case):
        others = len(hits) - n
        if n and others:
            above = np.flatnonzero(hits) - np.arange(n)
            theirs = ((others + 1 - above) / (others + 1)).mean()
            assert theirs == pytest.approx((others * ours[row] + 1) / (others + 1))


@EVERY_CASE
def test_limited_areas_look_at_the_list_alone(kind, seed):
    """Of relevant items among the first k, and of the first k others, both in the order of the list."""
    case = make_case(kind, seed)
    limited, partial = [], []
    for hits, _, n, _ in each(case):
        others, places = (~hits).sum(), np.flatnonzero(hits)
        above = places - np.arange(len(places))
        area = (1 - above[places < 4] / max(1, others)).sum() / max(1, min(n, 4))
        limited.append(area if others and n else np.nan)
        most = min(3, others)
        partial.append(
            np.clip(most - above, 0, None).sum() / (most * len(places)) if most and len(places) else np.nan
        )
    for name, values in {"lauc@4": limited, "partial_auc@3": partial}.items():
        np.testing.assert_allclose(by_user([name], case)[name], values, atol=1e-12, err_msg=name)


@EVERY_CASE
def test_log_loss_agrees_with_scikit_learn(kind, seed):
    """Of each user's ranked items, by the sigmoid of their scores, also where none is relevant."""
    case = make_case(kind, seed)
    values = []
    for scores, grades in zip(case.scores, case.grades, strict=True):
        ranked = scores > -np.inf
        chance = 1 / (1 + np.exp(-scores[ranked].astype(float)))
        known = ranked.any()
        values.append(sk.log_loss(grades[ranked] > 0, chance, labels=[False, True]) if known else np.nan)
    np.testing.assert_allclose(by_user(["log_loss"], case)["log_loss"], values)
    assert together(["log_loss"], case)["log_loss"] == pytest.approx(np.nanmean(values))


def test_chance_stays_chance_under_sampling():
    """99 drawn negatives and random scores: half the pairs are right, by the candidates' own number."""
    random = torch.Generator().manual_seed(0)
    scores, target = torch.rand(400, 2000, generator=random), torch.rand(400, 2000, generator=random) < 0.005
    for name in ("auc", "gauc"):
        metric = get_metric(name, Ranking(num_negatives=99, seed=1))
        metric.update(scores, target.int())
        assert metric.compute().item() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("precision", MetricNameError, r"precision of ranking needs its k, as in precision@5"),
        ("map@0", MetricNameError, r"k must be a whole number of at least 1, got 0"),
        ("ndcg@99999999999", MetricInputError, r"k must be at most 1048576, .* got 99999999999;"),
        ("rbp(p=1.0)", MetricInputError, r"p must be a probability between 0 and 1, both excluded, got 1.0"),
        ("err(max_grade=0)", MetricInputError, r"max_grade must be a grade of at least 1, got 0"),
        ("interpolated_precision(recall=1.5)", MetricInputError, r"recall must be in \[0, 1\], got 1.5"),
        ("fbeta@3", MetricNameError, r"needs beta="),
        ("map(norm=k)", MetricNameError, r"norm must be one of min, n, hits, got 'k'"),
    ],
)
def test_what_makes_no_sense_is_refused(name, error, text):
    """Each message says what was wanted and what came."""
    with pytest.raises(error, match=text):
        get_metric(name, "ranking")


@pytest.mark.parametrize("name", ["map", "ndcg@3", "gauc", "fall_out@2", "bpref"])
def test_without_anything_relevant_there_is_no_value(name):
    """Users without a relevant item are left out; where none is left, nan with a reason."""
    metric = get_metric(name, "ranking")
    metric.update(torch.rand(3, 5), torch.zeros(3, 5, dtype=torch.int64))
    assert metric.compute().isnan()
    assert re.match("no user has (both )?a relevant ", metric.undefined_reason)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("log_loss", "no user has a ranked item"),
        ("mae(average=user)", "no user has a relevant item that is ranked"),
        ("f_score(a=aplt, b=aplt)@2", "no user has a value for every part"),
    ],
)
def test_where_nothing_is_ranked_the_reason_says_so(name, reason):
    """Something is relevant, and every score is -inf."""
    metric = get_metric(name, Ranking(item_popularity=torch.ones(5)))
    metric.update(torch.full((3, 5), -torch.inf), torch.ones(3, 5, dtype=torch.int64))
    assert metric.compute().isnan() and metric.undefined_reason == reason


@pytest.mark.parametrize("gain", ["exp", "warprec"])
def test_a_share_of_the_gain_has_no_largest_grade(gain):
    """A gain of 2^2000 is no float, but its share of another is; smaller grades are measured as they were."""
    scores = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    discounts = 1 / np.log2(np.arange(4) + 2)
    for largest in (3, 50, 1022, 2000):
        metric = get_metric(f"ndcg(gain={gain})", "ranking")
        grades = np.array([0, largest, largest - 1, 1])
        metric.update(scores, torch.tensor(grades[None]))
        worth = [2.0 ** (grade - largest) - 2.0 ** (-largest - (gain == "warprec")) for grade in grades]
        worth = np.where(grades > 0, worth, 0.0)
        wanted = (worth * discounts).sum() / (np.sort(worth)[::-1] * discounts).sum()
        assert metric.compute().item() == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("largest", [1e-30, 1e-17, 1e-9, 0.01])
def test_the_exponential_gain_of_small_grades(largest):
    """2^r - 1 is r ln 2 of a small grade r, so that the ratio is that of the grades; nothing cancels out."""
    grades = torch.tensor([[largest / 2, largest]], dtype=torch.float64)
    found = []
    for name in ("ndcg", "ndcg(gain=exp)", "dcg", "dcg(gain=exp)"):
        metric = get_metric(name, Ranking())
        metric.update(torch.tensor([[0.9, 0.5]]), grades)
        found.append(metric.compute().item())
    assert found[1] == pytest.approx(found[0], rel=largest)
    assert found[3] == pytest.approx(found[2] * math.log(2), rel=largest)
