"""The dimensions of a space: Float, Int, Choice and the constant Value, each checked on creation."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, ClassVar, TypeGuard

from .._redaction import excerpt
from ..exceptions import SpaceError

Scalar = str | int | float | bool | None

When = Mapping[str, Any]
_LARGEST_INT = 2**53  # Optuna keeps ints as floats
_ON_GRID = 1e-8  # Optuna's own tolerance for a value to lie on a step


def is_number(value: object) -> TypeGuard[int | float]:
    """Check whether a value is a finite int or float; a bool is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_whole(value: object) -> TypeGuard[int]:
    """Check whether a value is an int; a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_scalar(value: object) -> TypeGuard[Scalar]:
    """Check whether a value can be a choice: text, a finite number, a bool or None."""
    return value is None or isinstance(value, (str, bool, int)) or is_number(value)


def same(a: object, b: object) -> bool:
    """Compare two values by kind and value: 1, 1.0 and True are three things."""
    return type(a) is type(b) and a == b


def check_json(value: object) -> None:
    """Check that strict JSON holds a value and returns it unchanged.

    Raises:
        SpaceError: a nan, an infinity, a tuple, a foreign class, a key that is not a text.
    """
    try:
        unchanged = json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError):
        unchanged = False
    if not unchanged:
        raise SpaceError(
            f"got {format_value(value)}; a param is a finite number, text, true, false, null, "
            "or a list or mapping of these"
        )


def format_value(value: object) -> str:
    """Print a value and its type for an error, cut to a length one can read."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python prints no int of more than 4300 digits
        text = "a value too long to print"
    return f"{excerpt(text, 60)}{'...' if len(text) > 60 else ''} ({type(value).__name__})"


