"""Space: the params of a trial and their possible values, with the same meaning on every backend."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from .._text import did_you_mean
from ..exceptions import ConfigError, SpaceError
from .dimensions import Choice, Dimension, Float, Int, Normal, Value, describe
from .draws import (
    Mutable,
    dimension_of_ray,
    domains_of_ray,
    draw_of,
    drawn,
    plain_values,
    ray_domain,
    value_of,
)
from .values import is_scalar, same

if TYPE_CHECKING:
    import optuna

__all__ = ["Choice", "Float", "Int", "Normal", "Space", "Value"]


_MOST_POINTS = 100_000
_ABSENT: Any = object()  # stands for the value of a param that is not there


class Space:
    """A mapping from param to dimension; a bare scalar is a constant.

    *Params* are what `train` receives: constants included, bundles unpacked, inactive params absent.
    The *stored* form is that in a storage: only searched dimensions, and bundles by label. A normal dimension
    and a weighted choice are stored as they are drawn, as a quantile.

    >>> space = Space({"lr": Float(1e-4, 1e-1, log=True), "optimizer": Choice(["sgd", "adam"]),
    ...                "momentum": Float(0.0, 0.9, when={"optimizer": "sgd"}), "epochs": 5})
    >>> space.decode({"lr": 0.01, "optimizer": "adam"})
    {'lr': 0.01, 'optimizer': 'adam', 'epochs': 5}

    Raises:
        SpaceError: a dimension, a `when` or a bundle is not well formed; the message names `space.<param>`.
    """

    def __init__(self, dimensions: Mapping[str, Any]) -> None:
        if not isinstance(dimensions, Mapping):
            raise SpaceError(
                f"a space must be a mapping from param to dimension, got {type(dimensions).__name__}"
            )
        checked = {name: _as_dimension(name, dimension) for name, dimension in dimensions.items()}
        _check_owners(checked)
        for name, dimension in checked.items():
            check_when(name, dimension, checked)
        self.dimensions: Mapping[str, Dimension] = checked
        self._order = _parents_first(checked)

    @property
    def params(self) -> dict[str, tuple[Any, ...]]:
        """Each param that a trial may be given, with the values that it can have; none of a range.

        >>> Space({"lr": Float(0, 1), "model": Choice({"small": {"depth": 2}, "large": {"depth": 6}})}).params
        {'lr': (), 'depth': (2, 6)}
        """
        return {
            param: values for name, dim in self.dimensions.items() for param, values in _values(name, dim)
        }

    def __repr__(self) -> str:
        return f"Space({dict(self.dimensions)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def suggest(self, trial: optuna.trial.BaseTrial) -> dict[str, Any]:
        """Draw params from an Optuna trial; a param whose `when` does not hold is not drawn."""
        return self._unpack(self._pick(lambda name, dimension: _suggest(trial, name, dimension)))

    def decode(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a stored point to the params of a trial, without those that are inactive.

        Raises:
            SpaceError: a param is missing, unknown or not what its dimension allows.
        """
        for name in stored:
            self._check_known(name)
        return self._unpack(self._pick(_reader(stored)))

    def encode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Convert params, all of them or some, to a stored point; a bundle may be given by its label too.

        Raises:
            SpaceError: a param is unknown, inactive beside the others or given without the one that its
                `when` names, or not what its dimension allows.
        """
        picked, remaining = self._constants(), dict(params)
        for name in self._order:
            dimension = self.dimensions[name]
            value = _pop(name, dimension, remaining)
            if value is _ABSENT:
                continue
            _check_allowed(name, dimension, picked)
            picked[name] = _check_value(name, dimension, value)
        for name in remaining:
            self._check_known(name)
        return self._stored({name: value for name, value in picked.items() if name in self._order})

    def check(self, params: Mapping[str, Any]) -> None:
        """Check that this space contains params; constants may be left out.

        Raises:
            SpaceError: as in `encode`, or one is missing.
        """
        self._pick(_reader(self.encode(params)))

    def grid(self) -> list[dict[str, Any]]:
        """List every stored point, the last dimension varying fastest.

        Raises:
            SpaceError: a dimension is continuous, or there are more than 100000 points.
        """
        searched = [name for name in self._order if not isinstance(self.dimensions[name], Value)]
        for one in self.dimensions.values():
            if isinstance(one, (Float, Normal)) and one.step is not None:
                _check_count((one.high - one.low) / one.step)
        points = []
        for point in self._points(searched, {}):
            points.append(self._stored({name: point[name] for name in self.dimensions if name in point}))
            _check_count(len(points))
        return points

    def to_ray(self) -> dict[str, Any]:
        """Return Ray Tune domains for a Tuner of your own, whose trainable calls `decode` on its config."""
        return {name: ray_domain(dimension) for name, dimension in self.dimensions.items()}

    @classmethod
    def from_ray(cls, param_space: Mapping[str, Any]) -> Space:
        """Return the space for the `param_space` of a Tuner, with the same values.

        Nested params have dotted names, under which the training function receives them. All distributions
        are those of Tune, with two exceptions. Tune draws the ends of `quniform` half as often as the steps
        between them, and rounds whole logarithmic draws down.

        Raises:
            SpaceError: an entry is a function, such as `tune.sample_from`, an impossible range, or a choice
                with a domain within an option; or two entries have one name.
        """
        domains = list(domains_of_ray(param_space))
        pairs = [_with_location(name, partial(dimension_of_ray, name, d)) for name, d in domains]
        names = [name for name, _ in pairs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise SpaceError(f"space.{twice[0]}: two entries have this name, one nested and one with a dot")
        return cls(dict(pairs))

    def to_json(self) -> dict[str, Any]:
        """Describe the space in plain JSON, in the order it was given."""
        return {name: describe(dimension) for name, dimension in self.dimensions.items()}

    def fingerprint(self) -> str:
        """Return 16 hex digits that stay the same as long as the meaning of the space does."""
        text = json.dumps(self.to_json(), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def plain(self) -> Space:
        """The same params in dimensions that Optuna can draw a figure of; see `plain_values`."""
        return Space({name: plain_values(dimension) for name, dimension in self.dimensions.items()})

    def value_of(self, name: str, stored: Any) -> Any:
        """Return the value, or the label of a bundle, that a stored value stands for.

        Raises:
            SpaceError: there is no such dimension, or none of its values is stored so.
        """
        self._check_known(name)
        return _with_location(name, lambda: value_of(self.dimensions[name], stored))

    def _stored(self, picked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored form of values; constants have none."""
        searched = {name: d for name in picked if not isinstance(d := self.dimensions[name], Value)}
        return {name: draw_of(dimension, picked[name]) for name, dimension in searched.items()}

    def _pick(self, pick: Callable[[str, Dimension], Any]) -> dict[str, Any]:
        picked: dict[str, Any] = {}
        for name in self._order:
            if _holds(self.dimensions[name], picked):
                picked[name] = pick(name, self.dimensions[name])
        return picked

    def _unpack(self, picked: Mapping[str, Any]) -> dict[str, Any]:
        params: dict[str, Any] = {}
        for name, dimension in self.dimensions.items():
            if name in picked:
                params.update(_unpack_value(name, dimension, picked[name]))
        return params

    def _check_known(self, name: str) -> None:
        if name not in self.dimensions:
            raise SpaceError(f"space.{name}: no such param{did_you_mean(name, self.dimensions)}")

    def _points(self, names: list[str], picked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not names:
            yield picked
            return
        name, rest = names[0], names[1:]
        if not _holds(self.dimensions[name], {**self._constants(), **picked}):
            yield from self._points(rest, picked)
            return
        for value in _with_location(name, self.dimensions[name].points):
            yield from self._points(rest, {**picked, name: value})

    def _constants(self) -> dict[str, Any]:
        return {name: d.value for name, d in self.dimensions.items() if isinstance(d, Value)}


def _check_count(points: float) -> None:
    if points > _MOST_POINTS:
        raise SpaceError(f"the grid of this space has more than {_MOST_POINTS} points; increase a step")


def _as_dimension(name: object, dimension: object) -> Dimension:
    if not isinstance(name, str) or not name:
        raise SpaceError(f"the name of a param must be text, got {name!r}")
    if isinstance(dimension, (Float, Int, Normal, Choice, Value)):
        return dimension
    if not is_scalar(dimension):
        raise SpaceError(
            f"space.{name}: a dimension must be Float, Int, Normal, Choice, Value or a constant, got "
            f"{dimension!r}; Choice(...) searches a list, Value(...) keeps it unchanged"
        )
    return Value(dimension)


def _check_owners(dimensions: Mapping[str, Dimension]) -> None:
    owner: dict[str, str] = dict.fromkeys(dimensions, "the space itself")
    for name, dimension in dimensions.items():
        for param in dimension.owned if isinstance(dimension, Choice) else ():
            if param in owner:
                raise SpaceError(f"space.{name}: its bundles set {param!r}, but {owner[param]} sets it too")
            owner[param] = f"the bundle {name!r}"


def _values(name: str, dimension: Dimension) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if isinstance(dimension, Choice) and dimension.bundles is not None:
        bundles = dimension.bundles.values()
        for param in dimension.owned:
            yield param, tuple(bundle[param] for bundle in bundles if param in bundle)
    elif isinstance(dimension, (Choice, Value)):
        yield name, tuple(dimension.points())
    else:
        yield name, ()


def _suggest(trial: optuna.trial.BaseTrial, name: str, dimension: Dimension) -> Any:
    plain = drawn(dimension)
    if isinstance(plain, Float):
        draw: Any = trial.suggest_float(name, plain.low, plain.high, step=plain.step, log=plain.log)
    elif isinstance(plain, Int):
        draw = trial.suggest_int(name, plain.low, plain.high, step=plain.step, log=plain.log)
    elif isinstance(plain, Choice):
        draw = trial.suggest_categorical(name, plain.options)
    else:
        return plain.points()[0]
    return draw if plain is dimension else value_of(dimension, draw)


def _reader(stored: Mapping[str, Any]) -> Callable[[str, Dimension], Any]:
    return lambda name, dimension: _check_value(name, dimension, stored.get(name, _ABSENT), value_of)


def _take(dimension: Dimension, value: object) -> Any:
    return dimension.take(value)


def _check_value(
    name: str, dimension: Dimension, value: object, read: Callable[[Dimension, object], Any] = _take
) -> Any:
    if value is _ABSENT and isinstance(dimension, Value):
        return dimension.value
    if value is _ABSENT:
        raise SpaceError(f"space.{name}: is missing")
    return _with_location(name, lambda: read(dimension, value))


def _with_location(name: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except SpaceError as err:
        raise SpaceError(f"space.{name}: {err}") from None


def _unpack_value(name: str, dimension: Dimension, value: Any) -> Mapping[str, Any]:
    bundles = dimension.bundles if isinstance(dimension, Choice) else None
    if bundles is not None:
        return deepcopy(dict(bundles[value]))
    return {name: value if is_scalar(value) else deepcopy(value)}


def _pop(name: str, dimension: Dimension, params: dict[str, Any]) -> Any:
    """Remove the value of a dimension, or the params of its bundle, from `params`, and return it."""
    value = params.pop(name, _ABSENT)
    bundles = dimension.bundles if isinstance(dimension, Choice) else None
    if bundles is None:
        return value
    spelled = {param: params.pop(param) for bundle in bundles.values() for param in bundle if param in params}
    if not spelled:
        return value
    for label, bundle in bundles.items():
        if spelled == dict(bundle) and value in (_ABSENT, label):
            return label
    raise SpaceError(f"space.{name}: no bundle sets {spelled!r}; the labels are {', '.join(bundles)}")


def _holds(dimension: Dimension, picked: Mapping[str, Any]) -> bool:
    """Check whether a dimension exists beside the values picked; what is missing there is inactive."""
    when = dimension.when or {}
    return all(other in picked and _matches(picked[other], values) for other, values in when.items())


def _check_allowed(name: str, dimension: Dimension, picked: Mapping[str, Any]) -> None:
    """Check that a param exists beside the values picked."""
    for other, values in (dimension.when or {}).items():
        required = " or ".join(map(repr, _as_tuple(values)))
        if other not in picked:
            raise SpaceError(f"space.{name}: exists only when {other} is {required}; set {other} too")
        if not _matches(picked[other], values):
            raise SpaceError(f"space.{name}: exists only when {other} is {required}, got {picked[other]!r}")


def check_when(name: str, dimension: Dimension, dimensions: Mapping[str, Dimension]) -> None:
    """Check that a `when` can hold.

    Raises:
        SpaceError: it names an unknown param, a float, or a value that the other param cannot take.
    """
    when = dimension.when
    if when is None:
        return
    if not isinstance(when, Mapping) or not when:
        raise SpaceError(f"space.{name}.when: expected {{param: value or list of values}}, got {when!r}")
    for other, values in when.items():
        parent = dimensions.get(other)
        if parent is None:
            hint = did_you_mean(other, dimensions)
            raise SpaceError(f"space.{name}.when: no param {other!r} in the space{hint}")
        if isinstance(parent, (Float, Normal)):
            raise SpaceError(
                f"space.{name}.when: {other!r} is a float, and conditions cannot compare floats for equality"
            )
        if not _as_tuple(values):
            raise SpaceError(f"space.{name}.when: the list of values of {other!r} is empty")
        for value in _as_tuple(values):
            try:
                parent.take(value)
            except SpaceError as err:
                text = "null" if value is None else repr(value)
                raise SpaceError(f"space.{name}.when: {other!r} can never be {text}: it {err}") from None


def _parents_first(dimensions: Mapping[str, Dimension]) -> tuple[str, ...]:
    """Order the params so that each comes after those its `when` names; otherwise as given."""
    ordered: dict[str, None] = {}
    remaining = list(dimensions)
    while remaining:
        ready = next(
            (name for name in remaining if all(p in ordered for p in dimensions[name].when or {})), None
        )
        if ready is None:
            raise SpaceError(
                f"space.{remaining[0]}.when: {', '.join(remaining)} depend on each other in a circle"
            )
        ordered[ready] = None
        remaining.remove(ready)
    return tuple(ordered)


def _matches(value: object, values: Any) -> bool:
    return any(same(value, allowed) for allowed in _as_tuple(values))


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (list, tuple)) else (values,)


def mutable(space: Space, names: object, numbers_only: bool = False) -> dict[str, Mutable]:
    """Return the dimensions of params that can change while the others stay.

    Args:
        space: the space of all params.
        names: the names of those that change.
        numbers_only: whether a choice is refused, because what changes the params models numbers.

    Raises:
        ConfigError: none is named; one does not exist, is a constant or a bundle, or is conditional, or
            others depend on it.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ConfigError(
            f"mutate must list the params that change during training, as in [lr], got {names!r}"
        )
    dimensions = {name: _mutable(space, name) for name in names}
    choices = [name for name, dimension in dimensions.items() if isinstance(dimension, Choice)]
    if numbers_only and choices:
        raise ConfigError(
            f"mutate: pb2 supports only numbers, but {choices[0]} is a choice; leave it out of mutate, or "
            "use pbt"
        )
    return dimensions


def _mutable(space: Space, name: object) -> Mutable:
    dimension = space.dimensions.get(str(name))
    if dimension is None:
        near = did_you_mean(name, space.dimensions) or f"; there are {', '.join(space.dimensions)}"
        raise ConfigError(f"mutate: there is no param {name!r}{near}")
    if isinstance(dimension, Value) or getattr(dimension, "bundles", None):
        what = "bundle" if isinstance(dimension, Choice) else "constant"
        raise ConfigError(f"mutate: {name} is a {what}, which cannot change")
    if dimension.when or any(name in (other.when or {}) for other in space.dimensions.values()):
        raise ConfigError(
            f"mutate: {name} depends on a condition, or others depend on it; such params cannot change"
        )
    return dimension
