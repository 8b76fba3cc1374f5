"""The small forms that values take in a sweep file: names, durations, plug-ins, metrics.

What picks between two shapes of a form is decided before validation, so that one mistake gives one message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
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

from .._imports import TARGET, is_target
from .._redaction import excerpt
from .._text import did_you_mean, unencodable
from ..metrics.registry.names import MetricName
from ..metrics.registry.scope import COMBINED, check_output_name

if TYPE_CHECKING:
    from ..metrics.combined import Combined


SLUG = r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,78}[A-Za-z0-9_-])?"

_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9])(\..*)?", re.IGNORECASE)
_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG_LENGTH = 80


def objection(text: str) -> str | None:
    """Say what is wrong with a name; None if it is a slug.

    >>> objection("digits-2"), objection("nul.txt")
    (None, "'nul.txt' is a device on Windows, where no directory can be called so")
    """
    if not re.fullmatch(SLUG, text):
        shown = f"{text[:_SLUG_LENGTH]!r}{'...' if len(text) > _SLUG_LENGTH else ''}"
        return (
            f"{shown} is no name; use 1 to {_SLUG_LENGTH} of A-Z a-z 0-9 . _ -, "
            "no . or - in front and no . at the end"
        )
    if _DEVICE.fullmatch(text):
        return f"{text!r} is a device on Windows, where no directory can be called so"
    return None


def slug_of(text: str) -> str | None:
    """Make a name of a text, such as that of a file; None if there is nothing to make it of.

    >>> slug_of("my sweep (2)"), slug_of("..."), slug_of("con")
    ('my-sweep-2-', None, None)
    """
    slug = _OTHERS.sub("-", text).lstrip(".-")[:_SLUG_LENGTH].rstrip(".")
    return None if objection(slug) else slug


_DURATION = r"[0-9]+(\.[0-9]+)?[smhd]"
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PARAM_LENGTH = 128
_SHOWN = 120

PlainScalar = str | int | float | bool
T = TypeVar("T")


class Strict(BaseModel):
    """A mapping whose keys are all known and whose values are taken as they are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def nothing_by_name() -> dict[str, Any]:
    """Make an empty mapping; that it takes no data pydantic sees more quickly than of `dict`."""
    return {}


def nothing_listed() -> list[Any]:
    """Make an empty list, see `nothing_by_name`."""
    return []


def wrong(text: str) -> PydanticCustomError:
    """Build an error whose text is the whole message."""
    return PydanticCustomError("sweep", "{text}", {"text": text})


def one_key(value: dict[str, Any], kinds: tuple[str, ...], what: str) -> str:
    """Return the one key of `kinds` that a mapping has.

    Raises:
        PydanticCustomError: it has none of them, or several.
    """
    found = [kind for kind in kinds if kind in value]
    if len(found) == 1:
        return found[0]
    if found:
        raise wrong(f"{what} is one of {' and '.join(found)}, not several")
    near = next((f"{hint[:-1]} for {key!r}?" for key in value if (hint := did_you_mean(key, kinds))), "")
    raise wrong(f"{what} needs one of {', '.join(kinds)}{near}")


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, (dict, list)):
        raise wrong(f"wants text, a number, true or false, got {_shown(value)}")
    return value


def _option(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        raise wrong(f"a choice is text, a number, true, false or null, got {_shown(value)}")
    return value


def _condition(value: Any) -> Any:
    if value == [] or not isinstance(value, (str, int, float, list, type(None))):
        raise wrong(f"wants a value or a list of values, got {_shown(value)}")
    for item in value if isinstance(value, list) else ():
        if isinstance(item, (dict, list)):
            raise wrong(f"wants text, a number, true, false or null, got {_shown(item)}")
    return value


def _shown(value: Any) -> str:
    return {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value), _short(value))


