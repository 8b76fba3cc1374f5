"""Conditions: the values of other params under which a param exists (`when`), and the order that follows."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ..exceptions import SpaceError
from .dimensions import Dimension, Float, same


def holds(dimension: Dimension, picked: Mapping[str, Any]) -> bool:
    """Say whether a dimension exists beside the values picked; what is missing there is inactive."""
    when = dimension.when or {}
    return all(other in picked and _matches(picked[other], values) for other, values in when.items())


def check_allowed(name: str, dimension: Dimension, picked: Mapping[str, Any]) -> None:
    """Refuse a param that does not exist beside the values picked, or whose existence they leave open.

    Raises:
        SpaceError: it does not; the message says when it would.
    """
    for other, values in (dimension.when or {}).items():
        wanted = " or ".join(map(repr, _wanted(values)))
        if other not in picked:
            raise SpaceError(f"space.{name}: exists only when {other} is {wanted}; give {other} too")
        if not _matches(picked[other], values):
            raise SpaceError(
                f"space.{name}: exists only when {other} is {wanted}, here it is {picked[other]!r}"
            )


def check_when(name: str, dimension: Dimension, dimensions: Mapping[str, Dimension]) -> None:
    """Refuse a `when` that can never hold.

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
        if not _wanted(values):
            raise SpaceError(f"space.{name}.when: the list of values of {other!r} is empty")
        for value in _wanted(values):
            try:
                parent.take(value)
            except SpaceError as err:
                shown = "null" if value is None else repr(value)
                raise SpaceError(f"space.{name}.when: {other!r} can never be {shown}: it {err}") from None


def parents_first(dimensions: Mapping[str, Dimension]) -> tuple[str, ...]:
    """Order the params so that each comes after those its `when` names; otherwise as given."""
    done: dict[str, None] = {}
    left = list(dimensions)
    while left:
        ready = next((name for name in left if all(p in done for p in dimensions[name].when or {})), None)
        if ready is None:
            raise SpaceError(f"space.{left[0]}.when: {', '.join(left)} depend on each other in a circle")
        done[ready] = None
        left.remove(ready)
    return tuple(done)


def _matches(value: object, values: Any) -> bool:
    return any(same(value, wanted) for wanted in _wanted(values))


def _wanted(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (list, tuple)) else (values,)
