"""EngineParams: the names and params of an engine's four stages, in PredictionIO's own layout both ways."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple, Self

from ..exceptions import EngineParamsError
from .engine import Named, Params, Stage, is_named, stage_of
from .json_layout import arranged, compact, plain, spread, stages_of, variant
from .keys import structural_key

__all__ = ["EngineParams", "Named", "Params", "Stage", "StageKeys", "params_list"]


STAGES = ("data_source", "preparator", "algorithms", "serving")


def put(stages: dict[str, Any], path: str, value: Any) -> None:
    """Set one value in stages whose params may be changed; the path of a stage alone sets its name.

    Raises:
        EngineParamsError: the path leads nowhere.
    """
    stage, parts = split_path(path)
    if not parts:
        stages[stage] = _renamed(stages[stage], stage, value)
        return
    place, last = _place(stages, stage, parts, path)
    if isinstance(place, list):
        _inside(place, last, path)
        place[int(last)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise EngineParamsError(f"{path}: what {last!r} should be set in is no dict or list but {place!r}")


def check_there(stages: Mapping[str, Any], path: str) -> None:
    """Refuse a path to a value that is not there yet.

    Raises:
        EngineParamsError: the path leads nowhere.
    """
    stage, parts = split_path(path)
    if parts:
        place, last = _place(stages, stage, parts, path)
        _inside(place, last, path)


def values_of(stages: Mapping[str, Any]) -> dict[str, Any]:
    """Give every value of stages by its path; a list is one value."""
    found: dict[str, Any] = {}
    for stage in STAGES:
        for head, named in _heads(stages[stage], stage):
            found.update(_leaves(named.params, head))
    return found


def named_by(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give the stages that nothing but paths name, without params: each one's name, of algorithms all names.

    Raises:
        EngineParamsError: a path is of no stage, or two paths name one stage differently.
    """
    named: dict[str, Any] = {}
    for stage in STAGES:
        names = list(dict.fromkeys(_names(values, stage)))
        if stage in values:
            chosen = _checked_name(values[stage], stage)
            _check_chosen(chosen, names, stage)
            names = [chosen]
        if len(names) > 1 and stage != "algorithms":
            raise EngineParamsError(
                f"{stage} is one stage, and paths name it {' and '.join(map(repr, names))}"
            )
        if names:
            named[stage] = [(name, {}) for name in names] if stage == "algorithms" else (names[0], {})
    return named


def split_path(path: str) -> tuple[str, list[str]]:
    """Split a path into its stage and the way from there.

    Raises:
        EngineParamsError: engine params have no such stage.
    """
    stage, *parts = path.split(".")
    if stage not in STAGES:
        close = get_close_matches(stage, STAGES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(STAGES)}"
        raise EngineParamsError(f"{path}: engine params have no stage {stage!r}{hint}")
    return stage, parts


def _renamed(found: Any, stage: str, name: object) -> Any:
    """The stage of this name, as it is or without params; of algorithms the one of this name alone."""
    name = _checked_name(name, stage)
    if stage == "algorithms":
        return [one for one in found if one.name == name] or [found[0]._replace(name=name, params={})]
    return found if found.name == name else found._replace(name=name, params={})


def _checked_name(name: object, stage: str) -> str:
    if isinstance(name, str):
        return name
    raise EngineParamsError(f"{stage}: a stage is called by a text, as in {stage}: naive; got {name!r}")


def _names(values: Mapping[str, Any], stage: str) -> Iterator[str]:
    """The names in the paths of a stage; what is set as a param is none."""
    for path in values:
        of, parts = split_path(path)
        if of == stage and len(parts) > 1 and f"{stage}.{parts[0]}" not in values:
            yield parts[0]


def _check_chosen(chosen: str, names: Iterable[str], stage: str) -> None:
    for name in names:
        if name != chosen:
            raise EngineParamsError(
                f"{stage}.{name}: has params, but {stage} is {chosen!r} here; let these exist only "
                f"when={{{stage!r}: {name!r}}}"
            )


def _heads(stages: Any, stage: str) -> Iterator[tuple[str, Any]]:
    """Each stage with the shortest path that means it alone."""
    if stage != "algorithms":
        yield f"{stage}.{stages.name}" if stages.name else stage, stages
        return
    names = [one.name for one in stages]
    for index, one in enumerate(stages):
        known = one.name if names.count(one.name) == 1 else str(index)
        if known != one.name and one.name in one.params:  # which behind a number would be taken for the name
            known = f"{index}.{one.name}"
        yield f"{stage}.{known}" if known else stage, one


def _leaves(value: Mapping[str, Any], head: str) -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        if isinstance(part, dict) and part:
            yield from _leaves(part, f"{head}.{name}")
        else:
            yield f"{head}.{name}", part


def _place(stages: Mapping[str, Any], stage: str, parts: list[str], path: str) -> tuple[Any, str]:
    """What holds the value that a path means, and under which key."""
    found, parts = (
        _algorithm(stages[stage], parts, path)
        if stage == "algorithms"
        else (stages[stage], _behind_name(stages[stage], parts))
    )
    if not parts:
        raise EngineParamsError(f"{path}: names a stage and none of its params, as in {stage}.name.param")
    *way, last = parts
    place: Any = found.params
    for part in way:
        place = _inside(place, part, path)
    return place, last


def _algorithm(algorithms: list[Any], parts: list[str], path: str) -> tuple[Any, list[str]]:
    """The algorithm that a path means: by its name, its place, or because there is one only."""
    first = parts[0] if parts else ""
    named = [stage for stage in algorithms if stage.name == first]
    if len(named) == 1 and len(parts) > 1:
        return named[0], parts[1:]
    if first.isdecimal() and int(first) < len(algorithms):
        return algorithms[int(first)], _behind_name(algorithms[int(first)], parts[1:])
    if len(algorithms) == 1 and len(parts) > 0:
        return algorithms[0], parts
    names = ", ".join(f"{stage.name!r}" for stage in algorithms)
    raise EngineParamsError(
        f"{path}: {len(named) or 'no'} algorithms are named {first!r}; there are {names}, "
        "and algorithms.0 is the first of them"
    )


def _behind_name(stage: Any, parts: list[str]) -> list[str]:
    """The way into the params of a stage, whose name may stand before it, once."""
    return parts[1:] if len(parts) > 1 and parts[0] == stage.name else parts


def _inside(place: Any, part: str, path: str) -> Any:
    if isinstance(place, dict) and part in place:
        return place[part]
    if isinstance(place, list) and part.isdecimal() and int(part) < len(place):
        return place[int(part)]
    raise EngineParamsError(f"{path}: there is no {part!r} in {place!r}")


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
