"""Two values have one key only if no code could tell them apart."""

from __future__ import annotations

import functools
import math
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from sklearn.linear_model import LogisticRegression

from hpometrics import EngineParams
from hpometrics.engines.keys import structural_key
from hpometrics.exceptions import EngineParamsError


@dataclass
class Size:
    width: Any
    layers: list[int] = field(default_factory=list)


@dataclass
class OtherSize:
    width: Any
    layers: list[int] = field(default_factory=list)


class Point(NamedTuple):
    x: float
    y: float


class Color(Enum):
    RED = 1
    BLUE = 2


class Knows:
    """Says itself what it is made of."""

    def __init__(self, values: Any) -> None:
        self.values, self.lock = values, threading.Lock()

    def cache_key(self) -> Any:
        return self.values


def scaled(values: Any, by: float) -> Any:
    """A function at the top of a module."""
    return values * by


def closing_over(by: float) -> Any:
    """Make functions of one name."""

    @functools.wraps(scaled)
    def inner(values: Any) -> Any:
        return values * by

    return inner


SAME = {
    "order of a dict": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "nan": (math.nan, float("-nan")),
    "nan in an array": (np.array([1.0, np.nan]), np.array([1.0, -np.nan])),
    "nan of numpy": (np.float32("nan"), np.float32("nan")),
    "equal arrays": (np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2).reshape(2, 3)),
    "arrays of objects": (np.array(["a", None], object), np.array(["a", None], object)),
    "equal tensors": (torch.arange(3.0), torch.tensor([0.0, 1.0, 2.0])),
    "bfloat16": (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
    "nested": ([{"a": (1, {2, 3})}], [{"a": (1, {3, 2})}]),
    "dataclasses": (Size(3, [1]), Size(3, [1])),
    "estimators": (LogisticRegression(C=2.0), LogisticRegression(C=2.0)),
    "functions": (scaled, scaled),
    "partials": (functools.partial(scaled, by=2.0), functools.partial(scaled, by=2.0)),
    "closures with one value": (closing_over(2.0), closing_over(2.0)),
    "cache_key": (Knows([1, 2]), Knows([1, 2])),
    "paths": (Path("a/b"), Path("a") / "b"),
}

DIFFERENT = {
    "True and 1": (True, 1),
    "1 and 1.0": (1, 1.0),
    "False and 0.0": (False, 0.0),
    "0.0 and -0.0": (0.0, -0.0),
    "None and False": (None, False),
    "a text and its bytes": ("a", b"a"),
    "a number and its text": (1, "1"),
    "list and tuple": ([1, 2], (1, 2)),
    "set and frozenset": ({1}, frozenset({1})),
    "deep inside": ({"a": [{"b": 1}]}, {"a": [{"b": True}]}),
    "keys of a dict": ({1: "a"}, {True: "a"}),
    "scalars of numpy": (np.float64(1.0), 1.0),
    "dtypes": (np.array([1], "int32"), np.array([1], "int64")),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "a masked value": (np.ma.array([1, 2], mask=[0, 1]).filled(0), np.array([1, 2])),
    "dtypes of torch": (torch.ones(2), torch.ones(2).double()),
    "tensor and array": (torch.ones(2), np.ones(2, "float32")),
    "dtype names": (torch.float32, torch.float64),
    "a dataclass and its double": (Size(3), OtherSize(3)),
    "types in a dataclass": (Size(1), Size(True)),
    "a named tuple and a tuple": (Point(0.0, 1.0), (0.0, 1.0)),
    "members": (Color.RED, Color.BLUE),
    "a member and its value": (Color.RED, 1),
    "estimators": (LogisticRegression(C=2.0), LogisticRegression(C=3.0)),
    "fitted": (LogisticRegression(), LogisticRegression().fit([[0.0], [1.0]], [0, 1])),
    "functions": (scaled, structural_key),
    "classes": (Size, OtherSize),
    "partials": (functools.partial(scaled, by=2.0), functools.partial(scaled, by=2)),
    "closures of one name": (closing_over(2.0), closing_over(3.0)),
    "order where it counts": (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
}

IDENTITY_ONLY = {
    "object": object(),
    "lambda": lambda x: x,
    "random stream": np.random.default_rng(0),
    "bound method": [].append,
    "masked array": np.ma.array([1, 2], mask=[0, 1]),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_equal_values_have_one_key(pair):
    """Whatever the order of a dict or the bits of a nan: nothing can tell them apart."""
    one, other = map(structural_key, pair)
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_values_that_code_can_tell_apart_have_two_keys(pair):
    """Python's `==` holds for half of these; a stage that looks at the type sees the difference."""
    one, other = map(structural_key, pair)
    assert one != other


@pytest.mark.parametrize("value", IDENTITY_ONLY.values(), ids=IDENTITY_ONLY)
def test_what_has_only_its_identity_is_refused_by_its_path(value):
    """A key by identity would never be shared, or be shared by two that differ; the error says what to do."""
    params = EngineParams(algorithms=[("naive", {"a": 1}), ("other", {"deep": [{"model": value}]})])
    with pytest.raises(EngineParamsError, match=r"algorithms\[1\]\.params\.deep\[0\]\.model: .*in the stage"):
        _ = params.key


def test_what_contains_itself_is_refused():
    """A list inside itself has no end."""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EngineParamsError, match=r"a\.b contains itself"):
        structural_key(endless, "a.b")


ATOMS = (
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0, -0.0]) | st.sampled_from("ab1")
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


def told(value: Any) -> str:
    """All that there is to see of a value, dicts in the order of their keys."""
    if isinstance(value, dict):
        return str({key: told(value[key]) for key in sorted(value)})
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({','.join(map(told, value))})"
    return repr(value)


@given(VALUES, VALUES)
def test_keys_agree_exactly_where_the_values_print_alike(one, other):
    """The key says neither more nor less than the types and values do."""
    assert (structural_key(one) == structural_key(other)) == (told(one) == told(other))
