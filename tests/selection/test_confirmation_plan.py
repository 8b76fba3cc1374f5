"""What a confirmation trains next and how it ends: races by hand, extensions, failures, and their laws."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hpometrics import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, NoFiniteValueError
from hpometrics.selection.confirm_settings import ConfirmSettings, looks
from hpometrics.selection.confirmation import (
    Confirmation,
    ConfirmationPlan,
    ConfirmationRecord,
    ConfirmationState,
    Contender,
    FreshRun,
)
from hpometrics.selection.confirmation_plan import _LEVELS, plan_for
from hpometrics.selection.rules import Constraint
from hpometrics.selection.two_way import TwoWay
from hpometrics.space.draws import derive_seed

RACE = {
    4: [0.90, 0.91, 0.905, 0.915, 0.90],
    9: [0.88, 0.885, 0.882, 0.89, 0.88],
    2: [0.895, 0.9, 0.906, 0.899, 0.896],
}


def runs_of(values):
    """Fresh runs by trial and number of the seed."""
    return {
        (trial, number): each if isinstance(each, FreshRun) else FreshRun(each)
        for trial, ours in values.items()
        for number, each in enumerate(ours, 1)
    }


def race(values=RACE, *, direction=MAXIMIZE, plans=None, **facts):
    """A record of these values; the contenders in their order."""
    contenders = [Contender(trial, 0.9 - 0.01 * place) for place, trial in enumerate(values)]
    plans = plans or [ConfirmSettings(top=len(values), repeats=5)]
    whole = [ConfirmationPlan(each, tuple(contenders[: each.top])) for each in plans]
    return ConfirmationRecord("accuracy", direction, whole, runs_of(values), **facts)


def ended(*arguments, **facts):
    """How a race ends; all of its runs are there."""
    end = plan_for(race(*arguments, **facts)).end
    assert end is not None
    return end


def test_a_race_ends_in_a_practical_tie():
    """Trial 9 leaves at the first look; at the second one trial 2 can be better by less than luck."""
    end = ended()
    first, second = end.looks
    assert (first.seeds, first.leader, first.left) == (3, 4, (9,))
    nine, two = first.pairs
    assert (nine.difference, nine.half) == pytest.approx((0.0226666666667, 0.00963351802546), rel=1e-10)
    assert nine.p_value == pytest.approx(0.00408384296217, rel=1e-8)
    assert (two.difference, two.half) == pytest.approx((0.00466666666667, 0.0210828252985), rel=1e-10)
    assert two.p_value == pytest.approx(0.279917700177, rel=1e-8)
    assert (first.may_lose, first.equivalence) == pytest.approx(
        (0.00957641184003, 0.00432468979689), rel=1e-10
    )
    (two,) = second.pairs
    assert (two.difference, two.half) == pytest.approx((0.0075, 0.0158509197027), rel=1e-10)
    assert (second.may_lose, second.equivalence) == pytest.approx(
        (0.00436672822784, 0.00532519518025), rel=1e-10
    )
    assert (end.state, end.winner, end.trainings, end.planned) == (ConfirmationState.TIED, 4, 11, 15)
    assert [(one.trial, one.seeds, one.left_at) for one in end.standings] == [
        (4, 4, None),
        (2, 4, None),
        (9, 3, 3),
    ]


def test_without_equivalence_it_spends_all_seeds():
    """Trial 2 stays to the end: 3 x 3 + 2 x 2 trainings."""
    end = ended(plans=[ConfirmSettings(3, 5, equivalence=0)])
    (two,) = end.looks[-1].pairs
    assert (two.difference, two.half) == pytest.approx((0.0068, 0.0105067262685), rel=1e-10)
    assert two.p_value == pytest.approx(0.0781178782343, rel=1e-8)
    assert end.may_lose == pytest.approx(0.0014302731322, rel=1e-8)
    assert (end.state, end.trainings) == (ConfirmationState.SPENT, 13)


def test_a_clear_winner_is_decided_at_the_first_look():
    """Then nobody is left, so nothing may be lost."""
    end = ended({1: [0.9, 0.91, 0.9], 0: [0.5, 0.51, 0.505]}, plans=[ConfirmSettings(2, 6)])
    assert (end.state, end.winner, end.may_lose, end.trainings) == (ConfirmationState.DECIDED, 1, 0.0, 6)


def test_nothing_to_lose_is_not_a_decision():
    """Between the level of an equivalence, one-sided, and that of a decision; a line says so."""
    end = ended({1: [0.91, 0.915, 0.905], 0: [0.9, 0.9, 0.9]}, plans=[ConfirmSettings(2, 3, equivalence=0)])
    assert (end.state, end.may_lose) == (ConfirmationState.SPENT, 0.0)
    said = "  no other contender is better (95%), but not all are shown to be worse; still in: 0"
    assert end.lines()[2] == said
    other, winner = end.standings[1], end.standing
    assert (winner.difference, winner.p_value) == (None, None)
    assert other.difference == other.pair.interval and other.difference.value == pytest.approx(0.01)
    assert other.p_value == other.pair.p_value > 0.05


def test_what_picking_adds_is_printed():
    """Without row values the mean is not corrected, and its line says what that means."""
    line = ended().lines()[1]
    assert line.startswith(
        "  0.907 accuracy ^, the mean of 4 fresh trainings on these validation rows (95%: "
    )
    assert line.endswith(
        "; the search had measured 0.900; picking on these rows makes it look better than it is"
    )


def test_the_interval_of_a_decision_has_its_level():
    """It is that of the look, of which there may be three."""
    end = ended({1: [0.9, 0.91, 0.9], 0: [0.5, 0.51, 0.506]}, plans=[ConfirmSettings(2, 6)])
    assert ", by " in end.lines()[2] and " (97.8%: 0.38" in end.lines()[2]


def test_a_loss_is_the_mirror_image():
    """The same race with all signs turned."""
    mirrored = {trial: [-value for value in values] for trial, values in RACE.items()}
    end, mirror = ended(), ended(mirrored, direction=MINIMIZE)
    assert (mirror.state, mirror.winner, mirror.may_lose) == (
        end.state,
        end.winner,
        pytest.approx(end.may_lose),
    )


def test_looks():
    """At a half, three quarters and all, each after at least three."""
    expected = {
        3: (3,),
        4: (3, 4),
        5: (3, 4, 5),
        6: (3, 5, 6),
        8: (4, 6, 8),
        10: (5, 8, 10),
        20: (10, 15, 20),
    }
    assert {repeats: looks(repeats) for repeats in expected} == expected
    assert ConfirmSettings(repeats=8, until="spent").looks() == (8,)


def test_levels_of_looks():
    """The levels of one, two and three looks that together err in 5 and in 10 %."""
    assert (_LEVELS[0.05], _LEVELS[0.10]) == ((0.05, 0.0294, 0.0220), (0.10, 0.0608, 0.0464))
    assert (_LEVELS[0.025], _LEVELS[0.01]) == ((0.025, 0.0145, 0.0103), (0.01, 0.0055, 0.0039))


def test_seeds_are_shared_by_all_contenders():
    """They are a function of the search's seed and their number alone."""
    seeds = [derive_seed(7, number, 0, "confirm") for number in (1, 2, 3, 4)]
    assert seeds == [1318859743, 2507525690, 1908064398, 2407212569]


