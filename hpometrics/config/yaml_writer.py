"""Writers of YAML that `document` reads back unchanged, and of files that are never half written."""

from __future__ import annotations

import json
import math
from typing import Any

import yaml

from .._redaction import HIDDEN, is_secret, mask_secrets
from .scalars import is_text


class _Dumper(yaml.SafeDumper):
    """A dumper of the scalars that `document.read_plain` reads; it never writes an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if is_text(text) and text != "<<" and text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


def _represent_float(dumper: _Dumper, number: float) -> yaml.ScalarNode:
    text = repr(number)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")  # readers of YAML 1.1 need the point
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


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
