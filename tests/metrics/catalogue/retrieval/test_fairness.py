from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from grouped_rankings import ITEMS, USERS, Grouped, grouped, measured

from hpometrics import MetricCollection, Ranking, get_metric
from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.testing.subjects import fed

CUTOFFS = (1, 3, 20)
CASES = [
    pytest.param(grouped(seed, candidates, known), id=f"{seed}-{'few' if candidates else 'all'}-{known}")
    for seed in range(3)
    for candidates in (False, True)
    for known in (False, True)
]
GAINS = {"linear": lambda r: r, "exp": lambda r: 2**r - 1, "warprec": lambda r: 2 ** (r + 1) - 1 if r else 0}


def mean_gap(means: list[float]) -> float:
    """WarpRec's MAD; nan of fewer than two groups."""
    pairs = list(itertools.combinations(means, 2))
    return sum(abs(a - b) for a, b in pairs) / len(pairs) if pairs else np.nan


def spread(taken: dict[int, float], there: dict[int, float]) -> float:
    """WarpRec 2's std over mean of rates."""
    rates = np.array([taken.get(group, 0) / number for group, number in there.items() if number])
    return np.std(rates) / np.mean(rates) if len(rates) > 1 and rates.sum() else np.nan


def counted(groups: list[int]) -> dict[int, float]:
    """How often each known group occurs."""
    return {group: groups.count(group) for group in set(groups) if group >= 0}


def item_gap(case: Grouped, k: int, value, hits_only: bool) -> float:
    """Mean by item, then by group of items, then over pairs."""
    by_item: dict[int, list[float]] = {}
    for row in range(USERS):
        for item, score, grade in case.ranked(row)[:k]:
            if grade > 0 or not hits_only:
                by_item.setdefault(item, []).append(value(score, grade))
    by_group: dict[int, list[float]] = {}
    for item, values in by_item.items():
        by_group.setdefault(case.item_groups[item], []).append(np.mean(values))
    return mean_gap([np.mean(values) for group, values in by_group.items() if group >= 0])


def user_gap(case: Grouped, value) -> float:
    """Mean by group of users, then over pairs; users without a relevant item have no value."""
    by_group: dict[int, list[float]] = {}
    for row in range(USERS):
        group = case.user_groups[case.users[row]]
        if group >= 0 and case.relevant(row) and (found := value(row)) is not None:
            by_group.setdefault(group, []).append(found)
    return mean_gap([np.mean(values) for values in by_group.values()])


def ndcg(case: Grouped, row: int, k: int, gain) -> float:
    """Gain over that of an ideal list."""
    grades = [grade for *_, grade in case.ranked(row)[:k]]
    best = sorted((grade for *_, grade in case.relevant(row)), reverse=True)[:k]
    own, ideal = (sum(gain(r) / np.log2(i + 2) for i, r in enumerate(part)) for part in (grades, best))
    return own / ideal