def test_luck_is_0_95_deviations_of_a_seed():
    """Two trials whose seeds deviate by 0.004."""
    spread = [-0.004, 0.0, 0.004]
    end = ended(
        {0: [0.9 + one for one in spread], 1: [0.9 - one for one in spread]}, plans=[ConfirmSettings(2, 3)]
    )
    assert end.equivalence == pytest.approx(0.00381549020964, rel=1e-9)


def test_missing_runs_are_asked_for_look_by_look():
    """First a block of three seeds for each, then only what the contenders that are left need."""
    empty = race({trial: [] for trial in RACE})
    assert plan_for(empty).missing == tuple((trial, seed) for seed in (1, 2, 3) for trial in RACE)
    block = race({trial: values[:3] for trial, values in RACE.items()})
    assert plan_for(block).missing == ((4, 4), (2, 4))


def test_a_failed_run_takes_its_contender_out():
    """Its further seeds are not asked for; the others go on."""
    values = {**RACE, 2: [0.895, FreshRun(None, reason="OverflowError")]}
    end = ended(values)
    assert (end.state, end.winner) == (ConfirmationState.DECIDED, 4)
    assert next(one.reason for one in end.standings if one.trial == 2) == "failed at seed 2: OverflowError"
    assert end.looks[0].failed == {2: "failed at seed 2: OverflowError"}
    assert "  trial 2 left: failed at seed 2: OverflowError" in end.lines()


