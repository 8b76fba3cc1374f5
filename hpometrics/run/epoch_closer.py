"""Closing: how an epoch of a run ends: measured over all ranks, written and told by the first rank."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from .._redaction import redacted
from ..exceptions import RunError
from ..loggers.base import Standing
from ..loggers.registry import LoggerLike, Loggers
from ..metrics.additive import Additive
from ..metrics.metric import NOTHING_MEASURED
from ..metrics.registry.scope import VALIDATION
from ..metrics.reports import Metrics
from ..records.epoch_log import Fsync
from ..records.trial_record import EpochRecord, numbers_of
from ..selection.constraints import violation_of
from ..selection.rules import At
from ..selection.selection import Picker
from .artifacts import Stored, Traces
from .checkpoint import Keep, random_states
from .distributed import Decision, Ranks, sendable
from .epoch import Panels
from .logged_values import Teachers
from .reporter import Joint, PickedReporter, Reporter
from .spec import RunSpec


class End(StrEnum):
    """What has ended a run before its last epoch: the setting of that name."""

    PATIENCE = "patience"
    TARGET = "target"
    TRIAL_TIME = "trial_time"


class Progress:
    """Follows the optimized values from epoch to epoch.

    Attributes:
        history: every closed epoch, in order.
        picks: for each of them, the epoch whose value counted by then; None where none had a finite value.
        impatience: epochs since the last improvement, of any optimized metric, by more than the spec's `tol`.
        ended_by: what has ended the run, if anything has.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        directions = list(spec.optimized.values())
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
        value, *others = numbers = [record.number(name) for name in spec.optimized]
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
        count, names = len(self.history), list(self._spec.optimized)
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


class Recording:
    """The part of a run that takes additive values; see `Run`."""

    def __init__(self, panels: Panels) -> None:
        self._panels = panels
        self._teachers = Teachers()

    @property
    def global_metrics(self) -> Metrics:
        """Takes additive values of the run that belong to no task, from anywhere in the engine.

        `run.global_metrics.add("my_metric", AverageMetric(1, 2))`
        """
        return self._panels.recorded(VALIDATION).global_metrics

    def record_local(
        self,
        name: str,
        values: Iterable[Additive],
        *,
        task: str | Sequence[str] | None = None,
        split: str = VALIDATION,
    ) -> None:
        """Record a value for each example of the last update, so that every task has its own.

        Args:
            name: the record calls it that, and `task/name` of each task.
            values: one per row, as `AverageMetric.many(hits, tokens)` makes them.
            task: the task of all, or of each, where there was no update.
            split: the split of that update.

        Raises:
            RunError: there are more or fewer than rows, or the name is taken.
            MetricInputError, MetricNameError, AdditionError: see `Metrics.add`.
        """
        self._panels.refuse_measured(name)
        self._begin("record_local")
        self._panels.recorded(split).local(name, values, task)

    def record_global(self, name: str, value: Additive, *, split: str = VALIDATION) -> None:
        """Record a value of the run that belongs to no task, as `run.global_metrics.add` does.

        Raises:
            RunError: the name is taken.
            MetricInputError, MetricNameError, AdditionError: see `Metrics.add`.
        """
        self._panels.refuse_measured(name)
        self._begin("record_global")
        self._panels.recorded(split).global_metrics.add(name, value)

    def teach(self, teacher: Any, *, task: str | None = None) -> None:
        """Register what measures the answers to one data set.

        Args:
            teacher: an object or class with `custom_evaluation(teacher_action, labels, model_response)` that
                adds to `self.metrics` (see `Teacher`), or a function of these three and `metrics`.
            task: the data set's; None where there is one.

        Raises:
            RunError: the task has a teacher.
        """
        self._teachers.add(teacher, task)

    def evaluate_response(
        self,
        teacher_action: Any,
        labels: Any,
        model_response: Any,
        *,
        task: str | None = None,
        split: str = VALIDATION,
    ) -> None:
        """Let the teacher of a task measure one answer.

        Args:
            teacher_action: what the model was shown.
            labels: the right answers, or None.
            model_response: what the model answered.
            task: whose teacher.
            split: what it was shown of.

        Raises:
            RunError: the task has no teacher, or it records a name that is taken.
        """
        self._begin("evaluate_response")
        recorded = self._panels.recorded(split).of(task)
        self._teachers.evaluate(task, teacher_action, labels, model_response, recorded)

    def _begin(self, what: str) -> None:
        """Take something into the epoch."""
        raise NotImplementedError(f"a run says what {what} begins")

    def _collect(self) -> None:
        """Take in what teachers have measured that the data sets themselves called."""
        for task, metrics in self._teachers.left():
            self._panels.recorded(VALIDATION).of(task).add_metrics(metrics)
            metrics.clear()


