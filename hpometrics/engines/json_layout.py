"""PredictionIO's layout of engine params: its two forms in JSON, and how it prints them."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._redaction import excerpt
from ..exceptions import EngineParamsError

Described = dict[str, Any]
Default = Callable[[Any], Any] | None

_KEYS = {
    "data_source": "dataSourceParams",
    "preparator": "preparatorParams",
    "algorithms": "algorithmParamsList",
    "serving": "servingParams",
}
_VARIANT_KEYS = {
    "data_source": "datasource",
    "preparator": "preparator",
    "algorithms": "algorithms",
    "serving": "serving",
}
_MORE_OF_A_VARIANT = {"id", "description", "engineFactory", "evaluation", "sparkConf"}


def plain(value: Any, path: str, default: Default) -> Any:
    """Return a value in what JSON has: dict, list, text, number, bool, None.

    Raises:
        EngineParamsError: a value has no form in JSON and there is no `default`.
    """
    if isinstance(value, enum.Enum):
        return plain(value.value, path, default)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist(), path, default)
    if isinstance(value, Mapping):
        return {str(key): plain(part, f"{path}.{key}", default) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part, f"{path}[{i}]", default) for i, part in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return plain(parts, path, default)
    if default is None:
        raise EngineParamsError(
            f"{path}: a {type(value).__qualname__} cannot be stored as JSON, so it could not be read back: "
            f"{value!r}; pass the values it is built from and build it in the stage"
        )
    return default(value)


def layout_of(described: Mapping[str, Any]) -> Described:
    """Return four described stages under PredictionIO's names, in its order."""
    return {key: described[stage] for stage, key in _KEYS.items()}


def variant_of(described: Mapping[str, Any]) -> Described:
    """Return four described stages under the names of an `engine.json`, in its order."""
    return {key: described[stage] for stage, key in _VARIANT_KEYS.items()}


def stages_of(described: Mapping[str, Any] | str) -> Described:
    """Parse either layout, or its text, into the stages' names and params.

    Raises:
        EngineParamsError: it is neither; the message names the place.
    """
    layout = _parse_layout(described)
    if _VARIANT_KEYS["data_source"] in layout or _VARIANT_KEYS["algorithms"] in layout:
        _check_keys(layout, {*_VARIANT_KEYS.values(), *_MORE_OF_A_VARIANT})
        keys, parse = _VARIANT_KEYS, _parse_variant_stage
    else:
        _check_keys(layout, set(_KEYS.values()))
        keys, parse = _KEYS, _parse_stage
    return {stage: _each(layout[key], key, parse) for stage, key in keys.items() if key in layout}


def _each(entry: Any, key: str, convert: Callable[[Any, str], Any]) -> Any:
    """Convert one stage, or each algorithm of a list."""
    if key not in (_KEYS["algorithms"], _VARIANT_KEYS["algorithms"]):
        return convert(entry, key)
    if not isinstance(entry, Sequence) or isinstance(entry, str):
        raise EngineParamsError(f"{key}: expected a list of algorithms, got {entry!r}")
    return [convert(one, f"{key}[{i}]") for i, one in enumerate(entry)]


def spread(value: Any, indent: int = 0) -> str:
    """Format JSON over lines as PredictionIO does: no space after a colon, an empty line inside `{}`."""
    if not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    first, last = "{}" if isinstance(value, dict) else "[]"
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}:{spread(part, indent + 2)}" for key, part in value.items()
        ]
    else:
        parts = [spread(part, indent + 2) for part in value]
    lines = f",\n{inner}".join(parts)
    return f"{first}\n{inner}{lines}\n{' ' * indent}{last}"


def _parse_layout(described: Mapping[str, Any] | str) -> Mapping[str, Any]:
    layout: Any = described
    if isinstance(described, str):
        try:
            layout = json.loads(described)
        except json.JSONDecodeError as err:
            raise EngineParamsError(
                f"engine params must be JSON: {err}; got {excerpt(described, 80)!r}"
            ) from err
    if not isinstance(layout, Mapping):
        raise EngineParamsError(
            f"engine params must be a mapping of stages, got {type(layout).__name__}: {layout!r}"
        )
    return layout


def _check_keys(layout: Mapping[str, Any], expected: set[str]) -> None:
    for key in layout:
        if key not in expected:
            raise EngineParamsError(
                f"{key}: not a stage of engine params; the stages are {', '.join(sorted(expected))}"
            )


def _parse_stage(entry: Any, path: str) -> tuple[str, Mapping[str, Any]]:
    """Parse `{"naive": {"lambda": 10.0}}`."""
    if isinstance(entry, Mapping) and len(entry) == 1:
        ((name, params),) = entry.items()
        if isinstance(params, Mapping):
            return name, params
    raise EngineParamsError(
        f'{path}: one name with its params, as in {{"naive": {{"lambda": 10.0}}}}; got {entry!r}'
    )


def _parse_variant_stage(entry: Any, path: str) -> tuple[str, Mapping[str, Any]]:
    """Parse `{"name": "naive", "params": {"lambda": 10.0}}`; either may be left out."""
    if isinstance(entry, Mapping) and entry.keys() <= {"name", "params"}:
        return entry.get("name", ""), entry.get("params", {})
    raise EngineParamsError(f'{path}: {{"name": ..., "params": {{...}}}}, got {entry!r}')
