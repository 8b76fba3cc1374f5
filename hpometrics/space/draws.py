"""Draws: what a sampler draws for a dimension, and the value that it stands for.

Samplers know ranges and choices without weights. For each other dimension they draw from a plain one, and the
value is a function of the draw: the same on every backend and at every resume. A normal dimension and a
weighted choice are drawn as a quantile, a uniform number. A sampler takes a uniform range for equally
probable, so its first trials have the distribution of the dimension, and TPE, GP and CMA-ES model the
quantile as they model any range. In a range of the values themselves they would try its ends as often as the
middle. The price is that neighbors in the list of a weighted choice look alike to a model.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log
from typing import Any

from .dimensions import QUANTILES, Choice, Dimension, Float, Int, Normal

Mutable = Float | Int | Normal | Choice


def drawn(dimension: Dimension) -> Dimension:
    """Return the dimension that a sampler draws from: most are drawn as they are.

    >>> drawn(Int(1, 64, power=2)), drawn(Float(0.1, 0.5, log=True, step=0.1))  # doctest: +ELLIPSIS
    (Int(low=0, high=6, ...), Float(low=0.1, high=0.5, log=True, step=None, when=None))
    """
    if isinstance(dimension, Normal):
        return Float(*QUANTILES)
    if isinstance(dimension, Choice) and dimension.weights is not None:
        return Float(0.0, 1.0)
    if isinstance(dimension, Int) and dimension.power is not None:
        return Int(0, len(dimension.points()) - 1)
    if isinstance(dimension, Float) and dimension.log and dimension.step is not None:
        return Float(dimension.low, dimension.high, log=True)
    if isinstance(dimension, Int) and dimension.log and dimension.step != 1:
        return Int(dimension.low, dimension.high, log=True)
    return dimension


def value_of(dimension: Dimension, draw: Any) -> Any:
    """Return the value that a draw stands for.

    Raises:
        SpaceError: no sampler can have drawn it.
    """
    plain = drawn(dimension)
    draw = plain.take(draw)
    if plain is dimension:
        return draw
    if isinstance(dimension, Normal):
        return dimension.value_of(draw)
    if isinstance(dimension, Choice):
        return dimension.options[min(bisect(_edges(dimension), draw), len(dimension.options) - 1)]
    if isinstance(dimension, Int) and dimension.power is not None:
        return dimension.low * dimension.power**draw
    if isinstance(dimension, (Float, Int)):
        return dimension.nearest(draw)
    return draw


def draw_of(dimension: Dimension, value: Any) -> Any:
    """Return a draw that stands for a value; of several the middle one.

    Raises:
        SpaceError: the dimension does not have the value.
    """
    value = dimension.take(value)
    if isinstance(dimension, Normal):
        return dimension.quantile_of(value)
    if isinstance(dimension, Choice) and dimension.weights is not None:
        place = [*map(repr, dimension.options)].index(repr(value))
        edges = [0.0, *_edges(dimension)]
        return (edges[place] + edges[place + 1]) / 2
    if isinstance(dimension, Int) and dimension.power is not None:
        return dimension.points().index(value)
    return value


def plain_values(dimension: Dimension) -> Dimension:
    """Return a dimension that Optuna's figures can draw, with the values of this one among its own."""
    if isinstance(dimension, Choice) and dimension.weights is not None:
        return Choice(dimension.bundles or dimension.options, when=dimension.when)
    if isinstance(dimension, Normal):
        is_log = dimension.log and dimension.low > 0
        return Float(dimension.low, dimension.high, log=is_log, when=dimension.when)
    if isinstance(dimension, Int) and dimension.power is not None:
        return Int(dimension.low, dimension.high, log=True, when=dimension.when)
    plain = drawn(dimension)
    if plain is not dimension and isinstance(plain, (Float, Int)):
        return type(plain)(plain.low, plain.high, log=True, when=dimension.when)  # type: ignore[arg-type]
    return dimension


def _edges(choice: Choice) -> list[float]:
    """Return for each option of a weighted choice the share of it and of those before it; the last is 1."""
    sums = list(accumulate(choice.weights or ()))
    return [one / sums[-1] for one in sums]


def mutations(dimension: Mutable) -> list[Any] | Callable[[], float]:
    """Return what Ray draws new values from: the options of a choice, or a function for a number."""
    return list(dimension.options) if isinstance(dimension, Choice) else _Mutation(dimension)


@dataclass(frozen=True)
class _Mutation:
    """A value of a numeric dimension from python's random stream, the one that Ray draws from."""

    dimension: Float | Int | Normal

    def __call__(self) -> float:
        plain: Any = drawn(self.dimension)
        if plain.log:
            draw = plain.nearest(exp(random.uniform(log(plain.low), log(plain.high))))
        else:
            draw = plain.nearest(random.uniform(plain.low, plain.high))
        value: float = value_of(self.dimension, draw)
        return value


def ray_domain(dimension: Dimension) -> Any:
    """Return the Ray Tune domain of a dimension's stored form; a constant is itself.

    Ray counts its quantized domains from zero, so a dimension with a step becomes a choice of its points.
    """
    from ray import tune  # takes seconds to import

    plain = drawn(dimension)
    if isinstance(plain, Choice):
        return tune.choice(list(plain.options))
    if isinstance(plain, Float) and plain.step is None:
        return (tune.loguniform if plain.log else tune.uniform)(plain.low, plain.high)
    if isinstance(plain, Int) and plain.step == 1:
        return (tune.lograndint if plain.log else tune.randint)(plain.low, plain.high + 1)
    points: Sequence[Any] = plain.points()
    return tune.choice(list(points)) if isinstance(plain, (Float, Int)) else points[0]
