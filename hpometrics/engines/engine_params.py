"""Engine params: the names and params of an engine's four stages, by path and in PredictionIO's layout."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

from .._text import did_you_mean, flat
from ..exceptions import EngineParamsError
from .engine import STAGES, Stage, is_named, stage_of
from .json_layout import layout_of, plain, spread, stages_of, variant_of
from .keys import structural_key

SINGLE = ("data_source", "preparator", "serving")


def set_value(stages: dict[str, Any], path: str, value: Any) -> None:
    """Set one value in stages with mutable params; the path of a stage alone sets its name.

    Raises:
        EngineParamsError: the path leads nowhere.
    """
    stage, parts = split_path(path)
    if not parts:
        stages[stage] = _with_name(stages[stage], stage, value)
        return
    place, last = _parent_of(stages, stage, parts, path)
    if isinstance(place, list):
        _child_of(place, last, path)
        place[int(last)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise EngineParamsError(f"{path}: {last!r} can be set only in a dict or a list, got {place!r}")


def check_exists(stages: Mapping[str, Any], path: str) -> None:
    """Refuse a path to a value that does not exist.

    Raises:
        EngineParamsError: the path leads nowhere.
    """
    stage, parts = split_path(path)
    if parts:
        place, last = _parent_of(stages, stage, parts, path)
        _child_of(place, last, path)


def values_of(stages: Mapping[str, Any]) -> dict[str, Any]:
    """Return every value of stages by its path; a list is one value."""
    values: dict[str, Any] = {}
    for stage in STAGES:
        for head, content in _heads(stages[stage], stage):
            values.update(flat(content.params, front=f"{head}."))
    return values


def stages_named_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stages that paths name, without params: each with its name, the algorithms with all names.

    Raises:
        EngineParamsError: a path has no stage, or two paths name one stage differently.
    """
    stages: dict[str, Any] = {}
    for stage in STAGES:
        names = list(dict.fromkeys(_names(values, stage)))
        if stage in values:
            chosen = _check_name(values[stage], stage)
            if others := [name for name in names if name != chosen]:
                raise EngineParamsError(
                    f"{stage}.{others[0]}: has params, but {stage} is {chosen!r} here; make these "
                    f"conditional with when={{{stage!r}: {others[0]!r}}}"
                )
            names = [chosen]
        if len(names) > 1 and stage != "algorithms":
            raise EngineParamsError(
                f"{stage} is a single stage; its path is {' and '.join(map(repr, names))}"
            )
        if names:
            stages[stage] = [(name, {}) for name in names] if stage == "algorithms" else (names[0], {})
    return stages


def split_path(path: str) -> tuple[str, list[str]]:
    """Split a path into its stage and the way from there.

    Raises:
        EngineParamsError: engine params have no such stage.
    """
    stage, *parts = path.split(".")
    if stage not in STAGES:
        hint = did_you_mean(stage, STAGES) or f"; there are {', '.join(STAGES)}"
        raise EngineParamsError(f"{path}: engine params have no stage {stage!r}{hint}")
    return stage, parts


def _with_name(current: Any, stage: str, name: object) -> Any:
    """Return the stage with this name, as it is or without params; of algorithms the one of this name."""
    name = _check_name(name, stage)
    if stage == "algorithms":
        return [one for one in current if one.name == name] or [current[0]._replace(name=name, params={})]
    return current if current.name == name else current._replace(name=name, params={})


def _check_name(name: object, stage: str) -> str:
    if isinstance(name, str):
        return name
    raise EngineParamsError(f"{stage}: a stage must be named by text, as in {stage}: naive; got {name!r}")


def _names(values: Mapping[str, Any], stage: str) -> Iterator[str]:
    """Yield the names in the paths of a stage; what is set as a param is not a name."""
    for path in values:
        of, parts = split_path(path)
        if of == stage and len(parts) > 1 and f"{stage}.{parts[0]}" not in values:
            yield parts[0]


def _heads(stages: Any, stage: str) -> Iterator[tuple[str, Any]]:
    """Yield each stage after the shortest path that means it alone."""
    if stage != "algorithms":
        yield f"{stage}.{stages.name}" if stages.name else stage, stages
        return
    names = [one.name for one in stages]
    for index, one in enumerate(stages):
        label = one.name if names.count(one.name) == 1 else str(index)
        if label != one.name and one.name in one.params:  # the param behind a number would read as the name
            label = f"{index}.{one.name}"
        yield f"{stage}.{label}" if label else stage, one


