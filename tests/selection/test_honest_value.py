"""The value of a winner without the luck of picking: by hand on four rows, and where luck is all there is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hpometrics import MAXIMIZE, MINIMIZE
from hpometrics.selection.confirmation import FreshRun
from hpometrics.selection.honest_value import (
    DRAWS,
    Draws,
    Luck,
    Redraws,
    TrialDraws,
    _RunDraws,
    are_few,
    honest_value,
    with_held_out,
)
from hpometrics.selection.intervals import Scale
from hpometrics.selection.two_way import TwoWay

ROWS = np.array([[1.0, 0, 1, 1], [1, 1, 0, 1]])
WEIGHTS = np.array([[2.0, 1, 1, 0], [0, 2, 1, 1], [1, 0, 2, 1], [1, 1, 0, 2]])


def fresh(rows, picked=0, sign=1.0):
    """A run with row values, whose value is the mean of the picked epoch's."""
    rows = sign * np.asarray(rows, dtype=float)
    return FreshRun(float(rows[picked].mean()), rows, picked, "rows")


def right(rng, probability):
    """Whether each row is right in each of eight epochs."""
    return (rng.random((8, len(probability))) < probability).astype(float)


def test_four_draws_by_hand():
    """The picked epochs are 0, 1, 0, 1, their gaps -1/4, -1/4, 1, 1, the rows left out 1, 0, 0, 1."""
    run = fresh(ROWS)
    draws = Draws(WEIGHTS)
    luck = Luck({0: TrialDraws([_RunDraws.of(run.rows, draws, 1.0)])}, [0] * 4, draws)
    assert luck.trials[0].gaps.tolist() == [-0.25, -0.25, 1, 1]
    assert luck.bias == pytest.approx(0.237)
    assert luck.row_variance == pytest.approx(0.0833333333333, rel=1e-10)
    honest = honest_value(MAXIMIZE, [run], luck)
    assert (honest.mean, honest.interval.value) == pytest.approx((0.75, 0.513))
    assert honest.interval.high - honest.interval.value == pytest.approx(0.611607957368, rel=1e-10)
    scaled = honest_value(MAXIMIZE, [run], luck, scale=Scale.LOGIT).interval
    assert (scaled.low, scaled.high) == pytest.approx((0.08347248638, 0.924148722), rel=1e-9)


def test_the_test_split_needs_no_correction():
    """Its interval is that of the table of seeds and test rows; over other rows, that of seeds alone."""
    tables = np.array([[1.0, 0, 1, 1], [1, 1, 1, 0], [1, 0, 0, 1]])
    runs = [
        replace(fresh(ROWS), values={"test:score": table.mean()}, held_out=table, held_out_id="test")
        for table in tables
    ]
    honest = with_held_out(honest_value(MAXIMIZE, runs, None), runs, "test:score")
    half = TwoWay.of(tables).half_width(0.05)
    assert (honest.held_out.value, honest.held_out_rows) == (pytest.approx(tables.mean()), 4)
    assert honest.held_out.high - honest.held_out.value == pytest.approx(half)
    others = [replace(run, held_out_id=str(place)) for place, run in enumerate(runs)]
    apart = with_held_out(honest, others, "test:score")
    seeds = TwoWay.of_seeds(tables.mean(axis=1).tolist()).half_width(0.05)
    assert (apart.held_out.high - apart.held_out.value, apart.held_out_rows) == (pytest.approx(seeds), 0)
    assert with_held_out(honest_value(MAXIMIZE, runs, None), runs, "test:other").held_out is None


def test_scales():
    """A logarithm keeps the interval above 0, a logit between 0 and 1; outside of both ends are cut."""
    low, high = 0.09171282099, 0.1319335712
    assert (Scale.LOG.interval(0.11, 0.02).low, Scale.LOG.interval(0.11, 0.02).high) == pytest.approx(
        (low, high), rel=1e-9
    )
    assert Scale.LOGIT.interval(1.0, 0.1).high == 1
    assert Scale.LOG.interval(0.0, 0.1).low == 0
    assert Scale.IDENTITY.interval(0.0, 2.0).low == -2
    for scale in (Scale.LOG, Scale.LOGIT):  # of a corrected value
        below = scale.interval(-0.01, 0.05)
        assert (below.value, below.low, below.high) == (0, 0, 0.05)
    assert Scale.LOGIT.interval(1.01, 0.05).value == 1
    tiny = Scale.LOG.interval(1e-6, 0.05)  # the logarithm of whose upper end no float could hold
    assert (tiny.low, tiny.high) == (0, pytest.approx(0.05, rel=1e-3))


