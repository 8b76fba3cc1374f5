"""The JSON Schema of a sweep file, for editors: keys, forms, and the registered metrics as suggestions.

Pydantic reads it too (`use_attribute_docstrings`), but as each class is made, which every command waits for.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from ..loggers.registry import LOGGERS
from ..metrics.registry.entry import MetricEntry
from ..metrics.registry.index import all_entries
from .compatibility import PRUNERS, SAMPLERS
from .models import Sweep


class Described(GenerateJsonSchema):
    """A schema in which each property is described by the text below its field."""

    def encode_default(self, dft: Any) -> Any:
        """Write a default; pydantic 2.12 does not build a model for it that was put off."""
        if isinstance(dft, BaseModel):
            type(dft).model_rebuild()
        return super().encode_default(dft)

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        """Give the schema of a model."""
        told = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        texts, properties = field_texts(model), told["properties"]
        for name, field in model.model_fields.items():
            if name in texts:
                key = field.alias or name
                described = {**properties[key], "description": texts[name]}
                properties[key] = self.handle_ref_overrides(described)  # what it refers to may say the same
        return told


def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Give the text below each field of a model that has one, those it inherits included."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            found |= _own_texts(owner)
    return found


def _own_texts(model: type[BaseModel]) -> dict[str, str]:
    found = {}
    for pair in pairwise(_statements(model.__module__).get(model.__name__, ())):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


@cache
def _statements(module: str) -> dict[str, list[ast.stmt]]:
    """Give the statements of each class of a module."""
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:  # installed without its source: a schema without descriptions is one all the same
        return {}
    return {found.name: found.body for found in ast.parse(source).body if isinstance(found, ast.ClassDef)}


_TITLE = "hpometrics sweep"
_CLASS = {"type": "string", "pattern": ":"}  # of one's own, module:Class
_DIALECT = "http://json-schema.org/draft-07/schema#"


def json_schema() -> dict[str, Any]:
    """Give a schema that draft-07 and 2020-12 validators read alike; metrics with parameters validate too."""
    schema = Sweep.model_json_schema(by_alias=True, schema_generator=Described)
    text = _replaced(schema, "#/$defs/", "#/definitions/")
    text["definitions"] = text.pop("$defs")
    _suggest(text["definitions"]["Metrics"]["properties"], ("optimize", "track"), _metric_names())
    _suggest(text["definitions"]["ExampleCounts"]["properties"], ("metric",), _metric_names())
    search, results = (text["definitions"][part]["properties"] for part in ("Search", "Results"))
    search["sampler"] = _named(search["sampler"], {"anyOf": [{"enum": list(SAMPLERS)}, _CLASS]})
    search["pruner"] = _named(search["pruner"], {"anyOf": [{"enum": list(PRUNERS)}, _CLASS]})
    results["loggers"] = _named(results["loggers"], {"enum": list(LOGGERS)})
    text["definitions"]["Metrics"]["properties"]["constraints"]["items"]["pattern"] = "<=|>="
    return {"$schema": _DIALECT, **text, "title": _TITLE}


def _metric_names() -> list[str]:
    """Name every registered metric the ways it can be written without a parameter of its own."""
    return sorted({name for entry in all_entries() for name in _spellings(entry)})


def _spellings(entry: MetricEntry) -> list[str]:
    required = [param for param in entry.params if param.required]
    aliases = list(entry.aliases or ())
    if not required:
        return [entry.name, *aliases]
    choices = [f"{entry.name}({required[0].name}={choice})" for choice in required[0].choices]
    return [*(choices if len(required) == 1 else ()), *aliases]


def _suggest(properties: dict[str, Any], keys: tuple[str, ...], names: list[str]) -> None:
    """Let every text of the properties be one of the names or any other text: editors offer the names."""
    for key in keys:
        properties[key] = _texts_replaced(properties[key], {"anyOf": [{"enum": names}, {"type": "string"}]})


def _named(schema: Any, names: dict[str, Any]) -> Any:
    """Let every text be one of the names, and every key of what is `{name: {options}}`."""
    if schema == {"type": "string"}:
        return names
    if isinstance(schema, list):
        return [_named(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("maxProperties") == 1:
        return {**schema, "propertyNames": names}
    return {key: _named(value, names) for key, value in schema.items()}


def _texts_replaced(schema: Any, text: dict[str, Any]) -> Any:
    if schema == {"type": "string"}:
        return text
    if isinstance(schema, dict):
        return {
            key: value if key == "additionalProperties" else _texts_replaced(value, text)
            for key, value in schema.items()
        }
    return [_texts_replaced(item, text) for item in schema] if isinstance(schema, list) else schema


def _replaced(schema: Any, old: str, new: str) -> Any:
    if isinstance(schema, dict):
        return {key: _replaced(value, old, new) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_replaced(item, old, new) for item in schema]
    return schema.replace(old, new) if isinstance(schema, str) else schema
