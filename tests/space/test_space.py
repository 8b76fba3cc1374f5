from __future__ import annotations

import math

import optuna
import pytest
from hypothesis import given, settings, strategies as st

from hpometrics.exceptions import SpaceError
from hpometrics.space.dimensions import Choice, Float, Int, Normal, Value
from hpometrics.space.space import Space

SMALL, LARGE = {"depth": 2, "width": 64}, {"depth": 6, "width": 256}


def full_space() -> Space:
    """One dimension of each kind, a conditional and a bundle."""
    return Space(
        {
            "optimizer": Choice(["sgd", "adam"]),
            "lr": Float(1e-4, 1e-1, log=True),
            "momentum": Float(0.0, 0.99, when={"optimizer": "sgd"}),
            "model": Choice({"small": SMALL, "large": LARGE}),
            "heads": Int(1, 9, step=4, when={"model": ["large"]}),
            "batch": 64,
        }
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Float(True, 2), r"low must be a finite number, got True \(bool\)"),
        (lambda: Float(0, math.nan), "high must be a finite number, got nan"),
        (lambda: Float(0, math.inf), "high must be a finite number, got inf"),
        (lambda: Float(0, 10**400), "high must be a finite number, got 1000"),
        (lambda: Float(0, 1).take(10**400), "must be a number, got 1000"),
        (lambda: Normal(10**400, 1), "mean must be a finite number, got 1000"),
        (lambda: Choice(["a"], weights=[10**400]), "a weight must be above 0, got 1000"),
        (lambda: Float("1e-4", 1), r"low must be a finite number, got '1e-4' \(str\)"),
        (lambda: Float(2, 1), "low 2 must not be greater than high 1"),
        (lambda: Float(-1e308, 1e308), "too wide for a float"),
        (lambda: Float(0, 1, log=True), "log requires low above 0, got 0"),
        (lambda: Float(0.1, 1, log=1), r"log must be true or false, got 1 \(int\)"),  # type: ignore[arg-type]
        (lambda: Float(0.1, 1, log=True, step=1), "step must be positive and at most high - low = 0.9"),
        (lambda: Int(1, 9, power=1), "power must be at least 2 and low at least 1, got power 1 and low 1"),
        (lambda: Int(0, 9, power=2), "power must be at least 2 and low at least 1, got power 2 and low 0"),
        (lambda: Int(1, 9, power=2.0), r"power must be a whole number, got 2.0 \(float\)"),  # type: ignore[arg-type]
        (lambda: Int(1, 9, power=2, log=True), "power 2 defines its own steps; leave log and step out"),
        (lambda: Int(1, 9, power=2, step=2), "power 2 defines its own steps; leave log and step out"),
        (lambda: Normal(0, 0), "deviation must be above 0, got 0"),
        (lambda: Normal(math.nan, 1), "mean must be a finite number, got nan"),
        (lambda: Normal(0, True), r"deviation must be a finite number, got True \(bool\)"),
        (lambda: Normal(0, 1, step=-1), "step must be above 0, got -1"),
        (lambda: Normal(0, 1, log=1), r"log must be true or false, got 1 \(int\)"),  # type: ignore[arg-type]
        (lambda: Normal(0, 1, step=100), "mean 0 and deviation 1 with step 100 have only one value, 0"),
        (lambda: Normal(1e300, 1), "mean 1e[+]300 and deviation 1 have only one value, 1e[+]300"),
        (lambda: Normal(0, 1e308), "lead to values that no float can hold"),
        (lambda: Normal(0, 900, log=True), "lead to values that no float can hold"),
        (lambda: Choice(["a", "b"], weights=[1]), r"weights must be 2 numbers, one per option, got \[1\]"),
        (lambda: Choice(["a", "b"], weights="ab"), "weights must be 2 numbers, one per option, got 'ab'"),
        (
            lambda: Choice(["a", "b"], weights=[1, 0]),
            r"a weight must be above 0, got 0 \(int\); leave the option",
        ),
        (lambda: Choice(["a", "b"], weights=[1, math.inf]), "a weight must be above 0, got inf"),
        (lambda: Choice(["a", "b"], weights=[1e308, 1e308]), "the sum of weights must be finite"),
        (lambda: Float(0, 1, step=0), "step must be positive and at most high - low = 1, got 0"),
        (lambda: Float(0, 1, step=2), "step must be positive and at most high - low = 1, got 2"),
        (lambda: Float(0, 1, step=math.nan), "step must be a finite number, got nan"),
        (lambda: Int(1, 16.0), r"high must be a whole number, got 16.0 \(float\)"),  # type: ignore[arg-type]
        (lambda: Int(False, 3), r"low must be a whole number, got False \(bool\)"),
        (lambda: Int(0, 2**70), r"high 1180591620717411303424 is above 2\*\*53"),
        (lambda: Int(256, 16), "low 256 must not be greater than high 16"),
        (lambda: Int(0, 8, log=True), "log requires low above 0, got 0"),
        (lambda: Int(1, 8, step=9), "step must be positive"),
        (lambda: Choice([]), "at least one option"),
        (lambda: Choice("sgd"), r"needs a list of options or a mapping of bundles, got 'sgd'"),
        (lambda: Choice(["a", "a"]), "has the option 'a' twice"),
        (lambda: Choice([1, True]), "has the option True and 1, which are equal"),
        (lambda: Choice([1, 1.0]), "has the option 1.0 and 1, which are equal"),
        (lambda: Choice([[1, 2]]), r"an option must be text, a finite number.*got \[1, 2\] \(list\)"),
        (lambda: Choice([math.nan]), "an option must be text, a finite number"),
        (lambda: Choice({"a": 1}), "the bundle 'a' must be a mapping of params, got 1"),
        (lambda: Choice({1: {"x": 1}}), r"the label of a bundle must be text, got 1 \(int\)"),
        (lambda: Choice({"a": {"x": 1}, "b": {"x": 1}}), "the bundle 'b' sets the same params as another"),
        (lambda: Choice({"a": {"x": math.inf}}), "a param must be a finite number"),
        (lambda: Value(math.nan), "a param must be a finite number"),
        (lambda: Value(object()), "a param must be a finite number"),
    ],
)
def test_a_dimension_is_checked_when_it_is_made(make, text):
    """Every bad dimension is refused with the value that is wrong."""
    with pytest.raises(SpaceError, match=text):
        make()


