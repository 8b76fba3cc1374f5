"""Validation of a document: its config, and pydantic's errors as problems in our words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .._imports import environment
from .._redaction import excerpt
from .._text import did_you_mean, nearest, one_line
from . import models
from .dimension_models import MODELS as DIMENSIONS
from .document import MAX_PROBLEMS, Document, Path, Problem
from .engine_section import Engine, MetricsFrom
from .models import Backend, Draft, Sweep, section_models
from .placeholders import fill_environment

_EXPECTED = {
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
    "engine": Engine,
    "metrics": models.Metrics,
    "search": models.Search,
    "backend": Backend,
    **section_models(),
    "budget": models.Budget,
    "confirm": models.Confirm,
    "results": models.Results,
}
_INNER: Mapping[str, type[BaseModel]] = {
    "metrics.track_examples": models.ExampleCounts,
    "search.from": models.WarmStart,
    "engine.metrics_from": MetricsFrom,
}
"""Models whose keys are too common to suggest them for a key elsewhere."""


def read_config(document: Document) -> Draft:
    """Validate a document's structure and add its problems to the document.

    Returns:
        The `Sweep`, or a `Draft` without the wrong parts, so that the meaning of the rest can be checked too.
    """
    errors: list[ErrorDetails] = []
    data = fill_environment(document)
    _build()
    try:
        sweep = Sweep.model_validate(data)
        if not document.broken:
            return sweep
    except ValidationError as err:
        errors = err.errors(include_url=False)
    too_many, errors = len(errors) > MAX_PROBLEMS, errors[:MAX_PROBLEMS]
    misspelled = {_find_intended(error, document) for error in errors}
    for error in errors:
        is_noted = _is_noted(error, _path(error["loc"], document.data), document)
        is_elsewhere = document.incomplete or error["loc"] in misspelled
        if not is_noted and not (error["type"] == "missing" and is_elsewhere):
            document.problems.append(_problem(error, document))
    if too_many or document.incomplete:
        document.raise_problems()  # whatever else is wrong can wait
    document.broken.update(loc for loc in misspelled if loc is not None and len(loc) == 1)
    document.broken.update(_path(error["loc"], document.data) for error in errors)
    return _draft(document, data)


def _build() -> None:
    """Build the model of the file on the first call, without a search for plugins of pydantic.

    The plugins observe the models of services; the search takes longer than reading the file.
    """
    if not Sweep.__pydantic_complete__:
        with environment({"PYDANTIC_DISABLE_PLUGINS": "__all__"}):
            Sweep.model_rebuild()


def _is_noted(error: ErrorDetails, path: Path, document: Document) -> bool:
    """Return whether an error comes from the placeholder of a value that the reader has refused."""
    if any(path[: len(broken)] == broken for broken in document.broken):
        return True
    return error["type"] == "sweep" and any(broken[:-1] == path for broken in document.broken)


def _draft(document: Document, content: dict[str, Any]) -> Draft:
    """Remove the broken values, then values that depend on them, until the rest is well formed."""
    while True:
        data = _without_broken(content, (), document)
        try:
            return Draft.model_validate(data)
        except ValidationError as err:
            paths = [_path(error["loc"], data) for error in err.errors(include_url=False)]
        newly_broken = {document.original(path) for path in paths} - document.broken
        if not newly_broken:
            return Draft()
        document.broken |= newly_broken


def _without_broken(value: Any, path: Path, document: Document) -> Any:
    """Copy a value without its broken keys and items; of the space, whole dimensions are left out."""
    if len(path) == 2 and path[0] == "space":
        return value
    if isinstance(value, dict):
        keys = [key for key in value if not _is_broken((*path, key), document)]
        return {key: _without_broken(value[key], (*path, key), document) for key in keys}
    if isinstance(value, list):
        indices = [i for i in range(len(value)) if not _is_broken((*path, i), document)]
        document.indices[path] = indices
        return [_without_broken(value[i], (*path, i), document) for i in indices]
    return value


def _is_broken(path: Path, document: Document) -> bool:
    inside = len(path) == 2 and path[0] == "space"
    return any(broken[: len(path)] == path if inside else broken == path for broken in document.broken)


def _key_without_colon(key: str) -> str | None:
    """Return the key of `space {lr: 1}`, which YAML reads as the key `space {lr`."""
    match = re.match(r"([\w.-]+)\s+[\[{]", key)
    return None if match is None else match[1]


def _find_intended(error: ErrorDetails, document: Document) -> tuple[str | int, ...] | None:
    """Return the location that an unknown key was probably intended for; it is not reported as missing."""
    if error["type"] != "extra_forbidden":
        return None
    path = _path(error["loc"], document.data)
    key = str(path[-1])
    near = nearest(_key_without_colon(key) or key, _known_keys(path[:-1], document.data))
    return (*error["loc"][:-1], *(() if near is None else (near,)))


def _problem(error: ErrorDetails, document: Document) -> Problem:
    path = _path(error["loc"], document.data)
    if error["type"] == "extra_forbidden":
        return Problem(document.mark(path), path[:-1], _unknown_key(path, document.data))
    if error["type"] == "missing":
        return document.problem(path, f"{error['loc'][-1]} is missing")
    return document.problem(path, _text(error, path))


def _path(loc: tuple[str | int, ...], data: Any) -> Path:
    """Return the parts of a location that the file has; the others are names of pydantic's branches."""
    path: list[str | int] = []
    for part in loc:
        in_mapping = isinstance(data, dict) and part in data
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_mapping or in_list:
            path.append(part)
            data = data[part]
    return tuple(path)


