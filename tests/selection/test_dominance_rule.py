from __future__ import annotations

import math

import pytest

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError
from hpometrics.selection.rules import DominanceRule

BOTH = [MAXIMIZE, MINIMIZE]
OTHERS = [(0.9, 5.0), (0.8, 4.0), (0.7, 3.0), (0.6, 2.0), (0.5, 1.0)]
"""Accurate and dear, or cheap: the median is 0.7 at 3."""


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        ((0.69, 3.1), True),
        ((0.7, 3.1), False),  # an equal value is not worse
        ((0.69, 2.9), False),  # worse in one objective alone
        ((math.nan, 3.1), True),
        ((math.nan, math.inf), True),
        ((math.nan, 2.9), False),
    ],
)
def test_a_trial_stops_that_is_worse_in_every_objective(values, stops):
    """Worse than the median of each; nan and infinity are the worst."""
    assert DominanceRule().stops(0, values, OTHERS, BOTH) is stops


def test_the_percentile_is_the_share_that_counts_as_better():
    """The best 20 % of five trials are one: its values are the quantile, 0.9 and 1."""
    assert DominanceRule(20).stops(0, (0.85, 1.5), OTHERS, BOTH)
    assert not DominanceRule(40).stops(0, (0.85, 1.5), OTHERS, BOTH)
    assert DominanceRule(100).stops(0, (0.4, 5.1), OTHERS, BOTH)


def test_others_that_diverged_stop_nobody():
    """If most of them are nan the quantile is nan, and nothing is worse than that."""
    diverged = [(math.nan, math.nan)] * 3 + OTHERS[:2]
    assert not DominanceRule().stops(0, (math.nan, math.nan), diverged, BOTH)
    assert not DominanceRule().stops(0, (0.1, 99.0), diverged, BOTH)


def test_which_epochs_are_judged():
    """None of the warm-up, then every third, and none that fewer others have reached."""
    rule = DominanceRule(warmup=2, interval=3, min_trials=5)
    assert [e for e in range(9) if rule.stops(e, (0.1, 9.0), OTHERS, BOTH)] == [2, 5, 8]
    assert not rule.stops(2, (0.1, 9.0), OTHERS[:4], BOTH)


@pytest.mark.parametrize(
    "wrong", [{"percentile": 0}, {"percentile": 101.0}, {"warmup": -1}, {"min_trials": 0}, {"interval": True}]
)
def test_a_number_out_of_range_is_refused(wrong):
    """With its name and its value."""
    [(name, value)] = wrong.items()
    with pytest.raises(ConfigError, match=f"{name} must be .*, got {value}"):
        DominanceRule(**wrong)


def test_a_quantile_is_one_of_the_values():
    """The better one of two in the middle, whatever the direction; nan is the worst."""
    values = [4.0, 1.0, math.nan, 3.0]
    assert (MINIMIZE.quantile(values, 50), MAXIMIZE.quantile(values, 50)) == (3.0, 3.0)
    assert (MINIMIZE.quantile(values, 25), MAXIMIZE.quantile(values, 25)) == (1.0, 4.0)
    assert math.isnan(MINIMIZE.quantile(values, 100))