@dataclass(frozen=True)
class Float:
    """A real number in [low, high], both literal and inclusive.

    Args:
        low: the smallest value, in the parameter's own unit.
        high: the largest value; with a `step` that does not meet it, the last step below it.
        log: draw uniformly in the logarithm.
        step: distance between neighbors, counted from `low`.
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
        for name, value in (("low", low), ("high", high), ("step", step)):
            if value is not None and not is_number(value):
                raise SpaceError(f"{name} must be a finite number, got {format_value(value)}")
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
        return self.take(self.points()[round((inside - self.low) / self.step)])

    def points(self) -> list[Scalar]:
        """List every value, smallest first.

        Raises:
            SpaceError: there is no step, so the values are infinite.
        """
        if self.step is None:
            raise SpaceError("is continuous; give it a step to enumerate it")
        steps = round((self.high - self.low) / self.step)
        return [float(Decimal(str(self.low)) + i * Decimal(str(self.step))) for i in range(steps + 1)]


@dataclass(frozen=True)
class Int:
    """A whole number in [low, high], inclusive at both ends; arguments as in `Float`."""

    kind: ClassVar[str] = "int"
    low: int
    high: int
    log: bool = False
    step: int = 1
    when: When | None = None

    def __init__(
        self, low: int, high: int, *, log: bool = False, step: int | None = None, when: When | None = None
    ) -> None:
        for name, value in (("low", low), ("high", high), ("step", step)):
            if value is not None and not is_whole(value):
                raise SpaceError(f"{name} must be a whole number, got {format_value(value)}")
            if value is not None and abs(value) > _LARGEST_INT:
                raise SpaceError(f"{name} {value} is beyond 2**53, where whole numbers are no longer exact")
        _check_range(low, high, log, step)
        _fill(self, low=low, high=_last(low, high, step), log=log, step=step or 1, when=when)

    def take(self, value: object) -> int:
        """Return the value as this dimension stores it.

        Raises:
            SpaceError: it is not a whole number, out of range or off the steps.
        """
        if not is_whole(value):
            raise SpaceError(f"must be a whole number, got {format_value(value)}")
        _check_within(value, self.low, self.high, self.step)
        return value

    def nearest(self, value: float) -> int:
        """Return the value of this dimension that is nearest to a number.

        >>> Int(1, 9, step=4).nearest(6.4), Int(1, 9).nearest(12)
        (5, 9)
        """
        inside = min(max(value, self.low), self.high)
        return self.low + round((inside - self.low) / self.step) * self.step

    def points(self) -> range:
        """List every value, smallest first."""
        return range(self.low, self.high + 1, self.step)


@dataclass(frozen=True)
class Choice:
    """One of several values, or of several bundles.

    Args:
        options: a list of scalars (text, numbers, bools, None); or a mapping from a label to the params
            that it sets together, as in `{"small": {"depth": 2, "width": 64}, "large": {...}}`.
        when: the values of other params under which this one exists.
    """

    kind: ClassVar[str] = "choice"
    options: tuple[Scalar, ...]
    bundles: Mapping[str, Mapping[str, Any]] | None = None
    when: When | None = None

    def __init__(self, options: Sequence[Scalar] | Mapping[str, Any], when: When | None = None) -> None:
        if not isinstance(options, (list, tuple, Mapping)):
            raise SpaceError(
                f"a choice takes a list of options or a mapping of bundles, got {format_value(options)}"
            )
        if not options:
            raise SpaceError("a choice needs at least one option")
        bundles = _checked_bundles(options) if isinstance(options, Mapping) else None
        for option in () if bundles else options:
            if not is_scalar(option):
                raise SpaceError(
                    f"an option is text, a finite number, true, false or null, got {format_value(option)}; "
                    "a mapping from labels to params makes bundles of anything else"
                )
        _check_distinct(tuple(options))
        _fill(self, options=tuple(options), bundles=bundles, when=when)

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
        what = "label" if self.bundles else "option"
        raise SpaceError(
            f"has no {what} {format_value(value)}; it knows {', '.join(map(repr, self.options))}"
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


Dimension = Float | Int | Choice | Value


def _check_range(low: float, high: float, log: object, step: float | None) -> None:
    if not isinstance(log, bool):
        raise SpaceError(f"log must be true or false, got {format_value(log)}")
    if low > high:
        raise SpaceError(f"low {low} must not be greater than high {high}")
    if not math.isfinite(float(high) - float(low)):
        raise SpaceError(f"the range from {low} to {high} is too wide for a float")
    if log and low <= 0:
        raise SpaceError(f"log needs low above 0, got {low}")
    if step is None:
        return
    if log:
        raise SpaceError(f"log and step {step} exclude each other")
    if step <= 0 or step > high - low:
        raise SpaceError(f"step must be positive and at most high - low = {high - low:g}, got {step}")


def _check_within(value: float, low: float, high: float, step: float | None) -> None:
    if not low <= value <= high:
        raise SpaceError(f"must lie in [{low}, {high}], got {value!r}")
    steps = 0.0 if step is None else (value - low) / step
    if abs(steps - round(steps)) > _ON_GRID:
        raise SpaceError(f"must lie on a step of {step} from {low}, got {value!r}")


def _last(low: Any, high: Any, step: Any) -> Any:
    """Return the largest value on the steps; in decimals, as 0.1 is meant."""
    if step is None:
        return high
    start, width = Decimal(str(low)), Decimal(str(step))
    end = start + (Decimal(str(high)) - start) // width * width
    return type(high)(end)


def _checked_bundles(options: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    keys: set[Hashable] = set()
    for label, bundle in options.items():
        if not isinstance(label, str) or not label:
            raise SpaceError(f"a bundle's label is text, got {format_value(label)}")
        if not isinstance(bundle, Mapping) or not bundle:
            raise SpaceError(f"the bundle {label!r} is a mapping of params, got {format_value(bundle)}")
        check_json(dict(bundle))
        key = _key(bundle)
        if key in keys:
            raise SpaceError(f"the bundle {label!r} sets the same params as another")
        keys.add(key)
    return options


def _key(value: Any) -> Hashable:
    """Return a hashable key that is equal for equal JSON values."""
    if isinstance(value, Mapping):
        return "mapping", frozenset((name, _key(item)) for name, item in value.items())
    if isinstance(value, list):
        return "list", tuple(map(_key, value))
    return value  # type: ignore[no-any-return]  # a scalar


def _check_distinct(options: tuple[Scalar, ...]) -> None:
    previous: dict[Scalar, Scalar] = {}  # finds 1 for 1.0 and for True too
    for option in options:
        if option in previous:
            other = previous[option]
            twin = "twice" if same(option, other) else f"and {other!r}, which are equal"
            raise SpaceError(f"a choice has the option {option!r} {twin}")
        previous[option] = option


def describe(dimension: Dimension) -> dict[str, Any]:
    """Describe a dimension in plain JSON."""
    facts = {field.name: getattr(dimension, field.name) for field in fields(dimension)}
    return {"kind": dimension.kind, **{name: fact for name, fact in facts.items() if fact is not None}}


def _fill(dimension: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(dimension, name, value)