def test_contenders_with_other_rows_are_not_paired():
    """Each adds its own variance, and the last block says so."""
    random = np.random.default_rng(0)
    tables = {trial: random.random((3, 1, 50)) < 0.8 - 0.1 * trial for trial in (0, 1)}

    def named(*names):
        runs = {
            trial: [FreshRun(float(rows.mean()), rows * 1.0, 0, name) for rows in tables[trial]]
            for trial, name in zip(tables, names, strict=True)
        }
        return ended(runs, plans=[ConfirmSettings(2, 3, equivalence=0)])

    paired, apart = named("a", "a"), named("a", "b")
    (one,), (other,) = paired.looks[0].pairs, apart.looks[0].pairs
    assert (one.paired, other.paired) == (True, False) and one.difference == pytest.approx(other.difference)
    line = "  trial 1 had other validation rows, or another order, so rows are not paired"
    assert line in apart.lines() and line not in paired.lines()


LEADER_FAILS = {0: [0.940, 0.950, 0.930, 0.960, math.nan], 1: [0.938, 0.952, 0.928, 0.958, 0.94, 0.95]}


def test_who_left_under_another_leader_comes_back():
    """Trial 2 is worse than trial 0, which fails, but not than trial 1: its missing seeds are trained."""
    plans = [ConfirmSettings(3, 8, equivalence=0)]
    record = race({**LEADER_FAILS, 2: [0.935, 0.947, 0.926, 0.957]}, plans=plans)
    assert plan_for(record).missing == ((2, 5), (2, 6))
    end = plan_for(replace(record, timed_out=True)).end
    (pair,) = end.looks[-1].pairs
    assert (end.state, end.winner, pair.leader, pair.trial) == ("spent", 1, 1, 2)
    assert pair.difference == pytest.approx(0.00275) and not pair.separated
    end = ended({**LEADER_FAILS, 2: [0.935, 0.947, 0.926, 0.957, 0.938, 0.946]}, plans=plans)
    assert [(look.seeds, look.leader) for look in end.looks] == [(4, 0), (6, 1)]
    assert (end.state, end.winner, end.standings[1].pair.leader) == ("decided", 1, 1)


def test_a_decision_quotes_the_winner_alone():
    """Trial 2 left under trial 0, which failed, and is worse than trial 1 too: over the seeds of both."""
    end = ended(
        {**LEADER_FAILS, 2: [0.92, 0.932, 0.911, 0.941]}, plans=[ConfirmSettings(3, 8, equivalence=0)]
    )
    two = next(one for one in end.standings if one.trial == 2)
    assert (end.state, end.winner, two.left_at, two.reason) == ("decided", 1, 4, "worse than trial 1")
    assert (two.pair.leader, two.pair.level) == (1, 0.022)
    assert two.pair.difference == pytest.approx(0.018)
    by = "  better than the other contender under the same seeds; than trial 2, the nearest, by 0.0180"
    assert f"{by} (97.8%: " in str(end)


def test_those_that_left_are_back_when_all_others_fail():
    """A contender that was worse than the failed ones is still one."""
    values = {0: [0.94, 0.95, 0.93, 0.96, math.nan], 1: [0.938, 0.952, 0.928, 0.958, math.nan]}
    end = ended(
        {**values, 2: [0.8, 0.81, 0.79, 0.82, 0.8, 0.8]}, plans=[ConfirmSettings(3, 8, equivalence=0)]
    )
    assert (end.state, end.winner, end.honest is None) == ("decided", 2, False)


