"""Slugs: names of sweeps that are a directory of their own on every system, and nowhere else."""

from __future__ import annotations

import re

SLUG = r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,78}[A-Za-z0-9_-])?"

_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9])(\..*)?", re.IGNORECASE)
_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")
_LENGTH = 80


def objection(text: str) -> str | None:
    """Say what is wrong with a name; None if it is a slug.

    >>> objection("digits-2"), objection("nul.txt")
    (None, "'nul.txt' is a device on Windows, where no directory can be called so")
    """
    if not re.fullmatch(SLUG, text):
        shown = f"{text[:_LENGTH]!r}{'...' if len(text) > _LENGTH else ''}"
        return (
            f"{shown} is no name; use 1 to {_LENGTH} of A-Z a-z 0-9 . _ -, "
            "no . or - in front and no . at the end"
        )
    if _DEVICE.fullmatch(text):
        return f"{text!r} is a device on Windows, where no directory can be called so"
    return None


def slug_of(text: str) -> str | None:
    """Make a name of a text, such as that of a file; None if there is nothing to make it of.

    >>> slug_of("my sweep (2)"), slug_of("..."), slug_of("con")
    ('my-sweep-2-', None, None)
    """
    slug = _OTHERS.sub("-", text).lstrip(".-")[:_LENGTH].rstrip(".")
    return None if objection(slug) else slug
