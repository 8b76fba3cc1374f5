from __future__ import annotations

from typing import Literal

import pytest

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.registry.facts import Param, params_of


class Optional:
    def __init__(
        self,
        *,
        class_: int | None = None,
        average: Literal["micro", "macro"] | None = None,
        order: Literal[1, 2] = 1,
        share: int | float = 0.5,
        odd: int | str = 0,
        output: object = None,
        **kwargs: object,
    ) -> None: ...


def test_a_parameter_is_read_from_its_annotation():
    """Unions with None are optional, literals are choices of their own kind, an underscore is Python's."""
    read = {p.name: (p.kind, p.default, p.choices, p.keyword) for p in params_of(Optional)}
    assert read == {
        "class": ("int", None, (), "class_"),
        "average": ("str", None, ("micro", "macro"), "average"),
        "order": ("int", 1, ("1", "2"), "order"),
        "share": ("float", 0.5, (), "share"),
        "odd": ("any", 0, (), "odd"),
    }


def test_an_optional_parameter_takes_none_and_a_needed_one_does_not():
    """None is what an object holds that was not given the parameter."""
    assert Param("p", "int").check(None, "m") is None
    with pytest.raises(MetricNameError, match="m: p is int, got None"):
        Param("p", "int", required=True).check(None, "m")


def test_a_choice_of_numbers_is_a_number():
    """`order=2` is 2, and 3 is none of the choices."""
    order = params_of(Optional)[2]
    assert order.check(2, "m") == 2
    with pytest.raises(MetricNameError, match="order must be one of 1, 2, got 3"):
        order.check(3, "m")


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (Param("a", choices=("micro", "macro")), "macro"),
        (Param("a", choices=("x", "y")), "x"),
        (Param("a", "int", choices=("1", "2")), 1),
        (Param("a", "int"), 2),
        (Param("a", "any"), "a"),
    ],
)
def test_an_example_is_a_value_that_the_parameter_takes(one, value):
    """It stands in the pages of the guide and is what `all` tries."""
    assert one.example == value
    assert one.check(value, "m") == value


@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    [
        ("float", 2, 2.0),
        ("float", 0.5, 0.5),
        ("int", 2, 2),
        ("bool", True, True),
        ("str", "x", "x"),
        ("any", 1, 1),
    ],
)
def test_a_parameter_takes_its_own_kind(kind, value, taken):
    """A whole number is a float where one is wanted, in the parameter's own type."""
    checked = Param("p", kind).check(value, "m")
    assert (checked, type(checked)) == (taken, type(taken))


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 2.0), ("int", True), ("float", True), ("float", "x"), ("bool", 1), ("str", 5), ("bool", "yes")],
)
def test_a_parameter_refuses_another_kind(kind, value):
    """The error names the metric, the parameter, its kind and the value."""
    with pytest.raises(MetricNameError, match=rf"m: p is {kind}, got {value!r}"):
        Param("p", kind).check(value, "m")


def test_a_choice_suggests_the_nearest():
    """A misspelled choice lists all of them."""
    with pytest.raises(MetricNameError, match=r"one of micro, macro, got 'marco'; did you mean 'macro'\?"):
        Param("average", choices=("micro", "macro")).check("marco", "f1")
