"""Panels: what a run measures in one epoch, a collection per split, as floats with the reason of each nan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from .exceptions import NonFiniteError, RunError
from .metrics.collection import MetricCollection
from .metrics.names import SPLITS
from .run_spec import VALIDATION, RunSpec

Values = dict[str, float]
Reasons = dict[str, str]


class Panels:
    """The collections of one run. A value of another split than validation is called `test:accuracy`.

    A split that no tracked name mentions is measured like validation.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._prototypes = spec.collections
        self._live: dict[str, MetricCollection] = {}
        self._void: Reasons = {}
        for split in self._prototypes:
            self._start(split)

    @property
    def names(self) -> set[str]:
        """All names that are measured."""
        return {_named(split, name) for split, live in self._live.items() for name in live.names}

    def update(self, split: str, tensors: Mapping[str, Any]) -> None:
        """Add a batch; a model output or target that is not finite voids the split's epoch.

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

    def close(self) -> tuple[Values, Reasons]:
        """Measure the epoch and begin the next one."""
        values: Values = {}
        reasons: Reasons = {}
        for split, live in self._live.items():
            for name, value in _floats(live.compute()):
                values[_named(split, name)] = math.nan if split in self._void else value
            why = dict.fromkeys(live.names, self._void[split]) if split in self._void else live.reasons
            reasons.update({_named(split, name): reason for name, reason in why.items()})
            live.reset()
        self._void.clear()
        return values, reasons

    def _start(self, split: str) -> None:
        if split not in SPLITS:
            raise RunError(f"split is one of {', '.join(SPLITS)}, got {split!r}")
        prototype = self._prototypes.get(split) or self._prototypes.get(VALIDATION)
        if prototype is None:
            raise RunError("this run measures no metric, so there is nothing to update; log() takes values")
        self._live[split] = prototype.fresh()


def _named(split: str, name: str) -> str:
    return name if split == VALIDATION else f"{split}:{name}"


def _floats(computed: Mapping[str, Tensor]) -> Iterator[tuple[str, float]]:
    for name, value in computed.items():
        if value.ndim == 0:
            yield name, value.item()
        else:
            yield from ((f"{name}[{i}]", part) for i, part in enumerate(value.flatten().tolist()))
