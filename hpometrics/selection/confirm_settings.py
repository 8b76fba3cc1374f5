"""The settings of a confirmation: how many trainings, when they are compared, and which difference counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..exceptions import ConfigError
from ..space.values import is_whole

LEAST_SEEDS = 3
LEVELS = (0.01, 0.05, 0.10)
LUCK: Literal["luck"] = "luck"


@dataclass(frozen=True)
class ConfirmSettings:
    """The number of trainings, and the difference that counts.

    Args:
        top: the number of contenders, the best complete trials of the search.
        repeats: the most fresh seeds of each contender.
        equivalence: a difference of so much, in the metric's unit, does not matter; `luck` is 0.95 deviations
            of a seed; 0 never calls trials tied.
        until: `decided` looks after a half, three quarters and all of the seeds; `spent` trains all of them
            and looks once.
        level: the share of confirmations that may decide wrongly: 0.01, 0.05 or 0.10.

    Raises:
        ConfigError: a value is out of range.
    """

    top: int = 5
    repeats: int = 8
    equivalence: float | Literal["luck"] = LUCK
    until: Literal["decided", "spent"] = "decided"
    level: float = 0.05

    def __post_init__(self) -> None:
        for name, value, least in (("top", self.top, 2), ("repeats", self.repeats, LEAST_SEEDS)):
            if not is_whole(value) or value < least:
                raise ConfigError(f"confirm.{name} must be a whole number of at least {least}, got {value!r}")
        gap = None if isinstance(self.equivalence, bool) else self.equivalence
        if gap != LUCK and not (isinstance(gap, int | float) and 0 <= gap < math.inf):
            raise ConfigError(
                f"confirm.equivalence must be luck or a number of at least 0, got {self.equivalence!r}"
            )
        if self.until not in ("decided", "spent"):
            raise ConfigError(f"confirm.until must be decided or spent, got {self.until!r}")
        if self.level not in LEVELS:
            raise ConfigError(
                f"confirm.level must be one of {', '.join(map(str, LEVELS))}, got {self.level!r}"
            )

    def looks(self) -> tuple[int, ...]:
        """Return after how many seeds of each contender the runs are compared."""
        return looks(self.repeats) if self.until == "decided" else (self.repeats,)


def looks(repeats: int) -> tuple[int, ...]:
    """Return the looks at a half, three quarters and all of some repeats, each at least after 3.

    >>> looks(3), looks(8), looks(20)
    ((3,), (4, 6, 8), (10, 15, 20))
    """
    shares = (math.ceil(repeats / 2), math.ceil(3 * repeats / 4), repeats)
    return tuple(sorted({max(LEAST_SEEDS, share) for share in shares}))
