"""Descriptions: the text below each field of a model, read from its source when the schema is printed.

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
