"""Draws: what a sampler draws for a dimension, and the value that it stands for.

Samplers know ranges and choices without weights. For each other dimension, they draw from a plain one. The
value is a function of the draw, the same on every backend and at every resume. A normal dimension and a
weighted choice are drawn as a quantile, a uniform number. A sampler takes all values of a uniform range for
equally probable, so its first trials have the distribution of the dimension. TPE, GP and CMA-ES model the
quantile as they model any range. In a range of the values themselves, they would try its ends as often as the
middle. The price is that neighbors in the list of a weighted choice look alike to a model.
"""

from __future__ import annotations

import hashlib
import json
import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import accumulate
from math import exp, log
from typing import Any

from ..exceptions import SpaceError
from .dimensions import QUANTILES, Choice, Dimension, Float, Int, Normal, Value, on_step
from .values import format_value, is_scalar

Mutable = Float | Int | Normal | Choice


def derive_seed(seed: int, number: int, repeat: int = 0, name: str | None = None) -> int:
    """Return the 32-bit seed of one repeat of one trial, the same on every machine and in every version.

    With a `name` it is the seed of one of its params.

    >>> derive_seed(7, 0), derive_seed(7, 1)
    (1470615247, 1214197947)
    """
    whole = f"hpometrics:{seed}:{number}:{repeat}"
    digest = hashlib.sha256((whole if name is None else f"{whole}:{name}").encode()).digest()
    return int.from_bytes(digest[:4], "little")


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
        return Float(dimension.low, dimension.high, log=True)
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
    if drawn(dimension) is dimension or not isinstance(dimension, (Float, Int)):
        return dimension
    kind: Any = type(dimension)
    plain: Float | Int = kind(dimension.low, dimension.high, log=True, when=dimension.when)
    return plain


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
        reach = (plain.step or 0) / 2  # else both ends would be drawn half as often
        low, high = plain.low - reach, plain.high + reach
        draw = exp(random.uniform(log(low), log(high))) if plain.log else random.uniform(low, high)
        value: float = value_of(self.dimension, plain.nearest(draw))
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


def domains_of_ray(param_space: Mapping[str, Any], front: str = "") -> Iterator[tuple[str, Any]]:
    """Return the entries of a `param_space` of Ray Tune, nested ones by dotted names.

    >>> dict(domains_of_ray({"optimizer": {"name": "sgd", "lr": {"grid_search": [0.1, 0.2]}}}))
    {'optimizer.name': 'sgd', 'optimizer.lr': {'grid_search': [0.1, 0.2]}}
    """
    for key, domain in param_space.items():
        if isinstance(domain, Mapping) and domain and list(domain) != ["grid_search"]:
            yield from domains_of_ray(domain, f"{front}{key}.")
        else:
            yield f"{front}{key}", domain


def dimension_of_ray(name: str, domain: Any) -> tuple[str, Dimension]:
    """Return the dimension for an entry of a `param_space` of Ray Tune, and the name of it.

    A choice among lists or mappings becomes one of bundles, under a name of its own.

    Raises:
        SpaceError: the entry is a function, such as `tune.sample_from`, or a domain of another kind.
    """
    from ray.tune.search import sample  # takes seconds to import

    if isinstance(domain, Mapping) and list(domain) == ["grid_search"]:
        return _choice_of(name, domain["grid_search"], is_drawn=False)
    if isinstance(domain, sample.Categorical):
        return _choice_of(name, domain.categories)
    if isinstance(domain, (sample.Float, sample.Integer)):
        sampler: Any = domain.get_sampler()  # type: ignore[no-untyped-call]
        step = None
        if isinstance(sampler, sample.Quantized):
            sampler, step = sampler.sampler, sampler.q
        if isinstance(sampler, sample.Normal):
            return name, Normal(sampler.mean, sampler.sd, step=None if step is None else float(step))
        is_log = isinstance(sampler, sample.LogUniform)
        if isinstance(domain, sample.Integer):
            last = domain.upper - 1 if step in (None, 1) else domain.upper  # Tune includes it if it steps
            return name, _range_of(Int, domain.lower, last, is_log, step)
        return name, _range_of(Float, domain.lower, domain.upper, is_log, step)
    if isinstance(domain, sample.Domain) or callable(domain):
        raise SpaceError(
            f"{format_value(domain)} computes a value and is not a dimension; compute it in the training "
            f"function, or write a condition with when=, as in Float(0, 0.9, when={{'optimizer': 'sgd'}})"
        )
    return name, Value(domain)


def _choice_of(name: str, options: Sequence[Any], is_drawn: bool = True) -> tuple[str, Choice]:
    """Return the choice among options; one that `tune.choice` lists several times is drawn as often."""
    texts = [_text_of(name, option) for option in options]
    distinct, counts = dict(zip(texts, options, strict=True)), Counter(texts)
    weights = list(counts.values()) if is_drawn and len(set(counts.values())) > 1 else None
    if all(map(is_scalar, options)):
        return name, Choice(list(distinct.values()), weights=weights)
    labels = [format_label(option) for option in distinct.values()]
    labels = labels if len(set(labels)) == len(labels) else [*distinct]  # the text "null" beside None
    bundles = {label: {name: option} for label, option in zip(labels, distinct.values(), strict=True)}
    return f"{name}_choice", Choice(bundles, weights=weights)


def _text_of(name: str, option: Any) -> str:
    """Return the JSON of an option, by which it is compared with others.

    Raises:
        SpaceError: it is or has a domain of its own, or is not plain data.
    """
    try:
        return json.dumps(option, sort_keys=True)
    except (TypeError, ValueError):
        pass
    inner, domain = _nested_domain(option, name.rpartition(".")[2])
    if domain is None:
        raise SpaceError(f"an option must be a JSON value, got {format_value(option)}")
    raise SpaceError(
        f"an option contains a domain, {inner}: {type(domain).__name__}{domain.domain_str}; move it out of "
        f"the choice, next to a choice of labels and with a condition, as in {{{name!r}: Choice(['a', "
        f"'b']), {inner!r}: Float(0, 1, when={{{name!r}: 'a'}})}}"
    )


def _nested_domain(option: Any, name: str) -> tuple[str, Any]:
    """Return the first domain of Tune within an option and the name of it; None if there is none."""
    from ray.tune.search import sample  # takes seconds to import

    if isinstance(option, sample.Domain):
        return name, option
    parts: Iterable[tuple[Any, Any]] = option.items() if isinstance(option, Mapping) else ()
    if isinstance(option, (list, tuple)):
        parts = ((name, part) for part in option)
    return next((pair for key, part in parts if (pair := _nested_domain(part, str(key)))[1]), (name, None))


def format_label(option: Any) -> str:
    """Return the label of a bundle for a value: a text itself, all else as JSON."""
    return option if isinstance(option, str) else json.dumps(option)


def _range_of(
    kind: type[Float] | type[Int], low: float, high: float, is_log: bool, step: float | None
) -> Float | Int:
    """Return a range; with a step its bounds are the outermost multiples, as in Tune."""
    step = None if kind is Int and step == 1 else step
    if step is not None:
        size = Decimal(str(step))
        first = (Decimal(str(low)) / size).to_integral_value(ROUND_CEILING)
        last = (Decimal(str(high)) / size).to_integral_value(ROUND_FLOOR)
        low, high = (on_step(int(count), step) for count in (first, last))
    made: Any = kind
    one: Float | Int = made(low, high, log=is_log, step=step)
    return one
