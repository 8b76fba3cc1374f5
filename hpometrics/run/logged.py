"""Logged: values of an epoch that the engine reports itself, and why one that it cannot give is nan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from ..exceptions import RunError

State = Mapping[str, tuple[float, str | None]]
"""Each value with the reason of one that is undefined."""


class Logged:
    """What was logged in this epoch; of a name the last one stays."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[Any, str | None]] = {}

    def take(self, name: str, value: Any) -> None:
        """Keep a number as it is; a tensor stays where it is until the epoch closes.

        Raises:
            RunError: it is no number.
        """
        self._values[name] = _number(name, value), None

    def undefined(self, name: str, reason: str) -> None:
        """Keep that a value is undefined and why.

        Raises:
            RunError: the reason is no text.
        """
        if not isinstance(reason, str) or not reason:
            raise RunError(f"undefined({name}=...) takes the reason, a text; got {reason!r}")
        self._values[name] = math.nan, reason

    def state(self) -> State:
        """Each value as a plain number, with its reason."""
        return {name: (float(value), reason) for name, (value, reason) in self._values.items()}

    def reset(self) -> None:
        """Begin the next epoch."""
        self._values = {}


def _number(name: str, value: Any) -> Any:
    if type(value) is float:
        return value
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        return value.detach()
    if isinstance(value, (int, float)) or (hasattr(value, "item") and getattr(value, "size", 0) == 1):
        return float(value)
    raise RunError(f"log({name}=...) takes one number, got {type(value).__name__} {str(value)[:60]}")
