"""Secret params: `{secret: HUB_TOKEN}` in `engine.params`, read from the environment where a trial runs.

Written files hold the name of the variable and printed text holds `***`; only the training function receives
the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .._redaction import HIDDEN, reveal

SECRET = "secret"

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,127}")


def is_secret(value: object) -> bool:
    """Return whether the value of a param stands for a secret.

    >>> is_secret({"secret": "HUB_TOKEN"}), is_secret({"secret": "hf_abc"}), is_secret("HUB_TOKEN")
    (True, False, False)
    """
    name = value.get(SECRET) if isinstance(value, Mapping) and len(value) == 1 else None
    return isinstance(name, str) and _VARIABLE.fullmatch(name) is not None


def objection(value: Any) -> str | None:
    """Return the problem of the secrets in a value; None if there is none."""
    if isinstance(value, Mapping):
        if SECRET in value and not is_secret(value):
            return "wants {secret: NAME}, the name in capitals of an environment variable; never the secret"
        value = list(value.values())
    inner = value if isinstance(value, list) else ()
    return next((text for text in map(objection, inner) if text is not None), None)


def reveal_secrets(value: Any) -> Any:
    """Return a value with its secrets read from the environment.

    Raises:
        ConfigError: a variable, which the message names, is missing.
    """
    return _replace_secrets(value, reveal)


def mask_secrets(value: Any) -> Any:
    """Return a value with its secrets as `***`, fit for printing."""
    return _replace_secrets(value, lambda name: HIDDEN)


def label_secrets(value: Any) -> Any:
    """Return a value with its secrets as `***` and the name of the variable, which files hold too.

    >>> label_secrets([{"secret": "HUB_TOKEN"}, 3])
    ['*** (HUB_TOKEN)', 3]
    """
    return _replace_secrets(value, lambda name: f"{HIDDEN} ({name})")


def _replace_secrets(value: Any, format_name: Callable[[str], str]) -> Any:
    if is_secret(value):
        return format_name(value[SECRET])
    if isinstance(value, Mapping):
        return {name: _replace_secrets(inner, format_name) for name, inner in value.items()}
    return [_replace_secrets(inner, format_name) for inner in value] if isinstance(value, list) else value
