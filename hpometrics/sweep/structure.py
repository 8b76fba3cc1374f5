"""Structure: a document becomes a config, and pydantic's errors become problems in our words."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from . import config
from .config import Draft, Sweep
from .dimensions import MODELS as DIMENSIONS
from .loader import Document
from .problems import Path, Problem, did_you_mean, one_line

_WANTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_type": "text",
}
_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_MODELS: Mapping[str, type[BaseModel]] = {
    "": Sweep,
    "engine": config.Engine,
    "metrics": config.Metrics,
    "search": config.Search,
    "backend": config.Backend,
    "backend.optuna": config.OptunaBackend,
    "backend.ray": config.RayBackend,
    "backend.ray.resources": config.Resources,
    "budget": config.Budget,
    "results": config.Results,
}


def read_config(document: Document) -> Draft:
    """Validate a document's structure; problems are noted in the document.

    Returns:
        The `Sweep`, or a `Draft` without what is wrong, so that the meaning of the rest can be checked too.
    """
    try:
        return Sweep.model_validate(document.data)
    except ValidationError as err:
        errors = err.errors(include_url=False)
    misspelt = {_meant(error, document) for error in errors}
    for error in errors:
        if error["type"] != "missing" or error["loc"] not in misspelt:
            document.problems.append(_problem(error, document))
    return Draft.model_validate(_without(document.data, [error["loc"] for error in errors]))


def _meant(error: ErrorDetails, document: Document) -> tuple[str | int, ...] | None:
    """Give the location that an unknown key was probably meant for: nothing else is missing there."""
    if error["type"] != "extra_forbidden":
        return None
    path = _path(error["loc"], document.data)
    near = get_close_matches(str(path[-1]), _known_keys(path[:-1], document.data), 1)
    return (*error["loc"][:-1], *near)


def _problem(error: ErrorDetails, document: Document) -> Problem:
    path = _path(error["loc"], document.data)
    if error["type"] == "extra_forbidden":
        return Problem(document.mark(path), path[:-1], _unknown_key(path, document.data))
    if error["type"] == "missing":
        return Problem(document.mark(path), path, f"{error['loc'][-1]} is missing")
    return Problem(document.mark(path), path, _text(error, path))


def _path(loc: tuple[str | int, ...], data: Any) -> Path:
    """Keep the parts of a location that the file has; the others are names of pydantic's branches."""
    path: list[str | int] = []
    for part in loc:
        in_mapping = isinstance(data, dict) and part in data
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_mapping or in_list:
            path.append(part)
            data = data[part]
    return tuple(path)


def _text(error: ErrorDetails, path: Path) -> str:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    if kind in _WANTED:
        return f"wants {_WANTED[kind]}, got {_shown(given)}{_as_number(given, kind)}"
    if kind in ("too_short", "too_long"):
        return f"wants [low, high], got {given!r}" if path[-1] in ("float", "int") else "must not be empty"
    if kind == "literal_error":
        choices = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return f"{given!r} is none of {', '.join(choices)}{did_you_mean(given, choices)}"
    if kind in _LIMITS:
        word, limit = _LIMITS[kind]
        return f"must be {word} {context[limit]}, got {given}"
    return one_line(ValueError(error["msg"]))


def _shown(value: Any) -> str:
    named = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value))
    return named or f"{value!r:.60}" + (" (text)" if isinstance(value, str) else "")


def _as_number(value: Any, kind: str) -> str:
    if kind not in ("int_type", "float_type") or not isinstance(value, str):
        return ""
    try:
        float(value.replace("_", ""))
    except ValueError:
        return ""
    return "; write it without quotes or underscores"


def _unknown_key(path: Path, data: Any) -> str:
    key = str(path[-1])
    known = _known_keys(path[:-1], data)
    text = f"unknown key {key!r}{did_you_mean(key, known)}"
    home = next((name for name, model in _MODELS.items() if name and key in _keys(model)), None)
    if home and "did you mean" not in text:
        return f"{text}; {key!r} belongs to {home}"
    return text if "did you mean" in text else f"{text}; it knows {', '.join(known)}"


def _known_keys(path: Path, data: Any) -> list[str]:
    if path[:1] != ("space",):
        return _keys(_MODELS[".".join(map(str, path))])
    return next(_keys(model) for kind, model in DIMENSIONS.items() if kind in data["space"][path[1]])


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _without(data: dict[str, Any], locations: list[tuple[str | int, ...]]) -> dict[str, Any]:
    """Leave out the sections that have errors; of the space, only the dimensions that have."""
    broken = {loc[0] for loc in locations if loc[0] != "space" or len(loc) == 1}
    dimensions = {loc[1] for loc in locations if loc[0] == "space" and len(loc) > 1}
    kept = {name: section for name, section in data.items() if name not in broken}
    if dimensions and isinstance(kept.get("space"), dict):
        kept["space"] = {name: item for name, item in kept["space"].items() if name not in dimensions}
        if not kept["space"]:
            del kept["space"]
    return kept
