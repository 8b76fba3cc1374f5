"""Selection: which epoch's value counts for a run, and which trial is the best. One rule for everyone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..exceptions import ConfigError, NoFeasibleTrialError, NoFiniteValueError
from ..objective import MINIMIZE, Objective
from .constraints import violation
from .one_se import Pick, simplest_within_error
from .readings import Reading
from .record import TrialRecord, TrialState


class At(StrEnum):
    """Which epoch's value counts for a run: its best one or its last one."""

    BEST = "best"
    LAST = "last"


@dataclass(frozen=True)
class Best:
    """The best trial: what it was given, what it reached and where its state is kept.

    `value` and `values` are those of `epoch` (counted from 0); `checkpoint` is the state at its end, if kept.
    Of a trial with several repeats they are means, `deviation` is that of the value, and epoch and checkpoint
    are those of the first.
    """

    params: Mapping[str, Any]
    value: float
    epoch: int
    checkpoint: Path | None
    trial: int
    metric: str
    objective: Objective
    values: Mapping[str, Reading]
    deviation: float | None = None
    repeats: int = 1


class Picker:
    """Follows a run and knows its picked epoch at any time, in constant work per epoch.

    Epochs that violate constraints less come before better ones (Deb, An efficient constraint handling method
    for genetic algorithms, 2000); without constraints none does.

    >>> picker = Picker(Objective.MAXIMIZE)
    >>> [picker.add(value) for value in (0.1, 0.9, 0.2)], picker.index, picker.value
    ([True, True, False], 1, 0.9)
    """

    def __init__(self, objective: Objective, at: At = At.BEST, tol: float = 0.0) -> None:
        self.objective, self.at, self.tol = objective, at, tol
        self.index: int | None = None
        self.value = math.nan
        self.violation = 0.0
        self.count = 0

    def add(self, value: float, violation: float = 0.0) -> bool:
        """Take the next epoch's value and say whether that epoch is now the picked one.

        Args:
            value: of the metric.
            violation: by how much the epoch exceeds the bounds of constraints.
        """
        picked = self.at is At.LAST or self._wins(value, violation)
        if picked:
            self.index, self.value, self.violation = self.count, value, violation
        self.count += 1
        return picked

    def _wins(self, value: float, violation: float) -> bool:
        if self.index is None or violation == self.violation:
            return self.objective.better(value, self.value, self.tol)
        closer = math.isinf(self.violation) or MINIMIZE.better(violation, self.violation)
        return closer and math.isfinite(value)


def pick_epoch(values: Iterable[float], objective: Objective, at: At = At.BEST, tol: float = 0.0) -> int:
    """Return the index of the epoch whose value counts; of equal ones (within `tol`) the earliest.

    Raises:
        NoFiniteValueError: the picked value is not finite, or there is none.
    """
    picker = Picker(objective, at, tol)
    for value in values:
        picker.add(value)
    if picker.index is None or not math.isfinite(picker.value):
        what = "the last" if at is At.LAST else "none"
        verb = "is not" if at is At.LAST else "is"
        raise NoFiniteValueError(
            f"{what} of {picker.count} epochs {verb} a finite number to {objective.value}"
        )
    return picker.index


def ranked(records: Iterable[TrialRecord], objective: Objective) -> list[TrialRecord]:
    """Sort trials best first: the complete ones by value, the infeasible by violation, the rest by number."""

    def key(record: TrialRecord) -> tuple[int, float, float, int]:
        floor = _FLOORS.get(record.state, len(_FLOORS)) if record.value is not None else len(_FLOORS)
        value = record.value if record.value is not None and floor < len(_FLOORS) else math.nan
        exceeds = _violation(record) if record.state is TrialState.INFEASIBLE else 0.0
        return floor, exceeds, objective.sort_key(value), record.number

    return sorted(records, key=key)


def pick_trial(records: Sequence[TrialRecord], objective: Objective) -> TrialRecord:
    """Return the complete trial with the best value; of equal ones the earliest.

    Raises:
        NoFeasibleTrialError: those that ran to their end all break a constraint; the message names the one
            that breaks them least.
        NoFiniteValueError: no trial is complete; the message says what they were.
    """
    complete = sorted((r for r in records if r.state is TrialState.COMPLETE), key=lambda r: r.number)
    if not complete:
        _check_feasible(records, objective)
        states = Counter(record.state.value for record in records)
        told = ", ".join(f"{count} {state}" for state, count in states.items()) or "there were none"
        raise NoFiniteValueError(f"no trial is complete, so there is no best: {told}{_last_reason(records)}")
    return complete[objective.best_index(math.nan if r.value is None else r.value for r in complete)]


def best_of(
    records: Sequence[TrialRecord], metric: str, objective: Objective, pick: Pick | str = Pick.BEST
) -> Best:
    """Pick a trial and say all about it.

    Args:
        records: the trials.
        metric: the name of what is optimised.
        objective: the metric's.
        pick: the trial with the best value, or by `simplest_within_error`.

    Raises:
        NoFeasibleTrialError, NoFiniteValueError: as in `pick_trial`, `simplest_within_error`.
        ConfigError: there is no such way to pick.
    """
    record = picked_trial(records, objective, pick)
    value, epoch = record.value, record.epoch
    return Best(
        params=record.params,
        value=math.nan if value is None else value,
        epoch=-1 if epoch is None else epoch,
        checkpoint=record.checkpoint,
        trial=record.number,
        metric=metric,
        objective=objective,
        values=record.picked_values,
        deviation=record.deviation,
        repeats=max(1, len(record.repeats)),
    )


def picked_trial(records: Sequence[TrialRecord], objective: Objective, pick: Pick | str) -> TrialRecord:
    """Return the trial that a way to pick finds; see `best_of`."""
    try:
        rule = Pick(pick)
    except ValueError:
        raise ConfigError(f"pick is best or one_se, got {pick!r}") from None
    best = pick_trial(records, objective)
    return best if rule is Pick.BEST else simplest_within_error(best, records, objective)


_FLOORS = {TrialState.COMPLETE: 0, TrialState.INFEASIBLE: 1}


def _violation(record: TrialRecord) -> float:
    return violation(record.constraints.values())


def _check_feasible(records: Sequence[TrialRecord], objective: Objective) -> None:
    infeasible = [record for record in records if record.state is TrialState.INFEASIBLE]
    if infeasible:
        least = ranked(infeasible, objective)[0]
        raise NoFeasibleTrialError(
            f"no trial is feasible: all {len(infeasible)} that are complete break a constraint; "
            f"trial {least.number} breaks them least ({least.reason})"
        )


def _last_reason(records: Sequence[TrialRecord]) -> str:
    reasons = [f" (trial {record.number}: {record.reason})" for record in records if record.reason]
    return reasons[-1] if reasons else ""