@pytest.mark.parametrize(
    ("dimensions", "text"),
    [
        (
            {"lr": [0.1, 0.2]},
            r"space\.lr: a dimension must be Float, Int, Normal, Choice, Value or a constant, got \[0.1",
        ),
        ({"": 1}, "the name of a param must be text, got ''"),
        ({"a": Int(1, 2, when={"b": 1})}, "space.a.when: no param 'b' in the space"),
        ({"opt": Choice(["x"]), "a": Int(1, 2, when={"op": "x"})}, "did you mean 'opt'"),
        ({"opt": Choice(["x"]), "a": Int(1, 2, when={"opt": "y"})}, "'opt' can never be 'y'"),
        ({"opt": Choice([True, False]), "a": Int(1, 2, when={"opt": 1})}, "'opt' can never be 1"),
        ({"n": Int(1, 9, step=2), "a": Int(1, 2, when={"n": 2})}, "'n' can never be 2"),
        (
            {"x": Float(0, 1), "a": Int(1, 2, when={"x": 0.5})},
            "'x' is a float, and conditions cannot compare floats",
        ),
        ({"x": Choice([1]), "a": Int(1, 2, when={"x": []})}, "the list of values of 'x' is empty"),
        (
            {"x": Choice([1]), "a": Int(1, 2, when="x")},
            r"expected \{param: value or list of values\}, got 'x'",
        ),
        ({"a": Int(1, 2, when={"b": 1}), "b": Int(1, 2, when={"a": 1})}, "depend on each other in a circle"),
        ({"a": Int(1, 2, when={"a": 1})}, "in a circle"),
        (
            {"m": Choice({"s": {"lr": 1}}), "lr": 0.1},
            "its bundles set 'lr', but the space itself sets it too",
        ),
        ({"m": Choice({"s": {"x": 1}}), "n": Choice({"t": {"x": 2}})}, "'x', but the bundle 'm' sets it too"),
    ],
)
def test_a_space_is_checked_when_it_is_made(dimensions, text):
    """What only shows among the dimensions is refused under the path of the param."""
    with pytest.raises(SpaceError, match=text):
        Space(dimensions)


