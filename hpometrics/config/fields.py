"""The types of fields in a sweep file: names, durations, plug-ins, metrics, outputs, paths.

A form with several shapes is told apart before validation, so that one mistake gives one message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar
from unicodedata import is_normalized

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from .._imports import MODULE, TARGET, is_local, is_target
from .._redaction import excerpt
from .._text import SLUG, did_you_mean, slug_objection, unencodable
from ..backends.storage_url import storage_problem
from ..metrics.combined import Combined
from ..metrics.registry.names import MetricName
from ..metrics.registry.scope import COMBINED, check_output_name

_DURATION = r"[0-9]+(\.[0-9]+)?[smhd]"
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PARAM_LENGTH = 128
_PATH_LENGTH = 1024
_VALUE_LENGTH = 120

PlainScalar = str | int | float | bool
T = TypeVar("T")


class Strict(BaseModel):
    """A mapping without unknown keys, whose values are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def nothing_by_name() -> dict[str, Any]:
    """Return an empty mapping; pydantic inspects this function more quickly than `dict`."""
    return {}


def nothing_listed() -> list[Any]:
    """Return an empty list, see `nothing_by_name`."""
    return []


def wrong(text: str) -> PydanticCustomError:
    """Create an error whose text is the whole message."""
    return PydanticCustomError("sweep", "{text}", {"text": text})


def one_key(value: dict[str, Any], kinds: tuple[str, ...], what: str) -> str:
    """Return the one key of `kinds` that a mapping has.

    Raises:
        PydanticCustomError: it has none of them, or several.
    """
    keys = [kind for kind in kinds if kind in value]
    if len(keys) == 1:
        return keys[0]
    if keys:
        raise wrong(f"{what} is one of {' and '.join(keys)}, not several")
    near = next((f"{hint[:-1]} for {key!r}?" for key in value if (hint := did_you_mean(key, kinds))), "")
    raise wrong(f"{what} needs one of {', '.join(kinds)}{near or _got(value)}")


def _got(value: dict[str, Any]) -> str:
    return f", got {', '.join(_format_value(key) for key in value)}" if value else ""


def _check_scalar(value: Any) -> Any:
    if value is None or isinstance(value, (dict, list)):
        raise wrong(f"expected text, a number, true or false, got {_format_value(value)}")
    return value


def _check_option(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        raise wrong(f"an option must be text, a number, true, false or null, got {_format_value(value)}")
    return value


def _check_condition(value: Any) -> Any:
    if value == [] or not isinstance(value, (str, int, float, list, type(None))):
        raise wrong(f"expected a value or a list of values, got {_format_value(value)}")
    for item in value if isinstance(value, list) else ():
        if isinstance(item, (dict, list)):
            raise wrong(f"expected text, a number, true, false or null, got {_format_value(item)}")
    return value


def _format_value(value: Any) -> str:
    return {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value), _shorten(value))


def _shorten(value: Any) -> str:
    """Format a value as far as a message needs it."""
    text = repr(value)
    return text if len(text) <= _VALUE_LENGTH else f"{excerpt(text, _VALUE_LENGTH)}..."


def _check_slug(value: Any) -> Any:
    if isinstance(value, str) and (text := slug_objection(value)):
        raise wrong(text)
    return value


def _check_param(value: str) -> str:
    if not 0 < len(value) <= _PARAM_LENGTH or not value.isprintable() or value != value.strip():
        raise wrong(
            f"{excerpt(value, 40)!r} is not a param name; use 1 to {_PARAM_LENGTH} printable characters"
        )
    if not is_normalized("NFC", value):
        raise wrong(
            f"{value!r} is not in the composed form of Unicode (NFC), so another name could look the same"
        )
    return value


def _check_target(value: Any) -> Any:
    if isinstance(value, str) and not (is_target(value) or is_local(value)):
        raise wrong(f"{_shorten(value)} is not a target; write module:function, as in examples.digits:train")
    return value


def _check_module(value: Any) -> Any:
    if isinstance(value, str) and (not re.fullmatch(MODULE, value) or "__" in value):
        raise wrong(
            f"{_shorten(value)} is not a module; write the name of a module that registers metrics when "
            "imported, as in mypackage.metrics"
        )
    return value


