"""Means over seeds and rows: their parts, intervals and p-values by hand, by SciPy and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from hpometrics.selection.two_way import FEW_CLUSTERS, TwoWay, by_cluster, unpaired

TABLE = [[1, 0, 1, 0, 0], [0, 0, 1, 0, -1], [1, 0, 1, -1, 1]]
FIRST, SECOND = [0.912, 0.905, 0.918, 0.909, 0.915], [0.903, 0.899, 0.910, 0.908, 0.901]
CLUSTERED = {0: [1, 1, 0], 1: [-1, 1], 2: [0, 0], 3: [1, 1, 0]}


def test_three_seeds_of_five_rows():
    """The parts of a small table, and both of its usual levels."""
    table = TwoWay.of(TABLE)
    assert table.mean == pytest.approx(0.266666666667, rel=1e-10)
    assert (table.seed_variance, table.row_variance) == pytest.approx((0.0177777777778, 0.06), rel=1e-10)
    assert table.residual_variance == pytest.approx(0.0233333333333, rel=1e-10)
    assert table.half_width(0.05) == pytest.approx(0.68554379817, rel=1e-10)
    assert table.half_width(0.022) == pytest.approx(0.986842670994, rel=1e-10)
    assert table.p_value == pytest.approx(0.30701534658, rel=1e-9)


def test_known_parts():
    """Eight seeds, by the levels of three looks."""
    table = TwoWay(0.01, 9e-6, 4e-6, 1e-6, 8, 1000)
    halves = [table.half_width(level) for level in (0.05, 0.022, 0.0464)]
    assert halves == pytest.approx([0.0078643122473, 0.00964584625262, 0.00802566812232], rel=1e-10)
    assert table.p_value == pytest.approx(0.01872823003, rel=1e-8)


def test_seeds_alone_are_a_paired_t_test():
    """Its p-value and its interval are SciPy's."""
    table = TwoWay.of_seeds([a - b for a, b in zip(FIRST, SECOND, strict=True)])
    expected = scipy.stats.ttest_rel(FIRST, SECOND)
    low, high = expected.confidence_interval(0.95)
    interval = table.interval(0.05)
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-9)
    assert table.p_value == pytest.approx(expected.pvalue, rel=1e-8)
    assert table.p_value == pytest.approx(0.022784408786, rel=1e-8)


def test_clusters_have_the_t_quantile_of_few():
    """A cluster's sum, scaled to the mean, takes the place of its rows."""
    values = [value for of_cluster in CLUSTERED.values() for value in of_cluster]
    clusters = np.repeat(list(CLUSTERED), [len(of_cluster) for of_cluster in CLUSTERED.values()])
    table = TwoWay.of(by_cluster([values], clusters), FEW_CLUSTERS)
    assert table.mean == pytest.approx(0.4)
    assert table.row_variance**0.5 == pytest.approx(0.184752086141, rel=1e-10)
    assert table.p_value == pytest.approx(0.119007194622, rel=1e-8)


def test_a_table_in_which_nothing_varies():
    """Equal trials have p = 1, a constant gap has p = 0."""
    assert TwoWay.of(np.zeros((3, 4))).p_value == 1
    assert TwoWay.of(np.ones((3, 4))).p_value == 0
    assert TwoWay.of_seeds([0.5]).p_value == 0


def test_one_seed_has_the_spread_of_its_rows():
    """Where training does not depend on the seed, rows alone are in the interval."""
    table = TwoWay.of([[1.0, 0, 1, 0]] * 3).of_one_seed
    assert table.half_width(0.05) == pytest.approx(scipy.stats.norm.ppf(0.975) * (1 / 3 / 4) ** 0.5)


def test_other_rows_add_their_variances():
    """The seeds stay paired, the rows do not."""
    rng = np.random.default_rng(0)
    left, right = (TwoWay.of(rng.normal(size=(4, rows))) for rows in (50, 80))
    gap = unpaired(left, right, [0.1, 0.2, 0.3, 0.2])
    assert gap.mean == pytest.approx(0.2)
    assert gap.row_variance == left.row_variance + right.row_variance
    assert gap.seed_variance == TwoWay.of_seeds([0.1, 0.2, 0.3, 0.2]).seed_variance


def test_folds_share_training_rows():
    """Ten folds of 1,000 rows, by the corrected t-test."""
    gaps = [0.02, 0.01, 0.03, 0, 0.02, 0.01, 0.02, 0.03, -0.01, 0.02]
    folds = TwoWay.of_folds(gaps, test_share=100 / 900)
    assert (folds.mean, folds.seed_variance**0.5) == pytest.approx((0.015, 0.005832010432), rel=1e-9)
    assert folds.mean / folds.seed_variance**0.5 == pytest.approx(2.57201186021, rel=1e-9)
    assert folds.p_value == pytest.approx(0.0300883272931, rel=1e-8)


def test_the_difference_that_rows_can_detect():
    """8 % of 1,000 rows that differ: 2.80 standard errors, and fourfold rows for half of it."""
    table = TwoWay(0.0, 0.0, 0.08 / 1000, rows=1000)
    assert table.detectable() == pytest.approx(0.0250581399698, rel=1e-10)
    assert table.rows_to_detect(0.01) == pytest.approx(6279.10378748, rel=1e-10)
    assert table.rows_to_detect(table.detectable() / 2) == pytest.approx(4000)


@pytest.mark.parametrize(
    ("seeds", "gap"), [(5, 2.35109631849), (10, 1.40673765473), (20, 0.934128790108)], ids=str
)
def test_the_difference_that_seeds_can_detect(seeds, gap):
    """In deviations of a seed, of which a difference has two; no number of rows finds a smaller one."""
    table = TwoWay(0.0, 2 / seeds, seeds=seeds, rows=100)
    assert table.detectable() == pytest.approx(gap, rel=1e-9)
    assert table.rows_to_detect(0.9 * gap) is None


@pytest.mark.parametrize("spread", [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0)], ids=str)
def test_equal_trials_are_rarely_told_apart(spread):
    """Seeds and rows that vary: at the 5 % level no more than 5 % of 2,000 tables leave out 0."""
    of_seeds, of_rows = spread
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(2000):
        table = of_seeds * rng.normal(size=(5, 1)) + of_rows * rng.normal(size=(1, 60)) * 60**0.5
        table = table + rng.normal(size=(5, 60))
        gap = TwoWay.of(table)
        wrong += abs(gap.mean) > gap.half_width(0.05)
    assert wrong / 2000 <= 0.05 + 0.015
