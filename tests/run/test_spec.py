"""A spec has the direction of its metric, and is refused before the first trial if it makes no sense."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import (
    DirectionError,
    MetricNameError,
    RunError,
    UnknownMetricError,
)
from hpometrics.metrics.features import Binary, Category
from hpometrics.metrics.registry.register import get_metric
from hpometrics.run import Reported, Run, RunSpec, engine, engine_facts

NAN = math.nan
LOSS = Reported("loss", MINIMIZE)


@pytest.mark.parametrize(
    ("metric", "facts", "name", "direction"),
    [
        ("roc_auc", {}, "roc_auc", MAXIMIZE),
        ({"metric": "fbeta", "beta": 2}, {}, "fbeta(beta=2.0)", MAXIMIZE),
        (get_metric("log_loss", Binary()), {}, "log_loss", MINIMIZE),
        (type(get_metric("brier", Binary())), {}, "brier", MINIMIZE),
        (Reported("latency", "min"), {}, "latency", MINIMIZE),
        ("latency_ms", {"direction": "minimize"}, "latency_ms", MINIMIZE),
        ({"metric": "latency_ms", "direction": "minimize"}, {}, "latency_ms", MINIMIZE),
        ("roc_auc", {"direction": "max"}, "roc_auc", MAXIMIZE),
    ],
)
def test_the_direction_comes_from_the_metric(metric, facts, name, direction):
    """However the metric is named; an unknown name with a direction is the engine's own report."""
    spec = RunSpec(metric, output=Binary(), **facts)
    assert (spec.name, spec.direction) == (name, direction)
    assert spec.reported is name.startswith("latency")


@pytest.mark.parametrize(
    ("metric", "facts", "error", "text"),
    [
        (
            "roc_auc",
            {"direction": "minimize"},
            DirectionError,
            "roc_auc must be maximized, but direction= minimizes it",
        ),
        (
            LOSS,
            {"direction": "maximize"},
            DirectionError,
            "loss must be minimized, but direction= maximizes it",
        ),
        (
            {"metric": "x", "direction": "min"},
            {"direction": "max"},
            DirectionError,
            "its direction is min",
        ),
        ("roc_auk", {}, UnknownMetricError, r"'roc_auc'.*Reported\('roc_auk', 'maximize'\)"),
        ([], {}, RunError, "metric= is an empty list; name the metric"),
        (["roc_auc", "brier", "auroc"], {}, RunError, "roc_auc is listed twice among the objectives"),
        (
            ["roc_auc", "brier"],
            {"direction": "minimize"},
            DirectionError,
            "direction= applies to one metric, got 2 metrics",
        ),
        (["roc_auc", "brier"], {"target": 0.9}, RunError, "target is in the unit of one metric"),
        (["roc_auc", "brier"], {"tol": 0.1}, RunError, "tol is in the unit of one metric"),
        ("test:roc_auc", {}, RunError, "only validation values can steer a search"),
        (3, {}, RunError, "a metric must be a name, a Metric or Reported"),
        ({"name": "roc_auc"}, {}, RunError, "needs the key 'metric'"),
        ("intent.roc_auc", {}, MetricNameError, "the only output has no name; write roc_auc, or"),
        ("f1(average=none)", {"output": Category(3)}, RunError, "choose average=micro, macro or weighted"),
        (get_metric("f1(average=none)", Category(3)), {}, RunError, "has one value per class"),
        ("roc_auc", {"at": "first"}, RunError, "at is 'best' or 'last', got 'first'"),
        ("roc_auc", {"patience": 0}, RunError, "patience must be a whole number of at least 1, got 0"),
        ("roc_auc", {"epochs": 2.5}, RunError, r"epochs must be a whole number of at least 1, got 2\.5"),
        ("roc_auc", {"target": NAN}, RunError, "target must be a finite number, got nan"),
        ("roc_auc", {"tol": -1}, RunError, "tol must be a finite number of at least 0"),
        ("roc_auc", {"target": "0.9"}, RunError, "target must be a number, got '0.9'"),
        ("roc_auc", {"trial_time": "10"}, RunError, "trial_time must be a number, got '10'"),
        ("roc_auc", {"track": "ece"}, RunError, r"track must be a list, got 'ece'; write track=\['ece'\]"),
        ("roc_auc", {"constraints": "ece <= 0.1"}, RunError, "constraints must be a list, got 'ece <= 0.1'"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused_before_the_first_trial(metric, facts, error, text):
    """Contradictions name both facts, typos the nearest name."""
    with pytest.raises(error, match=text):
        RunSpec(metric, **{"output": Binary(), **facts})


def test_whole_numbers_of_numpy_are_whole_numbers():
    """As for `run.epochs`; the spec has plain ones."""
    spec = RunSpec("roc_auc", output=Binary(), epochs=np.int64(3), patience=np.int32(2))
    assert (spec.epochs, type(spec.epochs), type(spec.patience)) == (3, int, int)


def test_a_bound_gives_its_value_no_direction():
    """What is bounded from below may be good or bad: a value that only the engine reports has none."""
    spec = RunSpec(LOSS, constraints=["val_recall >= 0.9", "exs <= 100"])
    assert spec.directions == {"loss": MINIMIZE}
    assert [(one.name, one.direction, one.reported) for one in spec.requested[1:]] == [
        ("val_recall", None, True),
        ("exs", None, True),
    ]


def test_a_run_needs_its_metric_once():
    """By its name or by a spec."""
    for facts in ({}, {"output": Binary()}):
        with pytest.raises(RunError, match="a run needs its metric; pass metric="):
            Run(**facts)
    with pytest.raises(RunError, match="pass either spec= or its parts"):
        Run(spec=RunSpec(LOSS), metric=LOSS)


def test_engine_facts_are_read_from_the_function():
    """What the decorator stated is there, and the function is the same function."""

    @engine(output=Category(10), epochs=3)
    def train(params, run):
        return "itself"

    assert engine_facts(train) == {"output": Category(10), "epochs": 3}
    assert train({}, None) == "itself"
    assert engine_facts(print) == {}


def test_an_engine_needs_no_facts():
    """Its file or objective may say all of them, so that neither parentheses nor an output are wanted."""

    @engine
    def train(params, run):
        return "itself"

    assert engine_facts(train) == {} and train({}, None) == "itself"
    with pytest.raises(RunError, match=r"train\(params, run\), got 'category'; pass its output as output="):
        engine("category")