@pytest.mark.parametrize("case", CASES)
def test_rates_of_item_groups_are_those_of_loops(case):
    """Equal opportunity: hits of relevant items; parity: listed ones of those on offer; no unknown groups."""
    found = measured([f"{name}@{k}" for name in ("reo", "rsp") for k in CUTOFFS], case)
    group = case.item_groups
    for k in CUTOFFS:
        lists = [case.ranked(row)[:k] for row in range(USERS)]
        hits = [group[item] for best in lists for item, _, grade in best if grade > 0]
        listed = [group[item] for best in lists for item, *_ in best]
        relevant = [group[item] for row in range(USERS) for item, *_ in case.relevant(row)]
        offered = [group[item] for row in range(USERS) for item, *_ in case.ranked(row)]
        reo, rsp = spread(counted(hits), counted(relevant)), spread(counted(listed), counted(offered))
        np.testing.assert_allclose([found[f"reo@{k}"], found[f"rsp@{k}"]], [reo, rsp], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("case", CASES)
def test_gaps_between_item_groups_are_those_of_loops(case):
    """Items are averaged first, then groups; a gain of 0 counts, a miss has no rating."""
    names = [f"item_mad_ranking(gain={gain})@3" for gain in ("exp", "warprec")]
    found = measured(["item_mad_ranking@3", *names, "item_mad_rating@3", "item_mad_rating@20"], case)
    for gain, name in zip(GAINS, ("item_mad_ranking@3", *names), strict=True):
        value = item_gap(case, 3, lambda score, grade, gain=gain: GAINS[gain](grade), hits_only=False)
        assert found[name] == pytest.approx(value, rel=1e-12)
    for k in (3, 20):
        value = item_gap(case, k, lambda score, grade: score, hits_only=True)
        assert found[f"item_mad_rating@{k}"] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_gaps_between_user_groups_are_those_of_loops(case):
    """Users without a relevant item have no value, nor has one with an empty list a mean score."""
    names = ["user_mad_ranking", "user_mad_ranking(gain=exp)", "user_mad_ranking(gain=warprec)"]
    found = measured([f"{name}@{k}" for name in (*names, "user_mad_rating") for k in CUTOFFS], case)
    for k in CUTOFFS:
        for gain, name in zip(GAINS, names, strict=True):
            value = user_gap(case, lambda row, k=k, gain=gain: ndcg(case, row, k, GAINS[gain]))
            assert found[f"{name}@{k}"] == pytest.approx(value, rel=1e-12)
        scores = [[score for _, score, _ in case.ranked(row)[:k]] for row in range(USERS)]
        value = user_gap(case, lambda row, scores=scores: np.mean(scores[row]) if scores[row] else None)
        assert found[f"user_mad_rating@{k}"] == pytest.approx(value, rel=1e-12)


def table(case: Grouped, met: list[list[int]]) -> np.ndarray:
    """Share of each group of items in what users of each group met, over that in the catalogue."""
    user_groups, item_groups = case.user_groups.max() + 1, case.item_groups.max() + 1
    counts = np.zeros((user_groups, item_groups))
    total = np.zeros((user_groups, 1))
    for row, items in enumerate(met):
        group = case.user_groups[case.users[row]]
        for item in items if group >= 0 else ():
            total[group] += 1
            if case.item_groups[item] >= 0:
                counts[group, case.item_groups[item]] += 1
    catalogue = np.array([(case.item_groups == group).sum() for group in range(item_groups)]) / ITEMS
    with np.errstate(invalid="ignore", divide="ignore"):
        return counts / total / catalogue


@pytest.mark.parametrize("case", CASES)
def test_bias_disparity_is_that_of_loops(case):
    """Three tables, the averages of their distances to 1 and 0, and one pair of each."""
    of = [f"bias_disparity_table(of={of})@{k}" for of in ("bs", "br", "bd") for k in (2, 5)]
    one = [f"bias_disparity_{of}(items=0, users=2)" for of in ("bs", "br@5", "bd@5")]
    one = ["bias_disparity_bs(items=0, users=2)"] + [
        f"bias_disparity_{of}(items=0, users=2)@5" for of in ("br", "bd")
    ]
    found = measured([*of, *one, "bias_disparity_bs", "bias_disparity_br@5", "bias_disparity_bd@5"], case)
    source = table(case, [case.seen[user] for user in case.users])
    lists = {k: table(case, [[i for i, *_ in case.ranked(row)[:k]] for row in range(USERS)]) for k in (2, 5)}
    with np.errstate(invalid="ignore", divide="ignore"):
        change = {k: np.where(source > 0, (own - source) / source, np.nan) for k, own in lists.items()}
    for k in (2, 5):
        for name, expected in (("bs", source), ("br", lists[k]), ("bd", change[k])):
            np.testing.assert_allclose(found[f"bias_disparity_table(of={name})@{k}"], expected, rtol=1e-12)
    far = {"bs": abs(source - 1), "br": abs(lists[5] - 1), "bd": abs(change[5])}
    for name, distances in far.items():
        at = "" if name == "bs" else "@5"
        assert found[f"bias_disparity_{name}{at}"] == pytest.approx(np.nanmean(distances), rel=1e-12)
        own = found[f"bias_disparity_{name}(items=0, users=2){at}"]
        assert own == pytest.approx(distances[2, 0], rel=1e-12, nan_ok=True)


def test_fewer_than_two_groups_are_not_compared():
    """One group, or none known, is nan with a reason and no 0."""
    scores, target = torch.tensor([[3.0, 2, 1]]), torch.tensor([[1, 1, 0]])
    for groups in ([0, 0, 0], [-1, -1, -1], [-1, 2, 2]):
        panel = MetricCollection(
            ["reo@2", "rsp@2", "item_mad_ranking@2", "item_mad_rating@2", "user_mad_ranking@2"],
            output=Ranking(item_groups=groups, user_groups=[0]),
        )
        panel.update(scores=scores, target=target, users=[0])
        assert all(value.isnan() for value in panel.compute().values())
        assert all("fewer than two groups" in reason for reason in panel.reasons.values())


def test_rates_that_are_all_zero_have_no_spread():
    """Nothing found in either group: 0 / 0, with its reason."""
    metric = get_metric("reo@1", Ranking(item_groups=[0, 1, 1]))
    metric.update(torch.tensor([[3.0, 2, 1]]), torch.tensor([[0, 1, 1]]))
    metric.update(torch.tensor([[1.0, 3, 2]]), torch.tensor([[1, 0, 0]]))
    assert (
        metric.compute().isnan() and "the lists contain no item of a known group" in metric.undefined_reason
    )


def test_a_catalogue_may_have_more_items_than_scores():
    """Items that are not scored are not on offer: rates 1/2 and 0 of one item each, not of two."""
    for name, expected in (("rsp@1", 1.0), ("reo@1", 1.0)):
        metric = get_metric(name, Ranking(item_groups=[0, 0, 1, 1, 1]))
        metric.update(torch.tensor([[3.0, 2, 1]]), torch.tensor([[1, 1, 1]]), items=[[0, 1, 2]])
        assert metric.compute().item() == expected


def test_what_is_needed_is_said_before_anything_is_counted():
    """Groups and users are asked for by name; a pair must be whole and exist."""
    batch = {"scores": torch.tensor([[3.0, 2]]), "target": torch.tensor([[1, 0]])}
    with pytest.raises(MetricInputError, match=r"lacks; pass Ranking\(item_groups=\.\.\.\)"):
        fed(get_metric("reo@1", Ranking()), batch)
    with pytest.raises(MetricInputError, match="groups of users are looked up by user; pass users="):
        fed(get_metric("user_mad_ranking@1", Ranking(user_groups=[0, 1])), batch)
    with pytest.raises(MetricInputError, match=r"user_groups has users 0..1, got users from 2 to 2"):
        fed(get_metric("user_mad_ranking@1", Ranking(user_groups=[0, 1])), {**batch, "users": [2]})
    with pytest.raises(MetricInputError, match="there are scores of 2 items, but the catalog has 1"):
        fed(get_metric("reo@1", Ranking(item_groups=[0])), batch)
    with pytest.raises(MetricNameError, match="or one pair, as in"):
        get_metric("bias_disparity_br(users=0)@1", Ranking())
    output = Ranking(user_groups=[0, 1], item_groups=[0, 1])
    with pytest.raises(
        MetricNameError, match=r"groups of users must be in 0..1, and groups of items in 0..1; got users=2"
    ):
        fed(get_metric("bias_disparity_br(users=2, items=0)@1", output), {**batch, "users": [0]})


def test_users_of_whom_nothing_seen_is_known_are_refused():
    """Also where candidates are given, of which none is masked."""
    output = Ranking(num_items=3, seen=[[0]], item_groups=[0, 1, 0], user_groups=[0, 1])
    metric = get_metric("bias_disparity_bs", output)
    with pytest.raises(MetricInputError, match=r"seen has users 0\.\.0, got users from 0 to 1"):
        metric.update(
            torch.rand(2, 2), [[0], [1]], users=torch.tensor([0, 1]), items=torch.tensor([[0, 1], [1, 2]])
        )