def test_a_leader_that_failed_does_not_win_when_the_time_is_up():
    """The others are compared over the seeds that they have; only who is left alone has won."""
    rows = np.random.default_rng(0).random(50)
    plans = [ConfirmSettings(3, 8, equivalence=0)]

    def late(*values):
        runs = [
            [
                FreshRun(value + rows.mean(), (value + rows)[None], 0, "rows") if value else FreshRun(None)
                for value in ours
            ]
            for ours in values
        ]
        return ended(dict(enumerate(runs)), plans=plans, timed_out=True)

    first, second = [*LEADER_FAILS[0][:4], None], LEADER_FAILS[1][:4]
    alone = late(first, [*second, None], [0.8, 0.81, 0.79, 0.82])
    assert (alone.winner, alone.state, alone.standing.seeds) == (2, "decided", 4)
    assert "  trial 0 left: failed at seed 5: its value is None" in alone.lines() and alone.honest is not None
    close = late(first, [*second, 0.94], [0.935, 0.947, 0.926, 0.957])
    assert (close.winner, close.state) == (1, "spent")
    assert [(look.seeds, look.leader) for look in close.looks] == [(4, 0), (5, 1)]
    assert [pair.trial for pair in close.open_pairs] == [2] and "still in: 2; out: 0" in str(close)


def test_rows_that_differ_between_seeds_are_named():
    """As of a loader that shuffles: the variance of rows is left out, and the last block says so."""
    random = np.random.default_rng(0)

    def shuffled(trial, *names):
        tables = [random.random((1, 50)) < 0.8 - 0.1 * trial for _ in names]
        return [
            FreshRun(float(rows.mean()), rows * 1.0, 0, name)
            for rows, name in zip(tables, names, strict=True)
        ]

    plans = [ConfirmSettings(2, 3, equivalence=0)]
    apart = ended({trial: shuffled(trial, "a", "b", "c") for trial in (0, 1)}, plans=plans)
    same = ended({trial: shuffled(trial, "a", "a", "a") for trial in (0, 1)}, plans=plans)
    assert [end.looks[0].pairs[0].seeds_alone for end in (apart, same)] == [True, False]
    line = "  validation rows or their order differ between seeds, so only seeds are compared; if only "
    assert [any(one.startswith(line) for one in end.lines()) for end in (apart, same)] == [True, False]


def test_a_value_that_is_not_finite_is_a_failure():
    """Params whose training diverges in one of eight seeds win nothing."""
    end = ended({**RACE, 4: [0.9, math.nan]})
    assert end.winner == 2
    assert "failed at seed 2: its value is nan" in {one.reason for one in end.standings}


def test_means_keep_the_constraints():
    """One that breaks a bound in the mean of its seeds leaves as infeasible."""
    slow = [FreshRun(value, values={"ms": 12.0}) for value in RACE[4]]
    fast = [[FreshRun(value, values={"ms": 3.0}) for value in RACE[trial]] for trial in (9, 2)]
    end = ended({4: slow, 9: fast[0], 2: fast[1]}, bounds=[Constraint.parse("ms <= 10")])
    assert (end.winner, end.looks[0].failed) == (2, {4: "ms 12 > 10"})


def test_all_contenders_may_fail():
    """Then the search's own winner stands, unconfirmed."""
    end = ended({4: [None], 9: [None]}, plans=[ConfirmSettings(2, 3)])
    assert (end.state, end.winner, end.honest) == (ConfirmationState.UNCONFIRMED, 4, None)
    assert end.reason == "every contender failed or broke a constraint"


def test_an_engine_that_fixes_its_seed_stops_at_the_first_look():
    """Its seeds say nothing, so rows decide."""
    rows = np.random.default_rng(0).random(400)
    same = [FreshRun(float(rows.mean()), rows[None], 0, "a")] * 4
    worse = [FreshRun(float(rows.mean() - 0.2), rows[None] - 0.2, 0, "a")] * 4
    end = ended({0: same, 1: worse}, plans=[ConfirmSettings(2, 8)])
    assert (end.state, end.looks[0].seeds_matter, end.trainings) == (ConfirmationState.DECIDED, False, 8)
    even = [FreshRun(float(rows.mean()), rows[None][:, ::-1], 0, "a")] * 4
    end = ended({0: same, 1: even}, plans=[ConfirmSettings(2, 8)])
    assert (end.state, len(end.looks), end.looks[0].pairs[0].level) == (ConfirmationState.SPENT, 1, 0.05)


def test_rows_that_are_all_right_leave_nothing_to_correct():
    """The value is that on new rows all the same: the search kept no rows, the fresh runs did."""
    right = [FreshRun(1.0, np.ones((1, 40)), 0, "a")] * 4
    end = ended({0: right, 1: right}, plans=[ConfirmSettings(2, 8)])
    assert end.honest.bias == 0 and "expected for these params on new rows" in str(end)