def _text(error: ErrorDetails, path: Path) -> str:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {_format_value(value)}{_number_hint(value, kind)}"
    if kind in ("too_short", "too_long"):
        if path[-1] in ("float", "int"):
            return f"expected [low, high], got {excerpt(repr(value), 60)}"
        if path[-1] == "normal":
            return f"expected [mean, deviation], got {excerpt(repr(value), 60)}"
        if kind == "too_long":
            return f"has at most {context['max_length']} entries, got {len(value)}"
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"needs at least {least} entries, got {len(value)}"
    if kind == "literal_error":
        choices = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return f"{value!r} is not one of {', '.join(choices)}{did_you_mean(value, choices)}"
    if kind in _LIMITS:
        word, limit = _LIMITS[kind]
        return f"must be {word} {context[limit]}, got {value}"
    return one_line(ValueError(error["msg"]))


def _format_value(value: Any) -> str:
    kind = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value))
    return kind or excerpt(repr(value), 60) + (" (text)" if isinstance(value, str) else "")


def _number_hint(value: Any, kind: str) -> str:
    if kind not in ("int_type", "float_type") or not isinstance(value, str):
        return ""
    try:
        number = float(value.replace("_", ""))
    except ValueError:
        return ""
    how = "it without quotes and underscores" if math.isfinite(number) else "a finite number"
    return f"; write {how}"


_ELSEWHERE = {
    **dict.fromkeys(("method", "parameters", "early_terminate", "run_cap", "program"), "a sweep of W&B"),
    **dict.fromkeys(("hyperopt", "input_features", "output_features"), "a config of Ludwig"),
    **{"hydra": "a config of Hydra", "models": "a config of WarpRec", "run": "an experiment of Ray Tune"},
    "hyperparameters": "an oracle.json of KerasTuner",
}
"""Keys of other tools' files at the top of the file."""
_INCLUDES = (
    "defaults",
    "extends",
    "extend",
    "base",
    "bases",
    "_base_",
    "inherit",
    "inherits",
    "import",
    "imports",
)
"""Keys by which files of other tools name those that they stand on."""


def _unknown_key(path: Path, data: Any) -> str:
    key = str(path[-1])
    if (name := _key_without_colon(key)) is not None:
        return f"a key ends in a colon, as in {name}: {key.removeprefix(name).strip()}..., got {key!r}"
    if len(path) == 1 and key in _ELSEWHERE:
        return (
            f"unknown key {key!r}, which belongs to {_ELSEWHERE[key]}; convert that file with hpometrics "
            "init DIRECTORY --from FILE"
        )
    if len(path) == 1 and (key in _INCLUDES or key.endswith((".yaml", ".yml"))):
        return f"unknown key {key!r}; to build on other files, use include: [base.yaml]"
    for section, names in (("space", data.get("space")), ("engine.params", _params_of(data))):
        if len(path) == 1 and isinstance(names, dict) and key in names:
            return f"unknown key {key!r}; did you mean '{section}.{key}'?"
    keys = _known_keys(path[:-1], data)
    text = f"unknown key {key!r}{did_you_mean(key, keys)}"
    home = next((name for name, model in _MODELS.items() if name and key in _keys(model)), None)
    if home and "did you mean" not in text:
        return f"{text}; {key!r} belongs to {home}"
    return text if "did you mean" in text else f"{text}; it knows {', '.join(keys)}"


def _params_of(data: Any) -> Any:
    engine = data.get("engine")
    return engine.get("params") if isinstance(engine, dict) else None


def _known_keys(path: Path, data: Any) -> list[str]:
    if path[:1] != ("space",):
        return _keys({**_MODELS, **_INNER}[".".join(map(str, path))])
    return next(_keys(model) for kind, model in DIMENSIONS.items() if kind in data["space"][path[1]])


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
