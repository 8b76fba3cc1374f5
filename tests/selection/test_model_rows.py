"""Models compared by their row values: known tables by hand, SciPy's tests, and how often they are wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.stats

from hpometrics import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError
from hpometrics.metrics.p_values import benjamini_hochberg, holm
from hpometrics.selection.model_comparison import Verdict
from hpometrics.selection.model_rows import ModelRows, compare_models

TARGET = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 1], dtype=bool)
SCORES = {
    "a": np.array([0.9, 0.8, 0.7, 0.35, 0.4, 0.3, 0.2, 0.6, 0.1, 0.55]),
    "b": np.array([0.8, 0.6, 0.75, 0.3, 0.5, 0.45, 0.2, 0.65, 0.3, 0.4]),
}


def placements(scores, positive):
    """The row values of an area, pair by pair: what torch's module computes by ranks."""
    gaps = scores[positive][:, None] - scores[~positive]
    wins = (gaps > 0) + 0.5 * (gaps == 0)
    area, values = wins.mean(), np.empty(len(scores))
    values[positive] = area + (wins.mean(axis=1) - area) * len(scores) / positive.sum()
    values[~positive] = area + (wins.mean(axis=0) - area) * len(scores) / (~positive).sum()
    return values


def models(*tables, **facts):
    """Models a, b, c and so on, from the row values of each: of one training, or of several."""
    tables = [np.atleast_2d(np.asarray(table, dtype=float)) for table in tables]
    return [ModelRows(label, table, **facts) for label, table in zip("abcdef", tables, strict=False)]


def compared(*tables, direction=MAXIMIZE, **options):
    """Compare row values that are better the larger they are."""
    return compare_models(models(*tables), metric="score", direction=direction, **options)


def right(only_a, only_b, rows=100):
    """Which rows two models get right: `only_a` rows the first alone, `only_b` the second alone, 77 both."""
    a, b = np.zeros(rows), np.zeros(rows)
    a[:only_a], b[only_a : only_a + only_b] = 1, 1
    a[20:97] = b[20:97] = 1
    return a, b


def test_areas_have_delongs_variance():
    """Both classes vary each by itself."""
    sides = [
        ModelRows(name, placements(scores, TARGET)[None], "pairs", positive=TARGET)
        for name, scores in SCORES.items()
    ]
    found = compare_models(sides, metric="roc_auc", direction=MAXIMIZE)
    half = scipy.stats.norm.ppf(0.975)
    assert found.difference.value == pytest.approx(0.18)
    assert (found.difference.high - 0.18) / half == pytest.approx(0.103923048454, rel=1e-9)
    assert found.p_value == pytest.approx(0.0832645166636, rel=1e-9)
    assert found.pair.test == "DeLong" and found.verdict is Verdict.NOT_TOLD_APART
    halves = [(one.high - one.value) / half for one in found.values.values()]
    assert halves == pytest.approx([0.11313708499, 0.184390889146], rel=1e-9)


def test_rows_that_are_right_or_wrong():
    """10 rows against 3 of 100: McNemar decides, the interval is that of the difference of shares."""
    found = compared(*right(10, 3))
    low, high = 0.00032786026509, 0.139672139735
    assert found.pair.alone == (10, 3) and found.pair.test == "McNemar"
    assert found.p_value == 0.09228515625 and found.verdict is Verdict.NOT_TOLD_APART
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high), rel=1e-9)
    assert found.detectable == pytest.approx(0.099589807943, rel=1e-9)
    assert found.rows_wanted(0.02) == 2480


