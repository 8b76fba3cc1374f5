"""The YAML of a sweep file: scalars as in YAML 1.2, and texts that `document` reads back unchanged.

PyYAML follows YAML 1.1, where `1e-5` is text, `no` is False, `010` is 8 and `12:30` is 750.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

from .._redaction import HIDDEN, excerpt, is_secret, mask_secrets

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


class _Dumper(yaml.SafeDumper):
    """A dumper of the scalars that `read_plain` reads; it never writes an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if is_text(text) and text != "<<" and text.isprintable() else '"'
    return dumper.represent_scalar(f"{PREFIX}str", text, style)


def _represent_float(dumper: _Dumper, number: float) -> yaml.ScalarNode:
    text = repr(number)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")  # readers of YAML 1.1 need the point
    return dumper.represent_scalar(f"{PREFIX}float", text)


_STYLE: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "default_flow_style": None, "width": 110}
_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)


def dump_yaml(data: Any) -> str:
    """Return the YAML of mappings, lists and scalars, in their order.

    >>> print(dump_yaml({"lr": 1e-05, "name": "1e-5", "widths": [1, 2]}), end="")
    lr: 1.0e-05
    name: "1e-5"
    widths: [1, 2]
    """
    return _escape(str(yaml.dump(data, Dumper=_Dumper, **_STYLE)))


def flow_yaml(data: Any) -> str:
    """Return YAML on one line.

    >>> print(flow_yaml({"float": [1e-05, 0.1], "log": True}), flow_yaml("10"))
    {float: [1.0e-05, 0.1], log: true} "10"
    """
    style = {**_STYLE, "default_flow_style": True, "width": math.inf}
    return _escape(str(yaml.dump(data, Dumper=_Dumper, **style)).removesuffix("...\n").rstrip())


def _escape(text: str) -> str:
    """Escape unprintable characters, such as changes of the reading direction; they are in double quotes."""
    odd = {char for char in text if not (char.isprintable() or char == "\n")}
    format_short = {ord(char): f"\\u{ord(char):04x}" for char in odd if char <= "\uffff"}
    return text.translate({**{ord(char): f"\\U{ord(char):08x}" for char in odd}, **format_short})


def format_short(value: Any) -> str:
    """Format a param in a few characters."""
    return f"{value:.3g}" if isinstance(value, float) else format_exact(value)


def format_exact(value: Any) -> str:
    """Format a param as YAML, a secret as `***`."""
    if is_secret(value):
        return HIDDEN
    if isinstance(value, str):
        plain = is_text(value) and value.isprintable() and not set(value) & set(":#{}[],&*!|>'\"%@`")
        return value if plain else json.dumps(value)
    return json.dumps(mask_secrets(value))
