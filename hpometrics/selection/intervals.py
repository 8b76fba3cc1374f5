"""How sure a selection is: intervals of winner and runner-up, and whether they differ significantly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal, Self

from .._formatting import format_p, to_digits
from .._redaction import excerpt
from ..exceptions import RecordError
from ..records._json import FORMAT_KEY

Kept = Literal["rows", "matrix", "fresh"]

_HOW = {
    ("rows", True): "over the same rows of both trials (paired)",
    ("rows", False): "over the rows of each trial (unpaired)",
    ("fresh", True): "over fresh trainings and the same rows of both trials (paired)",
    ("fresh", False): "over fresh trainings and the rows of each trial (unpaired)",
    ("matrix", False): "over the confusion matrix of each trial (unpaired)",
}

_LARGEST_EXPONENT = 700  # of e, which a float holds
_NOW = {"drawn": "kept"}  # names in files of earlier versions


@dataclass(frozen=True)
class Interval:
    """A value and its interval."""

    value: float
    low: float
    high: float

    @property
    def bounds(self) -> str:
        """The two ends as they are printed."""
        return f"{self.format(self.low)} .. {self.format(self.high)}"

    def format(self, value: float) -> str:
        """Return a value of the same metric to the digits that the interval supports.

        These are two digits of its half width; without a width or a bound, six digits of the value.

        >>> Interval(0.974944, 0.9524, 0.987).format(0.974944), Interval(1512, 1300, 1700).format(1512)
        ('0.975', '1510')
        """
        return to_digits(value, (self.high - self.low) / 2)

    def __str__(self) -> str:
        return f"{self.format(self.value)}, {self.bounds}"


class Scale(StrEnum):
    """On which scale an interval is symmetric: by the range of a metric's values."""

    LOGIT = "logit"
    """For values from 0 to 1."""
    LOG = "log"
    """For values from 0 on."""
    IDENTITY = "identity"

    @classmethod
    def of_range(cls, low: float, high: float) -> Scale:
        """Return the scale of values between two bounds.

        >>> Scale.of_range(0, 1).value, Scale.of_range(0, math.inf).value
        ('logit', 'log')
        """
        return cls.IDENTITY if low != 0 else cls.LOGIT if high == 1 else cls.LOG

    def interval(self, value: float, half: float) -> Interval:
        """Return the interval around a value whose half width is as given near that value.

        >>> print(Scale.LOG.interval(0.11, 0.02))
        0.110, 0.092 .. 0.132
        """
        low = -math.inf if self is Scale.IDENTITY else 0.0
        high = 1.0 if self is Scale.LOGIT else math.inf
        value = min(max(value, low), high)  # a corrected value may lie outside
        inside = 0 < value < high
        if self is Scale.LOG and inside and half < _LARGEST_EXPONENT * value:
            return Interval(value, value * math.exp(-half / value), value * math.exp(half / value))
        if self is Scale.LOGIT and inside:
            middle, reach = math.log(value / (1 - value)), half / (value * (1 - value))
            return Interval(value, _logistic(middle - reach), _logistic(middle + reach))
        return Interval(value, max(low, value - half), min(high, value + half))


@dataclass(frozen=True)
class TrialInterval:
    """One of the two trials, at its picked epoch; without an interval where none can be drawn."""

    trial: int
    epoch: int
    value: float
    interval: Interval | None = None


@dataclass(frozen=True)
class Significance:
    """How sure the selection of a trial is.

    The intervals are those of other rows of the same kind. That the winner was picked among many trials and
    epochs is not in them: only the test split shows that.

    Args:
        metric: the metric of the selection.
        winner: the best trial.
        runner_up: the one that ranks next, if there is one.
        difference: the value of the winner less that of the runner-up, with its interval.
        level: how often such an interval contains the true value.
        kept: what the intervals were computed from.
        paired: whether the rows of one trial were those of the other.
        reason: why an interval is missing.
        p_value: two-sided, that the true difference is 0.
        others: the trials that rank next, as far as their intervals are known.
    """

    metric: str
    winner: TrialInterval
    runner_up: TrialInterval | None = None
    difference: Interval | None = None
    level: float = 0.95
    kept: Kept | None = None
    paired: bool = False
    reason: str | None = None
    p_value: float | None = None
    others: tuple[TrialInterval, ...] = ()

    @property
    def intervals(self) -> dict[tuple[int, int], Interval]:
        """The interval of each trial at its epoch, where there is one."""
        sides = (self.winner, *([self.runner_up] if self.runner_up else []), *self.others)
        return {(side.trial, side.epoch): side.interval for side in sides if side.interval is not None}

    @property
    def coin_toss(self) -> bool | None:
        """Whether the difference may be 0 at this level; None where there is no difference."""
        if self.difference is None:
            return None
        if self.p_value is None:  # of a verdict whose intervals were drawn
            return self.difference.low <= 0 <= self.difference.high
        return self.p_value >= 1 - self.level

    def of_same_picks(self, other: Significance) -> bool:
        """Check whether another verdict is about the same trials at the same epochs."""
        return self._picks() == other._picks()

    def lines(self, places: tuple[str, str] = ("", "")) -> list[str]:
        """Return it in words, a line each; `places` are put before the two trials, to tell them apart."""
        if self.winner.interval is None:
            return [f"Verdict: no confidence interval; {self.reason}"]
        how = _HOW[self.kept or "rows", self.paired]
        lines = [f"Verdict: {100 * self.level:g}% intervals for {self.metric}, {how}"]
        lines.append(f"  {places[0]}trial {self.winner.trial}: {self.winner.interval}")
        if self.runner_up is not None and self.runner_up.interval is not None:
            span = self.runner_up.interval
            lines.append(f"  {places[1]}trial {self.runner_up.trial}: {span}, the runner-up")
        if self.difference is not None:
            sure = "not statistically significant" if self.coin_toss else "statistically significant"
            p = "" if self.p_value is None else f", {format_p(self.p_value)}"
            lines.append(f"  difference: {self.difference}{p}; {sure}")
        elif self.reason is not None:
            lines.append(f"  no interval for the difference; {self.reason}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Write it as plain JSON, without the trials that rank third and lower."""
        facts = {name: fact for name, fact in asdict(self).items() if name != "others"}
        return {**facts, "coin_toss": self.coin_toss}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        Raises:
            RecordError: it is something else.
        """
        try:
            derived = ("coin_toss", FORMAT_KEY)
            facts = {_NOW.get(name, name): value for name, value in content.items() if name not in derived}
            facts["winner"] = _side(content["winner"])
            facts["runner_up"] = None if content["runner_up"] is None else _side(content["runner_up"])
            facts["others"] = tuple(_side(side) for side in content.get("others", ()))
            facts["difference"] = None if content["difference"] is None else Interval(**content["difference"])
            return cls(**facts)
        except (KeyError, TypeError, AttributeError) as err:
            raise RecordError(f"not a verdict: {excerpt(content, 80)}") from err

    def _picks(self) -> tuple[Any, ...]:
        sides = (self.winner, self.runner_up)
        return (self.metric, *(side and (side.trial, side.epoch, side.value) for side in sides))


def _side(content: Mapping[str, Any]) -> TrialInterval:
    interval = None if content["interval"] is None else Interval(**content["interval"])
    return TrialInterval(**{**content, "interval": interval})


def _logistic(value: float) -> float:
    """Return the logistic function, which overflows on no side."""
    small = math.exp(-abs(value))
    return 1 / (1 + small) if value >= 0 else small / (1 + small)