def test_few_rows_that_differ_do_not_make_models_equal():
    """Half a row more of each kind (Agresti & Min): five rows alike leave room for a difference."""
    alike = compared([1.0] * 5, [1.0] * 5, equivalence=0.001)
    assert alike.verdict is Verdict.NOT_TOLD_APART and alike.p_value == 1
    assert alike.difference.high == pytest.approx(scipy.stats.norm.ppf(0.975) / 7)
    assert alike.rows_wanted(0.01) is None and "fewer than 10 rows differ" in str(alike)
    apart = compared([1.0] * 4 + [0.0] * 4, [0.0] * 8)
    plain = scipy.stats.norm.ppf(0.975) * np.std([1.0] * 4 + [0.0] * 4, ddof=1) / 8**0.5
    assert apart.difference.high - apart.difference.value >= plain - 1e-12
    rng, wrong = np.random.default_rng(12), 0
    for _ in range(400):  # 0.98 and 0.93 differ by more than 0.04
        tables = (rng.random(size=(2, 20)) < [[0.98], [0.93]]).astype(float)
        wrong += compared(*tables, equivalence=0.04).verdict is Verdict.EQUIVALENT
    assert wrong / 400 <= 0.05


def test_a_share_has_wilsons_interval():
    """Also where all rows are right; SciPy has the same."""
    found = compared([1.0] * 60, right(10, 3, 100)[0][:60])
    expected = scipy.stats.binomtest(60, 60).proportion_ci(method="wilson")
    assert (found.values["a"].low, found.values["a"].high) == pytest.approx((expected.low, expected.high))


def test_the_order_of_two_models_is_a_sign():
    """The test is that of both: rows of 0 and 1 in one model alone are numbers like others."""
    hits, numbers = [0, 1, 0, 1.0], [0.1, 1.5, 0.6, 1.2]
    one, other = compared(hits, numbers), compared(numbers, hits)
    assert one.p_value == other.p_value == pytest.approx(scipy.stats.ttest_rel(hits, numbers).pvalue)
    assert one.difference.low == -other.difference.high and one.pair.test == other.pair.test == "paired t"


def test_what_few_rows_detect_is_beyond_their_interval():
    """The quantile is that of the test; 80 % of paired t-tests find it."""
    rng = np.random.default_rng(13)
    found = compared(*rng.normal(size=(2, 4)))
    gap = found.detectable
    assert gap > found.difference.high - found.difference.value
    spread = (found.difference.high - found.difference.value) / scipy.stats.t.ppf(0.975, 3) * 2
    gaps = rng.normal(gap, spread, size=(4000, 4))
    assert (scipy.stats.ttest_1samp(gaps, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.12)
    assert found.rows_wanted(gap) == 4


def test_rounding_is_no_difference():
    """0.1 + 0.2 and 0.3 are the same; rows that all differ by one number agree in sign at least."""
    same = compared([0.1 + 0.2] * 50, [0.3] * 50)
    assert (same.difference.value, same.p_value) == (0, 1)
    assert "nothing varies from row to row" in str(same) and same.rows_wanted(0.1) is None
    two, ten = compared([2.0, 3], [1.0, 2]), compared(np.arange(10.0), np.arange(10.0) - 1)
    assert (two.p_value, ten.p_value) == (0.5, 2.0**-9) and ten.pair.test == "sign"


def test_a_class_of_few_rows_is_said():
    """DeLong's variance of one row is not known, that of three is rough."""
    for count, problem in ((1, "one class has only one row"), (3, "one class has 3 rows: intervals from")):
        positive = np.arange(40) < count
        tables = [placements(np.arange(40.0) * sign, positive)[None] for sign in (1, -1)]
        sides = [ModelRows(n, t, "pairs", positive=positive) for n, t in zip("ab", tables, strict=True)]
        if count == 1:
            with pytest.raises(ConfigError, match=problem):
                compare_models(sides, metric="roc_auc", direction=MAXIMIZE)
        else:
            assert problem in compare_models(sides, metric="roc_auc", direction=MAXIMIZE).notes[0]


def test_many_rows_that_differ_have_the_normal_quantile():
    """From 200 on the exact test would say the same."""
    found = compared(np.repeat([1.0, 0, 1], [130, 70, 800]), np.repeat([0.0, 1, 1], [130, 70, 800]))
    assert found.pair.test == "paired z" and found.verdict is Verdict.A_BETTER
    assert found.p_value == pytest.approx(scipy.stats.binomtest(130, 200).pvalue, rel=0.5)


def test_few_rows_are_a_paired_t_test():
    """SciPy's, with its interval; the smaller value is better where the metric is to be minimized."""
    rng = np.random.default_rng(2)
    a, b = rng.normal([[0], [1]], size=(2, 30))
    found = compared(a, b, direction=MINIMIZE)
    expected = scipy.stats.ttest_rel(a, b)
    interval = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-8)
    assert (found.difference.low, found.difference.high) == pytest.approx(tuple(interval))
    assert found.verdict is Verdict.A_BETTER and found.worse is False
    assert compared(b, a, direction=MINIMIZE).worse


