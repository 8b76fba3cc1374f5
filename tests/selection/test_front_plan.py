"""A front trained again: which trials, the front of their means, and what seeds show."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import scipy.stats

from hpometrics import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import NoFiniteValueError
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.selection.confirm_settings import ConfirmSettings
from hpometrics.selection.confirmation import ConfirmationPlan, ConfirmationRecord, FreshRun
from hpometrics.selection.front_confirmation import FrontConfirmation
from hpometrics.selection.front_plan import front_contenders, plan_front
from hpometrics.selection.rules import Constraint

GOALS = {"score": MAXIMIZE, "ms": MINIMIZE}
POINTS = [(0.9, 9.0), (0.8, 5.0), (0.79, 4.9), (0.7, 2.0), (0.5, 1.0), (0.4, 3.0)]
RUNS = {
    7: ([0.90, 0.92, 0.91], [9.0, 9.2, 8.8]),
    2: ([0.80, 0.83, 0.80], [5.0, 5.1, 5.2]),
    5: ([0.70, 0.71, 0.69], [5.9, 6.0, 6.1]),
}


def searched(points=POINTS):
    """Complete trials with these values of both objectives."""
    return [
        TrialRecord(
            number,
            {},
            TrialState.COMPLETE,
            score,
            0,
            (EpochRecord(0, {"score": score, "ms": ms}),),
            seconds=1.0,
        )
        for number, (score, ms) in enumerate(points)
    ]


def record(runs=RUNS, repeats=3, **facts):
    """The fresh runs of these trials."""
    contenders = front_contenders(searched(POINTS[: len(runs)]), GOALS, len(runs))[0]
    contenders = [one._replace(trial=trial) for one, trial in zip(contenders, runs, strict=True)]
    fresh = {
        (trial, seed): FreshRun(score, values={"score": score, "ms": ms}, seconds=2.0)
        for trial, values in runs.items()
        for seed, (score, ms) in enumerate(zip(*values, strict=True), 1)
    }
    plan = ConfirmationPlan(ConfirmSettings(max(2, len(runs)), repeats, until="spent"), tuple(contenders))
    return ConfirmationRecord("score", MAXIMIZE, [plan], fresh, **facts)


def ended(*arguments, **facts):
    """How the confirmation of a front ends."""
    end = plan_front(record(*arguments, **facts), GOALS).end
    assert end is not None
    return end


@pytest.mark.parametrize(
    ("top", "chosen"), [(2, [0, 4]), (3, [0, 2, 4]), (4, [0, 2, 3, 4]), (9, [0, 1, 2, 3, 4])]
)
def test_the_extremes_are_trained_again_then_who_is_farthest(top, chosen):
    """Each objective scaled to the front; a trial that is dominated never is."""
    contenders, others = front_contenders(searched(), GOALS, top)
    assert [one.trial for one in contenders] == chosen
    assert sorted([*chosen, *(one.trial for one in others)]) == [0, 1, 2, 3, 4]


def test_without_a_front_no_trial_is_trained_again():
    """Where all trials break a constraint, and where an objective of each is nan."""
    infeasible = [replace(one, state=TrialState.INFEASIBLE) for one in searched()]
    for records in ([], infeasible, searched([(0.9, float("nan"))])):
        assert front_contenders(records, GOALS, 3) == ([], [])


def test_the_front_is_that_of_the_means():
    """With Student's intervals over seeds; trial 5 loses to trial 2 in each objective."""
    end = ended()
    assert [member.trial for member in end.front] == [7, 2] and end.members[2].beaten_by == 2
    for member in end.members:
        for name, values in zip(GOALS, RUNS[member.trial], strict=True):
            interval = scipy.stats.t.interval(0.95, 2, np.mean(values), scipy.stats.sem(values))
            assert (member.values[name].low, member.values[name].high) == pytest.approx(interval)
            assert member.deviations[name] == pytest.approx(np.std(values, ddof=1))
    assert (end.knee, end.trainings, end.planned) == (2, 9, 9)
    assert str(end).splitlines()[0] == "Front of score and ms after 3 fresh trainings of each:"
    assert "no longer on the front: trial 2 is better in each objective" in str(end)


def test_a_member_leaves_the_front_by_what_seeds_can_tell():
    """Worse on average in both, it is behind the front; nobody beats it, as the seeds of `ms` vary."""
    end = ended({**RUNS, 5: ([0.70, 0.71, 0.69], [3.0, 9.0, 6.0])})
    member = end.member(5)
    assert not member.on_front and member.beaten_by is None
    assert "behind the front, within the noise of seeds" in str(end)


def extended(*repeats, runs=RUNS):
    """How a front ends that is first trained under so many seeds, and then under more."""
    full = record(runs)
    contenders = full.plans[0].contenders
    plans = [ConfirmationPlan(ConfirmSettings(3, count, until="spent"), contenders) for count in repeats]
    return plan_front(replace(full, plans=plans), GOALS).end


