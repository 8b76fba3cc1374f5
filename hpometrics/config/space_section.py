"""The `space` section of a sweep file as a `Space`, and the points to try first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any, TypeVar

from ..exceptions import SpaceError
from ..space.dimensions import Choice, Dimension, Float, Int, Normal, Value, describe
from ..space.space import Space, check_when
from .dimension_models import (
    AnyDimension,
    ChoiceDimension,
    FloatDimension,
    IntDimension,
    NormalDimension,
    kind_of,
)
from .document import ENGINE_PARAM, Document, Path
from .models import Budget, Draft

LIST = "(list)"
_DRAWN = "engine.choice already draws this param; use another name"
T = TypeVar("T")
Points = tuple[Mapping[str, Any], ...]


def read_space(config: Draft, document: Document) -> Space | None:
    """Create the space, with the fixed params of the engine as constants, and add problems to the document.

    A list of params without a space becomes a space too: a single choice, whose bundles are its points.
    """
    before = len(document.problems)
    fixed = {} if config.engine is None else config.engine.params
    constants = {name: Value(value) for name, value in fixed.items()}
    engines = {} if config.engine is None else config.engine.choice or {}
    if config.backend.points is not None and not config.space:
        points = {f"{index:04d}": point for index, point in enumerate(config.backend.points)}
        for index, point in enumerate(config.backend.points if engines else ()):
            if point.get(ENGINE_PARAM) not in engines:
                text = f"{ENGINE_PARAM} must be one of {', '.join(engines)}"
                document.add(("backend", config.backend.name, index), text)
        return _try_build(
            document, ("backend", config.backend.name), lambda: Space({**constants, LIST: Choice(points)})
        )
    dimensions = dict(_dimensions(config, document))
    chosen = {ENGINE_PARAM: Choice(list(engines))} if engines else {}
    _check_conditions({**chosen, **dimensions}, document)
    _check_fixed(fixed, dimensions, document)
    section = document.data.get("space")
    if engines:
        section = section or {}
        if ENGINE_PARAM in dimensions:
            document.add(("space", ENGINE_PARAM), _DRAWN)
        if ENGINE_PARAM in fixed:
            document.add(("engine", "params", ENGINE_PARAM), _DRAWN)
    elif not section and isinstance(section, dict | None):
        document.add(
            ("space",), "has no params; name at least one to search, as in lr: {float: [1e-4, 1e-1]}"
        )
    if len(document.problems) > before or not isinstance(section, dict) or len(dimensions) < len(section):
        return None
    return _try_build(document, ("space",), lambda: Space({**constants, **chosen, **dimensions}))


def form_of(dimension: Dimension) -> dict[str, Any]:
    """Return a dimension as a sweep file has it.

    >>> form_of(Float(1e-4, 1e-1, log=True)), form_of(Int(1, 64, power=2)), form_of(Choice(["sgd", "adam"]))
    ({'float': [0.0001, 0.1], 'log': True}, {'int': [1, 64], 'power': 2}, {'choice': ['sgd', 'adam']})
    """
    if isinstance(dimension, Value):
        return {"value": dimension.value}
    facts = {name: fact for name, fact in describe(dimension).items() if fact is not False}
    kind = facts.pop("kind")
    if isinstance(dimension, Choice):
        options = list(facts.pop("options"))
        return {kind: facts.pop("bundles", options), **facts}
    bounds = ("mean", "deviation") if isinstance(dimension, Normal) else ("low", "high")
    if isinstance(dimension, Int) and dimension.step == 1:
        del facts["step"]
    return {kind: [facts.pop(name) for name in bounds], **facts}


def first_points(config: Draft, space: Space, document: Document) -> Points:
    """Return the stored points of the first trials: those of `search.start`, then the list or the grid.

    A grid that the budget may cut is in an order drawn by `search.seed`: its first points are a sample of it.
    """
    start = [*_encode_points(("search", "start"), config.search.start, space.encode, document)]
    if config.backend.points is not None:
        path, encode = ("backend", config.backend.name), partial(_encode_complete, space)
        return (*_encode_points(path, config.backend.points, encode, document),)
    sampler = config.search.sampler
    if sampler is None or sampler.name != "grid":
        return (*start,)
    grid = _try_build(document, ("search", "sampler"), space.grid) or []
    points = (*start, *(point for point in grid if point not in start))
    if not may_cut(config.budget, len(points)):
        return points
    others = [*points[len(start) :]]
    Random(config.search.seed).shuffle(others)
    return (*start, *others)


def may_cut(budget: Budget | None, points: int) -> bool:
    """Return whether a budget may end before this number of trials is done."""
    if budget is None:
        return False
    others = (budget.time, budget.target, budget.stale, budget.cost)
    return (budget.trials or points) < points or any(limit is not None for limit in others)


def arrange_points(points: Points, existing: Mapping[int, Mapping[str, Any]]) -> Points:
    """Return the points with those of existing trials at their numbers and the others in order.

    The order was different under another budget, or under a version that did not shuffle.

    Args:
        points: in the order of this budget.
        existing: the point of each existing trial, by number.
    """
    if all(number < len(points) and points[number] == point for number, point in existing.items()):
        return points
    remaining = [point for point in points if point not in existing.values()]
    others, order = iter(remaining), list[Mapping[str, Any]]()
    for number in range(len(remaining) + len(existing)):
        point = existing.get(number) or next(others, None)
        if point is None:
            break  # the trials of a larger grid follow
        order.append(point)
    return tuple(order)


def _dimensions(config: Draft, document: Document) -> Iterator[tuple[str, Dimension]]:
    for name, form in (config.space or {}).items():
        built = _try_build(document, ("space", name, kind_of(form)), partial(_dimension, form))
        if built is not None:
            yield name, built


def _dimension(form: AnyDimension) -> Dimension:
    if isinstance(form, FloatDimension):
        return Float(*form.bounds, log=form.log, step=form.step, when=form.when)
    if isinstance(form, IntDimension):
        return Int(*form.bounds, log=form.log, step=form.step, power=form.power, when=form.when)
    if isinstance(form, NormalDimension):
        return Normal(*form.parameters, log=form.log, step=form.step, when=form.when)
    if isinstance(form, ChoiceDimension):
        return Choice(form.choice, when=form.when, weights=form.weights)
    return Value(form.value)


def _check_conditions(dimensions: Mapping[str, Dimension], document: Document) -> None:
    section = document.data.get("space") or {}
    for name, dimension in dimensions.items():
        broken = [other for other in dimension.when or {} if other in section and other not in dimensions]
        if not broken:
            _try_build(document, ("space", name, "when"), partial(check_when, name, dimension, dimensions))


def _check_fixed(fixed: Mapping[str, Any], dimensions: Mapping[str, Dimension], document: Document) -> None:
    for name, dimension in dimensions.items():
        for param in (name, *(dimension.owned if isinstance(dimension, Choice) else ())):
            if param in fixed:
                document.add(("engine", "params", param), f"is fixed here and varied by space.{name}")


def _encode_complete(space: Space, point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored form of a point that has every param."""
    space.check(point)
    return space.encode(point)


def _encode_points(
    path: Path,
    points: list[dict[str, Any]],
    encode: Callable[[Mapping[str, Any]], dict[str, Any]],
    document: Document,
) -> Iterator[dict[str, Any]]:
    for index, point in enumerate(points):
        stored = _try_build(document, (*path, index), partial(encode, point))
        if stored is not None:
            yield stored


def _try_build(document: Document, path: Path, build: Callable[[], T]) -> T | None:
    """Return the built object; add a SpaceError at the parameter that it names, else at the path."""
    try:
        return build()
    except SpaceError as err:
        document.add(*_place(path, str(err), document))
        return None


def _place(path: Path, text: str, document: Document) -> tuple[Path, str]:
    """Split `space.lr.when: text` into path and text, if it is about the space; else keep the path."""
    if path[0] != "space":
        return path, text.removeprefix("space.")
    for name in document.data["space"]:
        for end in ((), ("when",)):
            head = ".".join(("space", name, *end)) + ": "
            if text.startswith(head):
                return ("space", name, *end), text.removeprefix(head)
    return path, text