def test_seeds_and_rows_are_both_in_the_interval():
    """Two trainings of each: their differences vary by more than those of one."""
    rng = np.random.default_rng(3)
    seeds, rows = rng.normal(size=(2, 3, 1)), rng.normal(size=(2, 1, 400))
    several = compared(*(seeds + rows))
    alone = compared(*(seeds + rows)[:, 0])
    assert several.pair.test == "t of seeds and rows" and several.seeds == 3
    assert several.difference.high - several.difference.low > alone.difference.high - alone.difference.low
    assert several.rows_wanted(1e-6) is None  # whatever the rows: the seeds alone hide it


def test_clusters_vary_as_a_whole():
    """Ten rows of one user that are all alike count as one."""
    rng = np.random.default_rng(4)
    a = np.repeat(rng.normal(size=30), 10)
    b, clusters = np.zeros(300), np.repeat(np.arange(30), 10)
    found = compared(a, b, clusters=clusters)
    expected = scipy.stats.ttest_1samp(a[::10], 0)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-8)
    assert found.clusters == 30 and found.pair.test == "t of clusters" and not found.notes
    few = compared(a, b, clusters=clusters // 10)
    assert few.notes == ("3 clusters: intervals from fewer than 20 are rough",)


def test_equivalence_takes_two_one_sided_tests():
    """A small difference within a narrow interval is one that does not count; within a wide one it may."""
    rng = np.random.default_rng(5)
    a = rng.normal(size=4000)
    b = a + 0.1 * rng.normal(size=4000)
    assert compared(a, b, equivalence=0.02).verdict is Verdict.EQUIVALENT
    assert compared(a, rng.normal(size=4000), equivalence=0.02).verdict is Verdict.NOT_TOLD_APART
    sure = compared(a, b + 0.01, equivalence=0.02)
    assert sure.p_value < 0.05 and sure.verdict is Verdict.EQUIVALENT


def test_identical_models_are_equivalent():
    """Rows that are all alike have an interval of 0, which is within any difference that does not matter."""
    losses = np.random.default_rng(2).random(50)
    same = compared(losses, losses, equivalence=0.01)
    assert same.verdict is Verdict.EQUIVALENT and (same.difference.low, same.difference.high) == (0, 0)
    assert compared(losses, losses).verdict is Verdict.NOT_TOLD_APART


def test_worse_by_more_than_the_equivalence():
    """A gate fails where the whole interval is beyond it."""
    rng = np.random.default_rng(6)
    a = rng.normal(size=4000)
    b = a + 0.5 + 0.1 * rng.normal(size=4000)
    assert compared(a, b, equivalence=0.4).worse
    assert not compared(a, b, equivalence=0.5).worse and not compared(b, a).worse


def test_several_models_are_corrected_together():
    """Each with the first, or every pair; who is not told apart shares a group."""
    rng = np.random.default_rng(7)
    tables = rng.normal([[1.0], [1.02], [0.7], [0.68]], 0.7, size=(4, 300))
    found = compared(*tables)
    assert [(pair.a, pair.b) for pair in found.pairs] == [("a", "b"), ("a", "c"), ("a", "d")]
    raw = {pair.b: pair.raw_p_value for pair in found.pairs}
    assert {pair.b: pair.p_value for pair in found.pairs} == holm(raw)
    by_rank = compared(*tables, correction="bh").pairs
    assert {pair.b: pair.p_value for pair in by_rank} == benjamini_hochberg(raw)
    assert {pair.b: pair.p_value for pair in compared(*tables, correction="raw").pairs} == raw
    every = compared(*tables, every=True)
    assert len(every.pairs) == 6 and set(map(frozenset, every.together())) == {
        frozenset("ab"),
        frozenset("cd"),
    }
    assert "not shown to differ: " in str(every) and "p-values are corrected by Holm" in str(every)


def test_groups_overlap():
    """The middle one of three is in both groups, as it differs from neither end."""
    rng = np.random.default_rng(8)
    noise = rng.normal(size=(3, 200))
    found = compared(*(noise + np.array([[0.3], [0.15], [0.0]])), every=True)
    apart = [(pair.a, pair.b) for pair in found.pairs if pair.verdict is Verdict.A_BETTER]
    assert apart == [("a", "c")]
    assert [set(group) for group in found.together()] == [{"a", "b"}, {"b", "c"}]


def test_folds_share_their_training_rows():
    """Nadeau and Bengio's correction of Student's t, as by hand."""
    gaps = np.array([0.02, 0.01, 0.03, 0, 0.02, 0.01, 0.02, 0.03, -0.01, 0.02])
    sides = [ModelRows("a", (0.9 + gaps)[None]), ModelRows("b", np.full((1, 10), 0.9))]
    found = compare_models(sides, metric="score", direction=MAXIMIZE, test_share=1 / 9)
    assert (found.difference.value, found.p_value) == pytest.approx((0.015, 0.0300883272931), rel=1e-9)
    half = scipy.stats.t.ppf(0.975, 9) * 0.005832010432
    assert found.difference.high - found.difference.value == pytest.approx(half, rel=1e-9)
    naive = compare_models(sides, metric="score", direction=MAXIMIZE)
    assert naive.p_value < found.p_value and (found.folds, found.rows) == (10, 0)
    first, second, third = found.lines()
    assert "on the same 10 folds" in first and "t of folds p = 0.03: a is better" in second
    assert third.startswith("80 of 100 such comparisons would detect a difference of")
    with pytest.raises(ConfigError, match="folds have no clusters; remove by"):
        compare_models(
            sides, metric="score", direction=MAXIMIZE, test_share=1 / 9, clusters=np.zeros(10, dtype=np.int64)
        )
    with pytest.raises(ConfigError, match="such as 1 / 9 for ten folds; got 0"):
        compare_models(sides, metric="score", direction=MAXIMIZE, test_share=0)


def test_other_rows_are_not_paired():
    """Each model adds its own variance, as in Welch's test; a line says so."""
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=(1, 500)), rng.normal(size=(1, 800)) + 1
    sides = [ModelRows("a", a, rows_id="one"), ModelRows("b", b, rows_id="other")]
    found = compare_models(sides, metric="score", direction=MAXIMIZE)
    interval = scipy.stats.ttest_ind(a[0], b[0], equal_var=False).confidence_interval(0.95)
    assert (found.difference.low, found.difference.high) == pytest.approx(tuple(interval), rel=2e-3)
    assert found.notes == ("not paired: the models may have different rows",)
    assert found.pair.test == "unpaired z" and "on 800 rows" in str(found)


