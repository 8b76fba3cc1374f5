"""The confirmation of a winner: its settings, its record, and how it ended.

The best trials of a search are trained again under seeds that they share, until one is decided, they are
practically tied, or the trainings are spent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ..direction import Direction
from ..exceptions import ConfigError
from ..records.trial_record import Reading
from .intervals import Interval
from .rules import Constraint

if TYPE_CHECKING:  # commands that print a confirmation do not load NumPy
    import numpy as np
    from numpy.typing import NDArray

Rows: TypeAlias = "NDArray[np.float64]"
RowTables: TypeAlias = Mapping[int, Rows]
"""The row values of the epochs of each trial of a search, of shape (epochs, rows)."""

LEAST_SEEDS = 3
LEVELS = (0.01, 0.05, 0.10)
LUCK: Literal["luck"] = "luck"


class ConfirmationState(StrEnum):
    """How a confirmation ended."""

    DECIDED = "decided"
    TIED = "tied"
    SPENT = "spent"
    UNCONFIRMED = "unconfirmed"


@dataclass(frozen=True)
class ConfirmSettings:
    """How much is trained again, and what counts as a difference.

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
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"confirm.{name} must be a whole number of at least {least}, got {value!r}")
        if self.equivalence != LUCK and not (
            isinstance(self.equivalence, int | float) and 0 <= self.equivalence < math.inf
        ):
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


class Contender(NamedTuple):
    """A trial that is trained again."""

    trial: int
    value: float
    """Its value in the search."""


class Scale(StrEnum):
    """On which scale an interval is symmetric: by the range of a metric's values."""

    LOGIT = "logit"
    """For values from 0 to 1."""
    LOG = "log"
    """For values from 0 on."""
    IDENTITY = "identity"

    def interval(self, value: float, half: float) -> Interval:
        """Return the interval around a value whose half width is as given near that value.

        >>> print(Scale.LOG.interval(0.11, 0.02))
        0.11, 0.09171 .. 0.1319
        """
        inside = 0 < value < (1 if self is Scale.LOGIT else math.inf)
        if self is Scale.LOG and inside:
            return Interval(value, value * math.exp(-half / value), value * math.exp(half / value))
        if self is Scale.LOGIT and inside:
            middle, reach = math.log(value / (1 - value)), half / (value * (1 - value))
            return Interval(value, _logistic(middle - reach), _logistic(middle + reach))
        low = -math.inf if self is Scale.IDENTITY else 0.0
        high = 1.0 if self is Scale.LOGIT else math.inf
        return Interval(value, max(low, value - half), min(high, value + half))


@dataclass(frozen=True)
class FreshRun:
    """A contender trained once more.

    Args:
        value: at its picked epoch; None if it failed.
        rows: the row values of each epoch that could be picked, of shape (epochs, rows), where kept.
        picked: the place of the picked epoch among those.
        rows_id: identifies the rows and their order; runs with different rows are not paired.
        values: all values of the picked epoch, for constraints.
        reason: why it failed.
    """

    value: float | None
    rows: Rows | None = None
    picked: int = 0
    rows_id: str | None = None
    values: Mapping[str, Reading] = field(default_factory=dict)
    reason: str | None = None

    @property
    def picked_rows(self) -> Rows:
        """The row values of its picked epoch."""
        if self.rows is None:
            raise ValueError("this run kept no row values")
        rows: Rows = self.rows[self.picked]
        return rows


@dataclass(frozen=True)
class ConfirmationRecord:
    """All that a confirmation decides by.

    Args:
        direction: of the metric.
        contenders: the best complete trials of the search, best first.
        plans: the settings, and those of each extension.
        runs: the runs that ended, by trial and number of the seed, counted from 1.
        bounds: constraints, which the means over the seeds have to keep.
        search: the row values of the trials of the search, where they were kept.
        scale: of the metric's values.
        clustered: whether rows are sums of clusters.
        timed_out: whether no further run may begin.
    """

    direction: Direction
    contenders: Sequence[Contender]
    plans: Sequence[ConfirmSettings]
    runs: Mapping[tuple[int, int], FreshRun] = field(default_factory=dict)
    bounds: Sequence[Constraint] = ()
    search: RowTables | None = None
    scale: Scale = Scale.IDENTITY
    clustered: bool = False
    timed_out: bool = False

    def runs_of(self, trial: int, seeds: int) -> list[FreshRun]:
        """Return the runs of a contender up to a seed, as far as they ended."""
        numbers = range(1, seeds + 1)
        return [self.runs[trial, number] for number in numbers if (trial, number) in self.runs]


@dataclass(frozen=True)
class Pair:
    """The leader of a look beside another contender; a difference above 0 speaks for the leader."""

    leader: int
    trial: int
    difference: float
    half: float
    p_value: float
    level: float
    may_be_better: float
    """By how much the other one may be better than the leader."""

    @property
    def separated(self) -> bool:
        """Whether the other one is worse at the level of the look, and leaves."""
        return self.difference > self.half

    @property
    def interval(self) -> Interval:
        """The difference with the interval of this look."""
        return Interval(self.difference, self.difference - self.half, self.difference + self.half)


@dataclass(frozen=True)
class Look:
    """One comparison of the contenders after the same number of seeds of each."""

    seeds: int
    leader: int
    pairs: tuple[Pair, ...]
    equivalence: float
    may_lose: float
    """With confidence, no contender that is left is better than the leader by more than this."""
    failed: Mapping[int, str] = field(default_factory=dict)
    """Why contenders left that were not compared, by trial."""
    seeds_matter: bool = True
    """False if every contender gave the same under all of its seeds."""

    @property
    def left(self) -> tuple[int, ...]:
        """The trials that left at this look as worse than the leader."""
        return tuple(pair.trial for pair in self.pairs if pair.separated)


@dataclass(frozen=True)
class Standing:
    """A contender at the end."""

    trial: int
    search_value: float
    mean: float
    deviation: float | None
    seeds: int
    left_at: int | None = None
    reason: str | None = None
    pair: Pair | None = None
    """Its last comparison with a leader; None for the winner."""


@dataclass(frozen=True)
class HonestValue:
    """What the winner's params are worth on new rows, trained under a new seed.

    Attributes:
        interval: the corrected value with its interval.
        mean: of the fresh runs, which picked their epochs on the rows that they are measured on.
        bias: by how much picking on these rows makes the mean look better; 0 where no rows were kept.
        limits: what the interval leaves out.
    """

    interval: Interval
    mean: float
    bias: float
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Confirmation:
    """The end of a confirmation.

    Attributes:
        state: `decided`: every other contender is worse than the winner; `tied`: none can be better by more
            than the equivalence; `spent`: all seeds are trained; `unconfirmed`: no contender is left.
        winner: the trial.
        may_lose: with confidence, no other contender is better by more than this.
        standings: the contenders, the winner first, then by mean.
        honest: the value of the winner's params without the luck of picking; None without a winner.
        trainings, planned: the fresh runs that ended, and the most there could have been.
        extended: how often more was asked for.
    """

    state: ConfirmationState
    winner: int
    may_lose: float
    equivalence: float
    level: float
    standings: tuple[Standing, ...]
    looks: tuple[Look, ...]
    honest: HonestValue | None
    trainings: int
    planned: int
    extended: int = 0
    reason: str | None = None


def _logistic(value: float) -> float:
    """Return the logistic function, which overflows on no side."""
    small = math.exp(-abs(value))
    return 1 / (1 + small) if value >= 0 else small / (1 + small)
