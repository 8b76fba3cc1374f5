"""The rules of a search, as a sweep file has them: which epoch and trial count, constraints, dominance."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from .._text import NOTHING_MEASURED, did_you_mean
from ..direction import Direction
from ..exceptions import ConfigError, ConstraintError
from ..space.values import is_number, is_whole

if TYPE_CHECKING:  # reading a sweep file needs no records
    from ..records.trial_record import EpochRecord, Reading, TrialRecord

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_FORM = re.compile(rf"\s*(?P<name>.*?)\s*(?P<sign><=|>=)\s*(?P<bound>{_NUMBER})\s*\Z", re.DOTALL)
_BROKEN = {"<=": ">", ">=": "<"}


class At(StrEnum):
    """Which epoch's value counts for a run: its best one or its last one."""

    BEST = "best"
    LAST = "last"


Pick: TypeAlias = Literal["best", "one_se", "cheapest_within_se", "knee"] | int
"""The best trial, or the simplest or the cheapest within one standard error of it; of several objectives the
knee of the front (see `knee_of`), or a trial of the front by its number."""

CHEAPEST = "cheapest_within_se"
WITHIN_ERROR = ("one_se", CHEAPEST)
"""The rules that take the standard error of a value over repeats."""

DOMINANCE = "dominance"
"""The word that `prune_by` takes for all objectives."""

RULES = ("best", *WITHIN_ERROR, "knee")


def read_pick(text: str) -> Pick:
    """Read a name of `RULES` or the number of a trial.

    Raises:
        ConfigError: it is something else.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    if text in RULES:
        return cast("Pick", text)
    raise ConfigError(f"pick must be {', '.join(RULES)} or the number of a trial, got {text!r}")


@dataclass(frozen=True)
class CostUnit:
    """The unit of what a trial costs: its seconds, GPU seconds, money by the hour, or what the engine logs.

    Args:
        name: `seconds`, `gpu_seconds`, `rate` or `logged`.
        rate: the money for an hour of a trial.
        logged: the name of a value that the engine logs; the cost is its sum over the epochs.

    >>> unit = CostUnit.parse({"rate": 2.5})
    >>> unit.format(40)
    '40 (2.5 an hour)'
    """

    name: str = "seconds"
    rate: float = 0.0
    logged: str | None = None

    @classmethod
    def parse(cls, form: object) -> CostUnit:
        """Read `seconds`, `gpu_seconds`, `{"rate": number}` or `{"logged": name}`.

        Raises:
            ConfigError: it is something else.
        """
        if isinstance(form, CostUnit):
            return form
        if form in ("seconds", "gpu_seconds"):
            return cls(str(form))
        if isinstance(form, Mapping) and len(form) == 1:
            [(name, value)] = form.items()
            if name == "rate" and is_amount(value):
                return cls(name, rate=value)
            if name == "logged" and isinstance(value, str) and value and value.isprintable():
                return cls(name, logged=value)
        raise ConfigError(
            "the unit of a cost must be seconds, gpu_seconds, {rate: 2.5} (money an hour), or {logged: NAME} "
            f"(a value that the engine logs), got {form!r}"
        )

    @property
    def form(self) -> str | dict[str, float | str]:
        """The form that `parse` reads."""
        if self.logged is not None:
            return {self.name: self.logged}
        return {self.name: self.rate} if self.rate else self.name

    @property
    def words(self) -> str:
        """The unit in words: `seconds`, `GPU seconds`, `2.5 an hour`, or the name of the logged value."""
        if self.rate:
            return f"{self.rate:g} an hour"
        return self.logged or self.name.replace("gpu_", "GPU ")

    def format(self, cost: float) -> str:
        """Return a cost with its unit; `-` if it is unknown."""
        if math.isnan(cost):
            return "-"
        return f"{cost:.4g} ({self.words})" if self.rate else f"{cost:.4g} {self.words}"

    def logged_in(self, epochs: Iterable[EpochRecord]) -> float | None:
        """Return the cost that epochs have logged in all; None if the cost is not logged."""
        if self.logged is None:
            return None
        values = (epoch.number(self.logged) for epoch in epochs)
        return math.fsum(value for value in values if 0 <= value < math.inf)

    def cost_of(self, record: TrialRecord) -> float:
        """Return what a trial has cost so far; nan if its record does not say."""
        if self.logged is not None:
            return math.nan if record.cost is None else record.cost
        if self.name == "gpu_seconds":
            return math.nan if record.gpus is None else record.seconds * record.gpus
        return record.seconds * self.rate / 3600 if self.rate else record.seconds

    def spent(self, records: Iterable[TrialRecord]) -> float:
        """Return what the trials that have ended cost in all; one whose record does not say counts as 0."""
        costs = (self.cost_of(record) for record in records if record.state.finished)
        return math.fsum(cost for cost in costs if math.isfinite(cost))


SECONDS = CostUnit()
"""The unit of what a trial costs unless another is stated."""


def is_amount(value: Any) -> bool:
    """Check whether a value is a finite number above 0."""
    return is_number(value) and value > 0


@dataclass(frozen=True)
class Constraint:
    """A bound on one value.

    Args:
        name: of the value.
        sign: `<=` or `>=`.
        bound: in the value's own unit; it is kept where the value equals it.

    >>> constraint = Constraint.parse("ece <= 0.05")
    >>> constraint.excess({"ece": 0.25}), constraint.excess({"ece": 0.05}), constraint.excess({})
    (0.2, 0.0, inf)
    >>> constraint.broken_by({"ece": 0.25})
    'ece 0.25 > 0.05'
    """

    name: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read `name <= number` or `name >= number`.

        Raises:
            ConstraintError: it is something else.
        """
        match = _FORM.match(text) if isinstance(text, str) else None
        if match is None or not match["name"] or not math.isfinite(float(match["bound"])):
            raise ConstraintError(
                "a constraint must be the name of a value, <= or >=, and a number, as in 'ece <= 0.05'; "
                f"got {text!r}"
            )
        return cls(match["name"], match["sign"], float(match["bound"]))

    def __str__(self) -> str:
        return f"{self.name} {self.limit}"

    @property
    def limit(self) -> str:
        """The bound without the name: `<= 0.05`."""
        return f"{self.sign} {_format_bound(self.bound)}"

    def excess(self, values: Mapping[str, Reading]) -> float:
        """Return by how much the bound is exceeded: 0 or less if it is kept, inf if no value is finite."""
        value = values.get(self.name, math.nan)
        if isinstance(value, list) or not math.isfinite(value):
            return math.inf
        return value - self.bound if self.sign == "<=" else self.bound - value

    def broken_by(self, values: Mapping[str, Reading]) -> str | None:
        """Return how values break the bound; None if they keep it."""
        if self.excess(values) <= 0:
            return None
        value = values.get(self.name)
        if isinstance(value, float | int) and math.isfinite(value):
            return f"{self.name} {value:.6g} {_BROKEN[self.sign]} {_format_bound(self.bound)}"
        return f"{self.name} has no finite value, but must be {self.limit}"


