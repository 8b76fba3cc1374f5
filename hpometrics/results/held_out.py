"""Held out: the value of the test split at the picked epoch, beside the validation value that picked it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..direction import Objective
from ..records.readings import Reading
from ..records.trial_record import TrialRecord
from .manifest import Resolved

_TEST = "test:"


@dataclass(frozen=True)
class HeldOut:
    """What the optimised metric is on the test split, where the engine updates one.

    Attributes:
        name: what the record calls it.
        value: at the picked epoch, on which it had no say.
        optimism: by how much it is worse than the validation value; below 0 it is better.
    """

    name: str
    value: float
    optimism: float

    @property
    def words(self) -> str:
        """Say how the two values compare."""
        gap = f"{abs(self.optimism):.6g}"
        if self.optimism > 0:
            return f"{gap} worse than on validation: the optimism of the pick"
        return f"{gap} better than on validation: no optimism" if self.optimism else "as on validation"

    def to_json(self) -> dict[str, Any]:
        """Give it as plain JSON."""
        return {"value": self.value, "optimism": self.optimism}


def held_out(
    values: Mapping[str, Reading], metric: str, objective: Objective, value: float | None
) -> HeldOut | None:
    """Find the test value among those of an epoch; None where there is no finite one.

    >>> found = held_out({"accuracy": 0.75, "test:accuracy": 0.5}, "accuracy", Objective.MAXIMIZE, 0.75)
    >>> found.words
    '0.25 worse than on validation: the optimism of the pick'
    """
    name = f"{_TEST}{metric}"
    tested = values.get(name)
    if value is None or tested is None or isinstance(tested, list) or not math.isfinite(tested):
        return None
    return HeldOut(name, tested, objective.worse_by(tested, value))


def values_shown(records: Iterable[TrialRecord], resolved: Resolved) -> dict[str, Objective | None]:
    """The values that tables show, each with its direction: optimised, then its test value, then tracked."""
    name = f"{_TEST}{resolved.metric}"
    tested = any(name in record.picked_values for record in records)
    beside = {name: resolved.objective} if tested else {}
    return {resolved.metric: resolved.objective, **beside, **resolved.beside}
