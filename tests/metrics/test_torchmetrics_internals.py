"""The privates of torchmetrics that `metrics/_state.py` touches; a failure names the one that moved."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch
import torchmetrics
from torchmetrics.regression import MeanSquaredError
from torchmetrics.utilities.data import dim_zero_mean, dim_zero_sum

from hpometrics.metrics import _state as state
from hpometrics.metrics.metric import Metric

PRIVATES = (
    "_computed",
    "_forward_cache",
    "_reductions",
    "_to_sync",
    "_update_count",
    "_update_signature",
)
FORMER = ("_defaults",)  # which have a public name


def require(holds: bool, private: str) -> None:
    """Fail with the name of what torchmetrics has moved and the file to mend."""
    if not holds:
        pytest.fail(
            f"torchmetrics {torchmetrics.__version__} has moved {private}; mend hpometrics/metrics/_state.py"
        )


@pytest.fixture
def measured():
    """A metric of torchmetrics with one update and a value."""
    metric = MeanSquaredError()
    metric.update(torch.tensor([1.0]), torch.tensor([3.0]))
    metric.compute()
    return metric


@pytest.mark.parametrize("private", PRIVATES)
def test_a_metric_has_its_privates(measured, private):
    """`_state.py` reads or sets them."""
    require(private in vars(measured), f"Metric.{private}")


def test_the_number_of_updates_is_what_is_set(measured):
    """The value that was computed goes, and `compute` reads the states again."""
    require(measured._computed == 4, "the value that Metric.compute stores in Metric._computed")
    measured.sum_squared_error = torch.tensor(9.0)
    assert measured.compute() == 4
    state.set_update_count(measured, 3)
    require(measured.update_count == 3, "the number that Metric.update_count reads from Metric._update_count")
    require(measured.compute() == 9, "the value that Metric.compute reads from Metric._computed")


def test_each_state_has_the_function_that_reduces_it(measured):
    """A name such as "sum" has become its function."""
    reductions = state.reductions_of(measured)
    require(reductions.keys() == measured.metric_state.keys(), "the states of Metric._reductions")
    require(set(reductions.values()) == {dim_zero_sum}, "the functions of Metric._reductions")


def test_a_metric_may_stay_by_itself(measured, monkeypatch):
    """Where there are other ranks, `compute` does not look at them."""
    asked = []
    monkeypatch.setattr(measured, "sync", lambda **kwargs: asked.append(kwargs["should_sync"]))
    for disable in (False, True):
        if disable:
            state.disable_sync(measured)
        state.set_update_count(measured, 1)
        measured.compute()
    require(asked == [True, False], "what Metric.compute reads from Metric._to_sync")


@pytest.mark.parametrize("hook", ["_wrap_update", "_wrap_compute"])
def test_a_metric_wraps_its_methods_by_a_hook(hook):
    """`Metric` overrides both, under the arguments that torchmetrics passes."""
    require(hasattr(torchmetrics.Metric, hook), f"Metric.{hook}")
    own, theirs = (
        list(inspect.signature(getattr(cls, hook)).parameters) for cls in (Metric, torchmetrics.Metric)
    )
    require(own == theirs, f"the arguments of Metric.{hook}")


def test_a_mean_of_states_is_one_function():
    """By it `add_state` knows a mean that was passed as a function, as torchmetrics' own classes do."""
    metric = MeanSquaredError()
    metric.add_state("mean", torch.zeros(()), dist_reduce_fx="mean")
    require(state.reductions_of(metric)["mean"] is dim_zero_mean, "torchmetrics.utilities.data.dim_zero_mean")


def test_no_other_module_touches_them():
    """A private in a second module would move without a word here; `self.` may be an own attribute."""
    package = Path(state.__file__).parent
    touched = re.compile(rf"\.({'|'.join((*PRIVATES, *FORMER))})\b")
    modules = {path for path in package.rglob("*.py") if touched.search(path.read_text(encoding="utf8"))}
    assert modules == {Path(state.__file__)}
