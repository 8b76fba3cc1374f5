"""Strict JSON: what a record may hold; Python's own reader also takes NaN, and fails on deep nesting."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def read_json(text: str | bytes) -> Any:
    """Read one JSON value.

    Raises:
        ValueError: it is none, holds NaN or Infinity, or is nested so deep that nobody has written it.

    >>> read_json('{"loss": 0.5}')
    {'loss': 0.5}
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def whole(value: object) -> int:
    """Give a value that is a whole number of at least 0.

    Raises:
        ValueError: it is something else, such as 1.7, "3" or true.
    """
    if type(value) is not int or value < 0:
        raise ValueError("a whole number is wanted")
    return value


def real(value: object) -> float:
    """Give a value that is a finite number.

    Raises:
        ValueError: it is something else, such as "0.3", true or an int that no float can hold.
    """
    if type(value) is not int and type(value) is not float:
        raise ValueError("a number is wanted")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number of at most 1.8e308 is wanted") from None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
