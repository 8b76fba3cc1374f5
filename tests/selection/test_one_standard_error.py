from __future__ import annotations

from dataclasses import replace

import pytest

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, NoFiniteValueError
from hpometrics.records.trial_record import Repeat, TrialRecord, TrialState
from hpometrics.selection.rules import CostUnit
from hpometrics.selection.selection import best_by, pick_trial, simplest_within_error, standard_error


def trial(
    number: int, values: list[float], epoch: int, state: TrialState = TrialState.COMPLETE
) -> TrialRecord:
    """A trial with a repeat for each value, the same epoch picked in all of them."""
    repeats = tuple(Repeat(seed, value, epoch, 9) for seed, value in enumerate(values))
    return TrialRecord(number, {}, state, sum(values) / len(values), epoch, repeats=repeats)


BEST = trial(0, [0.80, 0.84, 0.88, 0.92], epoch=8)  # mean 0.86, deviation 0.0516, error 0.0258


def picked(*others: TrialRecord) -> int:
    """The trial that the rule picks, in whatever order they come."""
    records = [*others, BEST]
    assert pick_trial(records, MAXIMIZE) is BEST
    found = {simplest_within_error(BEST, order, MAXIMIZE).number for order in (records, records[::-1])}
    assert len(found) == 1
    return found.pop()


def test_the_error_is_the_deviation_over_the_root_of_the_number():
    """sqrt((0.06^2 + 0.02^2 + 0.02^2 + 0.06^2) / 3) = 0.05164, over 2 that is 0.02582."""
    assert standard_error(BEST) == pytest.approx(0.0258199, abs=1e-7)


def test_the_simplest_within_one_error_is_picked():
    """0.835 is within 0.0258 of 0.86 and took 4 epochs in place of 9; 0.83 took 2 and is not within it."""
    assert picked(trial(1, [0.83, 0.84], epoch=3), trial(2, [0.82, 0.84], epoch=1)) == 1


def test_nothing_else_within_the_error_leaves_the_best():
    """Though the others are simpler."""
    assert picked(trial(1, [0.7, 0.7], epoch=0), trial(2, [0.86, 0.86], 0, TrialState.PRUNED)) == 0


def test_of_equally_simple_ones_it_is_the_better_then_the_earlier():
    """All within the error, all after four epochs."""
    worse, better, equal = trial(1, [0.84, 0.84], 3), trial(2, [0.85, 0.85], 3), trial(3, [0.85, 0.85], 3)
    assert picked(worse, better, equal) == 2


def test_the_simplest_is_by_the_mean_over_repeats():
    """Epochs 2 and 6 are 4 in the mean, less than 5 and 5."""
    uneven = trial(1, [0.85, 0.85], epoch=2)
    uneven = replace(uneven, repeats=(uneven.repeats[0], replace(uneven.repeats[1], epoch=6)))
    assert picked(uneven, trial(2, [0.85, 0.85], epoch=5)) == 1


def test_the_rule_knows_both_directions():
    """To minimize, what is within one error is above the best."""
    best, near, far = trial(0, [0.1, 0.2], 5), trial(1, [0.2, 0.2], 2), trial(2, [0.3, 0.3], 1)
    assert simplest_within_error(best, [best, near, far], MINIMIZE) is near


def test_one_run_has_no_error():
    """The message names the trial and what is wanted."""
    with pytest.raises(
        NoFiniteValueError, match="trial 0 was trained once, so its value has no standard error"
    ):
        best_by([trial(0, [0.5], 1)], {"auc": MAXIMIZE}, "one_se")


def test_best_by_takes_the_rule_by_name():
    """And refuses another, naming those there are."""
    records = [trial(1, [0.84, 0.85], epoch=3), BEST]
    assert best_by(records, {"auc": MAXIMIZE}).trial == 0
    best = best_by(records, {"auc": MAXIMIZE}, "one_se")
    assert (best.trial, best.repeats) == (1, 2)
    assert best.deviation == pytest.approx(0.0070711, abs=1e-7)
    with pytest.raises(ConfigError, match="pick must be one of best, one_se, cheapest_within_se, got 'knee'"):
        best_by(records, {"auc": MAXIMIZE}, "knee")


def test_the_cheapest_within_one_error_is_picked():
    """Trial 1 costs least within the error; trial 2 costs less and is not within it, trial 3 is not known."""
    costs = {0: 9.0, 1: 4.0, 2: 1.0, 3: None}
    records = [BEST, trial(1, [0.84, 0.85], 7), trial(2, [0.7, 0.7], 1), trial(3, [0.86, 0.86], 1)]
    records = [replace(one, cost=costs[one.number], seconds=9 - one.number) for one in records]
    logged = CostUnit.parse({"logged": "dollars"})
    assert best_by(records, {"auc": MAXIMIZE}, "cheapest_within_se", logged).trial == 1
    assert best_by(records, {"auc": MAXIMIZE}, "cheapest_within_se").trial == 3
