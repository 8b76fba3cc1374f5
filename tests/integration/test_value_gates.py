"""What a train function may report and raise: each ends in a defined state, and never in a false best."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from matrix import EXHAUSTIVE

from hpometrics.backends.objective import ListObjective
from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.ray.objective import RayObjective
from hpometrics.direction import MAXIMIZE, MINIMIZE, Direction
from hpometrics.records.trial_record import TrialRecord, TrialState
from hpometrics.run import Reported
from hpometrics.space.dimensions import Int

NUMBERS: dict[str, tuple[Any, float]] = {
    "float": (0.25, 0.25),
    "int": (3, 3.0),
    "beyond int64": (2**70, 2.0**70),
    "smallest": (5e-324, 5e-324),
    "fraction": (Fraction(1, 4), 0.25),
    "numpy scalar": (np.float32(0.25), 0.25),
    "numpy int": (np.int64(-3), -3.0),
    "array of one": (np.array([[0.25]]), 0.25),
    "tensor": (torch.tensor(0.25), 0.25),
    "tensor of one": (torch.tensor([[3]]), 3.0),
    "tensor with gradient": (torch.tensor(0.25, requires_grad=True), 0.25),
    "half": (torch.tensor(0.25, dtype=torch.float16), 0.25),
}
NOT_FINITE: dict[str, tuple[Any, str]] = {
    "nan": (math.nan, "the value is nan"),
    "inf": (math.inf, "the value is inf"),
    "-inf": (-math.inf, "the value is -inf"),
    "numpy nan": (np.float64("nan"), "the value is nan"),
    "tensor inf": (torch.tensor(math.inf), "the value is inf"),
    "longdouble": (np.longdouble("1e4000"), "the value is inf"),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "none": (None, "expects one number, got None (NoneType)"),
    "text": ("abc", "expects one number, got 'abc' (str)"),
    "number as text": ("0.3", "expects one number, got '0.3' (str); convert it with int() or float()"),
    "bytes": (b"0.3", "expects one number, got b'0.3' (bytes)"),
    "bool": (True, "expects one number, got True (bool)"),
    "numpy bool": (np.True_, "expects one number, got np.True_ (bool)"),
    "tensor bool": (torch.tensor(True), "expects one number, got a tensor of shape () and torch.bool"),
    "too large": (10**400, "expects a number of at most 1.8e308, got a larger one"),
    "too long": (10**5000, "expects a number of at most 1.8e308, got a larger one"),
    "complex": (0.3 + 0j, "expects one number, got (0.3+0j) (complex)"),
    "numpy complex": (np.complex64(1j), "expects one number, got np.complex64(1j) (complex64)"),
    "tensor complex": (torch.tensor(1j), "got a tensor of shape () and torch.complex64"),
    "dict": ({"loss": 0.3}, "expects one number, got {'loss': 0.3} (dict)"),
    "list": ([0.3], "expects one number, got [0.3] (list)"),
    "array": (np.zeros(2), "expects one number, got array([0., 0.]) (ndarray)"),
    "array of text": (np.array("0.3"), "expects one number, got array('0.3', dtype='<U3') (ndarray)"),
    "masked": (np.ma.masked, "expects one number, got masked (MaskedConstant)"),
    "two elements": (torch.zeros(2), "expects one number, got a tensor of shape (2,) and torch.float32"),
    "no element": (torch.zeros(0), "expects one number, got a tensor of shape (0,) and torch.float32"),
    "meta": (torch.zeros(1, device="meta"), "expects one number, got a tensor of shape (1,)"),
    "decimal": (decimal.Decimal("0.3"), "expects one number, got Decimal('0.3') (Decimal)"),
    "function": (len, "expects one number, got <built-in function len> (builtin_function_or_method)"),
}
Panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})
"""What Rust raises, as in tokenizers: no Exception, and made anew by each extension module."""

RAISED: dict[str, tuple[BaseException, str]] = {
    "exception": (ValueError("shape"), "ValueError: shape"),
    "assertion": (AssertionError(), "AssertionError"),
    "memory": (MemoryError(), "MemoryError"),
    "recursion": (RecursionError("deep"), "RecursionError: deep"),
    "stop iteration": (StopIteration(3), "StopIteration: 3"),
    "exit": (SystemExit(3), "SystemExit: 3"),
    "generator exit": (GeneratorExit(), "GeneratorExit"),
    "panic": (Panic("index out of bounds"), "PanicException: index out of bounds"),
}
FAILING = {name: value for name, (value, _) in {**NOT_FINITE, **REFUSED, **RAISED}.items()}
WHY = {name: text for name, (_, text) in {**NOT_FINITE, **REFUSED, **RAISED}.items()}


def train_with(odd: Any) -> Any:
    """A train function whose first trial reports or raises something odd, and whose second is in order."""

    def train(params, run):
        for _ in run.epochs(1):
            if params["trial"] == 0 and isinstance(odd, BaseException):
                raise odd
            run.log(loss=odd if params["trial"] == 0 else 0.5)

    return train


def through_list(train: Any, direction: Direction) -> tuple[list[TrialRecord], float]:
    """Both trials as a list, and the value of the best."""
    listed = ListObjective(train, [{"trial": 0}, {"trial": 1}], metric=Reported("loss", direction))
    records = listed.run()
    return records, listed.best(records).value


def through_optuna(train: Any, direction: Direction) -> tuple[list[TrialRecord], float]:
    """Both trials in a study, which goes on after any failure, and the value of the best."""
    made = OptunaObjective(train, {"trial": Int(0, 1)}, metric=Reported("loss", direction))
    study = made.create_study()
    for trial in range(2):
        study.enqueue_trial({"trial": trial})
    study.optimize(made, n_trials=2, catch=(Exception,))
    assert not study.get_trials(states=(optuna.trial.TrialState.RUNNING,))
    assert study.best_value == 0.5
    return made.records(study), made.best(study).value


HOSTS = pytest.mark.parametrize("host", [through_list, through_optuna])


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_one_number_is_taken_as_it_is(name):
    """Whoever made it, and without rounding."""
    value, expected = NUMBERS[name]
    [first, _], _ = through_list(train_with(value), MINIMIZE)
    assert (first.state, first.value) == (TrialState.COMPLETE, expected)


@HOSTS
@pytest.mark.parametrize("name", WHY)
def test_what_is_none_fails_its_trial_by_name(host, name):
    """The other trial is run and wins, in whichever direction; infinite is the best of none."""
    for direction in (MINIMIZE, MAXIMIZE):
        (first, second), best = host(train_with(FAILING[name]), direction)
        assert (first.state, second.state) == (TrialState.FAILED, TrialState.COMPLETE)
        assert WHY[name] in (first.reason or "")
        assert best == 0.5


@pytest.mark.ray
@pytest.mark.parametrize("name", ["inf", pytest.param("too large", marks=EXHAUSTIVE)])
def test_ray_fails_such_trials_too(ray_cluster, name, tmp_path):
    """And the study that keeps them knows no other state."""
    made = RayObjective(
        train_with(FAILING[name]),
        {"trial": Int(0, 1)},
        metric=Reported("loss", MAXIMIZE),
        directory=tmp_path,
    )
    made.tuner(2, points=[{"trial": 0}, {"trial": 1}]).fit()
    first, second = made.records()
    assert (first.state, second.state) == (TrialState.FAILED, TrialState.COMPLETE)
    assert WHY[name] in (first.reason or "")
    assert made.best().value == 0.5


@pytest.mark.parametrize("count", [1.7, "3", None, True, -1, 0])
def test_epochs_are_counted_by_the_run(count):
    """No train function names a step, so that none is reported twice, skipped or cut to a whole number."""

    def train(params, run):
        for _ in run.epochs(3 if params["trial"] else count):
            run.log(loss=0.5)

    (first, second), _ = through_list(train, MINIMIZE)
    assert first.state is TrialState.FAILED
    assert "RunError: " in (first.reason or "")
    assert [record.epoch for record in second.epochs] == [0, 1, 2]
