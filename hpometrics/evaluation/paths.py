"""Paths into engine params, as in `algorithms.naive.lambda`: how a search names one value of one stage."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ..exceptions import EngineParamsError

_STAGES = ("data_source", "preparator", "algorithms", "serving")


def put(stages: Mapping[str, Any], path: str, value: Any) -> None:
    """Set one value in stages whose params may be changed.

    Raises:
        EngineParamsError: the path leads nowhere.
    """
    stage, *parts = path.split(".")
    if stage not in _STAGES:
        close = get_close_matches(stage, _STAGES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(_STAGES)}"
        raise EngineParamsError(f"{path}: engine params have no stage {stage!r}{hint}")
    found, parts = _algorithm(stages[stage], parts, path) if stage == "algorithms" else (stages[stage], parts)
    if len(parts) > 1 and parts[0] == found.name:
        parts = parts[1:]
    if not parts:
        raise EngineParamsError(f"{path}: names a stage and none of its params, as in {stage}.name.param")
    _set(found.params, parts, value, path)


def _algorithm(algorithms: list[Any], parts: list[str], path: str) -> tuple[Any, list[str]]:
    """The algorithm that a path means: by its name, its place, or because there is one only."""
    first = parts[0] if parts else ""
    named = [stage for stage in algorithms if stage.name == first]
    if len(named) == 1 and len(parts) > 1:
        return named[0], parts[1:]
    if first.isdecimal() and int(first) < len(algorithms):
        return algorithms[int(first)], parts[1:]
    if len(algorithms) == 1 and len(parts) > 0:
        return algorithms[0], parts
    names = ", ".join(f"{stage.name!r}" for stage in algorithms)
    raise EngineParamsError(
        f"{path}: {len(named) or 'no'} algorithms are named {first!r}; there are {names}, "
        "and algorithms.0 is the first of them"
    )


def _set(params: Any, parts: list[str], value: Any, path: str) -> None:
    *way, last = parts
    place = params
    for part in way:
        place = _inside(place, part, path)
    if isinstance(place, list):
        _inside(place, last, path)
        place[int(last)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise EngineParamsError(f"{path}: what {last!r} should be set in is no dict or list but {place!r}")


def _inside(place: Any, part: str, path: str) -> Any:
    if isinstance(place, dict) and part in place:
        return place[part]
    if isinstance(place, list) and part.isdecimal() and int(part) < len(place):
        return place[int(part)]
    raise EngineParamsError(f"{path}: there is no {part!r} in {place!r}")
