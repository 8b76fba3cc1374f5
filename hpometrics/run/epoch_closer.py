"""EpochCloser ends the epochs of a run: all ranks measure, and the first one writes and reports."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from copy import deepcopy
from dataclasses import replace
from enum import Enum, StrEnum, auto
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .._redaction import redacted
from ..exceptions import RunError
from ..loggers.registry import LoggerLike, Loggers, Standing, make_loggers
from ..metrics.registry.scope import TEST, VALIDATION
from ..records.epoch_log import Fsync
from ..records.trial_record import EpochRecord, number_in
from ..selection.rules import At, judgeable, violation_of
from ..selection.selection import Picker
from .artifacts import Artifacts, HostCheckpoints, Stored
from .checkpoint import Keep, Stateful, put_states, set_random_states
from .distributed import Ranks, sendable
from .epoch import EpochMeter
from .reporter import Joint, Reporter
from .spec import RunSpec


class End(StrEnum):
    """The setting that has ended a run before its last epoch."""

    PATIENCE = "patience"
    TARGET = "target"
    TRIAL_TIME = "trial_time"


class Progress:
    """Follows the optimized values from epoch to epoch.

    Attributes:
        history: every closed epoch, in order.
        current: the optimized value of the last of them; nan before there is one.
        picked: the epoch whose value counts, counted from 0; None before there is one.
        value: its value; nan before there is one.
        picks: for each of them, the epoch whose value counted by then; None where none had a finite value.
        impatience: epochs since the last improvement, of any optimized metric, by more than the spec's `tol`.
        ended_by: what has ended the run, if anything has.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        directions = list(spec.optimized.values())
        self._names = list(spec.optimized)
        self._picker = Picker(directions[0], At(spec.at), others=directions[1:])
        every_pick_gains = len(directions) == 1 and spec.at is At.BEST and not spec.tol
        self._gains = [] if every_pick_gains else [Picker(one, tol=spec.tol) for one in directions]
        self.history: list[EpochRecord] = []
        self.current = self.value = math.nan
        self.picked: int | None = None
        self.picks: list[int | None] = []
        self.impatience = 0
        self.ended_by: End | None = None

    def take(self, record: EpochRecord, seconds: float) -> None:
        """Add the next epoch; `seconds` is the time that the run has taken in all by its end."""
        spec = self._spec
        self.current, *others = numbers = [number_in(record.values, name) for name in self._names]
        self.history.append(record)
        exceeds = violation_of(spec.bounds, record.values) if spec.bounds else 0.0
        gained = self._picker.add(self.current, exceeds, others)
        self.picked, self.value = self._picker.index, self._picker.value
        self.picks.append(self.picked)
        if self._gains:
            added = zip(self._gains, numbers, strict=True)
            gained = any([gains.add(number, exceeds) for gains, number in added])
        self.impatience = 0 if gained else self.impatience + 1
        at_target = (
            spec.target is not None
            and math.isfinite(self.current)
            and exceeds == 0
            and not self._picker.direction.better(spec.target, self.current)
        )
        if at_target or self.ended_by is End.TARGET:
            self.ended_by = End.TARGET
        elif spec.patience is not None and self.impatience >= spec.patience:
            self.ended_by = End.PATIENCE
        else:
            late = spec.trial_time is not None and seconds >= spec.trial_time
            self.ended_by = End.TRIAL_TIME if late else None


class RunState(Enum):
    """Where a run stands between its first epoch and its last."""

    NEW = auto()
    """No epoch has begun."""
    OPEN = auto()
    """An epoch has taken something in that is not reported yet."""
    BETWEEN = auto()
    """An epoch is reported, and another may follow."""
    ENDED = auto()
    """An epoch was reported as the final one."""
    STOPPED = auto()
    """The host has stopped the run before its last epoch."""


class Decision(NamedTuple):
    """The decision of the first rank at the end of an epoch, which all ranks carry out.

    Attributes:
        steering: the optimized value, and those that constraints bound, as the first rank has them; empty if
            there is no other rank.
        over: no epoch follows, and the epoch was reported as the final one.
        stop: the host's stop.
        counterpart: what the other ranks call while the first one reports to a host that needs all ranks.
    """

    steering: Mapping[str, float]
    over: bool
    stop: BaseException | None = None
    counterpart: Callable[[], None] | None = None


