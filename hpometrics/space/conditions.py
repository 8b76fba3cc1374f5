"""Conditions: the values of other params under which a param exists (`when`), and the order that follows."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ..exceptions import SpaceError
from .dimensions import Dimension, Float, same


def holds(dimension: Dimension, picked: Mapping[str, Any]) -> bool:
    """Check whether a dimension exists beside the values picked; what is missing there is inactive."""
    when = dimension.when or {}
    return all(other in picked and _matches(picked[other], values) for other, values in when.items())


def check_allowed(name: str, dimension: Dimension, picked: Mapping[str, Any]) -> None:
    """Check that a param exists beside the values picked.

    Raises:
        SpaceError: it does not exist; the message says when it would.
    """
    for other, values in (dimension.when or {}).items():
        required = " or ".join(map(repr, _as_tuple(values)))
        if other not in picked:
            raise SpaceError(f"space.{name}: exists only when {other} is {required}; give {other} too")
        if not _matches(picked[other], values):
            raise SpaceError(
                f"space.{name}: exists only when {other} is {required}, here it is {picked[other]!r}"
            )


def check_when(name: str, dimension: Dimension, dimensions: Mapping[str, Dimension]) -> None:
    """Check that a `when` can hold.

    Raises:
        SpaceError: it names an unknown param, a float, or a value that the other param cannot take.
    """
    when = dimension.when
    if when is None:
        return
    if not isinstance(when, Mapping) or not when:
        raise SpaceError(f"space.{name}.when: wants {{param: value or list of values}}, got {when!r}")
    for other, values in when.items():
        parent = dimensions.get(other)
        if parent is None:
            close = get_close_matches(str(other), list(dimensions), 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise SpaceError(f"space.{name}.when: no param {other!r} in the space{hint}")
        if isinstance(parent, Float):
            raise SpaceError(
                f"space.{name}.when: {other!r} is a float, and floats are not compared for equality"
            )
        if not _as_tuple(values):
            raise SpaceError(f"space.{name}.when: the list of values of {other!r} is empty")
        for value in _as_tuple(values):
            try:
                parent.take(value)
            except SpaceError as err:
                text = "null" if value is None else repr(value)
                raise SpaceError(f"space.{name}.when: {other!r} can never be {text}: it {err}") from None


def parents_first(dimensions: Mapping[str, Dimension]) -> tuple[str, ...]:
    """Order the params so that each comes after those its `when` names; otherwise as given."""
    ordered: dict[str, None] = {}
    remaining = list(dimensions)
    while remaining:
        ready = next(
            (name for name in remaining if all(p in ordered for p in dimensions[name].when or {})), None
        )
        if ready is None:
            raise SpaceError(
                f"space.{remaining[0]}.when: {', '.join(remaining)} depend on each other in a circle"
            )
        ordered[ready] = None
        remaining.remove(ready)
    return tuple(ordered)


def _matches(value: object, values: Any) -> bool:
    return any(same(value, allowed) for allowed in _as_tuple(values))


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (list, tuple)) else (values,)