def violation(excesses: Iterable[float]) -> float:
    """Return by how much bounds are exceeded in all: 0 if all are kept.

    >>> violation([0.25, -3.0, 0.5])
    0.75
    """
    return sum((max(0.0, excess) for excess in excesses), start=0.0)


def violation_of(constraints: Iterable[Constraint], values: Mapping[str, Reading]) -> float:
    """Return by how much values exceed all bounds."""
    return violation(constraint.excess(values) for constraint in constraints)


def _format_bound(bound: float) -> str:
    return repr(bound).removesuffix(".0")


@dataclass(frozen=True)
class DominanceRule:
    """The rule by which a trial is stopped: in all objectives it is worse than a quantile of the others.

    The quantile is the worst of the best `percentile` % of the values that the others had in the same epoch,
    without interpolation. The others are all trials that reached it and have not failed: complete, pruned or
    at work. A value that is not finite is the worst, and an equal one is not worse.

    Args:
        percentile: the share of the others that counts as better, in percent; the smaller, the more stop.
        warmup: the first epochs, which are not judged.
        min_trials: the least number of others at an epoch that is judged.
        interval: the epochs from one judged epoch to the next.

    Raises:
        ConfigError: a number is out of range.
    """

    percentile: float = 50.0
    warmup: int = 0
    min_trials: int = 5
    interval: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.percentile <= 100:
            raise ConfigError(f"percentile must be above 0 and at most 100, got {self.percentile!r}")
        for name, least in (("warmup", 0), ("min_trials", 1), ("interval", 1)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")

    def stops(
        self,
        epoch: int,
        values: Sequence[float],
        others: Collection[Sequence[float]],
        directions: Iterable[Direction],
    ) -> bool:
        """Return whether a trial is stopped after an epoch, counted from 0.

        Args:
            epoch: the epoch.
            values: its value of each objective.
            others: those of each other trial.
            directions: of each objective.
        """
        since = epoch - self.warmup
        if since < 0 or since % self.interval or len(others) < self.min_trials:
            return False
        columns = zip(directions, values, zip(*others, strict=True), strict=True)
        return all(one.better(one.quantile(column, self.percentile), value) for one, value, column in columns)


def judgeable(epoch: EpochRecord, names: Iterable[str]) -> dict[str, float]:
    """Return the values of an epoch that are one number, without those of `names` that had no batch.

    No host may judge an epoch by the nan of a metric that was not measured in it.
    """
    reasons = epoch.reasons
    unmeasured = {name for name in names if reasons.get(name) == NOTHING_MEASURED} if reasons else ()
    return {
        name: value
        for name, value in epoch.values.items()
        if name not in unmeasured and not isinstance(value, list)
    }


def judged_text(values: Mapping[str, float]) -> str:
    """Return by what a trial was judged, and its values: `by accuracy at 0.31`."""
    if len(values) == 1:
        [(name, value)] = values.items()
        return f"by {name} at {value:g}"
    return f"by {DOMINANCE} at {', '.join(f'{name} {value:g}' for name, value in values.items())}"


def format_judgment(values: Mapping[str, float], judged: Iterable[str], value: float) -> str:
    """Return by what a scheduler judged an epoch.

    Args:
        values: the values of the epoch by name.
        judged: the names that it judges by; without one it judges by the value of the metric.
        value: the value of the metric.
    """
    seen = {name: values[name] for name in judged if name in values}
    return judged_text(seen) if seen else f"at {value:g}"


def unjudged(prune_by: str, names: Iterable[str]) -> str:
    """Return why a pruner cannot judge by a metric that is not among the names of those requested."""
    choices = [*names, DOMINANCE]
    hint = did_you_mean(prune_by, choices) or ","
    return (
        f"prune_by: {prune_by} is neither optimized nor tracked{hint} choose from {', '.join(choices)}, "
        "or track it"
    )