def _parent_of(stages: Mapping[str, Any], stage: str, parts: list[str], path: str) -> tuple[Any, str]:
    """Return the dict or list with the value that a path means, and the key of the value in it."""
    content, parts = (
        _algorithm(stages[stage], parts, path)
        if stage == "algorithms"
        else (stages[stage], _behind_name(stages[stage], parts))
    )
    if not parts:
        raise EngineParamsError(f"{path}: names a stage but no param of it; write {stage}.name.param")
    *way, last = parts
    place: Any = content.params
    for part in way:
        place = _child_of(place, part, path)
    return place, last


def _algorithm(algorithms: list[Any], parts: list[str], path: str) -> tuple[Any, list[str]]:
    """Return the algorithm that a path means, by its name, its index, or as the only one, and the rest."""
    first = parts[0] if parts else ""
    matches = [stage for stage in algorithms if stage.name == first]
    if len(matches) == 1 and len(parts) > 1:
        return matches[0], parts[1:]
    if first.isdecimal() and int(first) < len(algorithms):
        return algorithms[int(first)], _behind_name(algorithms[int(first)], parts[1:])
    if len(algorithms) == 1 and len(parts) > 0:
        return algorithms[0], parts
    names = ", ".join(f"{stage.name!r}" for stage in algorithms)
    raise EngineParamsError(
        f"{path}: {len(matches) or 'no'} algorithms are named {first!r}; choose one by its position, as in "
        f"algorithms.0, from {names}"
    )


def _behind_name(stage: Any, parts: list[str]) -> list[str]:
    """Return the path inside the params of a stage, without the name of the stage in front."""
    return parts[1:] if len(parts) > 1 and parts[0] == stage.name else parts


def _child_of(place: Any, part: str, path: str) -> Any:
    if isinstance(place, dict) and part in place:
        return place[part]
    if isinstance(place, list) and part.isdecimal() and int(part) < len(place):
        return place[int(part)]
    raise EngineParamsError(f"{path}: there is no {part!r} in {place!r}")


def _missing_param(stages: Mapping[str, Any], path: str) -> str:
    """Return how to make a path searchable whose stage exists and lacks only the param."""
    stage, parts = split_path(path)
    try:
        place, last = _parent_of(stages, stage, parts, path)
    except EngineParamsError:
        return ""
    if not isinstance(place, dict):
        return ""
    params = ", ".join([*(f"{name!r}: {value!r}" for name, value in place.items()), f"{last!r}: ..."])
    return f"; to search it, give {path.rpartition('.')[0]} any value of {last!r}, as in {{{params}}}"