def test_an_extension_errs_at_half_the_level_and_a_further_one_decides_nothing():
    """One look at 5 %, one at 2.5 %; the verdicts after that one stand, and a line says so."""
    ahead = np.array([0.1, 0.12, 0.11, 0.1, 0.12, 0.11])
    gaps = np.array([0.005, 0.02, 0.02, 0.02, 0.02, 0.016])
    runs = {2: (list(0.5 + gaps), list(1 - ahead)), 5: ([0.5] * 6, [1.0] * 6)}
    p = [scipy.stats.ttest_1samp(gaps[:count], 0).pvalue for count in (3, 4, 5)]
    assert p[0] > 0.025 > p[1] > 0.0125 > p[2]  # of two objectives: the level and its half, shared
    assert extended(4, runs=runs).member(5).beaten_by == 2
    once = extended(3, 4, runs=runs)
    assert once.member(5).beaten_by is None and once.extended == 1
    assert str(once).splitlines()[-1] == "  extended once: about 7.5% of such verdicts may be wrong, not 5%"
    assert extended(3, 5, runs=runs).member(5).beaten_by == 2
    twice = extended(3, 4, 6, runs=runs)
    assert twice.member(5).beaten_by is None and "behind the front\n" in f"{twice}\n".replace("  \n", "\n")
    assert "extended 2 times: trainings after the first extension cannot decide" in str(twice)
    assert extended(3, 5, 6, runs=runs).member(5).beaten_by == 2
    assert extended(6, 3, runs=runs).extended == 0


def test_a_trial_that_joins_extends_the_front():
    """With as many seeds as the others have."""
    full = record()
    first, *_, last = full.plans[0].contenders
    plans = [full.plans[0]._replace(contenders=(first, last)), full.plans[0]]
    end = plan_front(replace(full, plans=plans), GOALS).end
    assert end.extended == 1 and len(end.members) == 3


def test_what_is_missing_is_trained_by_seed():
    """A trial that failed is not trained again."""
    runs = {7: ([0.9], [9.0]), 2: ([0.8, 0.8], [5.0, 5.0]), 5: ([float("nan")], [1.0])}
    following = plan_front(record(runs), GOALS)
    assert following.missing == ((7, 2), (7, 3), (2, 3)) and following.end is None


def test_failures_and_constraints_leave_with_their_reason():
    """The others have a front of their own; without one that of the search stands."""
    failing = ended({**RUNS, 7: ([0.9, 0.9, 0.9], [9.0, float("inf"), 9.0])})
    assert failing.member(7).reason == "failed at seed 2: ms is inf" and failing.front[0].trial == 2
    bound = ended(bounds=[Constraint.parse("ms <= 6")])
    assert "ms" in bound.member(7).reason and bound.knee == 2
    none = ended(bounds=[Constraint.parse("ms <= 0.5")])
    assert none.knee is None and "every trial failed or broke a constraint" in str(none)


def test_when_the_time_is_up_the_seeds_that_all_have_count():
    """Fewer than three say nothing."""
    full = record()
    fresh = {key: run for key, run in full.runs.items() if key != (5, 3)}
    late = replace(full, runs=fresh, timed_out=True)
    end = plan_front(late, GOALS).end
    assert end.reason == "the time is up" and end.knee is None
    assert end.members[0].reason == "needs 3 trainings to show how seeds vary, got 2"
    assert str(end).endswith(": the time is up; the search's front is unconfirmed")
    plans = [ConfirmationPlan(ConfirmSettings(3, 4, until="spent"), full.plans[0].contenders)]
    later = plan_front(replace(full, plans=plans, timed_out=True), GOALS).end
    assert later.trainings == 9 and [member.trial for member in later.front] == [7, 2]


def test_who_joins_too_late_leaves_the_front_of_the_others():
    """An extension that ends before its third seed takes nothing back."""
    full = record()
    *earlier, last = full.plans[0].contenders
    plans = [full.plans[0]._replace(contenders=tuple(earlier)), full.plans[0]]
    fresh = {key: run for key, run in full.runs.items() if key not in ((last.trial, 2), (last.trial, 3))}
    late = replace(full, plans=plans, runs=fresh, timed_out=True)
    end = plan_front(late, GOALS).end
    assert (end.knee, [member.trial for member in end.front], end.trainings) == (2, [7, 2], 7)
    assert end.member(last.trial).reason == "needs 3 trainings to show how seeds vary, got 1"
    assert end.reason == "the time is up" and "every trial" not in str(end)
    failed = {key: FreshRun(None) if key[0] != last.trial else run for key, run in fresh.items()}
    none = plan_front(replace(late, runs=failed), GOALS).end
    assert none.knee is None and none.member(last.trial).reason.endswith("got 1")


def test_training_that_does_not_depend_on_its_seed_is_told():
    """More of it would change nothing."""
    end = ended({trial: ([score[0]] * 3, [ms[0]] * 3) for trial, (score, ms) in RUNS.items()})
    assert not end.seeds_matter and "does not depend on its seed" in str(end)


def test_a_front_of_one_trial_has_nobody_beside_it():
    """As after a search in which one trial dominates."""
    with pytest.raises(NoFiniteValueError, match="a front of at least two trials, got 1 trial"):
        plan_front(record({7: RUNS[7]}), GOALS)


def test_it_reads_back():
    """Through strict JSON."""
    for end in (ended(), ended(bounds=[Constraint.parse("ms <= 0.5")])):
        content = json.loads(json.dumps(asdict(end), allow_nan=False))
        assert FrontConfirmation.from_json(content) == end
        del content["extended"]  # as earlier versions wrote it
        assert FrontConfirmation.from_json(content) == end


def test_equal_members_rarely_beat_each_other():
    """Of fronts of two equal trials under 5 seeds at most 5 % lose one."""
    random, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        values = random.normal(size=(2, 2, 5))
        end = ended({7: tuple(values[0].tolist()), 2: tuple(values[1].tolist())}, repeats=5)
        wrong += any(member.beaten_by is not None for member in end.members)
    assert wrong <= 0.05 * 400
