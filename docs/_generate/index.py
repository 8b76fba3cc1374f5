"""Generate `index.json`: every built-in entry as its class declares it, and the observations of it.

Also generate the constants of their names in the stub, which type checkers read.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from pkgutil import walk_packages
from typing import Any

from hpometrics.metrics import catalogue
from hpometrics.metrics.catalogue import torchmetrics
from hpometrics.metrics.registry import index
from hpometrics.metrics.registry.facts import Param
from hpometrics.metrics.registry.index import MetricEntry, Observed, registry

from .evidence import observe

_ALWAYS = ("direction", "kind", "name")
_DEFAULTS = {
    field.name: field.default
    for cls in (MetricEntry, Observed, Param)
    for field in fields(cls)
    if field.default is not MISSING and field.name not in _ALWAYS
}
_MARK = "# The names of the built-in metrics, written by `make index`.\n"
_SCALARS = re.compile(r"\[\n\s+([^\[\]{}\n]*(?:\n\s+[^\[\]{}\n]*)*)\n\s*\]")


def built_in() -> list[MetricEntry]:
    """Return every built-in entry from its class, sorted by name and feature."""
    for module in walk_packages(catalogue.__path__, f"{catalogue.__name__}."):
        importlib.import_module(module.name)
    torchmetrics.register_all()
    return sorted(registry.built_in.entries.values(), key=lambda entry: (entry.name, entry.feature_type))


def build_index(see: Callable[[MetricEntry], Observed] = observe) -> str:
    """Return the text: a row per metric and class, with the observations for each output feature."""
    rows: dict[str, dict[str, Any]] = {}
    for entry in built_in():
        facts = _without_defaults(asdict(entry))
        facts["objective"] = facts.pop("direction")
        feature_type = facts.pop("feature_type")
        row = rows.setdefault(json.dumps(facts, sort_keys=True), {**facts, "features": {}})
        row["features"][feature_type] = _without_defaults(asdict(see(entry)))
    text = json.dumps(list(rows.values()), indent=1, sort_keys=True, ensure_ascii=False)
    return _SCALARS.sub(lambda match: f"[{' '.join(match[1].split())}]", text) + "\n"


def with_constants(stub: str) -> str:
    """Return the stub with the names of the built-in metrics as constants behind its mark."""
    head, mark, _ = stub.partition(_MARK)
    lines = (f'{constant}: Final = "{name}"\n' for constant, name in index.constants().items())
    return "".join([head, mark, "\n", *lines])


def _without_defaults(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts without those at their defaults, in the parameters as well."""
    return {
        name: [_without_defaults(param) for param in value] if name == "params" else value
        for name, value in facts.items()
        if name not in _DEFAULTS or value != _DEFAULTS[name]
    }
