"""Constraints: read, kept, broken, and what they do to the pick of an epoch and of a trial."""

from __future__ import annotations

import math

import pytest

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConstraintError, NoFeasibleTrialError, NoFiniteValueError
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.selection.rules import At, Constraint, violation_of
from hpometrics.selection.selection import Picker, pick_trial, ranked
from hpometrics.selection.trial_attempts import apply_constraints

ECE = Constraint("ece", "<=", 0.05)
FAST = Constraint("speed", ">=", 100.0)


@pytest.mark.parametrize(
    ("text", "name", "sign", "bound", "printed"),
    [
        ("ece <= 0.05", "ece", "<=", 0.05, "ece <= 0.05"),
        (" accuracy>=.9 ", "accuracy", ">=", 0.9, "accuracy >= 0.9"),
        ("params_m <= 2e1", "params_m", "<=", 20.0, "params_m <= 20"),
        ("f1(average=macro) >= -1", "f1(average=macro)", ">=", -1.0, "f1(average=macro) >= -1"),
        ("a/intent.ndcg@10 >= 0.3", "a/intent.ndcg@10", ">=", 0.3, "a/intent.ndcg@10 >= 0.3"),
    ],
)
def test_a_constraint_prints_as_it_parses(text, name, sign, bound, printed):
    """Name, sign and number; printing and reading again changes nothing."""
    read = Constraint.parse(text)
    assert (read.name, read.sign, read.bound, str(read)) == (name, sign, bound, printed)
    assert Constraint.parse(str(read)) == read


@pytest.mark.parametrize(
    "text",
    ["ece", "ece < 0.05", "<= 0.05", "0.05 >= ece", "ece <= x", "ece <= nan", "ece <= 1e999", "", 3, None],
)
def test_what_is_no_constraint_is_refused(text):
    """The message shows the form that is wanted, and what came."""
    with pytest.raises(ConstraintError, match=r"as in 'ece <= 0\.05'; got"):
        Constraint.parse(text)


@pytest.mark.parametrize(
    ("values", "excess", "told"),
    [
        ({"ece": 0.05}, 0.0, None),
        ({"ece": 0.01}, -0.04, None),
        ({"ece": 0.25}, 0.2, "ece 0.25 > 0.05"),
        ({"ece": math.nan}, math.inf, "ece has no finite value, but must be <= 0.05"),
        ({"ece": -math.inf}, math.inf, "ece has no finite value, but must be <= 0.05"),
        ({"ece": [0.1, 0.2]}, math.inf, "ece has no finite value, but must be <= 0.05"),
        ({}, math.inf, "ece has no finite value, but must be <= 0.05"),
    ],
)
def test_by_how_much_a_bound_is_exceeded(values, excess, told):
    """The bound itself keeps it; what has no value breaks it by more than anything."""
    assert ECE.excess(values) == pytest.approx(excess)
    assert ECE.broken_by(values) == told


def test_violations_add_up_and_slack_does_not():
    """0.2 too much, and far more speed than wanted: 0.2."""
    assert violation_of((ECE, FAST), {"ece": 0.25, "speed": 1e6}) == pytest.approx(0.2)
    assert violation_of((ECE, FAST), {"ece": 0.0, "speed": 90.0}) == 10.0


@pytest.mark.parametrize(
    ("epochs", "picked"),
    [
        ([(0.9, 0.3), (0.5, 0.0), (0.6, 0.0), (0.99, 0.1)], 2),  # the best of those that keep it
        (
            [(0.9, 0.3), (0.5, 0.1), (0.6, 0.1), (0.7, 0.2)],
            2,
        ),  # none does: the least violation first
        ([(0.9, math.inf), (0.5, 3.0)], 1),  # no value to bound is worse than any excess
        ([(0.2, math.inf), (0.5, math.inf)], 1),
        ([(0.9, 0.3), (math.nan, 0.0)], 0),  # nan wins nothing, whatever it keeps
    ],
)
def test_an_epoch_that_keeps_the_constraints_comes_first(epochs, picked):
    """A better value does not make up for a broken bound."""
    picker = Picker(MAXIMIZE)
    for value, exceeds in epochs:
        picker.add(value, exceeds)
    assert picker.index == picked and (picker.value, picker.violation) == epochs[picked]


def test_the_last_epoch_counts_whatever_it_breaks():
    """`at="last"` asks for nothing else."""
    picker = Picker(MAXIMIZE, At.LAST)
    assert [picker.add(0.9, 0.0), picker.add(0.1, 5.0)] == [True, True] and picker.index == 1


def trial(number: int, value: float, **values: float) -> TrialRecord:
    """A complete trial of one epoch, held against both constraints."""
    epoch = EpochRecord(0, {"loss": value, **values})
    return apply_constraints(
        TrialRecord(number, {}, TrialState.COMPLETE, value, 0, (epoch,)),
        (ECE, FAST),
    )


def test_a_complete_trial_that_breaks_one_is_infeasible():
    """With the reason of each that is broken, and how far each is from its bound."""
    record = trial(0, 0.1, ece=0.25, speed=50.0)
    assert record.state is TrialState.INFEASIBLE
    assert record.reason == "ece 0.25 > 0.05; speed 50 < 100"
    assert record.constraints == {"ece <= 0.05": pytest.approx(0.2), "speed >= 100": 50.0}
    assert trial(1, 0.1, ece=0.05, speed=100.0).state is TrialState.COMPLETE


def test_a_pruned_trial_stays_pruned():
    """Its excess is kept all the same: a sampler learns from it."""
    pruned = TrialRecord(0, {}, TrialState.PRUNED, 0.1, 0, (EpochRecord(0, {"ece": 1.0}),), "the pruner")
    found = apply_constraints(pruned, (ECE,))
    assert (found.state, found.reason) == (TrialState.PRUNED, "the pruner")
    assert found.constraints == {str(ECE): 0.95}


def test_the_best_trial_is_the_best_feasible_one():
    """The table has it first, then the infeasible by violation."""
    records = [
        trial(0, 0.1, ece=0.9, speed=200.0),
        trial(1, 0.3, ece=0.01, speed=200.0),
        trial(2, 0.2, ece=0.06, speed=200.0),
        trial(3, 0.2, ece=0.05, speed=200.0),
    ]
    assert pick_trial(records, MINIMIZE).number == 3
    assert [record.number for record in ranked(records, MINIMIZE)] == [3, 1, 2, 0]


def test_where_none_is_feasible_the_least_violating_is_named():
    """It is no best: whoever wants it changes the bound."""
    records = [trial(0, 0.1, ece=0.9, speed=200.0), trial(1, 0.3, ece=0.06, speed=200.0)]
    with pytest.raises(NoFeasibleTrialError, match=r"trial 1 comes closest \(ece 0\.06 > 0\.05\)"):
        pick_trial(records, MINIMIZE)
    assert issubclass(NoFeasibleTrialError, NoFiniteValueError)


def test_a_record_keeps_its_constraints():
    """Also the one that had no value, which strict JSON writes as null."""
    record = trial(0, 0.1, ece=0.25)
    told = record.to_json()
    assert told["constraints"] == {"ece <= 0.05": pytest.approx(0.2), "speed >= 100": None}
    assert TrialRecord.from_json(told, record.epochs) == record
