"""The pydantic models of the dimensions of a sweep file; the text below a field describes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_serializer

from .._redaction import excerpt
from .fields import Condition, Option, ParamName, Params, PlainScalar, Strict, one_key, wrong
from .other_spellings import line_of_mapping, line_of_text

_FORMS = "{choice: [...]}, {float: [low, high]} or {int: [low, high]}"
KINDS = ("float", "int", "normal", "choice", "value")


class Dimension(Strict):
    """The fields that all searched dimensions share."""

    when: Annotated[dict[ParamName, Condition] | None, Field(min_length=1)] = None
    """Present only when other params have these values: `{optimizer: sgd}`, `{layers: [2, 3]}`."""


class FloatDimension(Dimension):
    """`{float: [1e-4, 1e-1], log: true}`: a real number between two bounds, both included."""

    bounds: Annotated[list[float], Field(alias="float", min_length=2, max_length=2)]
    """Lowest and highest value themselves, never their exponents."""
    log: bool = False
    """Draw evenly in the exponent."""
    step: float | None = None
    """Only low, low + step, low + 2 step and so on; with `log` the one nearest to the draw."""


class IntDimension(Dimension):
    """`{int: [16, 256], step: 16}`: a whole number between two bounds, both included."""

    bounds: Annotated[list[int], Field(alias="int", min_length=2, max_length=2)]
    """Lowest and highest value, both included."""
    log: bool = False
    """Draw evenly in the exponent."""
    step: int | None = None
    """Only low, low + step, low + 2 step and so on; with `log` the one nearest to the draw."""
    power: int | None = None
    """Only low, low * power, low * power ** 2 and so on, as in `{int: [1, 1024], power: 2}`."""


class NormalDimension(Dimension):
    """`{normal: [0.9, 0.02]}`: a real number with a normal distribution of this mean and deviation."""

    parameters: Annotated[list[float], Field(alias="normal", min_length=2, max_length=2)]
    """Mean and standard deviation; values lie within four deviations of the mean."""
    log: bool = False
    """The natural logarithm of the value has this distribution."""
    step: int | float | None = None
    """Only multiples of it, the one nearest to the draw; of a whole number whole ones."""


def _choices_shape(value: Any) -> Any:
    if not isinstance(value, (list, dict)):
        raise wrong("expected a list of values, as in [sgd, adam], or bundles by label: {small: {depth: 2}}")
    return value


def _choices_kind(value: Any) -> str:
    return "<bundle>" if isinstance(value, dict) else "<options>"


class ChoiceDimension(Dimension):
    """`{choice: [sgd, adam]}`, or bundles of params by label: `{choice: {small: {depth: 2}}}`."""

    choice: Annotated[
        Annotated[list[Option], Field(min_length=1), Tag("<options>")]
        | Annotated[dict[str, Params], Field(min_length=1), Tag("<bundle>")],
        Discriminator(_choices_kind),
        BeforeValidator(_choices_shape),
    ]
    """The values, or the params that each label stands for."""
    weights: Annotated[list[float], Field(min_length=1)] | None = None
    """How often each is drawn, in their order: `[0.7, 0.2, 0.1]` or `[7, 2, 1]`; alike unless given."""


class ValueDimension(Strict):
    """`{value: [3, 3]}`, or the bare value `3`: the same in every trial."""

    value: Any
    """Any value."""

    @model_serializer
    def _dump(self) -> dict[str, Any]:
        return {"value": self.value}  # null, too, which elsewhere means that the file does not have the key


MODELS: dict[str, type[Strict]] = {
    "float": FloatDimension,
    "int": IntDimension,
    "normal": NormalDimension,
    "choice": ChoiceDimension,
    "value": ValueDimension,
}
AnyDimension = FloatDimension | IntDimension | NormalDimension | ChoiceDimension | ValueDimension


def kind_of(dimension: AnyDimension) -> str:
    """Return the key by which a file names the kind of a dimension."""
    return next(kind for kind, model in MODELS.items() if isinstance(dimension, model))


def _dimension_shape(value: Any) -> Any:
    if isinstance(value, list):
        raise wrong(f"a bare list is ambiguous; write {_FORMS}")
    if value is None:
        raise wrong(f"a search dimension needs one of {', '.join(KINDS)}")
    if isinstance(value, str) and (line := line_of_text(value)) is not None:
        text = f"{excerpt(value, 60)} is a dimension in another spelling; write {line or _FORMS}"
        raise wrong(f"{text}, or {{value: ...}} if the text itself is meant")
    if not isinstance(value, dict):
        return {"value": value}
    if not any(kind in value for kind in KINDS) and (line := line_of_mapping(value)) is not None:
        raise wrong(f"another tool's dimension; write {line or _FORMS}")
    if value and all(isinstance(part, dict) for part in value.values()) and value.keys().isdisjoint(KINDS):
        inner = next(iter(value.get("parameters") or value))  # W&B's, which nests params so
        raise wrong(f"a nested param has a dotted name; write a dimension whose name ends in '.{inner}'")
    one_key(value, KINDS, "a search dimension")
    return value


def _dimension_kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"<{next(kind for kind in KINDS if kind in value)}>"
    return f"<{kind_of(value)}>"


DimensionForm = Annotated[
    Annotated[FloatDimension, Tag("<float>")]
    | Annotated[IntDimension, Tag("<int>")]
    | Annotated[NormalDimension, Tag("<normal>")]
    | Annotated[ChoiceDimension, Tag("<choice>")]
    | Annotated[ValueDimension, Tag("<value>")],
    Discriminator(_dimension_kind),
    BeforeValidator(_dimension_shape, json_schema_input_type=PlainScalar | AnyDimension),
]
SpaceForm = dict[ParamName, DimensionForm]
