"""The words for which epoch counts for a run and which trial wins; reading a sweep file needs no more."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from ..exceptions import ConfigError


class At(StrEnum):
    """Which epoch's value counts for a run: its best one or its last one."""

    BEST = "best"
    LAST = "last"


Pick: TypeAlias = Literal["best", "one_se", "knee"] | int
"""The best trial, or the simplest within one standard error of it; of several objectives the knee of the
front (see `knee_of`), or a trial of the front by its number."""

RULES = ("best", "one_se", "knee")


def read_pick(text: str) -> Pick:
    """Read `best`, `one_se`, `knee` or the number of a trial.

    Raises:
        ConfigError: it is something else.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    if text in RULES:
        return text  # type: ignore[return-value]  # it is one of the three
    raise ConfigError(f"pick is best, one_se, knee or the number of a trial, got {text!r}")
