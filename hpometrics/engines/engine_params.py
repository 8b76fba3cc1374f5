"""EngineParams: the names and params of an engine's four stages, in PredictionIO's own layout both ways."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

from ..exceptions import EngineParamsError
from .json_layout import arranged, compact, plain, spread, stages_of, variant
from .keys import structural_key
from .paths import check_there, named_by, put, split_path, values_of
from .stage import Named, Params, Stage, is_named, stage_of

__all__ = ["EngineParams", "Named", "Params", "Stage", "StageKeys", "params_list"]

SINGLE = ("data_source", "preparator", "serving")


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
            object.__setattr__(self, name, stage_of(getattr(self, name), name))
        algorithms = self.algorithms
        one = isinstance(algorithms, Mapping) or is_named(algorithms)
        found = [algorithms] if one else list(algorithms)
        if not found:
            raise EngineParamsError(
                "algorithms is empty; an engine predicts by at least one, e.g. [('', {})]"
            )
        stages = tuple(stage_of(stage, f"algorithms[{i}]") for i, stage in enumerate(found))
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

    @property
    def values(self) -> dict[str, Any]:
        """Every value under its path, as `with_values` takes it.

        >>> EngineParams(data_source={"evalK": 5}, algorithms=[("naive", {"lambda": 10.0})]).values
        {'data_source.evalK': 5, 'algorithms.naive.lambda': 10.0}
        """
        return values_of(self._thawed())

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Derive engine params with other values, each under `stage.[name.]param`.

        A stage's name may be left out unless another algorithm has one too; `algorithms.1.lambda` counts from
        0. The path may go on into dicts and lists. A stage alone, `{"preparator": "tfidf"}`, is given that
        name, without params unless it has it already; of algorithms that one is left.

        Raises:
            EngineParamsError: a path leads nowhere.
        """
        stages = self._thawed()
        for path in _outer_first(values):
            put(stages, path, deepcopy(values[path]))  # what is set in it stays out of the caller's
        return self.copy(**stages)

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> Self:
        """Make engine params of nothing but values, each under `stage.[name.]param`.

        The paths say what the stages are called and which algorithms there are, in their order.

        Raises:
            EngineParamsError: a path leads nowhere, or two paths name one stage differently.

        >>> print(EngineParams.of_values({"algorithms.naive.lambda": 10.0, "data_source.evalK": 5}).values)
        {'data_source.evalK': 5, 'algorithms.naive.lambda': 10.0}
        """
        return cls(**named_by(values)).with_values(values)

    def check_values(self, paths: Iterable[str]) -> None:
        """Refuse paths to what has no value here.

        Raises:
            EngineParamsError: naming the paths that there are.
        """
        stages = self._thawed()
        for path in paths:
            try:
                check_there(stages, path)
            except EngineParamsError as err:
                split_path(path)  # a stage that does not exist says so itself
                raise EngineParamsError(
                    f"{err}; the values are at {', '.join(self.values) or 'no path'}"
                ) from None

    def _thawed(self) -> dict[str, Any]:
        """The stages, their params copied and open to changes."""
        single = {name: getattr(self, name) for name in SINGLE}
        return {
            "algorithms": [Stage(stage.name, deepcopy(stage.params)) for stage in self.algorithms],
            **{name: Stage(stage.name, deepcopy(stage.params)) for name, stage in single.items()},
        }

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


def _outer_first(paths: Iterable[str]) -> list[str]:
    """Names of stages come before their params, a dict before what is set in it."""
    return sorted(paths, key=lambda path: path.count("."))


def _stage_key(stage: Stage, path: str) -> Hashable:
    return stage.name, structural_key(stage.params, f"{path}.params")


def _shown(stage: Stage) -> str:
    return repr((stage.name, dict(stage.params)))
