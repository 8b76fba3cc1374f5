"""Progress: the epochs that a run has closed, which of them counts, and whether it has seen enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from ..records.trial_record import EpochRecord
from ..selection.constraints import violation_of
from ..selection.rules import At
from ..selection.selection import Picker
from .spec import RunSpec


class End(StrEnum):
    """What has ended a run before its last epoch: the setting of that name."""

    PATIENCE = "patience"
    TARGET = "target"
    TRIAL_TIME = "trial_time"


class Progress:
    """Follows the optimised values from epoch to epoch.

    Attributes:
        history: every closed epoch, in order.
        picks: for each of them, the epoch whose value counted by then; None where none had a finite value.
        impatience: epochs since the last improvement, of any optimised metric, by more than the spec's `tol`.
        ended_by: what has ended the run, if anything has.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        directions = list(spec.optimised.values())
        self._picker = Picker(spec.objective, At(spec.at), others=directions[1:])
        self._gains = [Picker(direction, tol=spec.tol) for direction in directions]
        self.history: list[EpochRecord] = []
        self.picks: list[int | None] = []
        self.impatience = 0
        self.ended_by: End | None = None

    @property
    def value(self) -> float:
        """The value of the picked epoch; nan before there is one."""
        return self._picker.value

    @property
    def picked(self) -> int | None:
        """The epoch whose value counts, counted from 0; None before there is one."""
        return self._picker.index

    def take(self, record: EpochRecord, seconds: float) -> None:
        """Take the next epoch, at whose end the run has taken so many seconds in all."""
        spec = self._spec
        value, *others = numbers = [record.number(name) for name in spec.optimised]
        self.history.append(record)
        exceeds = violation_of(spec.bounds, record.values)
        self._picker.add(value, exceeds, others)
        self.picks.append(self._picker.index)
        gained = [gains.add(number, exceeds) for gains, number in zip(self._gains, numbers, strict=True)]
        self.impatience = 0 if any(gained) else self.impatience + 1
        if spec.target is not None and math.isfinite(value) and exceeds == 0:
            if not spec.objective.better(spec.target, value):
                self.ended_by = End.TARGET
        if self.ended_by is not End.TARGET:
            self.ended_by = self._exhausted(seconds)

    def _exhausted(self, seconds: float) -> End | None:
        """Say which of the limits is reached."""
        spec = self._spec
        if spec.patience is not None and self.impatience >= spec.patience:
            return End.PATIENCE
        late = spec.trial_time is not None and seconds >= spec.trial_time
        return End.TRIAL_TIME if late else None

    def why_no_value(self) -> str:
        """Say why the picked epoch has no finite value."""
        count, names = len(self.history), list(self._spec.optimised)
        name = next((one for one in names if not self._has_value(one)), None)
        if name is None:
            return f"none of {count} epochs has a finite value of each of {', '.join(names)}"
        which = "not the last" if self._picker.at is At.LAST and count else "none"
        reason = _last_reason(name, self.history)
        return f"{name}: {which} of {count} epochs has a finite value{f': {reason}' if reason else ''}"

    def _has_value(self, name: str) -> bool:
        epochs = self.history[-1:] if self._picker.at is At.LAST else self.history
        return any(math.isfinite(record.number(name)) for record in epochs)


def _last_reason(name: str, history: Sequence[EpochRecord]) -> str:
    return next((record.reasons[name] for record in reversed(history) if name in record.reasons), "")
