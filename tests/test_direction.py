from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from hpometrics.direction import MAXIMIZE, MINIMIZE, Direction
from hpometrics.exceptions import DirectionError, NoFiniteValueError

NAN, INF = math.nan, math.inf
BOTH = pytest.mark.parametrize("direction", list(Direction))
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize("text", ["minimize", "MINIMIZE", " min ", "minimise", MINIMIZE])
def test_the_hosts_words_are_read(text):
    """Optuna's and Ray's words, in any case, mean the same direction."""
    assert Direction.parse(text) is MINIMIZE


@pytest.mark.parametrize("text", ["", "up", "maximize!", None, True, 1])
def test_no_direction_is_a_default(text):
    """Anything else is refused, and the message shows what came."""
    with pytest.raises(DirectionError, match=rf"'minimize' or 'maximize', got {text!r}"):
        Direction.parse(text)


def test_it_speaks_optuna_and_ray():
    """The value is Optuna's word, `mode` is Ray's."""
    assert [(o.value, o.mode) for o in Direction] == [("minimize", "min"), ("maximize", "max")]


@BOTH
@pytest.mark.parametrize("odd", [NAN, INF, -INF])
def test_what_is_not_finite_never_wins(direction, odd):
    """What is nan or infinite loses to every finite value and beats nothing, not even its like."""
    assert direction.better(1e300, odd) and direction.better(-1e300, odd)
    assert not direction.better(odd, 1e300) and not direction.better(odd, -1e300)
    assert not any(direction.better(odd, other) for other in (NAN, INF, -INF))


@BOTH
def test_every_finite_value_beats_the_worst(direction):
    """`worst` is where a search for the best may start."""
    assert direction.better(1e308, direction.worst) and direction.better(-1e308, direction.worst)


def test_the_direction_counts():
    """0.2 beats 0.3 when minimizing and loses when maximizing; nothing beats its equal."""
    assert MINIMIZE.better(0.2, 0.3) and not MINIMIZE.better(0.3, 0.2)
    assert MAXIMIZE.better(0.3, 0.2) and not MAXIMIZE.better(0.2, 0.3)
    assert not MINIMIZE.better(0.2, 0.2) and not MAXIMIZE.better(0.2, 0.2)


@pytest.mark.parametrize("tol", [-0.5, -1e-9, NAN])
def test_a_tolerance_is_a_number_from_0(tol):
    """Below it every value would beat itself."""
    with pytest.raises(DirectionError, match=f"a number of at least 0, got {tol}"):
        MAXIMIZE.better(0.3, 0.2, tol)


@BOTH
def test_how_much_worse_a_value_is(direction):
    """By its direction; a better one is worse by less than 0."""
    sign = 1 if direction is MINIMIZE else -1
    assert direction.worse_by(0.75, 0.5) == 0.25 * sign
    assert direction.worse_by(0.5, 0.75) == -0.25 * sign


@pytest.mark.parametrize(("gain", "wins"), [(0.5, False), (0.25, False), (0.75, True)])
def test_a_gain_must_exceed_the_tolerance(gain, wins):
    """With tol=0.5 a gain of exactly 0.5 is none, in either direction."""
    assert MAXIMIZE.better(1 + gain, 1, tol=0.5) is wins
    assert MINIMIZE.better(1 - gain, 1, tol=0.5) is wins


@pytest.mark.parametrize(
    ("values", "tol", "best"),
    [
        ([0.7, 0.7, 0.7], 0.0, 0),
        ([0.1, NAN, 0.7, 0.7], 0.0, 2),
        ([INF, 0.1, -INF], 0.0, 1),
        ([NAN, NAN, -5.0], 0.0, 2),
        ([0.70, 0.705, 0.72], 0.01, 2),
        ([0.70, 0.705, 0.709], 0.01, 0),
    ],
)
def test_the_earliest_of_the_best_is_chosen(values, tol, best):
    """Among equal values (within tol) the first one wins, and what is not finite is passed over."""
    assert MAXIMIZE.best_index(values, tol) == best
    assert MINIMIZE.best_index([-value for value in values], tol) == best


@BOTH
@pytest.mark.parametrize("values", [[], [NAN], [NAN, INF, -INF]])
def test_no_finite_value_is_a_named_failure(direction, values):
    """There is no best among nothing: an error that counts them, catchable as ValueError."""
    with pytest.raises(NoFiniteValueError, match=f"none of the {len(values)} values to {direction.value}"):
        direction.best_index(iter(values))


@BOTH
@given(values=st.lists(ANY_FLOAT, max_size=8))
def test_sorting_agrees_with_choosing(direction, values):
    """The first value in sorted order is the chosen one, whatever the list holds."""
    if any(map(math.isfinite, values)):
        order = sorted(range(len(values)), key=lambda i: direction.sort_key(values[i]))
        assert order[0] == direction.best_index(values)


@BOTH
@given(a=ANY_FLOAT, b=ANY_FLOAT, c=ANY_FLOAT)
def test_better_is_a_strict_order(direction, a, b, c):
    """Never both ways, and what beats the one that beats a third beats the third."""
    better = direction.better
    assert not (better(a, b) and better(b, a))
    assert not (better(a, b) and better(b, c)) or better(a, c)


@BOTH
@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    other=st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_sign_turns_the_better_value_into_the_larger_one(direction, value, other):
    """Of any two finite values."""
    larger = direction.sign * value > direction.sign * other
    assert larger == (value != other and direction.best_index([other, value]) == 1)
