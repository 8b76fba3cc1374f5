"""The parameters of a W&B sweep, each as a dimension; a distribution that is not named is inferred."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..space.values import is_number, is_whole
from . import terms
from .notes import Section
from .terms import Dimension, between, stepped, whole_between

_SPREAD = 3.0  # deviations of a normal distribution that an even one covers in its place
_KEYS = tuple("distribution value values probabilities min max mu sigma q a b parameters".split())


def read_parameters(parameters: Section) -> tuple[dict[str, Dimension], dict[str, Any]]:
    """Read parameters, nested ones by dotted names.

    Returns:
        Those that vary, and the values of those that do not.
    """
    space: dict[str, Dimension] = {}
    fixed: dict[str, Any] = {}
    for name, given in _flat(parameters):
        if isinstance(given, Section):
            called, dimension = _dimension(name, given)
            space[called] = dimension
        else:
            fixed[name] = given
    moved = {name: dimension["value"] for name, dimension in space.items() if "value" in dimension}
    return {name: one for name, one in space.items() if name not in moved}, fixed | moved


def _flat(parameters: Section, front: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in parameters.given.items():
        name = f"{front}{key}"
        if not isinstance(value, Mapping):
            parameters.notes.refuse(
                (*parameters.path, key), f"wants {{value: ...}} or the like, got {value!r}"
            )
            continue
        given = parameters.section(key)
        if "parameters" in value:
            yield from _flat(given.section("parameters"), f"{name}.")
        elif "value" in value or value.get("distribution") == "constant":
            yield name, value.get("value")
        else:
            given.unknown(_KEYS, "W&B")
            yield name, given


def _dimension(name: str, given: Section) -> tuple[str, Dimension]:
    kind = given.word("distribution") or _inferred(given)
    if kind.startswith("categorical"):
        return _choice(name, given)
    build = _DISTRIBUTIONS.get(kind)
    if build is None:
        given.notes.refuse(
            given.path, f"{kind or 'this'} is no distribution of W&B's; give values, or min and max"
        )
        return name, {"value": None}
    return name, build(given)


def _inferred(given: Section) -> str:
    if "values" in given.given:
        return "categorical"
    bounds = [given.given.get(key) for key in ("min", "max")]
    if all(map(is_whole, bounds)):
        return "int_uniform"
    if all(map(is_number, bounds)):
        return "uniform"
    return "normal" if "mu" in given.given else ""


def _choice(name: str, given: Section) -> tuple[str, Dimension]:
    values = given.given.get("values")
    if not isinstance(values, list) or not values:
        given.notes.refuse(given.path, f"wants a list of values, got {values!r}")
        values = [None]
    if "probabilities" in given.given:
        given.say("probabilities", "is left out: choices are drawn evenly here")
    called, dimension = terms.choice(name, values)
    if called != name:
        given.say("values", f"a choice among lists or mappings is one of bundles, called {called}")
    return called, dimension


def _bounds(given: Section) -> tuple[float, float]:
    return given.bounds("min", "max")


def _uniform(given: Section) -> Dimension:
    return between(*_bounds(given))


def _int_uniform(given: Section) -> Dimension:
    low, high = _bounds(given)
    return whole_between(math.ceil(low), math.floor(high))


def _q_uniform(given: Section) -> Dimension:
    return stepped(*_bounds(given), _step(given))


def _log_uniform(given: Section) -> Dimension:
    return _exponents(given, *_bounds(given))


def _inv_log_uniform(given: Section) -> Dimension:
    low, high = _bounds(given)
    return _exponents(given, -high, -low)


def _exponents(given: Section, low: float, high: float) -> Dimension:
    """Bounds that are exponents of e, as the values they stand for."""
    first, last = (float(f"{math.exp(bound):.6g}") for bound in (low, high))
    given.say(
        "min", f"bounds of log_uniform are exponents of e: written as the values, {first:g} to {last:g}"
    )
    if 0 <= low and high <= 1:
        text = f"exponents {low:g} to {high:g} mean values {first:g} to {last:g}"
        given.say("distribution", f"{text}; log_uniform_values takes values", "exponents")
    return between(first, last, log=True)


def _log_values(given: Section) -> Dimension:
    low, high = _bounds(given)
    if low <= 0:
        given.notes.refuse((*given.path, "min"), f"a logarithm wants a bound above 0, got {low}")
        return {"value": low}
    return between(low, high, log=True)


def _q_log_uniform(given: Section) -> Dimension:
    return _log_steps(given, _log_uniform(given))


def _q_log_values(given: Section) -> Dimension:
    return _log_steps(given, _log_values(given))


def _log_steps(given: Section, dimension: Dimension) -> Dimension:
    """Steps on a logarithmic scale are left out; where they are whole, so are the numbers."""
    if "value" in dimension:
        return dimension
    (low, high), step = dimension["float"], _step(given)
    if step != 1:
        given.say("q", "is left out: a logarithmic range has no steps here")
    if is_whole(step) and low >= 1:
        return whole_between(round(low), round(high), log=True)
    return dimension


def _normal(given: Section) -> Dimension:
    low, high = _three_deviations(given)
    return _steps_of(given, between(low, high))


def _log_normal(given: Section) -> Dimension:
    low, high = (float(f"{math.exp(bound):.6g}") for bound in _three_deviations(given))
    return _steps_of(given, between(low, high, log=True))


def _beta(given: Section) -> Dimension:
    given.say("distribution", "is drawn evenly from 0 to 1 instead; there is no beta distribution here")
    return _steps_of(given, between(0, 1))


def _three_deviations(given: Section) -> tuple[float, float]:
    mu, sigma = given.number("mu", 0), given.number("sigma", 1)
    kind = given.word("distribution", "normal")
    given.say(
        "distribution", f"{kind} is drawn evenly over three deviations instead; there is no normal one here"
    )
    return mu - _SPREAD * sigma, mu + _SPREAD * sigma


def _steps_of(given: Section, dimension: Dimension) -> Dimension:
    if not given.word("distribution").startswith("q_") or "value" in dimension:
        return dimension
    if dimension.get("log"):
        return _log_steps(given, dimension)
    low, high = dimension["float"]
    return stepped(low, high, _step(given))


def _step(given: Section) -> float:
    step = given.number("q", 1)
    if step <= 0:
        given.notes.refuse((*given.path, "q"), f"a step is above 0, got {step}")
        return 1
    return step


_DISTRIBUTIONS: Mapping[str, Callable[[Section], Dimension]] = {
    "uniform": _uniform,
    "int_uniform": _int_uniform,
    "q_uniform": _q_uniform,
    "log_uniform": _log_uniform,
    "inv_log_uniform": _inv_log_uniform,
    "log_uniform_values": _log_values,
    "inv_log_uniform_values": _log_values,  # the logarithm of 1/x is even where that of x is
    "q_log_uniform": _q_log_uniform,
    "q_log_uniform_values": _q_log_values,
    "normal": _normal,
    "q_normal": _normal,
    "log_normal": _log_normal,
    "q_log_normal": _log_normal,
    "beta": _beta,
    "q_beta": _beta,
}
