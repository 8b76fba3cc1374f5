"""Logged: values of an epoch that the engine reports itself, and why one that it cannot give is nan."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import torch

from ..exceptions import RunError
from ..space.values import shown
from .watched_ranks import Told


class Logged:
    """What was logged in this epoch, one number per name."""

    def __init__(self) -> None:
        self.reset()

    def take(self, name: str, value: Any) -> None:
        """Keep a number as it is; a tensor stays where it is until the epoch closes.

        Raises:
            RunError: it is not a number, the name has one already or cannot be printed on a line.
        """
        _check_name(name)
        number = _number(name, value)
        if name not in self._reasons:
            self._check_new(name, value)
        self._values[name] = number
        self._reasons.pop(name, None)

    def undefined(self, name: str, reason: str) -> None:
        """Keep that a value is undefined and why.

        Raises:
            RunError: the reason is not a text, the name has a number already or cannot be printed on a line.
        """
        _check_name(name)
        if name not in self._reasons:
            self._check_new(name, reason)
        if not isinstance(reason, str) or not reason:
            raise RunError(f"undefined({name}=...) takes the reason, a text; got {reason!r}")
        self._values[name], self._reasons[name] = math.nan, reason

    def _check_new(self, name: str, value: Any) -> None:
        """Refuse a second value of one name: the first would be lost without a word."""
        if name in self._values:
            raise RunError(
                f"{name} was logged in this epoch already, as {shown(self._values[name])}, and now as "
                f"{shown(value)}; log one value per epoch. To average over its batches, call "
                f"run.record_global({name!r}, AverageMetric(value * rows, rows)) for each of them"
            )

    def state(self) -> Told:
        """Each value as a plain number, and the reason of one that is undefined."""
        return {name: float(value) for name, value in self._values.items()}, self._reasons

    def reset(self) -> None:
        """Begin the next epoch."""
        self._values: dict[str, Any] = {}
        self._reasons: dict[str, str] = {}


def _check_name(name: str) -> None:
    if not name.isprintable() or not name:
        raise RunError(f"a value has a name of printable characters, got {shown(name)}")


def _number(name: str, value: Any) -> Any:
    """Take what is one real number; true is none, nor is what only reads as one, such as "0.3"."""
    if type(value) is float:
        return value
    if isinstance(value, torch.Tensor):
        single = value.numel() == 1 and not value.is_meta
        if single and not value.is_complex() and value.dtype != torch.bool:
            return value.detach()
        came = f"a tensor of shape {tuple(value.shape)} and {value.dtype}"
        raise RunError(f"log({name}=...) takes one number, got {came}")
    plain = _unwrapped(value)
    if isinstance(plain, bool) or not isinstance(plain, Real):
        raise RunError(f"log({name}=...) takes one number, got {shown(value)}; int() or float() makes one")
    try:
        return float(plain)
    except OverflowError:
        raise RunError(
            f"log({name}=...) takes a number that a float can hold, up to 1.8e308; got a larger one"
        ) from None


def _unwrapped(value: Any) -> Any:
    """The one element of an array of another library; that of a masked one is not there."""
    single = hasattr(value, "item") and getattr(value, "size", 0) == 1
    return value.item() if single and not isinstance(value, np.ma.MaskedArray) else value
