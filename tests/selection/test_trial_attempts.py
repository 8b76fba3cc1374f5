from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hpometrics.direction import MAXIMIZE
from hpometrics.exceptions import RecordError, RunError
from hpometrics.records.trial_record import EpochRecord, Exploit, TrialRecord, TrialState
from hpometrics.selection.rules import At, Constraint, CostUnit
from hpometrics.selection.trial_attempts import Faults, TrialAttempts, repicked


def run(
    value: float, state: TrialState = TrialState.COMPLETE, ece: float = 0.0, seed: int = 1
) -> TrialRecord:
    """A run of two seconds and two epochs, the second one picked."""
    epochs = (EpochRecord(0, {"auc": 0.1, "ece": 0.9}), EpochRecord(1, {"auc": value, "ece": ece}))
    reason = None if state is TrialState.COMPLETE else "ValueError: no"
    return TrialRecord(7, {"lr": 0.1}, state, value, 1, epochs, reason, seed=seed, seconds=2.0)


def failed(seed: int = 1) -> TrialRecord:
    """A run that failed."""
    return run(0.5, TrialState.FAILED, seed=seed)


def after(course: TrialAttempts, *runs: TrialRecord) -> TrialRecord:
    """What a trial is after its runs; each but the last is followed by another."""
    trial: TrialRecord | None = None
    for place, one in enumerate(runs):
        assert place == 0 or (trial is not None and trial.state is TrialState.RUNNING)
        trial = course.after(trial, one)
    assert trial is not None
    return trial


def test_the_only_run_of_a_trial_is_its_record():
    """Nothing is added where there is one run without a failure."""
    for one in (run(0.5), failed(), run(0.5, TrialState.PRUNED), run(0.5, TrialState.INFEASIBLE)):
        assert after(TrialAttempts(), one) == one


def test_a_trial_with_repeats_is_their_mean():
    """0.5, 0.75 and 1.0: mean 0.75, deviation 0.25; every value of the picked epochs is a mean too."""
    trial = after(
        TrialAttempts(3), run(0.5, ece=0.1, seed=1), run(0.75, ece=0.2, seed=2), run(1.0, ece=0.6, seed=3)
    )
    assert (trial.state, trial.value, trial.deviation, trial.seconds) == (
        TrialState.COMPLETE,
        0.75,
        0.25,
        6.0,
    )
    assert [(repeat.seed, repeat.value) for repeat in trial.repeats] == [(1, 0.5), (2, 0.75), (3, 1.0)]
    assert trial.picked_values == {"auc": 0.75, "ece": pytest.approx(0.3)}
    assert trial.epochs[1].values == {"auc": 0.5, "ece": 0.1}


def test_a_failed_repeat_fails_the_trial():
    """There is no mean over those that are left, and the reason says which repeat it was."""
    trial = after(TrialAttempts(3), run(0.5), failed(seed=9))
    assert (trial.state, trial.value) == (TrialState.FAILED, None)
    assert trial.reason == "repeat 1 (seed 9): ValueError: no"
    assert trial.seconds == 4.0


def test_a_failed_run_is_tried_again_as_often_as_it_may():
    """Twice, then the trial has failed; the reasons of the earlier runs stay."""
    trial = after(TrialAttempts(retries=2), failed(), failed(), failed())
    assert (trial.state, trial.reason) == (TrialState.FAILED, "ValueError: no")
    assert trial.failed_attempts == ("ValueError: no", "ValueError: no")
    trial = after(TrialAttempts(retries=2), failed(), run(0.5))
    assert (trial.state, trial.value, trial.reason) == (TrialState.COMPLETE, 0.5, None)
    assert (trial.failed_attempts, trial.seconds) == (("ValueError: no",), 4.0)


def test_retries_are_of_the_trial_and_repeats_that_ended_stand():
    """One retry for three repeats: the second one takes it, the third has none left."""
    course = TrialAttempts(3, retries=1)
    trial = after(course, run(0.5), failed(), run(0.75), failed())
    assert trial.state is TrialState.FAILED
    assert [repeat.value for repeat in trial.repeats] == [0.5, 0.75]
    assert after(course, run(0.5), failed(), run(0.75), run(1.0)).value == 0.75


@pytest.mark.parametrize("state", [TrialState.PRUNED, TrialState.INTERRUPTED])
def test_a_run_that_was_stopped_ends_the_trial(state):
    """By the pruner or by Ctrl-C; neither is a failure to be tried again."""
    trial = after(TrialAttempts(3, retries=1), run(0.5, state))
    assert (trial.state, trial.repeats, trial.failed_attempts) == (state, (), ())
    later = after(TrialAttempts(3, retries=1), run(0.5), run(0.5, TrialState.INTERRUPTED))
    assert (later.state, len(later.repeats)) == (TrialState.INTERRUPTED, 1)