def test_rows_that_stand_for_more_are_counted():
    """Row values of 50 groups of 20 rows: as many rows as there are."""
    rng = np.random.default_rng(10)
    sides = models(*rng.normal(size=(2, 50)), method="groups", count=1000)
    found = compare_models(sides, metric="score", direction=MAXIMIZE)
    wanted = compared(*(side.table for side in sides)).rows_wanted(0.1)
    assert found.rows == 1000 and found.rows_wanted(0.1) == pytest.approx(20 * wanted, abs=20)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"level": 1.5}, "level must be between 0 and 1, got 1.5"),
        ({"equivalence": -1}, "equivalence must be 0 or more, in the metric's unit, got -1"),
        ({"correction": "none"}, "correction must be one of holm, bh, raw, got 'none'"),
    ],
)
def test_settings_out_of_range_are_refused(options, problem):
    """With what is allowed."""
    with pytest.raises(ConfigError, match=problem):
        compared([1, 2], [3, 4], **options)


def test_models_that_cannot_be_compared_are_refused():
    """One alone, two of one name, and other numbers of trainings; a single difference of three models."""
    one, other = models([[1, 2]], [[1, 2], [3, 4]])
    for sides, problem in (
        ([one], "at least two models, got 1"),
        ([one, one], "its own name, got a, a"),
        ([one, other], "the same number of trainings, got a 1, b 2"),
    ):
        with pytest.raises(ConfigError, match=problem):
            compare_models(sides, metric="score", direction=MAXIMIZE)
    with pytest.raises(ConfigError, match="share only 1 row with a value; intervals need at least two"):
        compared([1], [2])
    with pytest.raises(ConfigError, match="all rows are in one cluster"):
        compared([1, 2], [2, 4], clusters=np.zeros(2, dtype=int))
    with pytest.raises(ConfigError, match="3 models have 2 differences"):
        _ = compared([1, 2], [2, 3], [1, 4]).difference
    with pytest.raises(ConfigError, match="a difference above 0, got 0"):
        compared([1, 2], [2, 4]).rows_wanted(0)