class EpochCloser:
    """Ends the epochs of a run: measures each over all ranks, writes it, reports it and obeys the answer.

    Args:
        spec: what is measured.
        reporter: where the values go.
        params: what the run was given; None takes those of the reporter.
        directory: the trial's own; None writes nothing.
        fsync: see `EpochLog`.
        loggers: what follows the run beside its record.

    Attributes:
        state: where the run stands.
        stopped: the host's stop, had there been epochs left.
        stops: the exceptions that mean the host has stopped this run; on every rank those of the first.
        total: the epochs of the loop, or its steps; None before the loop begins.
        in_loop: whether the user's code is in the body of the loop.
        due: whether the open epoch ends with this pass of the body.
        ranks: the processes of the run.
        meter: measures the open epoch.
        progress: follows the optimized values.
        artifacts: the files of the run.
        keeps_checkpoints: whether checkpoints are stored, in the directory or by Ray Tune.
    """

    def __init__(
        self,
        spec: RunSpec,
        reporter: Reporter,
        params: Mapping[str, Any] | None,
        directory: Path | str | None,
        fsync: Fsync,
        loggers: Sequence[LoggerLike],
    ) -> None:
        self.state = RunState.NEW
        self.stopped: BaseException | None = None
        self.stops = reporter.stops
        self.total: int | None = None
        self._step: int | None = None  # how many are done at the end of the open epoch
        self.in_loop = self.due = False
        self.ranks = ranks = Ranks()
        home = Path(directory).absolute() if directory is not None and ranks.leads else None
        self.meter = EpochMeter(spec, ranks, keeps=home is not None)
        self.progress = Progress(spec)
        host: HostCheckpoints | None = getattr(reporter, "carried", None)
        self.keeps_checkpoints = (
            not (directory is None and host is None) and spec.checkpoints is not Keep.NONE
        )
        own_loggers = make_loggers(loggers if ranks.leads else (), home)
        self._loggers = Loggers(own_loggers) if own_loggers else None
        self.artifacts = Artifacts(home, fsync, Keep(spec.checkpoints), host if ranks.leads else None)
        self.meter.logged.begin = self.begin
        self._spec, self._steering = spec, spec.steering
        self._reporter, self._params = reporter, deepcopy(dict(params or {}))
        self._joint: Joint | None = getattr(reporter, "joint", None)
        self._at_epoch: Callable[..., None] | None = getattr(reporter, "at_epoch", None)
        self._keep_picked: Callable[..., None] | None = getattr(reporter, "keep_picked", None)
        self._checked_names: set[str] = set()
        self._created = self._epoch_began = time.perf_counter()
        self._seconds_before = 0.0  # of the epochs it goes on after
        self._checkpointed = False  # in the open epoch, on whichever rank
        self._picked_sent: int | None = None  # the epoch whose values the host keeps

    @property
    def params(self) -> Mapping[str, Any]:
        """The params that the run was given, or that its host has drawn so far."""
        return self._params or self._reporter.params or {}

    @property
    def complete(self) -> bool:
        """Whether no epoch is left of the loop."""
        history = self.progress.history
        return bool(history) and self._is_last(len(history), history[-1].step)

    def _is_last(self, count: int, step: int | None) -> bool:
        """Return whether so many epochs, with so many steps where they are counted, are all."""
        spec, done = self._spec, count if step is None else step
        total = self.total or (spec.epochs if step is None else spec.steps)
        return (total is not None and done >= total) or count == spec.reports

    @property
    def finished(self) -> bool:
        """Whether patience, the target or the time has ended the run."""
        return self.progress.ended_by is not None

    @property
    def seconds(self) -> float:
        """The seconds that the run has taken so far, before a restart included."""
        return self._seconds_before + time.perf_counter() - self._created

    def begin(self, verb: str) -> None:
        """Open an epoch, unless the last one is over.

        Raises:
            RunError: the last epoch is over; `verb` names the method of the run that was called.
        """
        if not self.in_loop:
            self.check_not_over(verb)
        self.state = RunState.OPEN

    def check_not_over(self, verb: str) -> None:
        """Check that an epoch is open or may follow; one that a break left open still counts.

        Raises:
            RunError: the last epoch is over.
        """
        if self.in_loop or self.state is RunState.OPEN or self.stopped is not None:
            return
        if self.state is RunState.ENDED or self.total is not None:
            raise RunError(
                f"run.{verb}(...) comes after the last epoch, whose values are already reported; move it "
                "into the loop, `for epoch in run.epochs(n):`"
            )

    def loop(self, total: int) -> Generator[int]:
        """Yield the number of each epoch that is left of `total`, and close it when its body ends.

        Raises:
            RunError: an earlier loop was over, and its host may have judged the run as a whole.
        """
        self._epoch_began = time.perf_counter()
        self.total = total
        if self.stopped is not None:  # whoever swallowed it gets it again
            raise self.stopped
        if self.meter.watches is not None:
            self.meter.watches.restart()
        over = self.complete or self.finished
        if self.state is RunState.ENDED and not over and self._reporter.stops:
            raise RunError(
                f"the last epoch of an earlier loop was reported as final, so none of {total} can follow it; "
                "loop once, over all of them"
            )
        while not over:
            self.in_loop = self.due = True
            try:
                yield len(self.progress.history)
            except GeneratorExit:  # an error in the loop, or a break
                self._send_picked()
                raise
            finally:  # a break ends the loop too; what it leaves open, `value` or `close` will close
                self.in_loop = self.due = False
            over = self.close_epoch(final=self._is_last(len(self.progress.history) + 1, self._step))

    def steps(self, total: int, every: int, size: int) -> Generator[int, int | None]:
        """Yield the step at which each pass of `size` begins, until `total`; every so many are an epoch.

        A number of steps that is sent ends the epoch there.

        Raises:
            RunError: the epochs before a restart have no steps.
        """
        history = self.progress.history
        done = history[-1].step if history else 0
        if done is None:
            raise RunError("this run has completed epochs; loop over run.epochs(), or use another directory")
        with closing(self.loop(total)) as epochs:
            for _ in epochs:
                end = min(total, (done // every + 1) * every)
                while done < end:
                    self._step = done + size
                    self.due = self._step >= end
                    sent = yield done
                    if sent is not None:
                        end = self._step = sent
                    done = self._step

    def copy_states(self, objects: dict[str, Stateful]) -> None:
        """Copy the states for the checkpoint of the open epoch.

        Raises:
            RunError: an object has no `state_dict`, or one that cannot be stored safely.
        """
        self.artifacts.hold(objects)
        self._checkpointed = self.keeps_checkpoints

    def resume(self, objects: Mapping[str, Stateful], keeps_state: bool = False) -> int:
        """Go on after the latest checkpoint; return the number of epochs already done.

        If the engine keeps its state itself, it goes on after the last epoch on disk.

        Raises:
            RunError: an epoch has begun already, or the checkpoint lacks one of the objects.
        """
        if self.progress.history or self.state is RunState.OPEN:
            raise RunError("call restore before the first epoch")
        stored, decision = self.ranks.from_first(partial(self._report_stored, keeps_state))
        if decision is None:
            return 0
        put_states(objects, stored.states, stored.adopted)
        if not self.ranks.leads:
            for record in stored.epochs:
                self._add_stored(record)
        if self.meter.watches is not None:
            self.meter.watches.go_on_after(stored.epochs[-1].values)
        self.artifacts.go_on(self.progress.picked)
        random = self.ranks.own_of(stored.random)
        if random is not None:
            set_random_states(random)
        if decision.counterpart is not None:
            self._report_jointly(decision.counterpart)
        self._obey(decision)
        return len(stored.epochs)

    def close_epoch(self, final: bool) -> bool:
        """Measure the epoch over all ranks; the first writes it, reports it to its host, and decides for all.

        Returns:
            Whether the run is over.

        Raises:
            BaseException: the host's stop.
        """
        if self.stopped is not None:  # whoever swallowed it gets it again
            raise self.stopped
        record, random = self._measure()
        self.state = RunState.BETWEEN
        if self.ranks.alone:  # as it was when the epoch was measured
            decision = self._lead(record, random, final)
        else:
            decision = self.ranks.from_first(lambda: self._lead(record, random, final))
            if not self.ranks.leads:
                self._follow(record, decision)
        if decision.counterpart is not None:
            self._report_jointly(decision.counterpart)
        self._checkpointed = False
        self._epoch_began = time.perf_counter()
        self._obey(decision)
        return decision.over

    def end_loggers(self, complete: bool) -> None:
        """Close the loggers, once; `complete` says whether the run has come to its end.

        Raises:
            DiskError, LoggerError: one of them fails.
        """
        loggers, self._loggers = self._loggers, None
        if loggers is not None:
            loggers.end(self._standing(complete))

    def release(self) -> None:
        """Close every file and hook, however the run has ended."""
        with ExitStack() as last:  # calls each, the last one first, whatever another raises
            last.callback(self.end_loggers, complete=False)
            last.callback(self.artifacts.close)
            if self.meter.watches is not None:
                last.callback(self.meter.watches.detach)
            if self._keep_picked is not None:
                last.callback(self._send_picked)

    def _report_stored(self, keeps_state: bool) -> tuple[Stored, Decision | None]:
        """Read the stored epochs and report them anew; the host may have stopped the run before."""
        artifacts, decision = self.artifacts, None
        stored = artifacts.read_written() if keeps_state else artifacts.read_stored()
        for record in stored.epochs:
            self._add_stored(record)
            decision = self._report(self._is_last(len(self.progress.history), record.step))
            if decision.stop is not None:
                break
        return replace(stored, epochs=tuple(self.progress.history)), decision

    def _add_stored(self, record: EpochRecord) -> None:
        """Add an epoch from before a restart; its seconds are the same on every rank."""
        self._seconds_before += record.seconds
        self.progress.take(record, self._seconds_before)

    def _measure(self) -> tuple[EpochRecord, list[Any]]:
        """Return the record of the open epoch, and the random states of every rank if it is checkpointed."""
        epoch, random = self.meter.close(self._checkpointed)
        seconds = round(time.perf_counter() - self._epoch_began, 6)
        if new := epoch.values.keys() - self._checked_names:
            _check_names(new)
            self._checked_names |= new
        for name, reason in epoch.reasons.items():
            epoch.reasons[name] = redacted(reason)
        number = len(self.progress.history)
        return EpochRecord(number, epoch.values, epoch.reasons, seconds, step=self._step), random

    def _lead(self, record: EpochRecord, random: list[Any], final: bool) -> Decision:
        """Write the record, the values by user and the checkpoint, then call the loggers and the host.

        In this order a run that is killed in between can resume.
        """
        progress, meter = self.progress, self.meter
        rows = meter.row_values.get(VALIDATION), meter.row_values.get(TEST)
        progress.take(self.artifacts.append(record, meter.statistics, *rows), self.seconds)
        self.artifacts.follow(record.epoch, progress.picked, meter, random)
        if self._loggers is not None:
            self._loggers.epoch(self._standing())
        return self._report(final)

    def _follow(self, record: EpochRecord, decision: Decision) -> None:
        """Add the epoch as the first rank has it."""
        self.progress.take(record.with_numbers(decision.steering), self.seconds)
        self.artifacts.follow(record.epoch, self.progress.picked, self.meter)

    def _report(self, final: bool) -> Decision:
        """Report the last epoch to the host."""
        progress, alone = self.progress, self.ranks.alone
        record = progress.history[-1]
        over = final or progress.ended_by is not None
        numbers = judgeable(record, (*self._spec.optimized, *self._spec.judged))
        stop = None
        if self._at_epoch is not None:
            self._at_epoch(record.epoch, record.step, progress.picked)
        try:
            self._reporter.report(record.epoch, progress.current, progress.value, numbers, over)
        except self._reporter.stops as err:
            stop = err if alone else sendable(err)
        if over or stop is not None:
            self._send_picked()
        steering = {} if alone else {name: numbers[name] for name in self._steering if name in numbers}
        counterpart = None if self._joint is None else self._joint.counterpart()
        return Decision(steering, over, stop, counterpart)

    def _report_jointly(self, counterpart: Callable[[], None]) -> None:
        """Make the reports that the host takes from all ranks at once."""
        if self._joint is not None and self.ranks.leads:
            self._joint.send()
        else:
            counterpart()

    def _send_picked(self) -> None:
        """Send the values of the picked epoch to a host that keeps them, once."""
        picked = self.progress.picked
        if self._keep_picked is not None and picked not in (None, self._picked_sent):
            self._keep_picked(picked, self.progress.history[picked].values, self.meter.targets)
            self._picked_sent = picked

    def _obey(self, decision: Decision) -> None:
        """Apply the decision of the first rank.

        Raises:
            BaseException: the host's stop.
        """
        self.state = RunState.ENDED if decision.over else RunState.BETWEEN
        if decision.stop is None:
            return
        self.stops = (*self._reporter.stops, type(decision.stop))
        if not decision.over:
            self.state, self.stopped = RunState.STOPPED, decision.stop
        raise decision.stop

    def _standing(self, complete: bool = False) -> Standing:
        return Standing(
            metric=self._spec.name,
            given=self.params,
            directory=self.artifacts.directory,
            history=self.progress.history,
            picks=self.progress.picks,
            impatience=self.progress.impatience,
            complete=complete,
        )


def _check_names(names: Iterable[str]) -> None:
    """Check that no name holds a secret: files have all names, and two redacted names would be one.

    Raises:
        RunError: with the name as it may be shown.
    """
    text = "\n".join(names)
    if redacted(text) == text:
        return
    for name in names:
        if redacted(name) != name:
            raise RunError(f"the name of a value contains a secret: {redacted(name)}; give it another name")
