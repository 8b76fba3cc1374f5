"""Panels: all values of one epoch, measured, watched and logged, as numbers with the reason of each nan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from ..exceptions import NonFiniteError, RunError
from ..metrics.collection import MetricCollection
from ..metrics.names import SPLITS
from ..metrics.ranking.per_user import Column, PerUser
from ..search.readings import Reading, shape_of
from .example_lines import Line
from .examples import Examples
from .extremes import Place
from .spec import VALIDATION, RunSpec
from .watch import Watch

Values = dict[str, Reading]
Reasons = dict[str, str]


class Panels:
    """What one run measures and notes. A value of another split than validation is called `test:accuracy`.

    A split that no tracked name mentions is measured like validation. `names` are all that is measured,
    `per_user` the values by user of the epoch closed last; None where the output does not ask for them.
    `examples` are its worst and best examples; none unless the spec asks for them.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._prototypes = spec.collections
        self._live: dict[str, MetricCollection] = {}
        self._void: Reasons = {}
        self._logged: dict[str, Any] = {}
        self._optimised = spec.name
        self.watches: list[Watch] = []
        self.names: set[str] = set()
        self.per_user: PerUser | None = None
        self._examples = Examples(spec.track_examples) if spec.track_examples else None
        self.examples: tuple[Line, ...] = ()
        for split in self._prototypes:
            self._start(split)

    def update(self, split: str, tensors: Mapping[str, Any], examples: Any = None) -> None:
        """Add a batch; a model output or target that is not finite voids the split's epoch.

        Args:
            split: one of `SPLITS`.
            tensors: what the collection is given.
            examples: what the user says of each row.

        Raises:
            RunError: there is no such split, or nothing is measured on it.
            MetricInputError: the batch is not what the metrics read.
        """
        if split not in self._live:
            self._start(split)
        if split in self._void:
            return
        try:
            self._live[split].update(**tensors)
        except NonFiniteError as err:
            self._void[split] = str(err)
        else:
            if self._examples is not None:
                self._examples.add(Place(split), self._live[split], tensors, examples)

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
        for watch in self.watches:
            values.update(watch.close())
        for name, value in self._logged.items():
            values[name] = float(value)
        self._logged = {}
        if self._optimised not in values:
            values[self._optimised], reasons[self._optimised] = math.nan, "was not logged in this epoch"
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
        self.examples = () if self._examples is None else self._examples.close(self._void)
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
