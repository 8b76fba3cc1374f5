"""The text below a field is its description in the schema, as pydantic itself would have read it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from hpometrics.config.json_schema import Described, field_texts, json_schema


class Inner(BaseModel):
    """What is inside."""

    depth: int = 1
    """How deep,
    in steps."""


class Outer(BaseModel):
    """What is outside."""

    same: Inner
    """What is inside."""
    other: Inner
    """Another of them."""
    untold: float = 0.5
    points: list[int] = Field(alias="list", default=[3])
    """Written by another name."""


class Further(Outer):
    """What says one thing anew."""

    other: Inner
    """Said anew."""


class ReadAtOnce(BaseModel):
    """A parent whose children's texts pydantic reads as it makes them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class InnerAtOnce(ReadAtOnce):
    """What is inside."""

    depth: int = 1
    """How deep,
    in steps."""


class OuterAtOnce(ReadAtOnce):
    """What is outside."""

    same: InnerAtOnce
    """What is inside."""
    other: InnerAtOnce
    """Another of them."""
    untold: float = 0.5
    points: list[int] = Field(alias="list", default=[3])
    """Written by another name."""


class FurtherAtOnce(OuterAtOnce):
    """What says one thing anew."""

    other: InnerAtOnce
    """Said anew."""


def test_a_schema_is_the_one_that_pydantic_writes_of_texts_read_at_once():
    """Aliases, inherited and overridden fields, and a text that what is referred to says already."""
    later, at_once = (Outer, Further), (OuterAtOnce, FurtherAtOnce)
    _, mine = models_json_schema([(one, "validation") for one in later], schema_generator=Described)
    _, theirs = models_json_schema([(one, "validation") for one in at_once])
    assert str(mine) == str(theirs).replace("AtOnce", "")


def test_texts_are_those_of_the_fields():
    """Without indentation; a field without one has none."""
    assert field_texts(Further) == {
        "same": "What is inside.",
        "other": "Said anew.",
        "points": "Written by another name.",
    }
    assert field_texts(Inner) == {"depth": "How deep,\nin steps."}


def test_every_key_of_a_sweep_file_is_described():
    """By itself, or by the section that it is."""
    schema = json_schema()
    for name, told in {**schema["definitions"], "the file": schema}.items():
        for key, facts in told["properties"].items():
            assert "description" in facts or "$ref" in facts, (name, key)
    assert (
        schema["definitions"]["Budget"]["properties"]["epochs"]["description"]
        == "Maximum number of epochs of one trial."
    )
    assert schema["definitions"]["Backend"]["properties"]["list"]["description"].startswith(
        "A list of params"
    )