def test_values_that_do_not_vary_decide_for_these_rows_alone():
    """Of equal fresh runs without row values the better one wins, and the end says what that is worth."""
    values = {0: [0.9] * 3, 1: [0.8999] * 3}
    end = ended(values, plans=[ConfirmSettings(2, 5, equivalence=0)])
    (pair,) = end.looks[0].pairs
    assert (end.state, end.trainings, pair.half, pair.p_value) == (ConfirmationState.DECIDED, 6, 0.0, 0.0)
    assert Confirmation.from_json(json.loads(json.dumps(asdict(end)))) == end
    lines = end.lines()
    assert lines[1].startswith(
        "  0.9 accuracy ^, the mean of 3 fresh trainings on these validation rows; the"
    )
    assert "by 0.0001, p < 0.001" in lines[2]
    assert "  neither seeds nor stored row values vary, so this holds only for these validation rows" in lines


def test_a_tie_goes_to_the_better_of_the_search():
    """Of equal means the earlier contender leads."""
    assert ended({7: [0.8, 0.9, 0.7], 3: [0.9, 0.7, 0.8]}, plans=[ConfirmSettings(2, 3)]).winner == 7


def test_an_extension_goes_on_with_what_is_trained():
    """Its looks are those that are not over, at half of the level; who left stays out."""
    plans = [ConfirmSettings(3, 5, equivalence=0), ConfirmSettings(3, 8, equivalence=0)]
    more = race(plans=plans)
    assert plan_for(more).missing == ((4, 6), (2, 6))
    values = {4: RACE[4] + [0.9, 0.91, 0.905], 9: RACE[9], 2: RACE[2] + [0.89, 0.9, 0.9]}
    end = ended(values, plans=plans)
    assert [look.seeds for look in end.looks] == [3, 4, 5, 6, 8]
    assert [pair.level for look in end.looks[3:] for pair in look.pairs] == [0.0145] * len(end.looks[3:])
    assert end.extended == 1


CLOSE = {
    0: [0.9, 0.92, 0.91, 0.9, 0.92, 0.91, 0.9, 0.92],
    1: [0.89, 0.925, 0.895, 0.9, 0.905, 0.912, 0.9, 0.9],
}


def test_the_advice_counts_seeds_at_the_level_of_the_extension():
    """Seeds of an extension with so many looks after the eighth: each look has that level of 2.5 %."""
    end = ended(CLOSE, plans=[ConfirmSettings(2, 8, equivalence=0)])
    (pair,) = end.looks[-1].pairs
    gaps = [first - second for first, second in zip(*CLOSE.values(), strict=True)]
    wanted, table = pair.seeds_wanted, TwoWay.of_seeds(gaps)
    ahead = [seeds for seeds in looks(wanted) if seeds > 8]
    assert wanted == max(9, table.seeds_wanted(_LEVELS[0.025][len(ahead) - 1])) > table.seeds_wanted(0.05)
    advice = f"  about {wanted} seeds would separate 0 from 1: confirm(repeats={wanted})"
    assert end.lines()[-1] == advice
    assert not any(line == advice for line in replace(end, reason="the time is up").lines())


def test_no_advice_that_cannot_decide():
    """After one extension a further one decides nothing, so that no command is printed."""
    plans = [ConfirmSettings(2, repeats, equivalence=0) for repeats in (3, 4, 5)]
    ends = [ended(CLOSE, plans=plans[:count]) for count in (1, 2, 3)]
    assert [end.extended for end in ends] == [0, 1, 2]
    assert ["confirm(" in str(end) for end in ends] == [True, False, False]
    lines = ends[1].lines()
    assert lines[-2] == "  a further extension cannot decide"
    assert lines[-1].startswith("  extended once")


def test_more_contenders_catch_up():
    """A larger top trains the new ones up to the seeds of the others."""
    plans = [ConfirmSettings(2, 3, equivalence=0), ConfirmSettings(3, 3, equivalence=0)]
    values = {trial: seeds[:3] for trial, seeds in RACE.items()}
    later = {**values, 2: []}
    assert plan_for(race(later, plans=plans)).missing == ((2, 1), (2, 2), (2, 3))
    assert ended(values, plans=plans).winner == 4


