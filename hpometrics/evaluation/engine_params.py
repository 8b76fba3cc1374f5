"""EngineParams: the names and params of an engine's four stages, in PredictionIO's own layout both ways."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, Self

from ..exceptions import EngineParamsError
from .keys import structural_key
from .layout import arranged, compact, plain, spread, stages_of, variant
from .paths import put

__all__ = ["EngineParams", "Named", "Params", "Stage", "StageKeys", "params_list"]

Named = tuple[str, Mapping[str, Any]]

SINGLE = ("data_source", "preparator", "serving")


class Params(dict[str, Any]):
    """The params of one stage, all dicts in it read-only; a copy of them is an ordinary dict.

    >>> Params({"lambda": 10.0}) == {"lambda": 10.0}
    True
    """

    __frozen__ = True

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__({name: _frozen(value) for name, value in params.items()})

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise EngineParamsError(
            "engine params do not change; derive others by copy(...) or with_values({'serving.k': 3})"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def copy(self) -> dict[str, Any]:
        """Return an ordinary dict of the same values."""
        return deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {name: deepcopy(value, memo) for name, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class Stage(NamedTuple):
    """A stage's name and params."""

    name: str
    params: Mapping[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class EngineParams:
    """What one candidate gives to each stage of an engine.

    Args:
        data_source, preparator, serving: a stage: its params, or its name and its params; the name is `""`
            unless said.
        algorithms: a list of stages, or one.

    What is given is copied. Two are equal if their values and the values' types are.

    Raises:
        EngineParamsError: a stage is something else, or there is no algorithm.

    >>> params = EngineParams(data_source={"evalK": 5}, algorithms=[("naive", {"lambda": 10.0})])
    >>> print(params.with_values({"algorithms.naive.lambda": 100.0}).to_json()["algorithmParamsList"])
    [{'naive': {'lambda': 100.0}}]
    >>> print(EngineParams.from_json(str(params)) == params, params.algorithms[0].name)
    True naive
    """

    data_source: Any = ("", {})
    preparator: Any = ("", {})
    algorithms: Any = (("", {}),)
    serving: Any = ("", {})

    def __post_init__(self) -> None:
        for name in SINGLE:
            object.__setattr__(self, name, _stage(getattr(self, name), name))
        algorithms = self.algorithms
        one = isinstance(algorithms, Mapping) or _is_named(algorithms)
        found = [algorithms] if one else list(algorithms)
        if not found:
            raise EngineParamsError(
                "algorithms is empty; an engine predicts by at least one, e.g. [('', {})]"
            )
        stages = tuple(_stage(stage, f"algorithms[{i}]") for i, stage in enumerate(found))
        object.__setattr__(self, "algorithms", stages)

    @cached_property
    def key(self) -> StageKeys:
        """The structural key of each stage.

        Raises:
            EngineParamsError: a value has nothing but its identity; the message has its path.
        """
        return StageKeys(
            _stage_key(self.data_source, "data_source"),
            _stage_key(self.preparator, "preparator"),
            tuple(_stage_key(stage, f"algorithms[{i}]") for i, stage in enumerate(self.algorithms)),
            _stage_key(self.serving, "serving"),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "key"}  # it may hold code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineParams) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def copy(self, **stages: Any) -> Self:
        """Derive engine params with other stages, as in `copy(algorithms=[("naive", {"lambda": 3.0})])`."""
        return replace(self, **stages)

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Derive engine params with other values, each under `stage.[name.]param`.

        A stage's name may be left out unless another algorithm has one too; `algorithms.1.lambda` counts from
        0. The path may go on into dicts and lists.

        Raises:
            EngineParamsError: a path leads nowhere.
        """
        stages: dict[str, Any] = {
            "algorithms": [Stage(stage.name, deepcopy(stage.params)) for stage in self.algorithms],
            **{
                name: Stage(getattr(self, name).name, deepcopy(getattr(self, name).params)) for name in SINGLE
            },
        }
        for path, value in values.items():
            put(stages, path, value)
        return self.copy(**stages)

    def to_json(self, default: Callable[[Any], Any] | None = None) -> dict[str, Any]:
        """Describe all stages in PredictionIO's layout, in plain JSON.

        Tuples and arrays become lists, dataclasses dicts, what is not finite its name; `default` is asked for
        whatever has no form in JSON.

        Raises:
            EngineParamsError: a value has none and there is no `default`; the message has its path.
        """
        described = {
            name: {getattr(self, name).name: plain(getattr(self, name).params, f"{name}.params", default)}
            for name in SINGLE
        }
        algorithms = [
            {stage.name: plain(stage.params, f"algorithms[{i}].params", default)}
            for i, stage in enumerate(self.algorithms)
        ]
        return arranged(algorithms=algorithms, **described)

    def to_variant(self, default: Callable[[Any], Any] | None = None) -> dict[str, Any]:
        """Describe all stages as in an `engine.json`: each with its `name` and `params`."""
        return variant(self.to_json(default))

    @classmethod
    def from_json(cls, described: Mapping[str, Any] | str) -> Self:
        """Read what `to_json` or `to_variant` wrote, or its text; a stage that is left out has no params.

        Raises:
            EngineParamsError: it is something else; the message names the place.
        """
        return cls(**stages_of(described))

    def __str__(self) -> str:
        return compact(self.to_json(default=repr))

    def pretty(self) -> str:
        """Lay the JSON out over lines as PredictionIO prints it."""
        return spread(self.to_json(default=repr))

    def __repr__(self) -> str:
        stages = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in SINGLE[:2])
        algorithms = ", ".join(map(_shown, self.algorithms))
        return f"EngineParams({stages}, algorithms=[{algorithms}], serving={_shown(self.serving)})"


class StageKeys(NamedTuple):
    """The structural key of each stage."""

    data_source: Hashable
    preparator: Hashable
    algorithms: tuple[Hashable, ...]
    serving: Hashable


def params_list(source: Any) -> list[EngineParams]:
    """Read a list of engine params, once: any iterable, a function that gives one, or what has one.

    Args:
        source: an iterable, a generator function, or a class or object with `engine_params_list`, which is
            either of these.

    Raises:
        EngineParamsError: there is none, or an entry is something else; the message names its index.

    >>> len(params_list(EngineParams(algorithms={"lambda": x}) for x in (10.0, 100.0, 1000.0)))
    3
    """
    found = getattr(source, "engine_params_list", source)
    if found is not source and isinstance(source, type) and callable(found):
        found = source().engine_params_list
    found = found() if callable(found) else found
    if not isinstance(found, Iterable) or isinstance(found, (str, bytes, Mapping)):
        raise EngineParamsError(
            f"a list of engine params is an iterable, a function that gives one or an object with "
            f"engine_params_list, got {type(found).__name__}: {found!r}"
        )
    read = list(_checked(found))
    if not read:
        raise EngineParamsError("the list of engine params is empty, so there is nothing to evaluate")
    return read


def _checked(found: Iterable[Any]) -> Iterator[EngineParams]:
    for i, entry in enumerate(found):
        if not isinstance(entry, EngineParams):
            raise EngineParamsError(
                f"entry {i} of the list of engine params is a {type(entry).__name__}, not EngineParams: "
                f"{entry!r}; EngineParams.from_json reads the JSON of one"
            )
        yield entry


def _is_named(stage: Any) -> bool:
    return isinstance(stage, (tuple, list)) and len(stage) == 2 and isinstance(stage[0], str)


def _stage(stage: Any, path: str) -> Stage:
    name, params = stage if _is_named(stage) else ("", stage)
    if not isinstance(params, Mapping):
        raise EngineParamsError(
            f"{path} is the params of a stage or (name, params), as in ('naive', {{'lambda': 10.0}}); "
            f"got {type(stage).__name__}: {stage!r}"
        )
    for key in params:
        if not isinstance(key, str):
            raise EngineParamsError(
                f"{path}.params: a param's name is a text, got {type(key).__name__}: {key!r}"
            )
    return Stage(name, Params({key: _copied(value, f"{path}.params.{key}") for key, value in params.items()}))


def _copied(value: Any, path: str) -> Any:
    try:
        return deepcopy(value)
    except Exception as err:
        raise EngineParamsError(
            f"{path}: a {type(value).__qualname__} cannot be copied ({type(err).__name__}: {err}); "
            "pass what it is made of and build it in the stage"
        ) from err


def _stage_key(stage: Stage, path: str) -> Hashable:
    return stage.name, structural_key(stage.params, f"{path}.params")


def _frozen(value: Any) -> Any:
    return Params(value) if type(value) is dict else value


def _shown(stage: Stage) -> str:
    return repr((stage.name, dict(stage.params)))