@dataclass(frozen=True, eq=False, repr=False)
class EngineParams:
    """The names and params of an engine's stages, of one candidate.

    Args:
        data_source, preparator, serving: a stage: its params, or its name and its params; the name is `""`
            by default.
        algorithms: a list of stages, or one.

    The values are copied. Two are equal if their values and the values' types are.

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
        entries = [algorithms] if one else list(algorithms)
        if not entries:
            raise EngineParamsError("algorithms is empty; an engine needs at least one, e.g. [('', {})]")
        stages = tuple(stage_of(stage, f"algorithms[{i}]") for i, stage in enumerate(entries))
        object.__setattr__(self, "algorithms", stages)

    @cached_property
    def key(self) -> StageKeys:
        """The structural key of each stage.

        Raises:
            EngineParamsError: a value has nothing but its identity; the message has its path.
        """
        keys = self._each(lambda stage, path: (stage.name, structural_key(stage.params, f"{path}.params")))
        return StageKeys(**{**keys, "algorithms": tuple(keys["algorithms"])})

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "key"}  # it may hold code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineParams) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def copy(self, **stages: Any) -> Self:
        """Return engine params with other stages, as in `copy(algorithms=[("naive", {"lambda": 3.0})])`."""
        return replace(self, **stages)

    @property
    def values(self) -> dict[str, Any]:
        """Every value under its path, as `with_values` takes it.

        >>> EngineParams(data_source={"evalK": 5}, algorithms=[("naive", {"lambda": 10.0})]).values
        {'data_source.evalK': 5, 'algorithms.naive.lambda': 10.0}
        """
        return values_of(self._thawed())

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return engine params with other values, each under `stage.[name.]param`.

        A stage's name may be left out unless another algorithm has one too; `algorithms.1.lambda` counts from
        0. The path may continue into dicts and lists. A stage alone, `{"preparator": "tfidf"}`, gets that
        name, without params unless it has the name already; of algorithms that one remains.

        Raises:
            EngineParamsError: a path leads nowhere.
        """
        stages = self._thawed()
        for path in sorted(values, key=lambda path: path.count(".")):  # a name, a dict before what is in it
            set_value(stages, path, deepcopy(values[path]))  # what is set in it stays out of the caller's
        return self.copy(**stages)

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> Self:
        """Create engine params from values alone, each under `stage.[name.]param`.

        The paths have the names of the stages, and the algorithms in their order.

        Raises:
            EngineParamsError: a path leads nowhere, or two paths name one stage differently.

        >>> print(EngineParams.of_values({"algorithms.naive.lambda": 10.0, "data_source.evalK": 5}).values)
        {'data_source.evalK': 5, 'algorithms.naive.lambda': 10.0}
        """
        return cls(**stages_named_in(values)).with_values(values)

    def check_values(self, paths: Iterable[str]) -> None:
        """Refuse paths without a value.

        Raises:
            EngineParamsError: a path has none; the message has all paths with one.
        """
        stages = self._thawed()
        for path in paths:
            try:
                check_exists(stages, path)
            except EngineParamsError as err:
                split_path(path)  # raises for a stage that does not exist
                known = ", ".join(self.values) or "no path"
                raise EngineParamsError(
                    f"{err}; the values are at {known}{_missing_param(stages, path)}"
                ) from None

    def _thawed(self) -> dict[str, Any]:
        """Return the stages with mutable copies of their params."""
        return self._each(lambda stage, path: Stage(stage.name, deepcopy(stage.params)))

    def _each(self, convert: Callable[[Stage, str], Any]) -> dict[str, Any]:
        """Return what a function makes of each stage and its path; of the algorithms a list."""
        single = {name: convert(getattr(self, name), name) for name in SINGLE}
        algorithms = [convert(stage, f"algorithms[{i}]") for i, stage in enumerate(self.algorithms)]
        return {**single, "algorithms": algorithms}

    def to_json(self, default: Callable[[Any], Any] | None = None) -> dict[str, Any]:
        """Return all stages in PredictionIO's layout, in plain JSON.

        Tuples and arrays become lists, dataclasses dicts, what is not finite its name; `default` converts
        what has no form in JSON.

        Raises:
            EngineParamsError: a value has none and there is no `default`; the message has its path.
        """
        return layout_of(
            self._each(lambda stage, path: {stage.name: plain(stage.params, f"{path}.params", default)})
        )

    def to_variant(self, default: Callable[[Any], Any] | None = None) -> dict[str, Any]:
        """Return all stages as in an `engine.json`: each with its `name` and `params`."""

        def describe(stage: Stage, path: str) -> dict[str, Any]:
            return {"name": stage.name, "params": plain(stage.params, f"{path}.params", default)}

        return variant_of(self._each(describe))

    @classmethod
    def from_json(cls, described: Mapping[str, Any] | str) -> Self:
        """Parse what `to_json` or `to_variant` returned, or its text; a stage that is left out has no params.

        Raises:
            EngineParamsError: it is something else; the message names the place.
        """
        return cls(**stages_of(described))

    def __str__(self) -> str:
        return json.dumps(self.to_json(default=repr), ensure_ascii=False, separators=(",", ":"))

    def pretty(self) -> str:
        """Return the JSON over several lines, as PredictionIO prints it."""
        return spread(self.to_json(default=repr))

    def __repr__(self) -> str:
        stages = self._each(lambda stage, path: (stage.name, dict(stage.params)))
        return f"EngineParams({', '.join(f'{stage}={stages[stage]!r}' for stage in STAGES)})"


class StageKeys(NamedTuple):
    """The structural key of each stage."""

    data_source: Hashable
    preparator: Hashable
    algorithms: tuple[Hashable, ...]
    serving: Hashable


def params_list(source: Any) -> list[EngineParams]:
    """Read a list of engine params, once, from an iterable, a function or an object.

    Args:
        source: an iterable, a generator function, or a class or object with `engine_params_list`, which is
            either of these.

    Raises:
        EngineParamsError: there is no list, or an entry is something else; the message names its index.

    >>> len(params_list(EngineParams(algorithms={"lambda": x}) for x in (10.0, 100.0, 1000.0)))
    3
    """
    entries = getattr(source, "engine_params_list", source)
    if entries is not source and isinstance(source, type) and callable(entries):
        entries = source().engine_params_list
    entries = entries() if callable(entries) else entries
    if not isinstance(entries, Iterable) or isinstance(entries, (str, bytes, Mapping)):
        raise EngineParamsError(
            "a list of engine params must be an iterable, a function that returns one or an object with "
            f"engine_params_list, got {type(entries).__name__}: {entries!r}"
        )
    candidates: list[EngineParams] = []
    for i, entry in enumerate(entries):
        if not isinstance(entry, EngineParams):
            raise EngineParamsError(
                f"entry {i} of the list of engine params is a {type(entry).__name__}, not EngineParams: "
                f"{entry!r}; convert JSON with EngineParams.from_json"
            )
        candidates.append(entry)
    if not candidates:
        raise EngineParamsError("the list of engine params is empty, so there is nothing to evaluate")
    return candidates