def _parse_duration(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise wrong(f"{value} has no unit; write {value}s, {value}m, {value}h or {value}d")
    if isinstance(value, str):
        if not re.fullmatch(_DURATION, value):
            raise wrong(f"{_shorten(value)} is not a duration; write a number and its unit: 90s, 45m, 2h, 1d")
        return float(value[:-1]) * _SECONDS[value[-1]]
    return value


def _format_duration(duration: float) -> str:
    """Format a duration so that it reads back exactly, without an exponent."""
    text = f"{Decimal(repr(duration)):f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}s"


def _matching(pattern: str) -> Any:
    return Field(json_schema_extra={"pattern": f"^{pattern}$"})


def _read_as(check: Callable[[Any], Any], shape: Any) -> BeforeValidator:
    return BeforeValidator(check, json_schema_input_type=shape)


Name = Annotated[str, BeforeValidator(_check_slug), _matching(SLUG)]
Target = Annotated[str, BeforeValidator(_check_target), _matching(TARGET)]
Module = Annotated[str, BeforeValidator(_check_module), _matching(MODULE)]
ParamName = Annotated[str, BeforeValidator(_check_param)]
Params = dict[ParamName, Any]
Scalar = Annotated[Any, _read_as(_check_scalar, PlainScalar)]
Option = Annotated[Any, _read_as(_check_option, PlainScalar | None)]
Condition = Annotated[Any, _read_as(_check_condition, PlainScalar | None | list[PlainScalar | None])]
Duration = Annotated[
    float,
    _read_as(_parse_duration, Annotated[str, _matching(_DURATION)]),
    Field(gt=0),
    PlainSerializer(_format_duration),
]


class Plugin(BaseModel):
    """A sampler, pruner or logger: its name, and the options of `{name: {option: value}}`."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    options: dict[str, Any] = Field(default_factory=nothing_by_name)

    @property
    def spec(self) -> str | dict[str, dict[str, Any]]:
        """The plug-in as the file has it: the bare name, or a mapping of one key."""
        return {self.name: dict(self.options)} if self.options else self.name

    @model_serializer
    def _as_written(self) -> Any:
        return self.spec


def _parse_plugin(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict) and len(value) == 1:
        ((name, options),) = value.items()
        if isinstance(options, dict):
            return {"name": name, "options": options}
    raise wrong("write a name, as in tpe, or one name with its options, as in {tpe: {n_startup_trials: 12}}")


PluginForm = Annotated[
    Plugin,
    _read_as(_parse_plugin, str | Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]),
]


class Metric(BaseModel):
    """A metric as a file names it: the name, a stated direction, and the terms of a combination."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    direction: str | None = None
    combine: dict[str, Any] | None = None

    @property
    def combined(self) -> Combined | None:
        """The combination, if it is one."""
        if self.combine is None:
            return None
        name = MetricName.parse(self.name)
        return Combined(self.combine, name.metric, self.direction, name.task)

    @model_serializer
    def _as_written(self) -> Any:
        if (combined := self.combined) is not None:
            content = {"combine": dict(combined.terms), "name": combined.name}
            optional = {"task": combined.task, "direction": self.direction}
            return content | {key: value for key, value in optional.items() if value is not None}
        return {"metric": self.name, "direction": self.direction} if self.direction else self.name


Direction = Literal["minimize", "maximize", "min", "max"]
TermWeight = Annotated[float, Field(gt=0)]


class MetricMapping(Strict, extra="allow"):
    """`{metric: f1, average: macro}`: a name in parts; other keys are the metric's parameters."""

    __pydantic_extra__: dict[str, PlainScalar]

    metric: str
    """Name of the metric, as `hpometrics metrics list` prints it."""
    feature: str | None = None
    """Output feature that it measures, where there are several."""
    task: str | None = None
    """Task that it measures, where updates name tasks; over all of them unless given."""
    direction: Direction | None = None
    """The direction the metric has anyway, or the one of a metric that the engine reports."""


class TermMapping(Strict):
    """`{weight: 0.001, direction: minimize}`: a term that has no direction."""

    weight: TermWeight
    """How much it counts."""
    direction: Direction | None = None
    """Which way is better; it gives the term its sign."""


class CombineMapping(Strict):
    """`{combine: {intent.accuracy: 2, reply.perplexity: 0.5}}`: a weighted sum, each term with its sign."""

    combine: Annotated[dict[str, TermWeight | TermMapping], Field(min_length=1)]
    """The weight of each metric, diagnostic or value of the engine's own; its direction gives it its sign."""
    name: str = "score"
    """The value is called `combined.` and this name."""
    task: str | None = None
    """Task whose value is meant, where updates name tasks; over all of them unless given."""
    direction: Direction | None = None
    """Of terms that go both ways; maximize unless given."""


def _parse_metric(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": _check_name(value)}
    if isinstance(value, dict) and "combine" in value:
        return _parse_combination(value)
    if not isinstance(value, dict) or not isinstance(value.get("metric"), str):
        raise wrong("write a metric's name, as in f1(average=macro), or {metric: f1, average: macro}")
    parts = {key: _check_metric_part(key, item) for key, item in value.items() if key != "direction"}
    name = value["metric"] if parts.keys() == {"metric"} else str(_parse(MetricName.of_parts, parts))
    return {"name": _check_name(name), "direction": _check_direction(value.get("direction"))}


def _parse_combination(value: dict[str, Any]) -> dict[str, Any]:
    combined = _parse(Combined.of_mapping, value)
    terms = {_check_name(name): weight for name, weight in combined.terms.items()}
    name = str(MetricName(combined.name, feature=COMBINED, task=combined.task))
    return {"name": name, "direction": _check_direction(value.get("direction")), "combine": terms}


def _parse(read: Callable[[Any], T], value: Any) -> T:
    """Return the parsed value, and raise an error as the whole message."""
    try:
        return read(value)
    except ValueError as err:
        raise wrong(str(err)) from None


def _check_metric_part(key: str, value: Any) -> PlainScalar | None:
    if (value is None and key not in ("feature", "task")) or isinstance(value, (dict, list)):
        raise wrong(f"{key} must be text, a number, true or false, got {_format_value(value)}")
    return value  # type: ignore[no-any-return]


def _check_direction(value: Any) -> Any:
    if value not in (None, "minimize", "maximize", "min", "max"):
        raise wrong(f"direction must be minimize or maximize, got {value!r}")
    return value


def _check_name(text: str) -> str:
    if ":" in text and "/" not in text and "(" not in text:
        return text  # package.module:Class, or a name with a split; the plan distinguishes them
    return str(_parse(MetricName.parse, text))


MetricForm = Annotated[Metric, _read_as(_parse_metric, str | MetricMapping | CombineMapping)]


def _check_output(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, dict) or not value:
        raise wrong(
            "write what the engine predicts, as in category, or name each output, as in {intent: category}"
        )
    for name, text in value.items():
        if not isinstance(text, str):
            output = _parse(check_output_name, name)
            raise wrong(f"{output}: expected an output such as category, got {_format_value(text)}")
        _parse(check_output_name, name)
    return value


OutputForm = Annotated[
    Any, _read_as(_check_output, str | Annotated[dict[str, str], Field(min_length=1)] | None)
]


def _check_path(value: str) -> str:
    if not value.isprintable() or len(value) > _PATH_LENGTH:
        raise wrong(f"{excerpt(value, 40)!r} is not a path; write up to {_PATH_LENGTH} printable characters")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as err:
        raise wrong(unencodable(err)) from err
    return value


def _check_argument(value: str) -> str:
    if "\0" in value:
        raise wrong(f"{excerpt(value, 40)!r} is not a part of a command; a program cannot receive a NUL")
    return value


Directory = Annotated[str, Field(min_length=1), AfterValidator(_check_path)]
Part = Annotated[str, AfterValidator(_check_argument)]


def _check_storage(value: str) -> str:
    if problem := storage_problem(value):
        raise wrong(problem)
    return value


StorageForm = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_check_storage)]
