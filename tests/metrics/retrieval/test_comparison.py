from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.retrieval.comparison import compare, compare_all, compare_strata, holm
from hpometrics.metrics.retrieval.interactions import Interactions
from hpometrics.metrics.retrieval.per_user import PerUser, Stratum, quantile_groups, strata

USERS = 200


def models(shift: float, seed: int = 0) -> tuple[PerUser, PerUser]:
    """Two models of the same users, the first better by `shift` on average; each lacks some users."""
    random = torch.Generator().manual_seed(seed)
    base = torch.rand(USERS, generator=random)
    own = base + shift + 0.2 * torch.randn(USERS, generator=random)
    base[10] = torch.nan
    return (
        PerUser({"ndcg@10": (torch.arange(5, USERS), own[5:])}),
        PerUser({"ndcg@10": (torch.arange(USERS), base)}),
    )


def test_a_comparison_is_over_the_users_valid_in_both():
    """194 of 200: five are not in a, one has no value in b; SciPy and NumPy on these pairs say the same."""
    a, b = models(0.1)
    found = compare(a, b, "ndcg@10")
    kept = np.delete(np.arange(5, USERS), 5)
    mine, theirs = a["ndcg@10"][1].double().numpy()[kept - 5], b["ndcg@10"][1].double().numpy()[kept]
    assert found.users == 194
    assert (found.mean_a, found.mean_b) == pytest.approx((mine.mean(), theirs.mean()))
    assert found.difference == pytest.approx((mine - theirs).mean())
    assert found.p_value == pytest.approx(scipy.stats.wilcoxon(mine, theirs).pvalue)
    assert found.effect_size == pytest.approx((mine - theirs).mean() / (mine - theirs).std(ddof=1))


def test_the_interval_is_that_of_a_paired_bootstrap():
    """SciPy's with `paired=True` over both samples agrees as far as resampling can; a seed repeats."""
    a, b = models(0.1)
    found = compare(a, b, "ndcg@10", seed=3)
    kept = np.delete(np.arange(5, USERS), 5)
    pairs = (a["ndcg@10"][1].double().numpy()[kept - 5], b["ndcg@10"][1].double().numpy()[kept])
    oracle = scipy.stats.bootstrap(
        pairs,
        lambda x, y, axis: np.mean(x - y, axis=axis),
        paired=True,
        method="percentile",
        random_state=np.random.default_rng(8),
    ).confidence_interval
    width = oracle.high - oracle.low
    assert (found.low, found.high) == pytest.approx(tuple(oracle), abs=0.05 * width)
    assert found == compare(a, b, "ndcg@10", seed=3) != compare(a, b, "ndcg@10", seed=4)
    wide = compare(a, b, "ndcg@10", seed=3, confidence=0.999)
    assert wide.low < found.low < found.difference < found.high < wide.high


def test_the_interval_covers_as_often_as_it_says():
    """Of 60 comparisons of equal models most intervals of 90 % hold 0, and not all do."""
    held = 0
    for seed in range(60):
        found = compare(*models(0.0, seed), "ndcg@10", confidence=0.9, resamples=500)
        held += found.low <= 0 <= found.high
    assert 45 <= held < 60


def test_the_same_models_do_not_differ():
    """No user differs: difference 0, p 1, no effect size; the same gap for all is an interval of no width."""
    same = PerUser({"m": (torch.arange(3), torch.tensor([0.5, 0.25, 1.0]))})
    found = compare(same, same, "m")
    assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert math.isnan(found.effect_size)
    moved = PerUser({"m": (torch.arange(3), torch.tensor([1.0, 0.75, 1.5]))})
    assert (compare(moved, same, "m").low, compare(moved, same, "m").high) == (0.5, 0.5)


def test_too_few_users_cannot_be_compared():
    """One user in both is no sample."""
    a = PerUser({"m": (torch.tensor([0, 1]), torch.tensor([0.5, torch.nan]))})
    with pytest.raises(
        MetricInputError, match=r"a comparison needs at least two users with a value in both.*there are 1"
    ):
        compare(a, a, "m")


def test_several_metrics_are_corrected_together():
    """Holm: 0.01 x 3, 0.03 x 2, then no less than that; compare_all applies it to what compare gives."""
    assert holm({"a": 0.04, "b": 0.01, "c": 0.03}) == pytest.approx({"a": 0.06, "b": 0.03, "c": 0.06})
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}
    first, second = models(0.02), models(0.05, seed=1)
    a, b = (PerUser({"m": x["ndcg@10"], "n": y["ndcg@10"]}) for x, y in zip(first, second, strict=True))
    found = compare_all(a, b, resamples=99)
    alone = {name: compare(a, b, name, resamples=99).p_value for name in ("m", "n")}
    assert {name: one.p_value for name, one in found.items()} == holm(alone)


def test_strata_are_means_of_groups():
    """Users without a value and of no known group are in none; a user beyond the groups is an error."""
    column = (torch.tensor([0, 1, 2, 4]), torch.tensor([1.0, 0.0, torch.nan, 0.5]))
    assert strata(column, [1, 1, 1, 0, 2]) == {1: Stratum(0.5, 2), 2: Stratum(0.5, 1)}
    assert strata(column, [-1, -1, 0, 0, 0]) == {0: Stratum(0.5, 1)}
    with pytest.raises(MetricInputError, match=r"groups cover users 0..2, got users from 0 to 4"):
        strata(column, [0, 0, 0])


def test_strata_are_compared_apart_and_corrected_together():
    """Users 0 to 99 and 100 to 199, by the table of the first; one user is no stratum; Holm over both."""
    a, b = models(0.05)
    groups = torch.arange(USERS) // 100
    groups[10], groups[11], groups[1] = 7, 7, -1
    found = compare_strata(
        PerUser(a.columns, {"group": (torch.arange(USERS), groups)}), b, "group", resamples=99
    )
    alone = {
        group: compare(*(_some(table, groups == group) for table in (a, b)), "m", resamples=99)
        for group in (0, 1)
    }
    corrected = holm({group: one.p_value for group, one in alone.items()})
    assert found == {
        ("ndcg@10", group): replace(one, metric="ndcg@10", p_value=corrected[group])
        for group, one in alone.items()
    }


def _some(table: PerUser, which: torch.Tensor) -> PerUser:
    users, values = table["ndcg@10"]
    return PerUser({"m": (users[which[users]], values[which[users]])})


def test_users_are_grouped_by_the_popularity_of_what_they_like():
    """Means 1, 10, 100 and none; ties fall in one group."""
    popularity = torch.tensor([1.0, 10.0, 100.0, 100.0])

    def groups(relevant, number=3):
        return quantile_groups(Interactions.of(relevant, "relevant").means(popularity), number).tolist()

    assert groups([[0], [1], [2, 3], []]) == [0, 1, 2, -1]
    assert groups([[0, 2], [1]], number=2) == [1, 0]
    assert groups([[], []]) == [-1, -1]