def test_params_have_constants_and_bundles_and_no_inactive_param():
    """A small model trained with adam has neither momentum nor heads, and no param called model."""
    params = full_space().decode({"optimizer": "adam", "lr": 0.01, "model": "small"})
    assert params == {"optimizer": "adam", "lr": 0.01, "depth": 2, "width": 64, "batch": 64}


def test_params_do_not_share_a_bundle_with_the_space():
    """A train function that changes a list among its params changes nobody else's."""
    space = Space({"model": Choice({"a": {"layers": [8, 8]}, "b": {"layers": [4]}})})
    space.decode({"model": "a"})["layers"].append(1)
    assert space.decode({"model": "a"}) == {"layers": [8, 8]}


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ({"lr": 0.01, "model": "small"}, "space.optimizer: is missing"),
        (
            {"optimizer": "adam", "lr": 1.0, "model": "small"},
            r"space.lr: must lie in \[0.0001, 0.1\], got 1.0",
        ),
        ({"optimizer": "lion"}, "space.optimizer: must be one of the options .*, got 'lion'"),
        ({"optimiser": "sgd"}, "space.optimiser: no such param; did you mean 'optimizer'"),
        (
            {"optimizer": "adam", "lr": 0.01, "model": "large", "heads": 2},
            "space.heads: must lie on a step of 4 from 1",
        ),
    ],
)
def test_decode_refuses_what_the_space_cannot_give(stored, text):
    """The error names the param and the value."""
    with pytest.raises(SpaceError, match=text):
        full_space().decode(stored)


def test_encode_takes_some_params_by_label_or_spelled_out():
    """A start point may name a bundle or its params, and leave the rest to the sampler."""
    space = full_space()
    assert space.encode({"model": "large"}) == {"model": "large"}
    assert space.encode({"width": 256, "depth": 6, "lr": 0.1}) == {"lr": 0.1, "model": "large"}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"depth": 2, "width": 256}, "space.model: no bundle sets"),
        ({"model": "small", "width": 256}, "space.model: no bundle sets"),
        ({"optimizer": "adam", "momentum": 0.5}, "space.momentum: exists only when optimizer is 'sgd'"),
        ({"batch": 32}, "space.batch: is fixed at 64"),
        ({"lr": "0.1"}, "space.lr: must be a number, got '0.1'"),
    ],
)
def test_encode_refuses_params_that_cannot_be(params, text):
    """A start point outside the space is an error, not a warning."""
    with pytest.raises(SpaceError, match=text):
        full_space().encode(params)


def test_check_wants_all_params_but_the_constants():
    """What is complete passes; a missing param is named; so is one whose own condition is not met."""
    space = full_space()
    space.check({"optimizer": "adam", "lr": 0.01, "depth": 2, "width": 64})
    with pytest.raises(SpaceError, match=r"space\.model: is missing"):
        space.check({"optimizer": "adam", "lr": 0.01})
    chain = Space(
        {"a": Choice([1, 2]), "b": Choice([1, 2], when={"a": 1}), "c": Choice([1, 2], when={"b": 1})}
    )
    with pytest.raises(SpaceError, match=r"space\.c: exists only when b is 1; set b too"):
        chain.check({"a": 2, "c": 1})
    with pytest.raises(SpaceError, match=r"space\.c: exists only when b is 1; set b too"):
        chain.encode({"c": 2})
    constant = Space({"a": 1, "b": Choice([1, 2], when={"a": 1})})
    assert constant.encode({"b": 2}) == {"b": 2}


