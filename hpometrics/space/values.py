"""The values of params: which ones there may be, and how they are compared and printed."""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections import deque
from collections.abc import Hashable, Mapping, MutableSequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeGuard

from .._redaction import excerpt
from ..exceptions import SpaceError

Scalar = str | int | float | bool | None
_LARGEST = sys.float_info.max


def is_number(value: object) -> TypeGuard[int | float]:
    """Check whether a value is a finite float, or an int that a float can hold; a bool is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST


def is_whole(value: object) -> TypeGuard[int]:
    """Check whether a value is an int; a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_scalar(value: object) -> TypeGuard[Scalar]:
    """Check whether a value can be a choice: text, a finite number, a bool or None."""
    return value is None or isinstance(value, (str, bool, int)) or is_number(value)


def named_fields(value: Any) -> Any:
    """Return the fields of an instance of a dataclass as a dict; any other value stays."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return {one.name: getattr(value, one.name) for one in fields(value)}


def plain_config(value: Any, records: bool = True) -> Any:
    """Return a config as dicts and lists, as those of OmegaConf are not; any other value stays.

    Args:
        value: a mapping, a list, or a value in one.
        records: whether instances of dataclasses become dicts too.

    >>> from collections import UserDict, UserList
    >>> plain_config(UserDict(lr=0.1, layers=UserList([8, (4, 2)])))
    {'lr': 0.1, 'layers': [8, (4, 2)]}
    """
    value = named_fields(value) if records else value
    if type(value) is dict or (isinstance(value, Mapping) and not isinstance(value, dict)):
        return {key: plain_config(one, records) for key, one in value.items()}
    others = (list, bytearray, array, deque)
    if type(value) is list or (isinstance(value, MutableSequence) and not isinstance(value, others)):
        return [plain_config(one, records) for one in value]
    return value


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
            f"got {format_value(value)}; a param must be a finite number, text, true, false, null, or a "
            "list or mapping of these"
        )


def format_value(value: object) -> str:
    """Print a value and its type for an error, cut to a length one can read."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python prints no int of more than 4300 digits
        text = "a value too long to print"
    return f"{excerpt(text, 60)}{'...' if len(text) > 60 else ''} ({type(value).__name__})"


def checked_bundles(options: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return bundles of params by label, after a check.

    Raises:
        SpaceError: a label is not text, a bundle is not a mapping of params, or two set the same params.
    """
    keys: set[Hashable] = set()
    for label, bundle in options.items():
        if not isinstance(label, str) or not label:
            raise SpaceError(f"the label of a bundle must be text, got {format_value(label)}")
        if not isinstance(bundle, Mapping) or not bundle:
            raise SpaceError(f"the bundle {label!r} must be a mapping of params, got {format_value(bundle)}")
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


def check_distinct(options: tuple[Scalar, ...]) -> None:
    """Check that no option is equal to another one.

    Raises:
        SpaceError: two are, such as 1 and true.
    """
    previous: dict[Scalar, Scalar] = {}  # finds 1 for 1.0 and for True too
    for option in options:
        if option in previous:
            other = previous[option]
            twin = "twice" if same(option, other) else f"and {other!r}, which are equal"
            raise SpaceError(f"a choice has the option {option!r} {twin}")
        previous[option] = option


def checked_weights(weights: object, count: int) -> tuple[float, ...]:
    """Return the weights of so many options, after a check.

    Raises:
        SpaceError: their number is another one, or one is not above 0.
    """
    if not isinstance(weights, (list, tuple)) or len(weights) != count:
        raise SpaceError(f"weights must be {count} numbers, one per option, got {format_value(weights)}")
    for weight in weights:
        if not is_number(weight) or weight <= 0:
            raise SpaceError(f"a weight must be above 0, got {format_value(weight)}; leave the option out")
    if not math.isfinite(sum(map(float, weights))):
        raise SpaceError(f"the sum of weights must be finite, got {format_value(weights)}")
    return tuple(map(float, weights))