def _short(value: Any) -> str:
    """Print a value as far as a message needs it."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{excerpt(text, _SHOWN)}..."


def _name(value: Any) -> Any:
    if isinstance(value, str) and (text := objection(value)):
        raise wrong(text)
    return value


def _param(value: str) -> str:
    if not 0 < len(value) <= _PARAM_LENGTH or not value.isprintable() or value != value.strip():
        raise wrong(
            f"{excerpt(value, 40)!r} is no parameter name; use 1 to {_PARAM_LENGTH} printable characters"
        )
    if not is_normalized("NFC", value):
        raise wrong(f"{value!r} is not in Unicode's composed form (NFC); another name would look the same")
    return value


def _target(value: Any) -> Any:
    if isinstance(value, str) and not is_target(value):
        raise wrong(f"{_short(value)} is no target; write module:function, as in examples.digits:train")
    return value


def _duration(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise wrong(f"{value} of what? Give the unit: {value}s, {value}m, {value}h or {value}d")
    if isinstance(value, str):
        if not re.fullmatch(_DURATION, value):
            raise wrong(f"{_short(value)} is no duration; write a number and its unit: 90s, 45m, 2h, 1d")
        return float(value[:-1]) * _SECONDS[value[-1]]
    return value


def _seconds(duration: float) -> str:
    """Print a duration as one reads it back: exactly, and without an exponent."""
    text = f"{Decimal(repr(duration)):f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}s"


def _matching(pattern: str) -> Any:
    return Field(json_schema_extra={"pattern": f"^{pattern}$"})


def _read_as(check: Callable[[Any], Any], shape: Any) -> BeforeValidator:
    return BeforeValidator(check, json_schema_input_type=shape)


Name = Annotated[str, BeforeValidator(_name), _matching(SLUG)]
Target = Annotated[str, BeforeValidator(_target), _matching(TARGET)]
ParamName = Annotated[str, BeforeValidator(_param)]
Params = dict[ParamName, Any]
Scalar = Annotated[Any, _read_as(_scalar, PlainScalar)]
Option = Annotated[Any, _read_as(_option, PlainScalar | None)]
Condition = Annotated[Any, _read_as(_condition, PlainScalar | None | list[PlainScalar | None])]
Duration = Annotated[
    float,
    _read_as(_duration, Annotated[str, _matching(_DURATION)]),
    Field(gt=0),
    PlainSerializer(_seconds),
]


class Plugin(BaseModel):
    """A sampler, pruner or logger: its name, and its options where written `{name: {option: value}}`."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    options: dict[str, Any] = Field(default_factory=nothing_by_name)

    @property
    def spec(self) -> str | dict[str, dict[str, Any]]:
        """The form it had in the file: the bare name, or a mapping of one key."""
        return {self.name: dict(self.options)} if self.options else self.name

    @model_serializer
    def _as_written(self) -> Any:
        return self.spec


def _plugin(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict) and len(value) == 1:
        ((name, options),) = value.items()
        if isinstance(options, dict):
            return {"name": name, "options": options}
    raise wrong("write a name, as in tpe, or one name with its options, as in {tpe: {n_startup_trials: 12}}")


PluginForm = Annotated[
    Plugin, _read_as(_plugin, str | Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)])
]


class Metric(BaseModel):
    """A metric as it is named in a file: the name, a direction that is stated, what is combined."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    direction: str | None = None
    combine: dict[str, Any] | None = None

    @property
    def combined(self) -> Combined | None:
        """The combination, if it is one."""
        if self.combine is None:
            return None
        from ..metrics.combined import Combined  # of which few files have need

        name = MetricName.parse(self.name)
        return Combined(self.combine, name.metric, self.direction, name.task)

    @model_serializer
    def _as_written(self) -> Any:
        if (combined := self.combined) is not None:
            told = {"combine": dict(combined.terms), "name": combined.name}
            beside = {"task": combined.task, "direction": self.direction}
            return told | {key: said for key, said in beside.items() if said is not None}
        return {"metric": self.name, "direction": self.direction} if self.direction else self.name


Direction = Literal["minimize", "maximize", "min", "max"]
TermWeight = Annotated[float, Field(gt=0)]


class MetricMapping(BaseModel):
    """`{metric: f1, average: macro}`: a name in parts; other keys are the metric's parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    __pydantic_extra__: dict[str, PlainScalar]

    metric: str
    """Name of the metric, as `hpometrics metrics list` prints it."""
    feature: str | None = None
    """Output feature that it measures, where there are several."""
    task: str | None = None
    """Task that it measures, where updates name tasks; over all of them unless given."""
    direction: Direction | None = None
    """The direction the metric has anyway, or the one of a metric that the engine reports."""


