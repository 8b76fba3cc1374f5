"""Metrics from torchmetrics: every class that has a direction, by name.

The tables state the name, the inputs and the direction of each class. Classes whose metrics this package
computes itself are in `hpometrics/testing/peers.py`.

A metric class is created from its row and registered when the attribute of this module is first read.
torchmetrics' modules are imported when a metric is first used.
"""

from __future__ import annotations

from typing import Any

from ...registry.facts import keyword_parameters, write_signature
from ...registry.register import register_metric
from . import audio, images, labels, objects, texts
from ._data import draw_of
from ._row import SHAPES, Row
from ._wrapper import Reference

__all__ = ["ROWS", "Reference", "class_of", "register_all"]

ROWS: tuple[Row, ...] = tuple(row for table in (labels, texts, images, audio, objects) for row in table.ROWS)
"""Every row of the tables, one per name of a torchmetrics class."""


def __getattr__(name: str) -> Any:
    """Create the metric class of this name, and register it."""
    row = _ROW_OF.get(name)
    if row is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    cls = globals()[name] = class_of(row)
    return register_metric(row.name, row.features, aliases=row.aliases)(cls)


def register_all() -> None:
    """Register the class of every row."""
    for name in _ROW_OF:
        if name not in globals():
            __getattr__(name)


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


_ROW_OF = {_class_name(row): row for row in ROWS}
