"""Picks: which trial and epoch a record gives by another metric than the optimised one, or another rule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..direction import Objective
from ..exceptions import NoFiniteValueError
from ..metrics.registry.names import MetricName
from ..metrics.registry.scope import VALIDATION
from ..records.readings import number_in
from ..records.trial_record import TrialRecord, TrialState
from ..selection.constraints import judged, violation_of
from ..selection.picking import best_by
from ..selection.rules import At
from ..selection.selection import Best, Picker
from .manifest import Resolved

_TRAINED = (TrialState.COMPLETE, TrialState.INFEASIBLE)


@dataclass(frozen=True)
class Pick:
    """What one metric would have picked.

    Attributes:
        metric: that picks.
        objective: its direction.
        best: its trial and epoch, with all values there; None where it has no finite value.
        optimised: the value of the optimised metric there.
        loss: by how much that is worse than the optimum.
    """

    metric: str
    objective: Objective
    best: Best | None
    optimised: float = math.nan
    loss: float = math.nan


def by_metric(resolved: Resolved, metric: str, objective: Objective, at: str | None = None) -> Resolved:
    """Give the sweep as if this metric had been optimised, and the best trial by it were picked.

    What was optimised is tracked.
    """
    known = {**resolved.optimised, **resolved.track}
    track = {name: other for name, other in known.items() if name != metric}
    at = at or resolved.at
    told = replace(resolved, metric=metric, objective=objective, at=at, track=track, others={})
    return told.picked_by("best")


def repicked(records: Sequence[TrialRecord], resolved: Resolved) -> list[TrialRecord]:
    """Pick the epoch of every trial anew, as the sweep says.

    A checkpoint is that of the epoch it was kept of, so it is left out where another one is picked. A trial
    with several repeats is told by its first.
    """
    return [_repicked(record, resolved) for record in records]


def picks(records: Sequence[TrialRecord], resolved: Resolved, best: Best) -> list[Pick]:
    """Say what each metric with a direction would have picked, and what that gives up.

    Where trials have several repeats all of it is of the first, the optimum too. Several objectives have no
    optimum that could be given up.
    """
    if resolved.others:
        return []
    if best.repeats > 1:
        best = best_by(repicked(records, resolved), resolved.optimised)
    return [_pick(records, resolved, best, name, objective) for name, objective in _pickers(resolved)]


def optimised_at(best: Best, resolved: Resolved, optimum: Best) -> tuple[float, float]:
    """The value of the optimised metric where another one picked, and by how much it is worse there."""
    value = number_in(best.values, resolved.metric)
    return value, resolved.objective.worse_by(value, optimum.value)


def _repicked(record: TrialRecord, resolved: Resolved) -> TrialRecord:
    record, bounds = replace(record, repeats=()), resolved.bounds
    picker = Picker(resolved.objective, At(resolved.at), others=list(resolved.others.values()))
    for epoch in record.epochs:
        value, *rest = (number_in(epoch.values, name) for name in resolved.optimised)
        picker.add(value, violation_of(bounds, epoch.values), rest)
    if record.state in _TRAINED:
        record = replace(record, state=TrialState.COMPLETE, reason=None, constraints={})
    if picker.index is None or not math.isfinite(picker.value):
        return replace(record, value=None, epoch=None, checkpoint=None)
    picked = record.epochs[picker.index].epoch
    checkpoint = record.checkpoint if picked == record.epoch else None
    return judged(replace(record, value=picker.value, epoch=picked, checkpoint=checkpoint), bounds)


def _pickers(resolved: Resolved) -> Iterator[tuple[str, Objective]]:
    """The metrics that may pick: those of validation data that have a direction."""
    for name, objective in {resolved.metric: resolved.objective, **resolved.track}.items():
        if objective is not None and MetricName.parse(name).split in (None, VALIDATION):
            yield name, objective


def _pick(
    records: Sequence[TrialRecord], resolved: Resolved, optimum: Best, name: str, objective: Objective
) -> Pick:
    if name == resolved.metric:
        return Pick(name, objective, optimum, optimum.value, 0.0)
    told = by_metric(resolved, name, objective)
    try:
        best = best_by(repicked(records, told), told.optimised)
    except NoFiniteValueError:
        return Pick(name, objective, None)
    return Pick(name, objective, best, *optimised_at(best, resolved, optimum))
