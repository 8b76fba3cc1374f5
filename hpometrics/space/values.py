"""What the value of a param may be: anything strict JSON holds; and when two values are the same."""

from __future__ import annotations

import json
import math
from typing import TypeGuard

from .._redaction import excerpt
from ..exceptions import SpaceError

Scalar = str | int | float | bool | None


def is_number(value: object) -> TypeGuard[int | float]:
    """Say whether a value is a finite int or float; a bool is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: object) -> TypeGuard[int]:
    """Say whether a value is an int; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_scalar(value: object) -> TypeGuard[Scalar]:
    """Say whether a value can be a choice: text, a finite number, a bool or None."""
    return value is None or isinstance(value, (str, bool, int)) or is_number(value)


def same(a: object, b: object) -> bool:
    """Compare two values by kind and value: 1, 1.0 and True are three things."""
    return type(a) is type(b) and a == b


def check_json(value: object) -> None:
    """Refuse what strict JSON cannot hold and give back unchanged.

    Raises:
        SpaceError: a nan, an infinity, a tuple, a foreign class, a key that is no text.
    """
    try:
        unchanged = json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError):
        unchanged = False
    if not unchanged:
        raise SpaceError(
            f"got {shown(value)}; a param is a finite number, text, true, false, null, "
            "or a list or mapping of these"
        )


def shown(value: object) -> str:
    """Print a value and its type for an error, cut to a length one can read."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python prints no int of more than 4300 digits
        text = "a value too long to print"
    return f"{excerpt(text, 60)}{'...' if len(text) > 60 else ''} ({type(value).__name__})"