@pytest.mark.parametrize("direction", [MAXIMIZE, MINIMIZE])
def test_the_direction_is_a_sign(direction):
    """A loss is the mirror image of a score."""
    rng = np.random.default_rng(3)
    tables = [rng.normal(size=(4, 60)) for _ in range(6)]
    search = {number: rng.normal(size=(4, 60)) for number in range(5)}
    sign = 1.0 if direction is MAXIMIZE else -1.0

    def value(mirrored):
        factor = sign if mirrored else 1.0
        runs = {
            0: [fresh(table, sign=factor) for table in tables[:3]],
            1: [fresh(t, sign=factor) for t in tables[3:]],
        }
        rows = {number: factor * table for number, table in search.items()}
        luck = Redraws(direction if mirrored else MAXIMIZE, rows, 2).luck(runs)
        return honest_value(direction if mirrored else MAXIMIZE, runs[0], luck), luck.of_choice(0)

    (mirror, choice), (score, same) = value(True), value(False)
    assert mirror.interval.value == pytest.approx(sign * score.interval.value)
    assert (mirror.bias, choice) == pytest.approx((score.bias, same))


def test_luck_is_found_where_it_is_all_there_is():
    """30 equal trials of 8 equal epochs: the mean of fresh runs is too good, the honest value covers 0.5."""
    covered, biases, means = 0, [], []
    for world in range(60):
        rng = np.random.default_rng(world)
        probability = rng.beta(5, 5, size=200)  # a row's, the same for all trials; 0.5 in the mean
        search = {number: right(rng, probability) for number in range(30)}
        best = sorted(search, key=lambda number: -search[number].mean(axis=1).max())[:3]
        runs = {}
        for number in best:
            tables = [right(rng, probability) for _ in range(4)]
            runs[number] = [fresh(table, int(table.mean(axis=1).argmax())) for table in tables]
        winner = max(runs, key=lambda number: np.mean([run.value for run in runs[number]]))
        luck = Redraws(MAXIMIZE, search, 3).luck(runs)
        honest = honest_value(MAXIMIZE, runs[winner], luck, scale=Scale.LOGIT)
        covered += honest.interval.low <= 0.5 <= honest.interval.high
        biases.append(honest.interval.value - 0.5)
        means.append(honest.mean - 0.5)
    assert np.mean(means) > 0.03  # picking made it look better
    assert abs(np.mean(biases)) < 0.015
    assert covered >= 54


def test_without_row_values_the_seeds_are_left():
    """Nothing is corrected, and the interval is that of the mean of the seeds."""
    runs = [FreshRun(value) for value in (0.5, 0.75, 1.0)]
    assert Redraws(MAXIMIZE, None, 2).luck({0: runs}) is None
    honest = honest_value(MAXIMIZE, runs, None, limits=["seeds only"])
    assert (honest.mean, honest.bias, honest.limits) == (0.75, 0.0, ("seeds only",))
    assert honest.interval.high - 0.75 == pytest.approx(4.302652729749 * (0.0625 / 3) ** 0.5)


def test_rows_that_differ_cannot_be_drawn_together():
    """Neither of two contenders, nor of a search on other rows."""
    one, other = fresh(ROWS), FreshRun(0.75, ROWS, 0, "others")
    assert Redraws(MAXIMIZE, None, 2).luck({0: [one], 1: [other]}) is None
    elsewhere = {0: np.zeros((2, 9))}
    assert (
        Redraws(MAXIMIZE, elsewhere, 2).luck({0: [one]}).bias
        == Redraws(MAXIMIZE, None, 2).luck({0: [one]}).bias
    )


@pytest.mark.parametrize(
    ("rows", "few"),
    [
        (np.random.default_rng(0).exponential(size=80) ** 2, True),
        (np.random.default_rng(0).exponential(size=4000), False),
        (np.random.default_rng(0).normal(size=80), False),
        (np.ones(80) * 0.5, False),
    ],
    ids=["tail", "many", "normal", "equal"],
)
def test_rows_with_a_heavy_tail_must_be_many(rows, few):
    """25 for the square of their skewness."""
    assert are_few(rows.astype(float)) is few


def test_the_draws_are_the_same_each_time():
    """So that a decision is a function of the record."""
    first = Draws.of_rows(50).weights
    assert np.array_equal(first, Draws.of_rows(50).weights)
    assert first.shape == (DRAWS, 50) and set(first.sum(axis=1)) == {50.0}


def test_a_run_without_rows_has_none_of_an_epoch():
    """Asking for them is an error that says so."""
    run = FreshRun(math.nan)
    with pytest.raises(ValueError, match="stored no row values"):
        assert run.picked_rows is None
