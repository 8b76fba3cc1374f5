"""Readings: what was read of a metric at the end of an epoch: a number, or lists of them such as a curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from ._json import real

Reading: TypeAlias = float | list["Reading"]


def numbers_of(readings: Mapping[str, Reading]) -> dict[str, float]:
    """Those that are one number: a host has no place for more."""
    return {name: value for name, value in readings.items() if not isinstance(value, list)}


def number_in(readings: Mapping[str, Reading], name: str) -> float:
    """The number of this name; nan where there is none."""
    value = readings.get(name, math.nan)
    return math.nan if isinstance(value, list) else value


def shape_of(reading: list[Reading]) -> str:
    """Print how many numbers there are.

    >>> shape_of([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), shape_of([0.5, 0.25])
    ('2 x 3', '2 values')
    """
    sizes = []
    inner: Reading = reading
    while isinstance(inner, list):
        sizes.append(len(inner))
        inner = inner[0] if inner else math.nan
    return f"{sizes[0]} values" if len(sizes) == 1 else " x ".join(map(str, sizes))


def to_json(reading: Reading) -> Any:
    """Give plain JSON; null is a number that is not finite."""
    if isinstance(reading, list):
        return [to_json(inner) for inner in reading]
    return reading if math.isfinite(reading) else None


def from_json(told: Any) -> Reading:
    """Read what `to_json` gave; null is nan.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(told, list):
        return [from_json(inner) for inner in told]
    return math.nan if told is None else real(told)
