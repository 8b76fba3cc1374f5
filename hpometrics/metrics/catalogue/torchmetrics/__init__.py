"""Metrics from torchmetrics: every class that has a direction, by name.

The tables state the name, the inputs and the direction of each class. Where a native metric has the name and
the output feature, the native metric is registered and the class is its oracle in the tests. A class without
a name is in `UNLISTED`, with the reason.

A metric class is created from its row when the attribute of this module is first read; the index states what
it is registered as. torchmetrics' modules are imported when a metric is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...registry import index
from ...registry.facts import keyword_parameters, write_signature
from ...registry.index import path_of, registry
from ...registry.register import register_metric
from . import audio, clusterings, images, labels, numbers, objects, rankings, texts
from ._data import draw_of
from ._row import FACADES, SHAPES, UNLISTED, Row
from ._wrapper import Reference

__all__ = ["FACADES", "ROWS", "UNLISTED", "Reference", "class_of", "register_all"]

ROWS: tuple[Row, ...] = tuple(
    row
    for table in (labels, numbers, clusterings, texts, rankings, images, audio, objects)
    for row in table.ROWS
)
"""Every row of the tables, one per name of a torchmetrics class."""


def __getattr__(name: str) -> Any:
    """Create the metric class of this name, and register it as the index states."""
    row = _ROW_OF.get(name)
    if row is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    cls = globals()[name] = class_of(row)
    for feature in row.features:
        entry = index.index().get((row.name, feature))
        if entry is not None and entry.path == path_of(cls):
            register_metric(row.name, [feature], aliases=entry.aliases or ())(cls)
    return cls


def register_all() -> None:
    """Register every class whose name no native metric has, after all native metrics are registered.

    The index is written from these registrations.
    """
    for row in ROWS:
        for feature in [feature for feature in row.features if not _is_native(row.name, feature)]:
            cls = globals().setdefault(_class_name(row), class_of(row))
            register_metric(row.name, [feature], aliases=_free_aliases(row, feature))(cls)


def class_of(row: Row) -> type[Reference]:
    """Create the metric class of a row."""
    parameters = keyword_parameters(row.params)

    def __init__(self: Reference, **params: Any) -> None:
        Reference.__init__(self, **signature.bind(self, **params).kwargs)

    signature = write_signature(__init__, parameters)
    name, draw = _class_name(row), draw_of(row)
    return type(name, (Reference,), {
        "__doc__": _doc(row), "__init__": __init__, "__module__": __name__, "__qualname__": name,
        "row": row, "direction": row.direction, "inputs": row.inputs, "requires": row.requires,
        "extras": (*row.extras, *row.optional), "needs": row.extras, "family": row.family,
        "defaults": {p.name: p.default for p in parameters if p.default is not p.empty},
        **({"draw_batch": staticmethod(draw)} if draw else {}),
        **({"row_values": Reference.values_by_row} if row.by_row else {}),
    })  # fmt: skip


def _class_name(row: Row) -> str:
    return "".join(word.capitalize() for word in (*row.name.split("_"), "of", row.features[0]))


def _doc(row: Row) -> str:
    cls = row.source if row.class_name(row.features[0]) in row.source else f"the variants of {row.source}"
    sections = {
        "Shape": row.shape or SHAPES.get(row.features[0], ""),
        "Value": row.value if "nan" in row.value else f"{row.value}; nan before the first update",
        "Formula": row.formula,
        "Deviates": row.deviates,
        "Source": f"{row.paper} Measured by torchmetrics, {cls}.",
    }
    lines = [
        f"{title}: {text}{'' if text.endswith('.') else '.'}" for title, text in sections.items() if text
    ]
    return "\n".join([row.summary, "", *lines])


def _is_native(name: str, feature: str) -> bool:
    """Return whether a native metric has the name, or an alias for it."""
    entry = registry.built_in.entries.get((name, feature))
    native = entry is not None and not entry.path.startswith(f"{__name__}:")
    return native or (entry is None and (name, feature) in registry.built_in.aliases)


def _free_aliases(row: Row, feature: str) -> Mapping[str, str]:
    """Return the aliases of a row that mean nothing else yet."""
    aliases = row.aliases if isinstance(row.aliases, Mapping) else dict.fromkeys(row.aliases, row.name)
    return {
        alias: meaning
        for alias, meaning in aliases.items()
        if alias != row.name
        and (alias, feature) not in registry.built_in.entries
        and registry.built_in.aliases.get((alias, feature), meaning) == meaning
    }


_ROW_OF = {_class_name(row): row for row in ROWS}