class TermMapping(BaseModel):
    """`{weight: 0.001, direction: minimize}`: a term that has no direction of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    weight: TermWeight
    """How much it counts."""
    direction: Direction | None = None
    """Which way is better; it gives the term its sign."""


class CombineMapping(BaseModel):
    """`{combine: {intent.accuracy: 2, reply.perplexity: 0.5}}`: a weighted sum, each term with its sign."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    combine: Annotated[dict[str, TermWeight | TermMapping], Field(min_length=1)]
    """The weight of each metric, diagnostic or value of the engine's own; its direction gives it its sign."""
    name: str = "score"
    """The value is called `combined.` and this name."""
    task: str | None = None
    """Task whose value is meant, where updates name tasks; over all of them unless given."""
    direction: Direction | None = None
    """Of terms that go both ways; maximize unless given."""


def _metric(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": _checked_name(value)}
    if isinstance(value, dict) and "combine" in value:
        return _combination(value)
    if not isinstance(value, dict) or not isinstance(value.get("metric"), str):
        raise wrong("write a metric's name, as in f1(average=macro), or {metric: f1, average: macro}")
    parts = {key: _part(key, item) for key, item in value.items() if key != "direction"}
    name = value["metric"] if parts.keys() == {"metric"} else str(_said(MetricName.of_parts, parts))
    return {"name": _checked_name(name), "direction": _direction(value.get("direction"))}


def _combination(value: dict[str, Any]) -> dict[str, Any]:
    from ..metrics.combined import Combined

    combined = _said(Combined.of_mapping, value)
    terms = {_checked_name(name): weight for name, weight in combined.terms.items()}
    name = str(MetricName(combined.name, feature=COMBINED, task=combined.task))
    return {"name": name, "direction": _direction(value.get("direction")), "combine": terms}


def _said(read: Callable[[Any], T], value: Any) -> T:
    """Give what is read, and an error as the whole message."""
    try:
        return read(value)
    except ValueError as err:
        raise wrong(str(err)) from None


def _part(key: str, value: Any) -> PlainScalar | None:
    if (value is None and key not in ("feature", "task")) or isinstance(value, (dict, list)):
        raise wrong(f"{key} is text, a number, true or false, got {_shown(value)}")
    return value  # type: ignore[no-any-return]


def _direction(value: Any) -> Any:
    if value not in (None, "minimize", "maximize", "min", "max"):
        raise wrong(f"direction is minimize or maximize, got {value!r}")
    return value


def _checked_name(text: str) -> str:
    if ":" in text and "/" not in text and "(" not in text:
        return text  # package.module:Class, or a name with a split; the plan tells them apart
    return str(_said(MetricName.parse, text))


MetricForm = Annotated[Metric, _read_as(_metric, str | MetricMapping | CombineMapping)]


def _output(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, dict) or not value:
        raise wrong(
            "write what the engine predicts, as in category, or each output by name, as in {intent: category}"
        )
    for name, text in value.items():
        if not isinstance(text, str):
            raise wrong(
                f"{_said(check_output_name, name)}: wants an output such as category, got {_shown(text)}"
            )
        _said(check_output_name, name)
    return value


OutputForm = Annotated[Any, _read_as(_output, str | Annotated[dict[str, str], Field(min_length=1)] | None)]


_PATH_LENGTH = 1024


def _path(value: str) -> str:
    if not value.isprintable() or len(value) > _PATH_LENGTH:
        raise wrong(f"{excerpt(value, 40)!r} is no path; write up to {_PATH_LENGTH} printable characters")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as err:
        raise wrong(unencodable(err)) from err
    return value


def _check_part(value: str) -> str:
    if "\0" in value:
        raise wrong(f"{excerpt(value, 40)!r} is no part of a command; no program is told a NUL")
    return value


Directory = Annotated[str, Field(min_length=1), AfterValidator(_path)]
Part = Annotated[str, AfterValidator(_check_part)]
