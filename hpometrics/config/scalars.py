"""YAML 1.2 scalars: what plain text in a sweep file means, read and written by one set of rules.

PyYAML follows YAML 1.1, where `1e-5` is text, `no` is False, `010` is 8 and `12:30` is 750.
"""

from __future__ import annotations

import math
import re

from .._redaction import excerpt

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_NOT_ZERO = re.compile(r"[^eE]*[1-9]")
_MAX_DIGITS = 400


class ScalarError(ValueError):
    """A plain scalar that reads as a number no sweep can use."""


def read_plain(text: str) -> Scalar:
    """Give the value of an unquoted scalar.

    Raises:
        ScalarError: nan, infinity, or a number that 64 bits cannot hold.

    >>> read_plain("1e-5"), read_plain("no"), read_plain("010"), read_plain("12:30"), read_plain("2024-01-02")
    (1e-05, 'no', 10, '12:30', '2024-01-02')
    """
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_FINITE.match(text):
        raise ScalarError(f"{text} is no value a sweep can use; write a finite number")
    if not _FLOAT.match(text) and not _BASED.match(text):
        return text
    if len(text) > _MAX_DIGITS:
        raise ScalarError(f"a number of {len(text)} characters; write at most {_MAX_DIGITS}")
    return _read_number(text)


def is_text(text: str) -> bool:
    """Say whether a plain scalar reads back as the very text it is."""
    return not (text in _WORDS or _FLOAT.match(text) or _BASED.match(text) or _NOT_FINITE.match(text))


def _read_number(text: str) -> int | float:
    if _BASED.match(text):
        return _checked(int(text, 0), text)
    return _checked(int(text) if _INT.match(text) else float(text), text)


def _checked(number: int | float, text: str) -> int | float:
    too_long = isinstance(number, int) and number.bit_length() > 63
    if too_long or not math.isfinite(number):
        raise ScalarError(
            f"{excerpt(text, 30)} is too large; whole numbers have 64 bits, others end at 1.8e308"
        )
    if number == 0 and _NOT_ZERO.match(text):
        raise ScalarError(f"{excerpt(text, 30)} is too small; the least number above 0 is 5e-324")
    return number
