"""Secrets: `{secret: HUB_TOKEN}` in `engine.params` is read from the environment where a trial runs.

Whatever is written has the name of the variable, whatever is printed has `***`; the value is told to the
training function alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .._redaction import HIDDEN, reveal

SECRET = "secret"

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,127}")


def is_secret(value: object) -> bool:
    """Say whether the value of a param stands for a secret.

    >>> is_secret({"secret": "HUB_TOKEN"}), is_secret({"secret": "hf_abc"}), is_secret("HUB_TOKEN")
    (True, False, False)
    """
    name = value.get(SECRET) if isinstance(value, Mapping) and len(value) == 1 else None
    return isinstance(name, str) and _VARIABLE.fullmatch(name) is not None


def objection(value: Any) -> str | None:
    """Say what is wrong with the secrets in a value; None if nothing is."""
    if isinstance(value, Mapping):
        if SECRET in value and not is_secret(value):
            return "wants {secret: NAME}, the name in capitals of an environment variable; never the secret"
        value = list(value.values())
    inner = value if isinstance(value, list) else ()
    return next((text for text in map(objection, inner) if text is not None), None)


def revealed(value: Any) -> Any:
    """Give a value with the secrets in it read from the environment.

    Raises:
        ConfigError: a variable is missing; it is named.
    """
    return _replaced(value, reveal)


def veiled(value: Any) -> Any:
    """Give a value with the secrets in it as `***`, as it may be printed."""
    return _replaced(value, lambda name: HIDDEN)


def told_apart(value: Any) -> Any:
    """Give a value with the secrets in it as `***` and the variable of each, which files name too.

    >>> told_apart([{"secret": "HUB_TOKEN"}, 3])
    ['*** (HUB_TOKEN)', 3]
    """
    return _replaced(value, lambda name: f"{HIDDEN} ({name})")


def _replaced(value: Any, of: Callable[[str], str]) -> Any:
    if is_secret(value):
        return of(value[SECRET])
    if isinstance(value, Mapping):
        return {name: _replaced(inner, of) for name, inner in value.items()}
    return [_replaced(inner, of) for inner in value] if isinstance(value, list) else value
