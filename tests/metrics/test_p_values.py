"""P-values of paired counts and their corrections: by hand, and as SciPy and statsmodels compute them."""

from __future__ import annotations

import pytest
import scipy.stats

from hpometrics.metrics.p_values import benjamini_hochberg, holm, mcnemar

FIVE = dict(enumerate([0.01, 0.04, 0.03, 0.005, 0.5]))


def test_five_p_values_by_hand():
    """Holm multiplies the smallest by five, the next by four; Benjamini and Hochberg divide by the rank."""
    assert list(holm(FIVE).values()) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.5])
    assert list(benjamini_hochberg(FIVE).values()) == pytest.approx([0.025, 0.05, 0.05, 0.025, 0.5])


def test_false_discoveries_are_scipys():
    """For any order of the p-values."""
    expected = scipy.stats.false_discovery_control(list(FIVE.values()), method="bh")
    assert list(benjamini_hochberg(FIVE).values()) == pytest.approx(list(expected))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("exact", 0.09228515625),
        ("mid-p", 0.057373046875),
        ("chi-squared", 0.0522036353413),
        ("corrected", 0.0960923294557),
    ],
)
def test_ten_rows_against_three(test, expected):
    """By the published formulas."""
    assert mcnemar(10, 3, test) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("rows", "expected"), [((5, 0), 0.0625), ((25, 25), 1), ((0, 0), 1)], ids=str)
def test_the_edges_of_the_exact_test(rows, expected):
    """One model alone, both alike, and no row that differs; the order of the models does not matter."""
    assert mcnemar(*rows) == mcnemar(*reversed(rows)) == expected


def test_exact_is_binomial():
    """Two-sided, for every split of 30 rows and for thousands."""
    counts = [(first, 30 - first) for first in range(31)] + [(2100, 1900)]
    expected = [scipy.stats.binomtest(a, a + b).pvalue for a, b in counts]
    assert [mcnemar(a, b) for a, b in counts] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("rows", "exact", "chi_squared", "corrected"),
    [
        ((10, 3), 0.09228515625, 0.0522036353413146, 0.0960923294556734),
        ((31, 12), 0.005401572654591291, 0.003761823132794379, 0.006051564288387064),
        ((5, 0), 0.0625, 0.025347318677468325, 0.07363827012030258),
    ],
    ids=str,
)
def test_paired_counts_are_those_of_statsmodels(rows, exact, chi_squared, corrected):
    """The figures of `statsmodels.stats.contingency_tables.mcnemar`, 0.15.0."""
    expected = {"exact": exact, "chi-squared": chi_squared, "corrected": corrected}
    assert {test: mcnemar(*rows, test) for test in expected} == pytest.approx(expected, rel=1e-10)


def test_corrections_are_those_of_statsmodels():
    """The figures of `statsmodels.stats.multitest.multipletests`, 0.15.0, `holm` and `fdr_bh`."""
    seven = dict(enumerate([0.012, 0.04, 0.03, 0.0051, 0.5, 0.041, 0.0009]))
    by_holm = [0.06, 0.12, 0.12, 0.0306, 0.5, 0.12, 0.0063]
    by_rate = [0.028, 0.04783333333333334, 0.04783333333333334, 0.01785, 0.5, 0.04783333333333334, 0.0063]
    assert list(holm(seven).values()) == pytest.approx(by_holm, rel=1e-12)
    assert list(benjamini_hochberg(seven).values()) == pytest.approx(by_rate, rel=1e-12)
