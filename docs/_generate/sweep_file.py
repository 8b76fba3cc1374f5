"""Generate `docs/reference/sweep-file.md`, the sweep file key by key, from the schema that checks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hpometrics.config.json_schema import json_schema
from hpometrics.config.models import section_models

_HEAD = """# The sweep file, key by key

Printed by `make index` from the model that checks a file; `hpometrics schema` gives it to editors.
[Sweeps](../how-to/sweeps.md) explains the parts.
"""
_SECTIONS = {model.__name__: place.replace(".", ": ") for place, model in section_models().items()}
_TITLES = {
    "Engine": "engine", "MetricsFrom": "engine: metrics_from",
    "FloatDimension": "space: float", "IntDimension": "space: int", "NormalDimension": "space: normal",
    "ChoiceDimension": "space: choice", "ValueDimension": "space: value", "Metrics": "metrics",
    "MetricMapping": "metrics: an entry", "CombineMapping": "metrics: a combination",
    "TermMapping": "metrics: a term of it", "ExampleCounts": "metrics: track_examples", "Search": "search",
    "WarmStart": "search: from", "Backend": "backend", **_SECTIONS, "Budget": "budget",
    "CostSource": "budget: cost_unit", "Confirm": "confirm", "Results": "results",
}  # fmt: skip
"""The parts of a file in writing order, each with its place."""

Schema = Mapping[str, Any]


def page() -> str:
    """Return the text of `docs/reference/sweep-file.md`."""
    schema = json_schema()
    parts = schema["definitions"]
    lines = [_HEAD, *_table(schema, parts)]
    for name, title in _TITLES.items():
        lines += ["", f"## {title}", "", _meaning(parts[name], parts), "", *_table(parts[name], parts)]
    return "\n".join(lines) + "\n"


def _table(part: Schema, parts: Schema) -> Iterator[str]:
    """Return a row for each key: its type, its default, whether it is required, its meaning."""
    yield "| key | type | default | required | meaning |"
    yield "|---|---|---|---|---|"
    for key, value in part["properties"].items():
        required = "yes" if key in part.get("required", ()) else "no"
        cells = ", ".join(_accepted_values(value)), _default(value), required, _meaning(value, parts)
        yield f"| `{key}` | {' | '.join(cells)} |"


def _meaning(value: Schema, parts: Schema) -> str:
    """Return its own description, or that of the part it refers to."""
    text = value.get("description") or parts.get(_part(value), {}).get("description", "")
    return " ".join(text.split()).replace("|", "\\|")


def _part(value: Schema) -> str:
    reference: str = value.get("$ref", "")
    return reference.rpartition("/")[2]


def _default(value: Schema) -> str:
    default = value.get("default")
    if default is None or isinstance(default, (dict, list)):
        return ""
    if _is_duration(value):
        return f"`{default:g}s`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _accepted_values(value: Schema) -> list[str]:
    """Return in words the values that a schema accepts; names that editors offer are not listed."""
    if part := _part(value):
        return [f"[a mapping](#{_anchor(_TITLES[part])})"]
    if "const" in value or "enum" in value:
        return [f"`{one}`" for one in value.get("enum", [value.get("const")])]
    options = value.get("anyOf") or value.get("oneOf")
    return _any_of(options) if options else [_plain(value)]


def _any_of(options: list[Schema]) -> list[str]:
    offered = {"type": "string"} in options and any("enum" in option for option in options)
    options = [
        option for option in options if option != {"type": "null"} and not (offered and "enum" in option)
    ]
    single = [
        word for option in options if option.get("type") != "array" for word in _accepted_values(option)
    ]
    lists = [option for option in options if option.get("type") == "array"]
    alike = bool(single) and all(set(_accepted_values(option["items"])) <= set(single) for option in lists)
    words = [*single, *("a list of these" if alike else _plain(option) for option in lists)]
    return list(dict.fromkeys(words))


def _plain(value: Schema) -> str:
    kind = str(value.get("type"))
    if kind in ("integer", "number"):
        word = "a whole number" if kind == "integer" else "a number"
        return word + (f" from {value['minimum']}" if "minimum" in value else "")
    if kind == "array":
        words = _accepted_values(value["items"]) if value["items"] else []
        linked = any("](" in word for word in words)
        return f"a list of {' or '.join(words)}" if linked else "a list"
    if _is_duration(value):
        return "a duration: `90s`, `10m`, `2h`"
    return {"string": "text", "boolean": "`true`, `false`", "object": "a mapping"}.get(kind, "any value")


def _is_duration(value: Schema) -> bool:
    return "smhd" in value.get("pattern", "")


def _anchor(title: str) -> str:
    """Return the anchor of a heading on a page of Markdown."""
    return "".join(mark for mark in title.replace(" ", "-") if mark.isalnum() or mark in "-_")
