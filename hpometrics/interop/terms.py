"""Dimensions: what a foreign parameter may be, as a dimension of our sweep files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from ..space.values import is_scalar, is_whole
from .notes import Number

Dimension = dict[str, Any]

CONFIG = "config"
"""The name of a choice among whole mappings of params."""


def choice(name: str, options: Iterable[Any]) -> tuple[str, Dimension]:
    """Choose among values. Lists and mappings are bundles by their text, under a name of their own."""
    values = list(_distinct(options))
    if all(map(is_scalar, values)):
        return name, {"choice": values}
    return f"{name}_choice", {"choice": {_label(value): {name: value} for value in values}}


def mappings(options: Iterable[Mapping[str, Any]]) -> tuple[str, Dimension]:
    """Choose among mappings of params, whose inner keys become dotted names."""
    bundles = {f"{CONFIG}_{number}": dict(flat(option)) for number, option in enumerate(options)}
    return CONFIG, {"choice": bundles}


def between(low: Number, high: Number, log: bool = False) -> Dimension:
    """Draw a real number; one that cannot vary is its value."""
    if low == high:
        return {"value": low}
    return {"float": [_plain(low), _plain(high)], **({"log": True} if log else {})}


def whole_between(low: int, high: int, log: bool = False, step: int = 1) -> Dimension:
    """Draw a whole number, both bounds included; one that cannot vary is its value."""
    if high - low < step:
        return {"value": low}
    how: Dimension = {"log": True} if log else {} if step == 1 else {"step": step}
    return {"int": [low, high], **how}


def stepped(low: Number, high: Number, step: Number) -> Dimension:
    """Draw a multiple of a step: the bounds go to the nearest one.

    >>> stepped(0, 0.5, 0.1), stepped(16, 130, 16), stepped(3, 4, 16)
    ({'float': [0.0, 0.5], 'step': 0.1}, {'int': [16, 128], 'step': 16}, {'value': 0})
    """
    first, last = (_multiple(bound, step) for bound in (low, high))
    if is_whole(step) or float(step).is_integer():
        return whole_between(int(first), int(last), step=int(step))
    if last == first:
        return {"value": float(first)}
    return {"float": [float(first), float(last)], "step": float(step)}


def flat(mapping: Mapping[str, Any], front: str = "") -> Iterator[tuple[str, Any]]:
    """Give the values of nested mappings by dotted names.

    >>> dict(flat({"optimizer": {"type": "adam", "lr": 0.1}}))
    {'optimizer.type': 'adam', 'optimizer.lr': 0.1}
    """
    for key, value in mapping.items():
        name = f"{front}.{key}" if front else key
        if isinstance(value, Mapping) and value:
            yield from flat(value, name)
        else:
            yield name, value


def _plain(bound: Number) -> float:
    """Leave out the last digits, in which 0.9 - 0.06 is no 0.84."""
    return float(f"{bound:.12g}")


def _multiple(bound: Number, step: Number) -> Decimal:
    size = Decimal(str(step))
    return (Decimal(str(bound)) / size).to_integral_value(ROUND_HALF_EVEN) * size


def _distinct(options: Iterable[Any]) -> Iterator[Any]:
    seen = set()
    for option in options:
        text = json.dumps(option, sort_keys=True)
        if text not in seen:
            seen.add(text)
            yield option


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