def test_the_bounds_of_a_float_may_be_whole_numbers():
    """Of 0, 0.3, 0.6, 0.9, 1.2 the last within 1 is 0.9."""
    assert Float(0, 1, step=0.3) == Float(0.0, 1.0, step=0.3)
    assert Float(0, 1, step=0.3).points() == [0.0, 0.3, 0.6, 0.9]
    assert Float(0, 4, step=2).high == 4.0


def test_a_chain_of_conditions_falls_with_its_first_link():
    """C needs b and b needs a=1: with a=2 neither exists."""
    space = Space({"c": Int(1, 2, when={"b": 1}), "b": Int(1, 2, when={"a": 1}), "a": Int(1, 2)})
    assert space.decode({"a": 2, "b": 1, "c": 2}) == {"a": 2}
    assert space.decode({"a": 1, "b": 1, "c": 2}) == {"a": 1, "b": 1, "c": 2}


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_optuna_draws_what_the_space_means(seed):
    """What Optuna stores is stored form: it decodes to the params given, and the params encode back to it."""
    space = full_space()
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    trial = study.ask()
    params = space.suggest(trial)
    assert space.decode(trial.params) == params
    assert space.encode(params) == trial.params
    assert ("momentum" in params) == (params["optimizer"] == "sgd")
    assert params["depth"] == (6 if "heads" in params else 2)


def test_ints_and_steps_are_inclusive_and_counted_from_low():
    """Int(1, 9, step=4) is 1, 5, 9; Float(0.1, 1.0, step=0.4) ends at 0.9; both as Optuna draws them."""
    space = Space({"n": Int(1, 9, step=4), "x": Float(0.1, 1.0, step=0.4), "k": Int(0, 1)})
    assert [p["x"] for p in Space({"x": Float(0.1, 1.0, step=0.4)}).grid()] == [0.1, 0.5, 0.9]
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    drawn = [space.suggest(study.ask()) for _ in range(60)]
    assert {p["n"] for p in drawn} == {1, 5, 9}
    assert {p["x"] for p in drawn} == {0.1, 0.5, 0.9}
    assert {p["k"] for p in drawn} == {0, 1}


def test_the_grid_has_every_active_point_once():
    """Two optimizers, one of them with two momenta, two models: 2 * (2 + 1) points in the order given."""
    space = Space(
        {
            "model": Choice({"small": SMALL, "large": LARGE}),
            "optimizer": Choice(["sgd", "adam"]),
            "momentum": Float(0.0, 0.9, step=0.9, when={"optimizer": "sgd"}),
            "batch": 64,
        }
    )
    grid = space.grid()
    assert len(grid) == 6
    assert grid[0] == {"model": "small", "optimizer": "sgd", "momentum": 0.0}
    assert grid[2] == {"model": "small", "optimizer": "adam"}
    assert len({str(space.decode(point)) for point in grid}) == 6


def test_a_grid_that_has_no_end_is_refused():
    """A continuous dimension is named; so is a grid too large to list."""
    with pytest.raises(SpaceError, match=r"space\.lr: is continuous; set step"):
        Space({"lr": Float(0, 1)}).grid()
    with pytest.raises(SpaceError, match="more than 100000 points"):
        Space({"a": Int(1, 1000), "b": Int(1, 1000)}).grid()
    for endless in (Float(0, 1, step=1e-12), Normal(0, 1, step=1e-12)):  # a list of them fills the memory
        with pytest.raises(SpaceError, match="more than 100000 points"):
            Space({"x": endless}).grid()


def test_the_fingerprint_follows_the_meaning():
    """Another order of params is the same space; another bound is not."""
    a = Space({"x": Int(1, 2), "y": Float(0, 1)})
    b = Space({"y": Float(0.0, 1.0), "x": Int(1, 2)})
    c = Space({"x": Int(1, 3), "y": Float(0, 1)})
    assert a.fingerprint() == b.fingerprint() and a == b
    assert a.fingerprint() != c.fingerprint() and a != c
    assert a.to_json()["x"] == {"kind": "int", "low": 1, "high": 2, "log": False, "step": 1}