def test_constraints_bound_the_means():
    """0.04 and 0.10 have the mean 0.07, which breaks a bound that the first repeat alone would keep."""
    course = TrialAttempts(2, bounds=[Constraint.parse("ece <= 0.05")])
    trial = after(course, run(0.5, ece=0.04), run(0.75, ece=0.10))
    assert (trial.state, trial.reason) == (TrialState.INFEASIBLE, "ece 0.07 > 0.05")
    kept = after(course, run(0.5, TrialState.INFEASIBLE, ece=0.08), run(0.75, ece=0.01))
    assert (kept.state, kept.reason) == (TrialState.COMPLETE, None)


def test_a_value_that_one_repeat_lacks_is_undefined():
    """A nan in one of them is nan, never the mean of the others; a constraint on it is broken."""
    course = TrialAttempts(2, bounds=[Constraint.parse("ece <= 0.05")])
    trial = after(course, run(0.5, ece=0.01), run(0.75, ece=math.nan))
    assert math.isnan(trial.picked_values["ece"])
    assert trial.state is TrialState.INFEASIBLE


def test_a_record_with_repeats_reads_back():
    """From strict JSON, nan included."""
    trial = after(TrialAttempts(2, retries=1), failed(), run(0.5), run(0.75, ece=math.nan))
    again = TrialRecord.from_json(trial.to_json(), trial.epochs)
    assert again.to_json() == trial.to_json()
    assert (again.deviation, again.failed_attempts) == (trial.deviation, trial.failed_attempts)
    assert math.isnan(again.repeats[1].values["ece"])


@pytest.mark.parametrize(
    "repeat",
    [3, {}, {"values": [1]}, {"value": "0.5"}, {"epoch": 1.5}, {"seed": -1}, {"values": {"auc": "high"}}],
)
def test_a_repeat_that_is_none_is_refused(repeat):
    """A damaged record is named, and nothing of it is taken."""
    told = after(TrialAttempts(2), run(0.5), run(0.75)).to_json()
    part = {**told["repeats"][0], **repeat} if isinstance(repeat, dict) and repeat else repeat
    with pytest.raises(RecordError, match="not a trial record"):
        TrialRecord.from_json({**told, "repeats": [part]})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"repeats": 0}, "repeats must be a whole number of at least 1, got 0"),
        ({"retries": -1}, "retries must be a whole number of at least 0, got -1"),
        ({"repeats": True}, "repeats must be a whole number of at least 1, got True"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(facts, message):
    """With what was wanted and what came."""
    with pytest.raises(RunError, match=message):
        TrialAttempts(**facts)


def faulty(number, fault):
    """A trial that failed before its first epoch."""
    return TrialRecord(number, {}, TrialState.FAILED, fault=fault)


def test_faults_are_alike_where_the_first_two_trials_have_the_same():
    """In any order, whatever later trials do; not if one trained, nor of trials that are not the first."""
    same = [faulty(0, "KeyError at a.py:3"), faulty(1, "KeyError at a.py:3")]
    trained = TrialRecord(2, {}, TrialState.RUNNING, epochs=(EpochRecord(0, {"loss": 0.5}),))
    for trials, alike in (
        (same, True),
        (same[::-1], True),
        ([*same, faulty(2, None)], True),
        ([*same, trained], False),
        ([same[0], faulty(1, "KeyError at a.py:4")], False),
        ([faulty(0, None), faulty(1, None)], False),
        ([same[0], replace(same[1], number=2)], False),
    ):
        faults = Faults()
        for trial in trials:
            faults.add(trial)
        assert faults.alike is alike, trials


def test_epochs_that_a_retry_takes_over_cost_once():
    """The run that failed has logged 2 and 3; the retry goes on after the first epoch, and logs 4."""
    epochs = [
        EpochRecord(n, {"dollars": d}, seconds=d, attempt=a) for n, d, a in ((0, 2, 1), (1, 3, 1), (1, 4, 2))
    ]
    broken = replace(failed(), epochs=tuple(epochs[:2]))
    course = TrialAttempts(retries=1, unit=CostUnit.parse({"logged": "dollars"}))
    assert after(course, broken, replace(run(0.5), epochs=(epochs[0], epochs[2]))).cost == 9
    assert after(TrialAttempts(), run(0.5)).cost is None


def test_another_picked_epoch_has_the_params_that_were_in_force_there():
    """Of a member of a population, whose params changed at epoch 2; of any other trial they stay."""
    values = [(0.5, 0.9), (0.6, 0.8), (0.7, 0.7), (0.9, 0.6)]
    epochs = tuple(EpochRecord(place, {"auc": auc, "f1": f1}) for place, (auc, f1) in enumerate(values))
    member = TrialRecord(
        0,
        {"lr": 0.2},
        TrialState.COMPLETE,
        0.9,
        3,
        epochs,
        first_params={"lr": 0.1},
        exploits=(Exploit(2, 1, {"lr": 0.2}),),
    )
    by_f1 = repicked(member, {"f1": MAXIMIZE}, At.BEST, ())
    assert (by_f1.epoch, by_f1.value, by_f1.params) == (0, 0.9, {"lr": 0.1})
    assert repicked(member, {"f1": MAXIMIZE}, At.LAST, ()).params == {"lr": 0.2}
    alone = replace(member, first_params=None, exploits=())
    assert repicked(alone, {"f1": MAXIMIZE}, At.BEST, ()).params == {"lr": 0.2}
