"""Dimensions that are drawn in another form than their values: distributions, exact ways back, every host."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import optuna
import pytest
from hypothesis import given, settings, strategies as st
from sample_dimensions import CHANCE, DRAWS, FORMS, each, values
from scipy import stats

from hpometrics.backends.optuna.samplers import make_sampler
from hpometrics.exceptions import SpaceError
from hpometrics.space.dimensions import QUANTILES, Choice, Float, Int, Normal
from hpometrics.space.draws import draw_of, drawn, mutations, plain_values, value_of
from hpometrics.space.space import Space


@pytest.mark.parametrize(
    ("dimension", "distribution"),
    [
        (Normal(0.9, 0.02), stats.norm(0.9, 0.02)),
        (Normal(-3, 1.5, log=True), stats.lognorm(1.5, scale=math.exp(-3))),
    ],
)
def test_a_normal_dimension_has_its_distribution(dimension, distribution):
    """Kolmogorov and Smirnov find no difference in 3000 draws."""
    assert stats.kstest(values(dimension), distribution.cdf).pvalue > CHANCE


@pytest.mark.parametrize(
    ("dimension", "quantile"),
    [
        (Normal(0, 0.3, step=0.1), stats.norm(0, 0.3).cdf),
        (Normal(100, 20, step=8), stats.norm(100, 20).cdf),
        (Normal(3, 1, log=True, step=4), stats.lognorm(1, scale=math.exp(3)).cdf),
        (Float(0.1, 1, log=True, step=0.1), stats.loguniform(0.1, 1).cdf),
        (Int(8, 64, log=True, step=8), stats.loguniform(8, 64).cdf),
    ],
)
def test_steps_have_the_probability_of_what_is_rounded_to_them(dimension, quantile):
    """By chi squared, with rare values pooled."""
    step = dimension.step
    points = list(dimension.points())
    edges = np.array([point - step / 2 for point in points[1:]])
    shares = np.diff([0.0, *quantile(edges), 1.0])
    taken = values(dimension)
    observed = np.array([sum(math.isclose(value, point) for value in taken) for point in points])
    assert observed.sum() == DRAWS
    common = shares * DRAWS > 8
    counts = [*observed[common], observed[~common].sum()]
    expected = [*(shares[common] * DRAWS), max(shares[~common].sum() * DRAWS, 1e-9)]
    if counts[-1] == 0 and expected[-1] < 1:
        counts, expected = counts[:-1], expected[:-1]
    expected = np.array(expected) * sum(counts) / sum(expected)
    assert stats.chisquare(counts, expected).pvalue > CHANCE


def test_weights_and_powers_have_their_shares():
    """Weights of 1 to 6, and equal shares of 3, 9, 27, 81, 243 and 729."""
    taken = values(FORMS["weights"])
    counts = [sum(value == option for value in taken) for option in ("a", None, 1, 2.5)]
    assert stats.chisquare(counts, np.array([0.1, 0.2, 0.6, 0.1]) * DRAWS).pvalue > CHANCE
    taken = values(Int(3, 1000, power=3))
    counts = [taken.count(value) for value in (3, 9, 27, 81, 243, 729)]
    assert sum(counts) == DRAWS
    assert stats.chisquare(counts).pvalue > CHANCE


@each
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_way_back_is_exact(dimension, seed):
    """A value becomes a draw that becomes that value, to the last bit, also by way of JSON."""
    space = Space({"x": dimension})
    trial = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed)).ask()
    params = space.suggest(trial)
    assert space.decode(trial.params) == params
    stored = space.encode(json.loads(json.dumps(params)))
    assert repr(space.decode(stored)) == repr(params)
    assert space.encode(space.decode(stored)) == stored


@each
def test_the_ends_are_values(dimension):
    """The lowest and the highest draw, which quasi-random samplers begin with, are values with a way back."""
    plain = drawn(dimension)
    for draw in (plain.low, plain.high):
        value = value_of(dimension, draw)
        assert dimension.take(value) == value
        assert value_of(dimension, draw_of(dimension, value)) == value
    if isinstance(dimension, Normal):
        spread = 4 * dimension.deviation
        ends = [dimension.mean - spread, dimension.mean + spread]
        ends = [math.exp(end) for end in ends] if dimension.log else ends
        margin = dimension.step or 0
        assert dimension.low == pytest.approx(ends[0], rel=0.02, abs=margin + 1e-3)
        assert dimension.high == pytest.approx(ends[1], rel=0.02, abs=margin + 1e-3)


def test_tpe_finds_what_is_good_in_them():
    """After 60 trials it draws the best option and values near the best one far more often than at random."""
    space = Space(
        {"x": Normal(0, 1), "n": Int(1, 1024, power=2), "c": Choice(["a", "b", "c"], weights=[6, 3, 1])}
    )
    study = optuna.create_study(sampler=make_sampler("tpe", 1))
    late = []
    for number in range(100):
        trial = study.ask()
        params = space.suggest(trial)
        loss = (params["x"] - 1.5) ** 2 + abs(math.log2(params["n"]) - 7) + 3 * (params["c"] != "c")
        study.tell(trial, loss)
        late += [params] if number >= 60 else []
    assert sum(params["c"] == "c" for params in late) > 20
    assert sum(abs(params["x"] - 1.5) < 0.7 for params in late) > 20
    assert sum(params["n"] in (64, 128, 256) for params in late) > 20


@pytest.mark.parametrize(
    ("dimension", "points"),
    [
        (Int(1, 20, power=2), [1, 2, 4, 8, 16]),
        (Choice(["a", "b"], weights=[9, 1]), ["a", "b"]),
        (Float(0.1, 0.5, log=True, step=0.1), [0.1, 0.2, 0.3, 0.4, 0.5]),
        (Int(2, 9, log=True, step=3), [2, 5, 8]),
        (Normal(0, 0.1, step=0.2), [-0.4, -0.2, 0.0, 0.2, 0.4]),
        (Normal(0, 1, log=True, step=20), [0, 20, 40, 60]),
    ],
)
def test_a_grid_has_each_value_once(dimension, points):
    """Whatever its probability."""
    space = Space({"x": dimension})
    assert [space.decode(point)["x"] for point in space.grid()] == points


def test_a_grid_over_a_normal_dimension_needs_a_step():
    """Its values are infinite."""
    with pytest.raises(SpaceError, match=r"space\.x: is continuous; set step to enumerate it"):
        Space({"x": Normal(0, 1)}).grid()


def test_what_is_not_a_value_is_refused():
    """A start point outside, off the steps or off the powers, by the name of the param."""
    space = Space({"x": Normal(0, 1, step=0.5), "n": Int(1, 64, power=2), "c": Choice(["a"], weights=[1])})
    for params, text in (
        ({"x": 5.0}, r"space\.x: must lie within four deviations, in \[-4.0, 4.0\], got 5.0"),
        ({"x": 0.3}, r"space\.x: must be a multiple of 0.5, got 0.3"),
        ({"x": "0"}, r"space\.x: must be a number, got '0'"),
        ({"n": 48}, r"space\.n: must be 1 times a power of 2, got 48"),
        ({"c": "b"}, r"space\.c: must be one of the options .*, got 'b'"),
    ):
        with pytest.raises(SpaceError, match=text):
            space.encode(params)
    with pytest.raises(SpaceError, match=r"space\.x: must lie in \[3.2e-05, 0.999968\], got 2.0"):
        space.decode({"x": 2.0, "n": 1, "c": 0.5})


def test_conditions_and_bundles_are_by_value():
    """A param depends on a weighted label and on a power, whatever the draws are."""
    bundles = {"small": {"depth": 2}, "large": {"depth": 6}}
    space = Space(
        {
            "model": Choice(bundles, weights=[1, 3]),
            "batch": Int(8, 64, power=2, when={"model": "large"}),
            "clip": Normal(1, 0.1, when={"batch": [32, 64]}),
        }
    )
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(3))
    seen = []
    for _ in range(100):
        trial = study.ask()
        params = space.suggest(trial)
        assert ("batch" in params) == (params["depth"] == 6)
        assert ("clip" in params) == (params.get("batch", 0) >= 32)
        assert space.decode(space.encode(params)) == params == space.decode(trial.params)
        seen.append(params["depth"])
    assert 60 < seen.count(6) < 90
    assert len(Space({**space.dimensions, "clip": 1}).grid()) == 1 + 4
    with pytest.raises(SpaceError, match="'x' is a float, and conditions cannot compare floats"):
        Space({"x": Normal(0, 1), "y": Int(1, 2, when={"x": 0})})


def test_a_space_without_them_keeps_its_fingerprint():
    """Studies of earlier versions go on."""
    space = Space({"n": Int(1, 2), "c": Choice(["a"]), "x": Float(0, 1)})
    assert space.to_json() == {
        "n": {"kind": "int", "low": 1, "high": 2, "log": False, "step": 1},
        "c": {"kind": "choice", "options": ("a",)},
        "x": {"kind": "float", "low": 0.0, "high": 1.0, "log": False},
    }
    one, other = (Space({"x": Normal(0, deviation)}).fingerprint() for deviation in (1, 2))
    assert one != other


@each
def test_figures_have_the_values_on_their_axes(dimension):
    """The plain dimension has each value as it is."""
    plain = Space({"x": plain_values(dimension)})
    for value in values(dimension, count=50):
        assert plain.decode(plain.encode({"x": value}))["x"] == value


@each
def test_a_population_changes_them_within_their_values(dimension):
    """What PBT draws anew, and what it makes of a value times 1.2, are values of the dimension."""
    new = mutations(dimension)
    if isinstance(dimension, Choice):
        assert new == list(dimension.options)
        return
    for _ in range(50):
        value = new()
        assert dimension.take(value) == value
        for factor in (0.8, 1.2):
            nearest = dimension.nearest(value * factor)
            assert dimension.take(nearest) == nearest


@pytest.mark.parametrize(
    "dimension", [Int(1, 4), Int(1, 7, step=2), Int(1, 8, power=2), Float(0, 0.3, step=0.1)]
)
def test_a_population_draws_each_step_as_often_as_the_others(dimension):
    """The first and the last one too."""
    random.seed(3)
    new = mutations(dimension)
    counts = Counter(new() for _ in range(DRAWS))
    assert sorted(counts) == list(dimension.points())
    assert stats.chisquare(list(counts.values())).pvalue > CHANCE


def test_the_quantiles_are_those_of_four_deviations():
    """Cut off are 64 of a million draws; steps of a draw grow with the value."""
    assert stats.norm.ppf(QUANTILES) == pytest.approx([-4, 4], abs=0.003)
    ordered = [value_of(Normal(0, 1), quantile) for quantile in (0.1, 0.5, 0.9)]
    assert all(one < other for one, other in pairwise(ordered)) and ordered[1] == 0
