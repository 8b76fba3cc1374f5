from __future__ import annotations

import math
import random

import optuna
import pytest

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, NoFeasibleTrialError, NoFiniteValueError
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.selection.rules import At, read_pick
from hpometrics.selection.selection import Picker, best_by, front_of, knee_of, pareto_front, ranked_by

NAN, INF = math.nan, math.inf
UP_DOWN = {"auc": MAXIMIZE, "cost": MINIMIZE}


def trial(number: int, auc: float, cost: float, state: TrialState = TrialState.COMPLETE) -> TrialRecord:
    """A trial of one epoch."""
    epochs = (EpochRecord(0, {"auc": auc, "cost": cost}),)
    return TrialRecord(number, {"n": number}, state, auc, 0, epochs=epochs)


FRONT = [trial(4, 0.4, 0.0), trial(2, 0.9, 8.0), trial(3, 0.8, 2.0)]
DOMINATED = [trial(0, 0.7, 2.0), trial(1, 0.8, 9.0)]


@pytest.mark.filterwarnings("ignore:The value nan is not acceptable")
@pytest.mark.parametrize(("seed", "count"), [(0, 2), (1, 2), (2, 3), (3, 4)])
def test_the_front_is_that_of_optuna(seed, count):
    """On coarse values with many ties, some of them nan, in any mix of directions: the same trials."""
    draw = random.Random(seed)
    directions = [draw.choice(["minimize", "maximize"]) for _ in range(count)]
    study = optuna.create_study(directions=directions)
    points = [tuple(draw.choice([0.0, 0.25, 0.5, 1.0, NAN]) for _ in range(count)) for _ in range(120)]
    for point in points:
        study.tell(study.ask(), point)
    objectives = [MINIMIZE if direction == "minimize" else MAXIMIZE for direction in directions]
    assert sorted(front_of(points, objectives)) == [one.number for one in study.best_trials]


def test_the_front_is_sorted_by_the_first_objective_then_the_next():
    """Equal points stay, the earliest first; what is infinite is not there."""
    points = [(1.0, 5.0, 2.0), (0.0, 9.0, 9.0), (1.0, 4.0, 3.0), (1.0, 4.0, 3.0), (INF, 0.0, 0.0)]
    assert front_of(points, [MAXIMIZE, MINIMIZE, MINIMIZE]) == [2, 3, 0]
    assert front_of([], [MAXIMIZE, MINIMIZE]) == []


def test_to_dominate_is_to_be_better_in_one_and_worse_in_none():
    """Equal points do not dominate each other, nor does one that is worse somewhere."""
    ways = [MAXIMIZE, MINIMIZE, MINIMIZE]
    assert front_of([(0.5, 1.0, 2.0), (0.5, 1.0, 2.0)], ways) == [0, 1]
    assert front_of([(0.5, 1.0, 2.0), (0.6, 1.0, 3.0)], ways) == [1, 0]
    assert front_of([(0.5, 1.0, 2.0), (0.5, 0.5, 2.0)], ways) == [1]


def test_many_equal_points_are_one_rival():
    """The work is by different points: 20,000 equal ones would else be 200,000,000 comparisons."""
    assert front_of([(0.5, 1.0, 2.0)] * 20_000, [MAXIMIZE] * 3) == list(range(20_000))


def test_the_knee_by_hand():
    """Scaled to [0, 1] the front is (0, 1), (0.2, 0.25), (1, 0): the sums are 1, 0.45 and 1."""
    assert knee_of([(0.9, 8.0), (0.8, 2.0), (0.4, 0.0)], [MAXIMIZE, MINIMIZE]) == 1


@pytest.mark.parametrize(
    ("front", "place"),
    [
        ([(0.5, 1.0)], 0),
        ([(1.0, 1.0), (0.0, 0.0)], 0),  # two extremes are as far from the line as each other
        ([(1.0, 1.0), (0.5, 0.75), (0.0, 0.0)], 0),  # it bulges the other way
        ([(0.5, 1.0), (0.5, 1.0)], 0),
        ([(1e308, 1e308), (-1e308, -1e308), (9e307, -9e307)], 2),
    ],
)
def test_the_knee_at_the_edges(front, place):
    """One point, two, a hollow front, equal points, and spans that no float holds."""
    assert knee_of(front, [MAXIMIZE, MINIMIZE]) == place


def test_scale_and_unit_do_not_move_the_knee():
    """The same front in other units has the same knee."""
    front = [(1.0, 8.0), (0.75, 2.0), (0.5, 1.0), (0.0, 0.0)]
    scaled = [(1024 * auc, cost / 1024 + 3) for auc, cost in front]
    assert knee_of(front, [MAXIMIZE, MINIMIZE]) == knee_of(scaled, [MAXIMIZE, MINIMIZE]) == 1


