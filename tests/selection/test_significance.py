"""How sure a pick is, in words and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from hpometrics.exceptions import RecordError
from hpometrics.selection.intervals import Interval, Significance, TrialInterval

WINNER = TrialInterval(3, 5, 0.75, Interval(0.75, 0.5, 1.0))
RUNNER_UP = TrialInterval(0, 2, 0.5, Interval(0.5, 0.25, 0.75))
TOSS = Significance("accuracy", WINNER, RUNNER_UP, Interval(0.25, -0.1, 0.6), kept="matrix", p_value=0.2)
SURE = Significance(
    "accuracy", WINNER, RUNNER_UP, Interval(0.25, 0.1, 0.4), kept="rows", paired=True, p_value=0.003
)
ALONE = Significance("accuracy", WINNER, kept="rows", reason="no other trial is complete")
NONE = Significance(
    "accuracy", TrialInterval(3, 5, 0.75), TrialInterval(0, 2, 0.5), reason="epoch 5 has no stored statistics"
)


@pytest.mark.parametrize(
    ("verdict", "coin_toss"), [(TOSS, True), (SURE, False), (ALONE, None), (NONE, None)], ids=range(4)
)
def test_a_coin_toss_is_a_difference_that_may_be_0(verdict, coin_toss):
    """By its p-value; without a difference nothing is said."""
    assert verdict.coin_toss is coin_toss


def test_a_verdict_of_an_earlier_version_is_read():
    """Its intervals were drawn, and it has no p-value: the interval decides."""
    for verdict in (TOSS, SURE):
        content = verdict.to_json()
        content["drawn"] = content.pop("kept")
        del content["p_value"]
        read = Significance.from_json(content)
        assert read == replace(verdict, p_value=None) and read.coin_toss is verdict.coin_toss
        assert ", p" not in read.lines()[-1]


def test_words_say_what_was_compared():
    """Both trials, the difference, and whether rows are paired."""
    assert TOSS.lines() == [
        "Verdict: 95% intervals for accuracy, over the confusion matrix of each trial (unpaired)",
        "  trial 3: 0.75, 0.50 .. 1.00",
        "  trial 0: 0.50, 0.25 .. 0.75, the runner-up",
        "  difference: 0.25, -0.10 .. 0.60, p = 0.2; not statistically significant",
    ]
    placed = TOSS.lines(("a's ", "b's "))
    assert [line[:11] for line in placed[1:3]] == ["  a's trial", "  b's trial"]
    assert "over the same rows of both trials (paired)" in SURE.lines()[0]
    assert SURE.lines()[-1].endswith("p = 0.003; statistically significant")


def test_what_is_missing_has_its_reason():
    """No second trial, or nothing that could be compared."""
    assert ALONE.lines()[-1] == "  no interval for the difference; no other trial is complete"
    assert NONE.lines() == ["Verdict: no confidence interval; epoch 5 has no stored statistics"]


@pytest.mark.parametrize("verdict", [TOSS, SURE, ALONE, NONE], ids=range(4))
def test_it_reads_back(verdict):
    """Through strict JSON, which says in so many words whether it is a coin toss."""
    told = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert told["coin_toss"] is verdict.coin_toss
    assert Significance.from_json(told) == verdict


@pytest.mark.parametrize(
    "told", [{}, {"winner": {"trial": 0}}, {**TOSS.to_json(), "surprise": 1}], ids=range(3)
)
def test_what_is_no_verdict_is_refused(told):
    """A field that is missing, or that nobody knows."""
    with pytest.raises(RecordError, match="not a verdict"):
        Significance.from_json(told)


def test_it_is_about_its_picks():
    """Another level is about the same picks, another epoch is not."""
    assert TOSS.of_same_picks(SURE)
    assert not TOSS.of_same_picks(Significance("accuracy", TrialInterval(3, 4, 0.75), RUNNER_UP))
    assert not TOSS.of_same_picks(ALONE)


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.000143701, -0.02278, 0.02307, "0.000, -0.023 .. 0.023"),
        (-0.00004, -0.0123, 0.0122, "0.000, -0.012 .. 0.012"),
        (0.9749440, 0.95239, 0.98701, "0.975, 0.952 .. 0.987"),
        (83.4567, 80.123, 86.789, "83.5, 80.1 .. 86.8"),
        (1512.34, 1300.2, 1724.4, "1510, 1300 .. 1720"),
        (1.5e-12, 1.4e-12, 1.6e-12, "1.5e-12, 1.4e-12 .. 1.6e-12"),
        (0.5, 0.5, 0.5, "0.5, 0.5 .. 0.5"),
        (0.5, 0.25, math.inf, "0.5, 0.25 .. inf"),
    ],
)
def test_digits_follow_the_interval(value, low, high, text):
    """Two digits of the half width; where there is none, those of the value."""
    assert str(Interval(value, low, high)) == text
