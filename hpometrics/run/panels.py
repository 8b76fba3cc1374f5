"""Panels: all values of one epoch, measured, watched and logged, as numbers with the reason of each nan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from ..exceptions import NonFiniteError, RunError
from ..metrics.collection import MetricCollection
from ..metrics.diagnostics import diagnostic
from ..metrics.names import SPLITS
from ..metrics.ranking.per_user import Column, PerUser
from ..search.readings import Reading, shape_of
from .spec import VALIDATION, RunSpec
from .tallies import Tallies
from .watch import Watches

Values = dict[str, Reading]
Reasons = dict[str, str]


class Panels:
    """What one run measures and notes. A value of another split than validation is called `test:accuracy`.

    A split that no tracked name mentions is measured like validation. `names` are all that is measured,
    `per_user` the values by user of the epoch closed last; None where the output does not ask for them.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._prototypes = spec.collections
        self._live: dict[str, MetricCollection] = {}
        self._void: Reasons = {}
        self._logged: dict[str, Any] = {}
        self._optimised = spec.name
        self.watches = Watches()
        self._tallies = Tallies()
        self.names: set[str] = set()
        self.per_user: PerUser | None = None
        for split in self._prototypes:
            self._start(split)

    def update(self, split: str, tensors: Mapping[str, Any]) -> None:
        """Add a batch; a model output or target that is not finite voids the split's epoch.

        Raises:
            RunError: there is no such split, or nothing is measured on it.
            MetricInputError: the batch is not what the metrics read.
        """
        if split not in self._live:
            self._start(split)
        tally, rest = self._tallies.read(tensors, self._live[split].output)
        try:
            if split not in self._void:
                self._live[split].update(**rest)
        except NonFiniteError as err:
            self._void[split] = str(err)
        self._tallies.add(tally, split)
        if self.watches.laps is not None:
            self.watches.laps.mark(split)

    def log(self, values: Mapping[str, Any]) -> None:
        """Keep values as they are until the epoch closes.

        Raises:
            RunError: a value is no number, or its name is measured here.
        """
        for name, value in values.items():
            if name in self.names:
                raise RunError(f"{name!r} is measured by this run; log yours under another name")
            self._logged[name] = _number(name, value)

    def close(self) -> tuple[Values, Reasons]:
        """Give all values of the epoch and begin the next; what is not finite is nan and has its reason."""
        values, reasons = self._measure()
        if self._live:  # else nothing is measured, and in a process group perhaps not on every rank
            for split, report in self._tallies.close(self.watches.laps).items():
                for name, tallied in report.items():  # a metric's own gen_n_toks stands
                    values.setdefault(_named(split, name), tallied.value())
        watched, why = self.watches.close()
        values.update(watched)
        reasons.update(why)
        for name, value in self._logged.items():
            values[name] = float(value)
        self._logged = {}
        if self._optimised not in values:
            values[self._optimised] = math.nan
            found = diagnostic(self._optimised)
            reasons[self._optimised] = (
                "was not logged in this epoch"
                if found is None
                else f"was not measured in this epoch; it comes from {found.comes_from}"
            )
        for name, value in values.items():
            if isinstance(value, list) and name == self._optimised:
                values[name] = math.nan
                reasons[name] = f"a search optimises one number, and this is {shape_of(value)}"
            elif not isinstance(value, list) and not math.isfinite(value):
                values[name] = math.nan
                reasons.setdefault(name, f"the value is {value}")
        return values, reasons

    def _measure(self) -> tuple[Values, Reasons]:
        values: Values = {}
        reasons: Reasons = {}
        self.per_user = self._by_user()
        for split, live in self._live.items():
            for name, value in live.compute().items():
                values[_named(split, name)] = math.nan if split in self._void else value.tolist()
            why = dict.fromkeys(live.names, self._void[split]) if split in self._void else live.reasons
            reasons.update({_named(split, name): reason for name, reason in why.items()})
            live.reset()
        self._void.clear()
        return values, reasons

    def _by_user(self) -> PerUser | None:
        keeping = {split: live for split, live in self._live.items() if live.keeps_users}
        columns: dict[str, Column] = {}
        for split, live in keeping.items():
            found = live.per_user()  # of a void split too: every rank of a process group takes part
            if split not in self._void:
                columns.update(
                    {_named(split, name): column for name, column in found.items() if len(column[0])}
                )
        return PerUser(columns) if keeping else None

    def _start(self, split: str) -> None:
        if split not in SPLITS:
            raise RunError(f"split is one of {', '.join(SPLITS)}, got {split!r}")
        prototype = self._prototypes.get(split) or self._prototypes.get(VALIDATION)
        if prototype is None:
            raise RunError("this run measures no metric, so there is nothing to update; log() takes values")
        self._live[split] = prototype.fresh()
        self.names.update(_named(split, name) for name in prototype.names)


def _named(split: str, name: str) -> str:
    return name if split == VALIDATION else f"{split}:{name}"


def _number(name: str, value: Any) -> Any:
    """Accept what is one number; a tensor stays where it is until the epoch closes."""
    if type(value) is float:
        return value
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        return value.detach()
    if isinstance(value, (int, float)) or (hasattr(value, "item") and getattr(value, "size", 0) == 1):
        return float(value)
    raise RunError(f"log({name}=...) takes one number, got {type(value).__name__} {str(value)[:60]}")
