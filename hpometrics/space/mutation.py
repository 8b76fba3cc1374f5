"""Mutation: which params of a space may change while a trial trains, and draws of new values for them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._text import did_you_mean
from ..exceptions import ConfigError
from .dimensions import Choice, Float, Int
from .space import Space

Mutable = Float | Int | Choice


def mutable(space: Space, names: object) -> dict[str, Mutable]:
    """Give the dimensions of params that can change while the others stay.

    Raises:
        ConfigError: none is named; one does not exist, is a constant or a bundle, or is there by a condition,
            or others are there by it.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ConfigError(f"mutate lists the params that change in training, as in [lr], got {names!r}")
    return {name: _mutable(space, name) for name in names}


def draws(dimension: Mutable) -> list[Any] | Callable[[], float]:
    """Give what Ray draws new values from: the options of a choice, or a function for a number."""
    return list(dimension.options) if isinstance(dimension, Choice) else _Draw(dimension)


def _mutable(space: Space, name: object) -> Mutable:
    dimension = space.dimensions.get(str(name))
    if dimension is None:
        near = did_you_mean(name, space.dimensions) or f"; there are {', '.join(space.dimensions)}"
        raise ConfigError(f"mutate: there is no param {name!r}{near}")
    if not isinstance(dimension, (Float, Int, Choice)) or getattr(dimension, "bundles", None):
        what = "bundle" if isinstance(dimension, Choice) else "constant"
        raise ConfigError(f"mutate: {name} is a {what}, which does not change")
    if dimension.when or any(name in (other.when or {}) for other in space.dimensions.values()):
        raise ConfigError(f"mutate: {name} is there by a condition, or others by it; those stay as they are")
    return dimension


@dataclass(frozen=True)
class _Draw:
    """A value of a numeric dimension from python's random stream, the one that Ray draws from."""

    dimension: Float | Int

    def __call__(self) -> float:
        low, high = self.dimension.low, self.dimension.high
        if self.dimension.log:
            return self.dimension.nearest(math.exp(random.uniform(math.log(low), math.log(high))))
        return self.dimension.nearest(random.uniform(low, high))
