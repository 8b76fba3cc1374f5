"""P-values of paired counts beside SciPy's binomial test, and corrections by hand and by SciPy."""

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
