"""Cells: values as a table for spreadsheets holds them; none is read as a formula there."""

from __future__ import annotations

import json
from typing import Any

from .._text import printable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Any) -> Any:
    """Give what a CSV file holds: lists, mappings and booleans as JSON, a text on one line.

    One that begins a formula is quoted.

    >>> cell(0.5), cell("=1+1"), cell([1, 2]), cell(True)
    (0.5, "'=1+1", '[1, 2]', 'true')
    """
    if isinstance(value, (dict, list, bool)):
        return json.dumps(value)
    if isinstance(value, str):
        return f"'{printable(value)}" if value.startswith(_FORMULA) else printable(value)
    return value
