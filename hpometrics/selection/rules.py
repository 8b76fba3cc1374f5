"""The words for which epoch counts for a run and which trial wins; all that `check` needs of selection."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias


class At(StrEnum):
    """Which epoch's value counts for a run: its best one or its last one."""

    BEST = "best"
    LAST = "last"


Pick: TypeAlias = Literal["best", "one_se", "knee"] | int
"""The best trial, or the simplest within one standard error of it; of several objectives the knee of the
front (see `knee_of`), or a trial of the front by its number."""

RULES = ("best", "one_se", "knee")