def test_equal_models_have_no_difference():
    """The p-value is 1, and the interval has no width."""
    found = compared([1, 2, 3], [1, 2, 3])
    assert (found.p_value, found.difference.low, found.difference.high) == (1, 0, 0)
    assert found.verdict is Verdict.NOT_TOLD_APART


def test_json_has_all_of_it():
    """Plain numbers and words."""
    content = json.loads(json.dumps(compared(*right(10, 3)).to_json(), allow_nan=False))
    assert content["pairs"][0]["verdict"] == "not told apart" and content["pairs"][0]["alone"] == [10, 3]
    assert content["direction"] == "maximize" and content["values"]["a"]["value"] == 0.87


@pytest.mark.parametrize("rows", [40, 400])
def test_equal_models_are_rarely_told_apart(rows):
    """At the 5 % level no more than 5 % of 2,000 pairs, whatever the row values: 0 and 1, or any numbers."""
    rng = np.random.default_rng(11)
    wrong = {"hits": 0, "numbers": 0}
    for _ in range(2000):
        tables = {"hits": rng.random(size=(2, rows)) < 0.8, "numbers": rng.normal(size=(2, rows))}
        for kind, both in tables.items():
            wrong[kind] += compared(*both).verdict is not Verdict.NOT_TOLD_APART
    assert max(wrong.values()) / 2000 <= 0.05 + 0.015


def test_sums_of_clusters_are_no_single_rows():
    """What a run has summed is compared as clusters are: never by McNemar's test, with Student's quantile."""
    a, b = (
        ModelRows(label, np.array([rows], dtype=float), rows_id="x", clustered=True)
        for label, rows in (("a", [1, 1, 0, 1]), ("b", [0, 1, 0, 0]))
    )
    summed = compare_models([a, b], metric="accuracy", direction=MAXIMIZE)
    rows = [ModelRows(one.label, one.table, rows_id="x") for one in (a, b)]
    each = np.arange(4)
    assert summed.pairs == compare_models(rows, metric="accuracy", direction=MAXIMIZE, clusters=each).pairs
    assert summed.clusters == 4 and "4 clusters: " in str(summed)


def test_paired_rows_are_those_of_statsmodels():
    """The figures of `DescrStatsW(a - b).ttest_mean`, `tconfint_mean` and of `ttost_paired`, 0.15.0."""
    a = [0.2, 0.9, 0.4, 0.7, 0.3, 0.8, 0.55, 0.61, 0.43, 0.77]
    b = [0.25, 0.7, 0.35, 0.72, 0.1, 0.6, 0.5, 0.66, 0.3, 0.59]
    found = compared(a, b)
    assert found.pair.test == "paired t"
    assert found.p_value == pytest.approx(0.025897574461329623, rel=1e-9)
    ends = (found.difference.low, found.difference.high)
    assert ends == pytest.approx((0.013410244162303617, 0.16458975583769642), rel=1e-9)
    # two one-sided tests: p = 0.00446 of 0.2, and 0.0506 of 0.15, which does not reach the level
    assert compared(a, b, equivalence=0.2).verdict is Verdict.EQUIVALENT
    assert compared(a, b, equivalence=0.15).verdict is Verdict.A_BETTER
    at_its_level = compared(a, b, equivalence=0.15, level=0.0507)
    assert at_its_level.verdict is Verdict.EQUIVALENT
