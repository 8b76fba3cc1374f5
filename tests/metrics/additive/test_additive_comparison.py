"""Additive values beside numbers: compared, ordered, hashed, printed as what they come to."""

from __future__ import annotations

import math
import operator
import unittest
from fractions import Fraction

import numpy as np
import pytest

from hpometrics.metrics.additive import AverageMetric, DistinctMetric, MacroAverageMetric, SumMetric

HALF = AverageMetric(1, 2)
HALVES = [
    HALF,
    SumMetric(0.5),
    DistinctMetric.of("no no", 1),
    MacroAverageMetric({"a": AverageMetric(1, 1), "b": AverageMetric(0, 1)}),
]
UNDEFINED = AverageMetric(0, 0)


@pytest.mark.parametrize("half", HALVES, ids=lambda half: type(half).__name__)
@pytest.mark.parametrize("kind", [float, Fraction, np.float64, np.float32])
def test_a_value_stands_beside_numbers(half, kind):
    """On either side, whatever kind of number it is."""
    assert half == kind(0.5) and kind(0.5) == half
    assert half != kind(0.25) and not half == kind(0.25)
    assert kind(0.25) < half < kind(0.75) and kind(0.75) > half > kind(0.25)
    assert kind(0.5) <= half <= kind(0.5) and kind(0.5) >= half >= kind(0.5)


def test_values_are_ordered_among_themselves_and_with_numbers():
    """By what they come to, whatever their types."""
    low, high = AverageMetric(1, 4), SumMetric(3)
    assert sorted([high, 0.4, HALF, low, 1]) == [low, 0.4, HALF, 1, high]
    assert max([low, HALF, 0.3]) is HALF and min(0.1, HALF) == 0.1
    assert AverageMetric(1, 2) <= AverageMetric(2, 4) <= AverageMetric(1, 2)


@pytest.mark.parametrize("half", HALVES, ids=lambda half: type(half).__name__)
def test_what_is_equal_hashes_alike(half):
    """A number and a value that equals it are one key."""
    assert hash(half) == hash(0.5) and {half: "x"}[0.5] == "x"
    assert hash(AverageMetric(math.nan)) == hash(AverageMetric(math.nan))


def test_two_values_are_equal_by_what_they_hold():
    """Two means that come to the same are not the same value, though both equal the number."""
    assert AverageMetric(1, 2) != AverageMetric(2, 4)
    assert AverageMetric(1, 2) == 0.5 == AverageMetric(2, 4)


@pytest.mark.parametrize("compare", [operator.eq, operator.lt, operator.le, operator.gt, operator.ge])
def test_what_is_undefined_is_neither_more_nor_less(compare):
    """As nan is; `!=` alone holds."""
    assert not compare(UNDEFINED, 0.5) and not compare(0.5, UNDEFINED) and not compare(HALF, UNDEFINED)
    assert UNDEFINED != math.nan and math.isnan(UNDEFINED)


@pytest.mark.parametrize("other", ["0.5", None, [0.5], 1j])
def test_what_is_no_number_is_not_compared(other):
    """It is unequal, and in no order."""
    assert HALF != other
    with pytest.raises(TypeError):
        _ = HALF < other


def test_a_value_is_formatted_as_its_number():
    """By any format of a float; without one it shows what it holds."""
    assert f"{AverageMetric(2, 3):.3f} {HALF:.0%} {UNDEFINED:6.2f}" == "0.667 50%    nan"
    assert f"{HALF}" == str(HALF) == "AverageMetric(numer=1, denom=2)"


def test_almost_equal():
    """The difference to a number is a number, as unittest wants it; of two values there is none."""
    unittest.TestCase().assertAlmostEqual(AverageMetric(1, 3), 0.3333, places=4)
    unittest.TestCase().assertAlmostEqual(0.3333, AverageMetric(1, 3), places=4)
    assert (HALF - 0.25, 1 - HALF) == (0.25, 0.5)
    with pytest.raises(TypeError):
        _ = HALF - HALF
