"""The dimensions of a space: Float, Int, Normal, Choice and the constant Value, each checked on creation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from statistics import NormalDist
from typing import Any, ClassVar

from ..exceptions import SpaceError
from .values import (
    Scalar,
    check_distinct,
    check_json,
    checked_bundles,
    checked_weights,
    format_value,
    is_number,
    is_scalar,
    is_whole,
    same,
)

When = Mapping[str, Any]
_LARGEST_INT = 2**53  # Optuna keeps ints as floats
_ON_GRID = 1e-8  # Optuna's own tolerance for a value to lie on a step
QUANTILES = (0.000032, 0.999968)
"""The quantiles of a normal distribution between which its values lie: four deviations around the mean."""


@dataclass(frozen=True)
class Float:
    """A real number in [low, high], both literal and inclusive.

    Args:
        low: the smallest value, in the parameter's own unit.
        high: the largest value; with a `step` that does not meet it, the last step below it.
        log: draw uniformly in the logarithm.
        step: distance between neighbors, counted from `low`; a logarithmic draw becomes the nearest of them.
        when: the values of other params under which this one exists.
    """

    kind: ClassVar[str] = "float"
    low: float
    high: float
    log: bool = False
    step: float | None = None
    when: When | None = None

    def __init__(
        self,
        low: float,
        high: float,
        *,
        log: bool = False,
        step: float | None = None,
        when: When | None = None,
    ) -> None:
        _check_finite(low=low, high=high, step=step)
        _check_range(low, high, log, step)
        exact = None if step is None else float(step)
        _fill(
            self, low=float(low), high=_last(float(low), float(high), exact), log=log, step=exact, when=when
        )

    def take(self, value: object) -> float:
        """Return the value as this dimension stores it.

        Raises:
            SpaceError: it is not a number, out of range or off the steps.
        """
        if not is_number(value):
            raise SpaceError(f"must be a number, got {format_value(value)}")
        number = float(value)
        _check_within(number, self.low, self.high, self.step)
        return number

    def nearest(self, value: float) -> float:
        """Return the value of this dimension that is nearest to a number.

        >>> Float(0.0, 1.0).nearest(1.2), Float(0.0, 1.0, step=0.25).nearest(0.4)
        (1.0, 0.5)
        """
        inside = min(max(value, self.low), self.high)
        if self.step is None:
            return inside
        steps = min(round((inside - self.low) / self.step), round((self.high - self.low) / self.step))
        return float(on_step(steps, self.step, self.low))

    def points(self) -> list[Scalar]:
        """List every value, smallest first.

        Raises:
            SpaceError: there is no step, so the values are infinite.
        """
        if self.step is None:
            raise SpaceError("is continuous; set step to enumerate it")
        steps = round((self.high - self.low) / self.step)
        return [on_step(count, self.step, self.low) for count in range(steps + 1)]


@dataclass(frozen=True)
class Int:
    """A whole number in [low, high], inclusive at both ends.

    Args:
        low, high, log, step, when: see `Float`.
        power: only `low`, `low * power`, `low * power**2` and so on, each as probable as the others.
    """

    kind: ClassVar[str] = "int"
    low: int
    high: int
    log: bool = False
    step: int = 1
    when: When | None = None
    power: int | None = None

    def __init__(
        self,
        low: int,
        high: int,
        *,
        log: bool = False,
        step: int | None = None,
        power: int | None = None,
        when: When | None = None,
    ) -> None:
        for name, value in (("low", low), ("high", high), ("step", step), ("power", power)):
            if value is not None and not is_whole(value):
                raise SpaceError(f"{name} must be a whole number, got {format_value(value)}")
            if value is not None and abs(value) > _LARGEST_INT:
                raise SpaceError(f"{name} {value} is above 2**53, beyond which whole numbers are not exact")
        _check_range(low, high, log, step)
        if power is not None:
            _check_power(low, power, log, step)
            high = low * power ** _exponent(high / low, power)
        _fill(self, low=low, high=_last(low, high, step), log=log, step=step or 1, when=when, power=power)

    def take(self, value: object) -> int:
        """Return the value as this dimension stores it.

        Raises:
            SpaceError: it is not a whole number, out of range or off the steps.
        """
        if not is_whole(value):
            raise SpaceError(f"must be a whole number, got {format_value(value)}")
        _check_within(value, self.low, self.high, self.step)
        if self.power is not None and value not in self.points():
            raise SpaceError(f"must be {self.low} times a power of {self.power}, got {value!r}")
        return value

    def nearest(self, value: float) -> int:
        """Return the value of this dimension that is nearest to a number.

        >>> Int(1, 9, step=4).nearest(6.4), Int(1, 9).nearest(12), Int(1, 64, power=2).nearest(24)
        (5, 9, 32)
        """
        inside = min(max(value, self.low), self.high)
        if self.power is not None:
            return int(self.low * self.power ** round(math.log(inside / self.low, self.power)))
        return self.low + min(round((inside - self.low) / self.step), self._steps) * self.step

    def points(self) -> Sequence[int]:
        """List every value, smallest first."""
        if self.power is not None:
            exponents = range(_exponent(self.high / self.low, self.power) + 1)
            return [self.low * self.power**exponent for exponent in exponents]
        return range(self.low, self.high + 1, self.step)

    @property
    def _steps(self) -> int:
        return (self.high - self.low) // self.step


@dataclass(frozen=True)
class Normal:
    """A real number with a normal distribution, or with a log-normal one.

    Values lie within four deviations of the mean, as all but one of 16,000 of the distribution do. Without a
    step, values are rounded, so that a value and its quantile convert into each other exactly. They are
    rounded to a ten-billionth of the deviation, and log-normal ones to nine digits.

    Args:
        mean: of the values; of their natural logarithms if `log` is set.
        deviation: the standard deviation of the same.
        log: the logarithm of the value is normal.
        step: a value is the multiple of it that is nearest to the draw; a whole number makes values whole.
        when: see `Float`.

    >>> round(Normal(0.9, 0.02).low, 4), Normal(0, 10, step=5).points()[:3], Normal(0, 1, log=True).nearest(1)
    (0.82, (-40, -35, -30), 1.0)
    """

    kind: ClassVar[str] = "normal"
    mean: float
    deviation: float
    log: bool = False
    step: float | None = None
    when: When | None = None

    def __init__(
        self,
        mean: float,
        deviation: float,
        *,
        log: bool = False,
        step: float | None = None,
        when: When | None = None,
    ) -> None:
        _check_finite(mean=mean, deviation=deviation, step=step)
        if not isinstance(log, bool):
            raise SpaceError(f"log must be true or false, got {format_value(log)}")
        if deviation <= 0:
            raise SpaceError(f"deviation must be above 0, got {deviation}")
        if step is not None and step <= 0:
            raise SpaceError(f"step must be above 0, got {step}")
        _fill(self, mean=float(mean), deviation=float(deviation), log=log, step=step, when=when)
        try:
            low, high = self.low, self.high
        except (OverflowError, ValueError):
            low = high = math.inf
        if not (math.isfinite(low) and math.isfinite(high)) or (log and low <= 0 and step is None):
            raise SpaceError(f"mean {mean} and deviation {deviation} lead to values that no float can hold")
        if low == high:
            how = "" if step is None else f" with step {step}"
            raise SpaceError(f"mean {mean} and deviation {deviation}{how} have only one value, {low}")

    @property
    def low(self) -> float:
        """The smallest value."""
        return self.value_of(QUANTILES[0])

    @property
    def high(self) -> float:
        """The largest value."""
        return self.value_of(QUANTILES[1])

    def value_of(self, quantile: float) -> float:
        """Return the value at a quantile of the distribution, a number between 0 and 1."""
        draw = self.mean + self.deviation * NormalDist().inv_cdf(quantile)
        return self._rounded(math.exp(draw) if self.log else draw)

    def quantile_of(self, value: float) -> float:
        """Return the quantile of a value; of one with a step the middle of the quantiles that become it."""
        if self.step is None:
            quantile = self._quantile(value)
        else:
            quantile = (self._quantile(value - self.step / 2) + self._quantile(value + self.step / 2)) / 2
        return min(max(quantile, QUANTILES[0]), QUANTILES[1])

    def take(self, value: object) -> float:
        """Return the value as this dimension stores it.

        Raises:
            SpaceError: it is not a number, farther than four deviations from the mean, or off the steps.
        """
        if not is_number(value):
            raise SpaceError(f"must be a number, got {format_value(value)}")
        stored = self._rounded(value)
        if not self.low <= stored <= self.high:
            raise SpaceError(f"must lie within four deviations, in [{self.low}, {self.high}], got {value!r}")
        if self.step is not None and abs(stored - value) > _ON_GRID * self.step:
            raise SpaceError(f"must be a multiple of {self.step}, got {value!r}")
        return stored

    def nearest(self, value: float) -> float:
        """Return the value of this dimension that is nearest to a number."""
        return self._rounded(min(max(value, self.low), self.high))

    def points(self) -> tuple[float, ...]:
        """List every value, smallest first.

        Raises:
            SpaceError: there is no step, so the values are infinite.
        """
        if self.step is None:
            raise SpaceError("is continuous; set step to enumerate it")
        first, last = (round(bound / self.step) for bound in (self.low, self.high))
        return tuple(on_step(count, self.step) for count in range(first, last + 1))

    def _quantile(self, value: float) -> float:
        if self.log and value <= 0:
            return 0.0
        return NormalDist().cdf(((math.log(value) if self.log else value) - self.mean) / self.deviation)

    def _rounded(self, value: float) -> float:
        if self.step is not None:
            rounded: float = on_step(round(value / self.step), self.step)
            return rounded
        if self.log:
            return float(f"{value:.9g}")
        return round(float(value), 10 - math.floor(math.log10(self.deviation)))


@dataclass(frozen=True)
class Choice:
    """One of several values, or of several bundles.

    Args:
        options: a list of scalars (text, numbers, bools, None); or a mapping from a label to the params
            that it sets together, as in `{"small": {"depth": 2, "width": 64}, "large": {...}}`.
        when: the values of other params under which this one exists.
        weights: how often each option is drawn, in their order, as in `[0.7, 0.2, 0.1]` or `[7, 2, 1]`; all
            alike unless given.
    """

    kind: ClassVar[str] = "choice"
    options: tuple[Scalar, ...]
    bundles: Mapping[str, Mapping[str, Any]] | None = None
    when: When | None = None
    weights: tuple[float, ...] | None = None

    def __init__(
        self,
        options: Sequence[Scalar] | Mapping[str, Any],
        when: When | None = None,
        *,
        weights: Sequence[float] | None = None,
    ) -> None:
        if not isinstance(options, (list, tuple, Mapping)):
            raise SpaceError(
                f"a choice needs a list of options or a mapping of bundles, got {format_value(options)}"
            )
        if not options:
            raise SpaceError("a choice needs at least one option")
        bundles = checked_bundles(options) if isinstance(options, Mapping) else None
        for option in () if bundles else options:
            if not is_scalar(option):
                raise SpaceError(
                    "an option must be text, a finite number, true, false or null, got "
                    f"{format_value(option)}; for other values, use bundles: a mapping from labels to "
                    "params"
                )
        check_distinct(tuple(options))
        shares = None if weights is None else checked_weights(weights, len(options))
        _fill(self, options=tuple(options), bundles=bundles, when=when, weights=shares)

    @property
    def owned(self) -> tuple[str, ...]:
        """The params that the bundles set, in order; none for plain options."""
        return tuple(dict.fromkeys(param for bundle in (self.bundles or {}).values() for param in bundle))

    def take(self, value: object) -> Scalar:
        """Return the option (or the label of the bundle) that equals the value.

        Raises:
            SpaceError: there is none.
        """
        for option in self.options:
            if same(option, value):
                return option
        what = "the labels" if self.bundles else "the options"
        raise SpaceError(
            f"must be one of {what} {', '.join(map(repr, self.options))}, got {format_value(value)}"
        )

    def points(self) -> tuple[Scalar, ...]:
        """List every option or label, as given."""
        return self.options


@dataclass(frozen=True)
class Value:
    """A constant: it is part of the params and no part of the search. Any JSON value."""

    kind: ClassVar[str] = "value"
    value: Any
    when: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_json(self.value)

    def take(self, value: object) -> Any:
        """Return the constant.

        Raises:
            SpaceError: the value is another.
        """
        if not same(value, self.value):
            raise SpaceError(f"is fixed at {format_value(self.value)}, got {format_value(value)}")
        return self.value

    def points(self) -> tuple[Any, ...]:
        """List the one value."""
        return (self.value,)


Dimension = Float | Int | Normal | Choice | Value


def _check_finite(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not is_number(value):
            raise SpaceError(f"{name} must be a finite number, got {format_value(value)}")


def _check_range(low: float, high: float, log: object, step: float | None) -> None:
    if not isinstance(log, bool):
        raise SpaceError(f"log must be true or false, got {format_value(log)}")
    if low > high:
        raise SpaceError(f"low {low} must not be greater than high {high}")
    if not math.isfinite(float(high) - float(low)):
        raise SpaceError(f"the range from {low} to {high} is too wide for a float")
    if log and low <= 0:
        raise SpaceError(f"log requires low above 0, got {low}")
    if step is None:
        return
    if step <= 0 or step > high - low:
        raise SpaceError(f"step must be positive and at most high - low = {high - low:g}, got {step}")


def _check_power(low: int, power: int, log: bool, step: int | None) -> None:
    if log or step is not None:
        raise SpaceError(f"power {power} defines its own steps; leave log and step out")
    if power < 2 or low < 1:
        raise SpaceError(f"power must be at least 2 and low at least 1, got power {power} and low {low}")


def _exponent(ratio: float, power: int) -> int:
    """Return the largest exponent of a power that is at most a ratio."""
    exponent = 0
    while power ** (exponent + 1) <= ratio:
        exponent += 1
    return exponent


def _check_within(value: float, low: float, high: float, step: float | None) -> None:
    if not low <= value <= high:
        raise SpaceError(f"must lie in [{low}, {high}], got {value!r}")
    steps = 0.0 if step is None else (value - low) / step
    if abs(steps - round(steps)) > _ON_GRID:
        raise SpaceError(f"must lie on a step of {step} from {low}, got {value!r}")


def on_step(count: int, step: Any, low: Any = 0) -> Any:
    """Return a number of steps from `low`, in decimals, as 0.1 is meant; whole if both are."""
    if isinstance(step, int) and isinstance(low, int):
        return low + count * step
    return float(Decimal(str(low)) + count * Decimal(str(step)))


def _last(low: Any, high: Any, step: Any) -> Any:
    """Return the largest value on the steps; in decimals, as 0.1 is meant."""
    if step is None:
        return high
    start, width = Decimal(str(low)), Decimal(str(step))
    end = start + (Decimal(str(high)) - start) // width * width
    return type(high)(end)


def describe(dimension: Dimension) -> dict[str, Any]:
    """Describe a dimension in plain JSON."""
    facts = {field.name: getattr(dimension, field.name) for field in fields(dimension)}
    return {"kind": dimension.kind, **{name: fact for name, fact in facts.items() if fact is not None}}


def _fill(dimension: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(dimension, name, value)
