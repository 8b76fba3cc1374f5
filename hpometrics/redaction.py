"""Redaction: passwords and secrets never reach a message, a file or a log; `***` stands where they were."""

from __future__ import annotations

import os
import re

from .exceptions import ConfigError

HIDDEN = "***"

_LEAST = 4  # characters of what is hidden: in place of less, whole texts would be stars
_USER = re.compile(r"(?<=://)[^\s/?#'\"]+(?=@)")
_QUERY = re.compile(r"(?<=[?&])(\w*(?:password|passwd|pwd|secret|token|key)\w*=)[^\s&#'\"]+", re.IGNORECASE)
_revealed: set[str] = set()  # what this process was told in secret


def reveal(variable: str) -> str:
    """Give the value of an environment variable, which `redacted` hides from then on in this process.

    Raises:
        ConfigError: there is no such variable.
    """
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(f"the environment has no {variable}, from which a secret is to be read; export it")
    hide(value)
    return value


def hide(secret: str) -> None:
    """Let `redacted` hide a text from now on in this process."""
    if len(secret) >= _LEAST:
        _revealed.add(secret)


def redacted(text: str) -> str:
    """Hide who logs in at a URL, keys in its query, and every secret that was revealed.

    >>> redacted("cannot reach postgresql://ada:pw@db/studies?sslmode=require&sslpassword=x")
    'cannot reach postgresql://***@db/studies?sslmode=require&sslpassword=***'
    """
    text = _QUERY.sub(rf"\g<1>{HIDDEN}", _USER.sub(HIDDEN, text))
    for secret in sorted(_revealed, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
