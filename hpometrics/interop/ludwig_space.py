"""The parameters of a Ludwig `hyperopt:` section: its twelve kinds of space, each as a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..space.values import is_whole
from . import terms
from .notes import Section
from .terms import Dimension, between, stepped, whole_between

GRID = "grid_search"
_SPREAD = 3.0  # deviations of a normal distribution that an even one covers in its place
_WHOLE = "."
_KEYS = ("space", "type", "categories", "values", "lower", "upper", "q", "base", "mean", "sd")


def read_space(parameters: Section) -> dict[str, Dimension]:
    """Read the parameters; later ones win, as they do in Ludwig."""
    space: dict[str, Dimension] = {}
    for path in parameters.given:
        called, dimension = _dimension(path, parameters.section(path))
        space[called] = dimension
    return space


def _dimension(path: str, given: Section) -> tuple[str, Dimension]:
    kind = given.word("space")
    if kind in ("choice", GRID):
        return _choice(path, given, kind)
    build = _SPACES.get(kind)
    if build is None:
        known = ", ".join(("choice", GRID, *_SPACES))
        given.notes.refuse((*given.path, "space"), f"{kind or 'nothing'} is no space of Ludwig's: {known}")
        return path, {"value": None}
    given.unknown(_KEYS, "Ludwig")
    return path, build(given)


def _choice(path: str, given: Section, kind: str) -> tuple[str, Dimension]:
    key = "categories" if kind == "choice" else "values"
    options = given.given.get(key)
    given.unknown(("space", key), "Ludwig")
    if not isinstance(options, list) or not options:
        given.notes.refuse((*given.path, key), f"{kind} wants a list, {key}: [...], got {options!r}")
        return path, {"value": None}
    if path == _WHOLE:
        if not all(isinstance(option, dict) for option in options):
            given.notes.refuse((*given.path, key), "the path . wants mappings of the config")
            return path, {"value": None}
        given.say("space", f"blocks of the config are bundles of {terms.CONFIG}, by dotted names")
        return terms.mappings(options)
    called, dimension = terms.choice(path, options)
    if called != path:
        given.say(key, f"a choice among lists or mappings is one of bundles, called {called}")
    return called, dimension


def _bounds(given: Section) -> tuple[float, float]:
    return given.bounds("lower", "upper")


def _positive(given: Section) -> tuple[float, float]:
    low, high = _bounds(given)
    if low <= 0:
        given.notes.refuse((*given.path, "lower"), f"a logarithm wants a bound above 0, got {low}")
        return 1, 1
    return low, high


def _randint(given: Section) -> Dimension:
    low, high = _below(given, *_bounds(given))
    return whole_between(low, high)


def _lograndint(given: Section) -> Dimension:
    low, high = _below(given, *_positive(given))
    return whole_between(low, high, log=True)


def _below(given: Section, low: float, high: float) -> tuple[int, int]:
    """Whole bounds, of which Ray leaves the upper one out."""
    last = math.ceil(high) - 1
    if last < low:
        given.notes.refuse(
            (*given.path, "upper"), f"is left out by Ray, so nothing is left from {low:g} to {high:g}"
        )
        return math.ceil(low), math.ceil(low)
    return math.ceil(low), last


def _qloguniform(given: Section) -> Dimension:
    if not (is_whole(given.number("q", 1)) and given.number("lower") >= 1):
        given.say("q", "is left out: a logarithmic range has no steps here")
        return between(*_positive(given), log=True)
    return _qlograndint(given)


def _qlograndint(given: Section) -> Dimension:
    """Whole numbers up to the upper bound, which Ray keeps where there is a step."""
    if given.number("q", 1) != 1:
        given.say("q", "is left out: a logarithmic range has no steps here")
    low, high = _positive(given)
    return whole_between(math.ceil(low), math.floor(high), log=True)


def _quniform(given: Section) -> Dimension:
    return stepped(*_bounds(given), _step(given))


def _randn(given: Section) -> Dimension:
    mean, deviation = given.number("mean", 0), given.number("sd", 1)
    kind = given.word("space")
    given.say("space", f"{kind} is drawn evenly over three deviations instead; there is no normal one here")
    low, high = mean - _SPREAD * deviation, mean + _SPREAD * deviation
    return stepped(low, high, _step(given)) if kind == "qrandn" else between(low, high)


def _step(given: Section) -> float:
    step = given.number("q", 1)
    if step <= 0:
        given.notes.refuse((*given.path, "q"), f"a step is above 0, got {step}")
        return 1
    return step


_SPACES: Mapping[str, Callable[[Section], Dimension]] = {
    "uniform": lambda given: between(*_bounds(given)),
    "quniform": _quniform,
    "loguniform": lambda given: between(*_positive(given), log=True),
    "qloguniform": _qloguniform,
    "randn": _randn,
    "qrandn": _randn,
    "randint": _randint,
    "qrandint": _quniform,
    "lograndint": _lograndint,
    "qlograndint": _qlograndint,
}


def grid_points(parameters: Section) -> int:
    """Count the points of the grid that Ray goes through for each sample."""
    count = 1
    for one in parameters.given.values():
        values: Any = one.get("values") if isinstance(one, dict) and one.get("space") == GRID else None
        count *= len(values) if isinstance(values, list) and values else 1
    return count
