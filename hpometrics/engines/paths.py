"""Paths into engine params, as in `algorithms.naive.lambda`: how a search names one value of one stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from ..exceptions import EngineParamsError

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