class Closing(Recording):
    """The part of a run that ends its epochs; see `Run`."""

    def __init__(
        self,
        spec: RunSpec,
        reporter: Reporter,
        params: Mapping[str, Any] | None,
        directory: Path | None,
        fsync: Fsync,
        loggers: Sequence[LoggerLike],
    ) -> None:
        self._ranks = Ranks()
        home = directory.absolute() if directory is not None and self._ranks.leads else None
        super().__init__(Panels(spec, self._ranks, keeps=home is not None))
        self.spec = spec
        self._name, self._steering = spec.name, spec.steering
        self._reporter, self._params = reporter, deepcopy(dict(params or {}))
        self._progress = Progress(spec)
        carried = getattr(reporter, "carried", None)
        self._joint: Joint | None = getattr(reporter, "joint", None)
        self._keeps = not (directory is None and carried is None) and spec.checkpoints is not Keep.NONE
        self._loggers = Loggers(loggers if self._ranks.leads else (), home)
        self._traces = Traces(home, fsync, Keep(spec.checkpoints), carried if self._ranks.leads else None)
        self._open = self._looping = self._looped = self._holding = self._over = False
        self._made = self._began = time.perf_counter()
        self._earlier = 0.0  # seconds of the epochs it goes on after
        self._total: float = math.inf  # epochs of the loop
        self.ended = False
        self.stopped: BaseException | None = None
        self._picked_kept: int | None = None  # the epoch whose values the host keeps
        self._stops = reporter.stops

    @property
    def stops(self) -> tuple[type[BaseException], ...]:
        """The exceptions that mean the host has stopped this run; on every rank those of the first."""
        return self._stops

    @property
    def params(self) -> dict[str, Any]:
        """A copy of the params that this run was given, or that its host has drawn so far."""
        return deepcopy(dict(self._given))

    @property
    def _given(self) -> Mapping[str, Any]:
        return self._params or self._reporter.params or {}

    @property
    def directory(self) -> Path | None:
        """The trial's own directory; None where nothing is written, as on all ranks but the first."""
        return self._traces.directory

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether what `checkpoint` copies is kept: in the directory, or by Ray Tune."""
        return self._keeps

    @property
    def finished(self) -> bool:
        """Whether patience, the target or the time has ended the run."""
        return self._progress.ended_by is not None

    @property
    def ended_by(self) -> End | None:
        """What has ended the run before its last epoch; None while nothing has."""
        return None if len(self._progress.history) >= self._total else self._progress.ended_by

    @property
    def seconds_left(self) -> float | None:
        """The rest of `trial_time`; None where there is none."""
        limit = self.spec.trial_time
        return None if limit is None else max(0.0, limit - self._seconds())

    def end_late(self) -> None:
        """Note that the time was up before an epoch ended, for an engine that can be stopped in the midst."""
        self._progress.ended_by = End.TRIAL_TIME

    def _seconds(self) -> float:
        """What the run has taken so far, before a restart included."""
        return self._earlier + time.perf_counter() - self._made

    def _take_again(self, record: EpochRecord) -> None:
        """Take an epoch of before a restart; its seconds are the same on every rank."""
        self._earlier += record.seconds
        self._progress.take(record, self._earlier)

    def _begin(self, what: str) -> None:
        """Take something into the epoch, unless the last one is over."""
        if not self._looping:
            self._check_not_over(what)
        self._open = True

    def _resume(self) -> tuple[Stored, Decision | None]:
        """Read what there is, and tell the host again; it may have stopped the run before."""
        stored, decision = self._traces.stored(), None
        for record in stored.done:
            self._take_again(record)
            decision = self._report(final=False)
            if decision.stop is not None:
                break
        return replace(stored, done=tuple(self._progress.history)), decision

    def _close_epoch(self, final: bool) -> None:
        """Measure the epoch over all ranks; the first writes it, tells its host, and decides for all."""
        self._check_not_stopped()
        record, random = self._measure()
        self._open = False
        if self._ranks.alone:  # as it was when the epoch was measured
            decision = self._lead(record, random, final)
        else:
            decision = self._ranks.from_first(lambda: self._lead(record, random, final))
            if not self._ranks.leads:
                self._follow(record, decision)
        self._report_jointly(decision)
        self._holding = False
        self._began = time.perf_counter()
        self._obey(decision)

    def _measure(self) -> tuple[EpochRecord, list[Any]]:
        """The record of the open epoch, and the random states of every rank where it is checkpointed."""
        epoch, random = self._panels.close(self._beside)
        seconds = round(time.perf_counter() - self._began, 6)
        _check_names(epoch.values)
        reasons = {name: redacted(reason) for name, reason in epoch.reasons.items()}
        return EpochRecord(len(self._progress.history), epoch.values, reasons, seconds), random

    def _beside(self) -> Any:
        """Take in what teachers have measured; what else a rank tells the others is its random states."""
        self._collect()
        return random_states() if self._holding else None

    def _lead(self, record: EpochRecord, random: list[Any], final: bool) -> Decision:
        """Write the record, the values by user, the checkpoint, then tell the loggers and the host.

        In this order a run that is killed in between can go on.
        """
        self._progress.take(self._traces.append(record, self._panels.kept), self._seconds())
        self._traces.follow(record.epoch, self._progress.picked, self._panels, random)
        if self._loggers:
            self._loggers.epoch(self._standing())
        return self._report(final)

    def _follow(self, record: EpochRecord, decision: Decision) -> None:
        """Take the epoch as the first rank has it."""
        self._progress.take(record.with_numbers(decision.steering), self._seconds())
        self._traces.follow(record.epoch, self._progress.picked, self._panels)

    def _report(self, final: bool) -> Decision:
        """Tell the host the last epoch."""
        record = self._progress.history[-1]
        over = final or self.finished
        ended = over or len(self._progress.history) == self.spec.epochs
        numbers = numbers_of(record.values)
        for name in self.spec.optimized:
            if record.reasons.get(name) == NOTHING_MEASURED:  # no host is to judge an epoch without a batch
                numbers.pop(name, None)
        stop = None
        try:
            self._reporter.report(
                record.epoch, record.number(self._name), self._progress.value, numbers, ended
            )
        except self._reporter.stops as err:
            stop = err if self._ranks.alone else sendable(err)
        if over or stop is not None:
            self._keep_picked()
        steering = {name: numbers[name] for name in self._steering if name in numbers}
        counterpart = None if self._joint is None else self._joint.counterpart()
        return Decision(steering, over, ended, stop, counterpart)

    def _report_jointly(self, decision: Decision) -> None:
        """Make the reports that the host takes from all ranks at once."""
        if decision.counterpart is None:
            return
        if self._joint is not None and self._ranks.leads:
            self._joint.send()
        else:
            decision.counterpart()

    def _keep_picked(self) -> None:
        """Leave the values of the picked epoch with a host that keeps them, once."""
        picked = self._progress.picked
        if picked not in (None, self._picked_kept) and isinstance(self._reporter, PickedReporter):
            self._reporter.keep_picked(picked, self._progress.history[picked].values)
            self._picked_kept = picked

    def _obey(self, decision: Decision) -> None:
        """Do what the first rank has decided.

        Raises:
            BaseException: the host's stop.
        """
        self.ended, self._over = decision.ended, decision.over
        if decision.stop is not None:
            self._stops = (*self._reporter.stops, type(decision.stop))
            self.stopped = None if self.ended else decision.stop
            raise decision.stop

    def _end_loggers(self, complete: bool) -> None:
        if self._loggers:
            self._loggers.end(self._standing(complete))

    def _standing(self, complete: bool = False) -> Standing:
        return Standing(
            metric=self._name,
            given=self._given,
            directory=self._traces.directory,
            history=self._progress.history,
            picks=self._progress.picks,
            impatience=self._progress.impatience,
            complete=complete,
        )

    def _check_not_stopped(self) -> None:
        if self.stopped is not None:  # whoever swallowed it gets it again
            raise self.stopped

    def _check_not_over(self, what: str) -> None:
        """Refuse what would open an epoch behind the last; one that a break left open still takes it."""
        if self._open or self.stopped is not None or not (self.ended or self._looped):
            return
        raise RunError(
            f"run.{what}(...) comes after the last epoch, whose values are reported already; "
            "put it into the loop, `for epoch in run.epochs(n):`"
        )

    def _release(self) -> None:
        try:
            self._keep_picked()
        finally:
            self._panels.watches.detach()
            self._traces.close()
            self._end_loggers(complete=False)


def _check_names(names: Iterable[str]) -> None:
    """Refuse a name that holds a secret: files have all names, and two that are hidden would be one.

    Raises:
        RunError: with the name as it may be shown.
    """
    text = "\n".join(names)
    if redacted(text) != text:
        shown = next(shown for name in names if (shown := redacted(name)) != name)
        raise RunError(f"the name of a value holds a secret: {shown}; give it another name")
