"""The scalars of a sweep file, which follow YAML 1.2.

PyYAML follows YAML 1.1, where `1e-5` is text, `no` is False, `010` is 8 and `12:30` is 750.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from .._redaction import excerpt

Scalar = str | int | float | bool | None
PREFIX = "tag:yaml.org,2002:"
TAGS: Mapping[str, type] = {
    f"{PREFIX}float": float,
    f"{PREFIX}int": int,
    f"{PREFIX}str": str,
    f"{PREFIX}bool": bool,
    f"{PREFIX}null": type(None),
}
"""YAML's own tags of scalars, `!!float` and so on, each with its type; no other tag is used."""
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
    """A plain scalar is a number that no sweep can use."""


def read_plain(text: str) -> Scalar:
    """Return the value of an unquoted scalar.

    Raises:
        ScalarError: it is nan, infinity, or a number that does not fit into 64 bits.

    >>> read_plain("1e-5"), read_plain("no"), read_plain("010"), read_plain("12:30"), read_plain("2024-01-02")
    (1e-05, 'no', 10, '12:30', '2024-01-02')
    """
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_FINITE.match(text):
        raise ScalarError(f"{text} is not a value that a sweep can use; write a finite number")
    if not _FLOAT.match(text) and not _BASED.match(text):
        return text
    if len(text) > _MAX_DIGITS:
        raise ScalarError(f"a number of {len(text)} characters; write at most {_MAX_DIGITS}")
    return _parse_number(text)


def read_tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar with one of `TAGS`.

    Raises:
        ScalarError: the text has no such value.

    >>> [read_tagged(PREFIX + kind, text) for kind, text in (("float", "1"), ("str", "1"), ("null", "~"))]
    [1.0, '1', None]
    """
    kind = tag.removeprefix(PREFIX)
    value = text if kind == "str" else read_plain(text)
    if kind == "float" and type(value) is int:
        value = float(value)
    if type(value) is not TAGS[tag]:
        raise ScalarError(f"!!{kind} does not fit {excerpt(text, 30)!r}; remove the tag")
    return value


def is_text(text: str) -> bool:
    """Return whether an unquoted scalar is read as text."""
    return not (text in _WORDS or _FLOAT.match(text) or _BASED.match(text) or _NOT_FINITE.match(text))


def _parse_number(text: str) -> int | float:
    if _BASED.match(text):
        return _check_range(int(text, 0), text)
    return _check_range(int(text) if _INT.match(text) else float(text), text)


def _check_range(number: int | float, text: str) -> int | float:
    too_long = isinstance(number, int) and number.bit_length() > 63
    if too_long or not math.isfinite(number):
        raise ScalarError(
            f"{excerpt(text, 30)} is too large; whole numbers have 64 bits, and the largest float is 1.8e308"
        )
    if number == 0 and _NOT_ZERO.match(text):
        raise ScalarError(f"{excerpt(text, 30)} is too small; the smallest number above 0 is 5e-324")
    return number
