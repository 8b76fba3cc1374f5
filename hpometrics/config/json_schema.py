"""The JSON Schema of a sweep file, for editors: keys, forms, and the registered metrics as suggestions.

The text below a field of a model is the description of its key. Pydantic can read it too
(`use_attribute_docstrings`), but does so when each class is created, which every command would wait for.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from ..backends.registry import SAMPLERS, pruner_names
from ..loggers.registry import LOGGERS
from ..metrics.registry.index import MetricEntry, all_entries
from .models import Backend, Draft, Sweep, backend_texts

_TITLE = "hpometrics sweep"
_TEXT = {"type": "string"}
_CLASS = {"type": "string", "pattern": ":"}  # a class of the user's own, module:Class
_DIALECT = "http://json-schema.org/draft-07/schema#"


class Described(GenerateJsonSchema):
    """A schema in which each property is described by the text below its field."""

    def encode_default(self, dft: Any) -> Any:
        """Encode a default; pydantic 2.12 does not build the deferred model of one."""
        if isinstance(dft, BaseModel):
            type(dft).model_rebuild()
        return super().encode_default(dft)

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        """Return the schema of a model."""
        content = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        texts, properties = field_texts(model), content["properties"]
        for name, field in model.model_fields.items():
            if name in texts:
                key = field.alias or name
                described = {**properties[key], "description": texts[name]}
                properties[key] = self.handle_ref_overrides(described)  # not if its definition has the text
        return content


def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return the text below each field of a model that has one, inherited fields included."""
    texts: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            texts |= _own_texts(owner)
    section, keys = backend_texts()
    return keys if model is Backend else {**texts, "backend": section} if issubclass(model, Draft) else texts


def _own_texts(model: type[BaseModel]) -> dict[str, str]:
    texts = {}
    for pair in pairwise(_statements(model.__module__).get(model.__name__, ())):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = inspect.cleandoc(text)
    return texts


@cache
def _statements(module: str) -> dict[str, list[ast.stmt]]:
    """Return the statements of each class of a module."""
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:  # installed without its source: the schema has no descriptions
        return {}
    return {node.name: node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def json_schema() -> dict[str, Any]:
    """Return a schema for draft-07 and 2020-12 validators; metrics with parameters validate too."""
    text = _replaced(Sweep.model_json_schema(schema_generator=Described), _move_definitions)
    text["definitions"] = text.pop("$defs")
    _suggest(text["definitions"]["Metrics"]["properties"], ("optimize", "track"), _metric_names())
    _suggest(text["definitions"]["ExampleCounts"]["properties"], ("metric",), _metric_names())
    search, results = (text["definitions"][part]["properties"] for part in ("Search", "Results"))
    for kind, names in (("sampler", SAMPLERS), ("pruner", pruner_names())):
        search[kind] = _restrict_names(search[kind], {"anyOf": [{"enum": list(names)}, _CLASS]})
    results["loggers"] = _restrict_names(results["loggers"], {"enum": list(LOGGERS)})
    text["definitions"]["Metrics"]["properties"]["constraints"]["items"]["pattern"] = "<=|>="
    return {"$schema": _DIALECT, **text, "title": _TITLE}


def _metric_names() -> list[str]:
    """Return every spelling of every registered metric that needs no parameter of its own."""
    return sorted({name for entry in all_entries() for name in _spellings(entry)})


def _spellings(entry: MetricEntry) -> list[str]:
    required = [param for param in entry.params if param.required]
    aliases = list(entry.aliases or ())
    if not required:
        return [entry.name, *aliases]
    choices = [f"{entry.name}({required[0].name}={choice})" for choice in required[0].choices]
    return [*(choices if len(required) == 1 else ()), *aliases]


def _move_definitions(schema: Any) -> Any:
    """Return a reference to a definition at the place that draft-07 has for it."""
    return schema.replace("#/$defs/", "#/definitions/") if isinstance(schema, str) else None


def _suggest(properties: dict[str, Any], keys: tuple[str, ...], names: list[str]) -> None:
    """Suggest names for every text of some properties; any other text is still valid."""

    def suggest(part: Any) -> Any:
        return {"anyOf": [{"enum": names}, _TEXT]} if part == _TEXT else None

    for key in keys:
        properties[key] = _replaced(properties[key], suggest, "additionalProperties")


def _restrict_names(schema: Any, names: dict[str, Any]) -> Any:
    """Return a schema in which every text, and every key of `{name: {options}}`, is one of the names."""

    def restrict(part: Any) -> Any:
        if part == _TEXT:
            return names
        is_plugin = isinstance(part, dict) and part.get("maxProperties") == 1
        return {**part, "propertyNames": names} if is_plugin else None

    return _replaced(schema, restrict)


def _replaced(schema: Any, replace: Callable[[Any], Any], kept: str | None = None) -> Any:
    """Return a schema in which each part for which `replace` returns another one is that one.

    Args:
        schema: the schema, or a part of it.
        replace: returns the replacement of a part; None leaves it as it is.
        kept: the key below which nothing is replaced.
    """
    replacement = replace(schema)
    if replacement is not None:
        return replacement
    if isinstance(schema, list):
        return [_replaced(item, replace, kept) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: value if key == kept else _replaced(value, replace, kept) for key, value in schema.items()}
