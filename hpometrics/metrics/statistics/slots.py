"""Dialogue states: the slots that were predicted and those that are right, a mapping per turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..._redaction import excerpt
from ...exceptions import MetricInputError
from .._device import sent
from ..batch import Outputs
from .totals import RowTotals

Slots = dict[str, Any]


class States(NamedTuple):
    """The predicted and the right slots of each turn of a batch."""

    predicted: list[Slots]
    right: list[Slots]


def states(batch: Outputs) -> States:
    """The block of dialogue states: the extras `slots` and `gold_slots`.

    Raises:
        MetricInputError: one of them was not given, or not a mapping for each row.
    """
    return batch.block("dialogue states", _states)


def _states(batch: Outputs) -> States:
    missing = [f"{name}=" for name in ("slots", "gold_slots") if name not in batch.extras]
    if missing:
        raise MetricInputError(
            "dialogue states are wanted as slots=[...] and gold_slots=[...], a mapping per row, beside the "
            f"texts; {' and '.join(missing)} missing"
        )
    return States(_mappings(batch, "slots"), _mappings(batch, "gold_slots"))


def _mappings(batch: Outputs, name: str) -> list[Slots]:
    rows = batch.extras[name]
    if isinstance(rows, (str, Mapping)) or len(rows) != len(batch):
        raise MetricInputError(
            f"{name} are a list of {len(batch)} mappings, one per row; got {excerpt(repr(rows), 150)}"
        )
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise MetricInputError(f"{name} are mappings, got {type(row).__name__} in row {number}")
    return [dict(row) for row in rows]


class SlotCounts(RowTotals):
    """Slots predicted with the right value, slots predicted, and slots that are right.

    >>> from hpometrics.metrics.features import Text
    >>> counts = SlotCounts()
    >>> slots, gold_slots = [{"area": "north", "stars": 4}], [{"area": "north"}]
    >>> counts.update(Outputs(Text(), predictions=[""], target=[""], slots=slots, gold_slots=gold_slots))
    >>> counts.total.tolist()
    [1.0, 2.0, 1.0]
    """

    def columns(self, batch: Outputs) -> Tensor:
        """Count each turn."""
        counts = [
            (
                sum(name in right and right[name] == value for name, value in slots.items()),
                len(slots),
                len(right),
            )
            for slots, right in zip(*states(batch), strict=True)
        ]
        return sent(torch.from_numpy(np.array(counts, np.float64)), batch.target.device)