def test_several_objectives_are_picked_from_the_front():
    """The knee, or a trial by its number; all values are those of that trial."""
    records = [*DOMINATED, *FRONT]
    assert [record.number for record in pareto_front(records, UP_DOWN)] == [2, 3, 4]
    best = best_by(records, UP_DOWN, "knee")
    assert (best.trial, best.value, best.scores, best.optimized) == (3, 0.8, (0.8, 2.0), UP_DOWN)
    assert best_by(records, UP_DOWN, 4).scores == (0.4, 0.0)


@pytest.mark.parametrize(
    ("pick", "said"),
    [
        ("best", "auc and cost have no single best trial"),
        (1, "trial 1 is not on the front"),
        (True, "with several objectives, pick must be knee or a trial of the front, got True"),
        ("one_se", "with several objectives, pick must be knee or a trial"),
    ],
)
def test_what_picks_no_trial_of_the_front_lists_it(pick, said):
    """The error names each trial of the front with its values, and the ways to pick."""
    listed = r"2 \(auc 0.9, cost 8\), 3 \(auc 0.8, cost 2\), 4 \(auc 0.4, cost 0\)$"
    with pytest.raises(ConfigError, match=f"{said}.*; set knee, or the number of one of these: {listed}"):
        best_by([*DOMINATED, *FRONT], UP_DOWN, pick)


def test_of_a_long_front_ten_are_listed():
    """And the others are counted."""
    front = [trial(number, number / 16, float(number)) for number in range(12)]
    with pytest.raises(ConfigError, match=r", 2 \(auc 0.125, cost 2\) and 2 more$"):
        best_by(front, UP_DOWN, "best")


@pytest.mark.parametrize("pick", ["knee", 3])
def test_one_objective_has_no_front_to_pick_from(pick):
    """The error says so."""
    with pytest.raises(ConfigError, match="knee and the number of a trial need several objectives"):
        best_by(FRONT, {"auc": MAXIMIZE}, pick)


def test_what_is_not_feasible_or_not_complete_is_not_on_the_front():
    """However good; with nothing else there is no best, as with one objective."""
    great = trial(5, 1.0, 0.0, TrialState.INFEASIBLE)
    assert [record.number for record in pareto_front([great, *FRONT], UP_DOWN)] == [2, 3, 4]
    with pytest.raises(NoFeasibleTrialError, match="trial 5 comes closest"):
        best_by([great], UP_DOWN, "knee")
    with pytest.raises(NoFiniteValueError, match="no trial is complete"):
        best_by([trial(0, 1.0, 0.0, TrialState.FAILED)], UP_DOWN, "knee")
    with pytest.raises(NoFiniteValueError, match="finite values of all of auc, cost"):
        best_by([trial(0, 1.0, NAN)], UP_DOWN, "knee")


def test_the_ranking_begins_with_the_front():
    """Then the others by the first objective, then what is not complete."""
    records = [*DOMINATED, *FRONT, trial(5, 1.0, 0.0, TrialState.PRUNED)]
    assert [record.number for record in ranked_by(records, UP_DOWN)] == [2, 3, 4, 1, 0, 5]


def test_a_pick_reads_as_it_is_written():
    """A number is that of a trial; another word is refused."""
    assert [read_pick(text) for text in ("knee", "best", "one_se", "12")] == ["knee", "best", "one_se", 12]
    for text in ("kneee", "-1", "1.5", "²", ""):
        with pytest.raises(
            ConfigError, match="best, one_se, cheapest_within_se, knee or the number of a trial"
        ):
            read_pick(text)


@pytest.mark.parametrize(
    ("epochs", "at", "index"),
    [
        ([(0.5, 3.0), (0.75, 9.0), (0.75, 4.0), (0.75, 4.0)], At.BEST, 2),
        ([(0.5, 3.0), (0.75, NAN)], At.BEST, 0),
        ([(0.75, 3.0), (0.5, 9.0)], At.LAST, 1),
    ],
)
def test_an_epoch_is_picked_by_the_first_objective_then_by_the_next(epochs, at, index):
    """One that lacks a value does not count; `last` is the last."""
    picker = Picker(MAXIMIZE, at, others=[MINIMIZE])
    for auc, cost in epochs:
        picker.add(auc, rest=[cost])
    assert picker.index == index


def test_the_last_epoch_without_a_value_is_nan():
    """Its other values are not mixed with those of an epoch before it."""
    picker = Picker(MAXIMIZE, At.LAST, others=[MINIMIZE])
    picker.add(0.5, rest=[1.0])
    picker.add(0.75, rest=[NAN])
    assert math.isnan(picker.value)