def test_an_extension_that_adds_nothing_is_none():
    """A decided winner stays so, and fewer repeats than are trained change nothing."""
    clear = {1: [0.9, 0.91, 0.9], 0: [0.5, 0.51, 0.505]}
    plans = [ConfirmSettings(2, repeats) for repeats in (6, 8, 5)]
    assert ended(clear, plans=plans) == ended(clear, plans=plans[:1])


def test_a_second_extension_decides_nothing():
    """It trains and compares, and says so."""
    plans = [ConfirmSettings(2, repeats, equivalence=0) for repeats in (3, 4, 5)]
    apart = {0: [0.9, 0.9001, 0.9002, 0.9, 0.9], 1: [0.8, 0.95, 0.8, 0.8, 0.8001]}
    end = ended(apart, plans=plans)
    assert (end.extended, end.state) == (2, ConfirmationState.SPENT)


def test_the_time_may_be_up():
    """The last look stands; before the first one nothing is confirmed."""
    block = {trial: values[:3] for trial, values in RACE.items()}
    end = plan_for(race(block, timed_out=True)).end
    assert (end.state, end.winner, end.reason, len(end.looks)) == ("spent", 4, "the time is up", 1)
    end = plan_for(race({4: [0.9], 9: []}, timed_out=True)).end
    assert (end.state, end.winner, end.may_lose) == ("unconfirmed", 4, None)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"top": 1}, "confirm.top must be a whole number of at least 2, got 1"),
        ({"repeats": 2}, "confirm.repeats must be a whole number of at least 3, got 2"),
        ({"repeats": True}, "at least 3, got True"),
        ({"equivalence": -1}, "confirm.equivalence must be luck or a number of at least 0, got -1"),
        ({"equivalence": math.nan}, "got nan"),
        ({"equivalence": True}, "at least 0, got True"),
        ({"until": "done"}, "confirm.until must be decided or spent, got 'done'"),
        ({"level": 0.2}, "confirm.level must be one of 0.01, 0.05, 0.1, got 0.2"),
    ],
)
def test_settings_are_checked(wrong, text):
    """With what was expected and what came."""
    with pytest.raises(ConfigError, match=text):
        ConfirmSettings(**wrong)


def test_one_trial_has_nobody_to_be_compared_with():
    """The message says how many there are."""
    with pytest.raises(NoFiniteValueError, match=r"at least two complete trials.*this search has 1"):
        plan_for(race({4: [0.9]}, plans=[ConfirmSettings()]))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_course_is_a_function_of_the_record(data):
    """Asked run by run, in any order within a block, it ends as if all runs had been there from the start."""
    seed = data.draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    trials, repeats = int(rng.integers(2, 5)), int(rng.integers(3, 9))
    centers = rng.normal(size=trials) * rng.choice([0, 0.5, 3])
    values = {trial: list(map(float, centers[trial] + rng.normal(size=repeats))) for trial in range(trials)}
    plans = [ConfirmSettings(trials, repeats)]
    whole = ended(values, plans=plans)
    plans, known, asked = race(values, plans=plans).plans, {}, []
    every = runs_of(values)
    for _ in itertools.count():
        following = plan_for(ConfirmationRecord("accuracy", MAXIMIZE, plans, known))
        if following.end is not None:
            break
        run = following.missing[int(rng.integers(len(following.missing)))]
        asked.append(run)
        known = {**known, run: every[run]}
    assert following.end == whole
    assert len(asked) == len(set(asked)) == whole.trainings <= whole.planned
    assert whole.winner in {one.trial for one in whole.standings if one.left_at is None}


@pytest.mark.exhaustive
@pytest.mark.parametrize("deviations", [(1.0, 1.0), (3.0, 0.5)], ids=str)
def test_two_equal_trials_are_seldom_decided(deviations):
    """Two equal ones and three far worse, 8 seeds: at most 5 % of 2,000 confirmations are decided."""
    wrong, sweeps = 0, 2000
    rng = np.random.default_rng(11)
    for _ in range(sweeps):
        values = {
            trial: list(map(float, scale * rng.normal(size=8))) for trial, scale in enumerate(deviations)
        }
        values.update({trial: list(map(float, rng.normal(size=8) - 30)) for trial in (2, 3, 4)})
        wrong += ended(values, plans=[ConfirmSettings(5, 8, equivalence=0)]).state == "decided"
    assert wrong / sweeps <= 0.05 + 0.015
