"""Reporter protocols: where the values of each epoch go, and how a host stops a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..direction import Direction
from ..exceptions import RunError
from ..records.trial_record import Reading, TrialRecord
from ..selection.rules import judgeable

if TYPE_CHECKING:
    import optuna

    from .spec import RunSpec


class Reporter(Protocol):
    """A host as a run sees it.

    Attributes:
        number: the trial's number, if the host counts trials.
        params: the trial's params, if the host knows them.
        stops: the exceptions that mean the host has stopped this run.
    """

    number: int | None
    stops: tuple[type[BaseException], ...]

    @property
    def params(self) -> Mapping[str, Any] | None:
        """See above."""

    def check(self, optimized: Mapping[str, Direction]) -> None:
        """Check that the directions of a run are those of the host.

        Args:
            optimized: the direction of each metric that is optimized; values are reported of the first.

        Raises:
            DirectionError: they differ; both facts are named.
        """

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report one epoch; the host may then stop the run.

        Args:
            epoch: counted from 0.
            value: this epoch's value of the metric; nan where it has none.
            picked: the value of the picked epoch so far; nan before there is one.
            values: all values of this epoch that are one number, by name. An optimized metric that was
                not measured in this epoch is not among them; a host must not judge that epoch.
            final: no epoch follows, so there is nothing to stop.

        Raises:
            BaseException: one of `stops`, after the report is recorded.
        """


class Pause(BaseException):
    """A host pauses a trial, which continues in another process: its run is interrupted, not failed."""


class PickedReporter(Protocol):
    """A host that keeps the values of the picked epoch of a run, however that ends."""

    def keep_picked(self, epoch: int, values: Mapping[str, Reading], rows: str | None) -> None:
        """Keep the values of the picked epoch; a later call replaces them.

        Args:
            epoch: counted from 0.
            values: all values of that epoch, by name.
            rows: the digest of the validation rows, see `Run.targets`.
        """


class PlacedReporter(Protocol):
    """A host that is also interested in the steps of a run, or in which epoch is the picked one."""

    def at_epoch(self, epoch: int, step: int | None, picked: int | None) -> None:
        """Store the facts of an epoch whose report follows.

        Args:
            epoch: counted from 0.
            step: the number of steps that are done; None in a run that counts epochs alone.
            picked: the picked epoch so far; None before there is one.
        """


class DirectedReporter(Protocol):
    """A host that may search by any value of a run, not only by those that are optimized."""

    def check_tracked(self, directions: Mapping[str, Direction]) -> None:
        """Check that the host judges tracked values in their directions.

        Args:
            directions: of each requested or default value that has one, by name.

        Raises:
            DirectionError: they differ; both facts are named.
        """


class Joint(Protocol):
    """The attribute `joint` of a host that takes a report only from all ranks at once, as Ray Train does."""

    def counterpart(self) -> Callable[[], None] | None:
        """Return what each other rank calls while the first calls `send`; None where no report waits."""

    def send(self) -> None:
        """Make the reports that wait, on the first rank."""


@dataclass(frozen=True)
class Report:
    """One report as it was made; see `Reporter.report`."""

    epoch: int
    value: float
    picked: float
    values: Mapping[str, float]
    final: bool


@dataclass
class ListReporter:
    """Keeps the reports and never stops a run: for a list of params, a test, a notebook."""

    number: int | None = None
    params: Mapping[str, Any] | None = None
    reports: list[Report] = field(default_factory=list)
    stops: tuple[type[BaseException], ...] = ()

    def check(self, optimized: Mapping[str, Direction]) -> None:
        """Accept any direction: a list has none."""

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Keep the report."""
        self.reports.append(Report(epoch, value, picked, dict(values), final))


class HoldsLast:
    """Passes the reports of a run on to a host, but for the final one: after the run its trial goes on.

    Args:
        host: the host of the trial.
    """

    def __init__(self, host: Reporter) -> None:
        self._host = host
        self.number, self.stops = host.number, host.stops
        self.gpus = getattr(host, "gpus", None)

    @property
    def params(self) -> Mapping[str, Any] | None:
        """Those of the host."""
        return self._host.params

    def check(self, optimized: Mapping[str, Direction]) -> None:
        """Check the directions by the host; see `Reporter`."""
        self._host.check(optimized)

    def judge_by(self, judged: Mapping[str, Direction]) -> None:
        """Pass on, to a host that judges, the directions of the values to judge by."""
        if hasattr(self._host, "judge_by"):
            self._host.judge_by(judged)

    def at_epoch(self, epoch: int, step: int | None, picked: int | None) -> None:
        """Pass on the facts of an epoch, to a host that is interested in them."""
        if hasattr(self._host, "at_epoch"):
            self._host.at_epoch(epoch, step, picked)

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report an epoch that another follows; the host may stop the run."""
        if not final:
            self._host.report(epoch, value, picked, values, final)

    def release(self, record: TrialRecord, metric: str, *others: str) -> None:
        """Report the final epoch of a trial that is over, with its picked value; a stop is too late then.

        Args:
            record: the record of the trial.
            metric: the metric that is optimized, the first of several.
            others: the further ones, and the values by which a pruner judges.
        """
        last, picked = record.epochs[-1], math.nan if record.value is None else record.value
        with suppress(*self.stops):
            numbers = judgeable(last, (metric, *others))
            self._host.report(last.epoch, last.number(metric), picked, numbers, final=True)


def checked_spec(host: object, spec: RunSpec | None, facts: Mapping[str, Any]) -> RunSpec:
    """Return the spec of a run on this host, which a user passes whole or as its facts.

    Raises:
        RunError: there are both, or neither.
        HpometricsError: see `RunSpec`; the host may log it, as it does with the refusals of its own.
    """
    from .spec import RunSpec

    try:
        if spec is None and "metric" not in facts:
            raise RunError("a run needs its metric; pass metric= (and output=, ...), or spec=")
        if spec is not None and facts:
            raise RunError("pass either spec= or its parts (metric=, output=, ...) to a run, not both")
        return spec or RunSpec(**facts)
    except Exception as err:
        reporter = as_reporter(host)
        if hasattr(reporter, "refuse"):
            cast(Any, reporter).refuse(err)
        raise


def checked_reporter(host: object, spec: RunSpec) -> Reporter:
    """Return a reporter for what a user has in hand that takes the values of runs of this spec.

    Raises:
        RunError: see `as_reporter`.
        DirectionError: the host searches in another direction than the metric's.
        ConfigError: the host has no pruner for `prune_by`.
    """
    reporter = as_reporter(host)
    reporter.check(spec.optimized)
    if hasattr(reporter, "check_tracked"):  # an instance check of a protocol takes as long as ten reports
        cast(DirectedReporter, reporter).check_tracked(spec.directions)
    if spec.judged and hasattr(reporter, "judge_by"):
        cast(Any, reporter).judge_by(spec.judged)
    return reporter


def as_reporter(host: object) -> Reporter:
    """Return a reporter for what a user has in hand: None, a reporter, or an Optuna trial.

    Raises:
        RunError: it is none of these.
    """
    if host is None:
        return ListReporter()
    if hasattr(host, "stops"):  # isinstance of a protocol takes as long as ten reports
        return cast(Reporter, host)
    if any(base.__module__.startswith("optuna.trial") for base in type(host).__mro__):
        from ..backends.optuna.reporter import OptunaReporter  # the trial has loaded optuna already

        return OptunaReporter(cast("optuna.trial.BaseTrial", host))
    raise RunError(f"a run must report to an Optuna trial or a Reporter, got {type(host).__name__}")
