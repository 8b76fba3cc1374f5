"""Deprecation: the names that will go, and the one warning that each of them gets in a process."""

from __future__ import annotations

import sys
import warnings
from typing import NamedTuple  # dataclasses take longer to import than the package

KEPT_FOR = 2
"""Minor versions that a name works in from the first that warns, before it is gone."""


class Deprecated(NamedTuple):
    """A name that will go.

    Args:
        since: the first version that warns, as `0.2`.
        instead: what to use, as a user writes it.
    """

    since: str
    instead: str

    @property
    def gone(self) -> str:
        """The first version without the name."""
        major, minor = self.since.split(".")
        return f"{major}.{int(minor) + KEPT_FOR}"


DEPRECATED: dict[str, Deprecated] = {}
"""Every name that will go: a public Python name as `hpometrics.Name`, anything else as a user writes it.

Public Python names warn when they are loaded; whatever reads another name calls `warn_deprecated`.
"""
_warned: set[str] = set()


def warn_deprecated(name: str) -> None:
    """Warn of a name of the table, once per process, at the line outside this package that uses it."""
    if name in _warned:
        return
    _warned.add(name)
    known = DEPRECATED[name]
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("hpometrics"):
        frame, level = frame.f_back, level + 1
    text = (
        f"{name} is deprecated since hpometrics {known.since} and gone in {known.gone}; use {known.instead}"
    )
    warnings.warn(text, DeprecationWarning, stacklevel=level)
