"""Combine the runs of a trial into one record: its repeats, its retries, and the bounds on their values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..direction import Direction
from ..exceptions import RunError
from ..records.trial_record import EpochRecord, Repeat, TrialRecord, TrialState, mean, number_in
from ..space.values import is_whole
from .rules import SECONDS, At, Constraint, CostUnit, violation_of
from .selection import Picker


@dataclass(frozen=True)
class TrialAttempts:
    """The repeats and retries of a trial, and their combination into one record.

    A run that fails, or has no finite value, is tried again under its own seed while retries are left;
    then the trial has failed, however many repeats are complete. The values of a trial are means over its
    repeats, and constraints bound the means. Its epochs, picked epoch and checkpoint are those of the first.

    Args:
        repeats: the number of complete runs, each under a seed of its own.
        retries: the number of runs that may be tried again, in all.
        bounds: constraints.
        unit: the unit of what a trial costs.

    Raises:
        RunError: a number is out of range.
    """

    repeats: int = 1
    retries: int = 0
    bounds: Sequence[Constraint] = ()
    unit: CostUnit = SECONDS

    def __post_init__(self) -> None:
        for name, least in (("repeats", 1), ("retries", 0)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise RunError(f"{name} must be a whole number of at least {least}, got {value!r}")

    def after(
        self, trial: TrialRecord | None, run: TrialRecord, counted: Sequence[EpochRecord] = ()
    ) -> TrialRecord:
        """Return the record of a trial after one more run; its state is running if another is to follow.

        Args:
            trial: its record before; None before its first run.
            run: the record of the run alone.
            counted: epochs of a later repeat than the first whose cost the trial has already.
        """
        cost = self._logged_cost(trial, run, counted)
        base = run = run if cost == run.cost else replace(run, cost=cost)
        repeats: tuple[Repeat, ...] = ()
        if trial is not None:
            repeats = trial.repeats
            base = replace(
                trial if repeats else run,
                failed_attempts=trial.failed_attempts,
                seconds=trial.seconds + run.seconds,
                cost=run.cost,
                ended=run.ended,
            )
        if run.state is TrialState.FAILED:
            return self._after_failure(base, run)
        if not run.state.trained:
            return base if base is run else replace(base, state=run.state, reason=run.reason)
        return base if self.repeats == 1 and not repeats else self._after_repeat(base, run)

    def _logged_cost(
        self, trial: TrialRecord | None, run: TrialRecord, counted: Sequence[EpochRecord]
    ) -> float | None:
        """Return what a trial has logged as its cost by the end of a run; None if that is not its unit.

        Epochs that a later run of a repeat took over count once.
        """
        spent = None if trial is None else trial.cost
        of_first = () if trial is None or trial.repeats or spent is None else trial.epochs
        earlier = {(epoch.attempt, epoch.epoch, epoch.seconds) for epoch in (*of_first, *counted)}
        own = (e for e in run.epochs if (e.attempt, e.epoch, e.seconds) not in earlier)
        logged = self.unit.logged_in(own)
        return logged if logged is None or spent is None else spent + logged

    def _after_failure(self, base: TrialRecord, run: TrialRecord) -> TrialRecord:
        place = len(base.repeats)
        reason = run.reason or ""
        if self.repeats > 1:
            reason = f"repeat {place} (seed {run.seed}): {reason}"
        if len(base.failed_attempts) < self.retries:
            failed = (*base.failed_attempts, reason)
            return replace(base, state=TrialState.RUNNING, reason=None, fault=None, failed_attempts=failed)
        value = None if place else base.value  # a mean of those that are left would be of other seeds
        return replace(base, state=TrialState.FAILED, reason=reason, value=value)

    def _after_repeat(self, base: TrialRecord, run: TrialRecord) -> TrialRecord:
        repeats = (*base.repeats, run.as_repeat())
        value = mean(repeat.value for repeat in repeats)
        base = replace(base, reason=None, constraints={}, repeats=repeats, value=value)
        if len(repeats) < self.repeats:
            return replace(base, state=TrialState.RUNNING)
        return apply_constraints(replace(base, state=TrialState.COMPLETE), self.bounds)


def apply_constraints(record: TrialRecord, constraints: Sequence[Constraint]) -> TrialRecord:
    """Apply constraints to the picked epoch of a trial; a complete one that breaks any is infeasible."""
    if not constraints or record.epoch is None:
        return record
    values = record.picked_values
    record = replace(record, constraints={str(each): each.excess(values) for each in constraints})
    broken = [text for each in constraints if (text := each.broken_by(values)) is not None]
    if record.state is TrialState.COMPLETE and broken:
        return replace(record, state=TrialState.INFEASIBLE, reason="; ".join(broken))
    return record


def repicked(
    record: TrialRecord, optimized: Mapping[str, Direction], at: At, bounds: Sequence[Constraint]
) -> TrialRecord:
    """Pick the epoch of a trial again, by other metrics, bounds or another rule; its repeats are left out.

    A checkpoint belongs to one epoch, so it is left out if another one is picked. Params are those in force
    at that epoch.
    """
    direction, *others = optimized.values()
    picker = Picker(direction, at, others=others)
    for epoch in record.epochs:
        value, *rest = (number_in(epoch.values, name) for name in optimized)
        picker.add(value, violation_of(bounds, epoch.values), rest)
    record = replace(record, repeats=())
    if record.state.trained:
        record = replace(record, state=TrialState.COMPLETE, reason=None, constraints={})
    if picker.index is None or not math.isfinite(picker.value):
        return replace(record, value=None, epoch=None, checkpoint=None)
    picked = record.epochs[picker.index].epoch
    checkpoint = record.checkpoint if picked == record.epoch else None
    params = record.params_at(picked)
    record = replace(record, params=params, value=picker.value, epoch=picked, checkpoint=checkpoint)
    return apply_constraints(record, bounds)


@dataclass
class Faults:
    """The faults of the first two trials of a sweep: if they are the same, all other trials would have it.

    Their numbers identify the two, so that every process and every backend judges the same ones.

    Args:
        first: the number of the first of them; later ones of a sweep whose study keeps what failed before.
        settled: whether a trial had an epoch, so that the engine works at least for some params.
    """

    first: int = 0
    _by_number: dict[int, str | None] = field(default_factory=dict)
    settled: bool = False

    def add(self, record: TrialRecord) -> None:
        """Add a trial, whether it has ended or not."""
        if record.state is TrialState.FAILED and record.fault is not None:
            self._by_number[record.number] = record.fault
        elif record.epochs:
            self.settled = True

    @property
    def alike(self) -> bool:
        """Whether both have failed by the same fault, and no trial had an epoch."""
        first, second = (self._by_number.get(self.first + place) for place in (0, 1))
        return not self.settled and first is not None and first == second
