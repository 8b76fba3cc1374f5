"""A trial: one run of the user's train function, under the same conditions on every backend."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..exceptions import NoFiniteValueError, RecordError, RunError
from ..logs.loggers import LoggerLike, check_logger
from ..metrics.ranks import process
from ..search.constraints import judged
from ..search.course import Course
from ..search.epoch_log import Fsync, read_trial
from ..search.record import TrialRecord, TrialState, write_trial
from ..search.reporter import HoldsLast, ListReporter, Reporter, last_report
from ..search.seeds import derive_seed
from ..search.space import Space
from ..search.values import check_json
from .conditions import conditions, versions
from .ranks import Ranks
from .run import Run
from .spec import RunSpec, Train, engine_facts

ERROR_FILE = "error.txt"
REPEATS = "repeats"


def run_trial(
    train: Train,
    params: Mapping[str, Any],
    spec: RunSpec,
    reporter: Reporter,
    *,
    directory: Path | None = None,
    seed: int | None = None,
    fsync: Fsync = "epoch",
    loggers: Sequence[LoggerLike] = (),
) -> TrialRecord:
    """Run `train(params, run)` once and return how it went; an exception in it becomes a failed record.

    Args:
        train: the user's; it gets a copy of the params.
        params: as they are recorded.
        spec: what is measured.
        reporter: the host of this trial.
        directory: the trial's own; a run that was killed there goes on if `train` restores it.
        seed: of python, numpy and torch; None leaves them as they are.
        fsync: see `EpochLog`.
        loggers: see `Run`.

    Raises:
        RecordError: the directory belongs to other params.
        SpaceError: the params cannot be written down as JSON.
        KeyboardInterrupt: recorded as interrupted, then passed on. `sys.exit` in `train` is a failure.
    """
    record, error = attempt(
        train, params, spec, reporter, directory=directory, seed=seed, fsync=fsync, loggers=loggers
    )
    if error is not None and not isinstance(error, (Exception, *reporter.stops)):
        raise error
    return record


def attempt(
    train: Train,
    params: Mapping[str, Any],
    spec: RunSpec,
    reporter: Reporter,
    *,
    directory: Path | None = None,
    seed: int | None = None,
    fsync: Fsync = "epoch",
    loggers: Sequence[LoggerLike] = (),
    trial: TrialRecord | None = None,
    stands: Callable[[TrialRecord], TrialRecord] | None = None,
) -> tuple[TrialRecord, BaseException | None]:
    """Run a trial as `run_trial` does and return beside its record what ended it, for hosts that raise it.

    Where the trial may be more than this run, `trial` is what it was before, and `stands` gives what it is
    after the run; its record is written in the place of that of the run.

    Raises:
        RecordError, SpaceError: as `run_trial`.
    """
    record = TrialRecord(
        number=reporter.number or 0,
        params=deepcopy(dict(params)),
        state=TrialState.RUNNING,
        seed=seed,
        threads=spec.threads or torch.get_num_threads(),
        started=datetime.now(UTC).replace(microsecond=0),
        versions=versions(),
        failed_attempts=() if trial is None else trial.failed_attempts,
    )
    directory = directory if process() == 0 else None  # in a process group the first rank writes
    _begin(directory, record)
    began = time.perf_counter()
    make_run = partial(
        Run, reporter, spec=spec, directory=directory, params=record.params, fsync=fsync, loggers=loggers
    )
    with conditions(seed, spec.threads):
        run, error = _trained(train, deepcopy(dict(params)), make_run)
    stops = reporter.stops if run is None else run.stops
    failure = _failure(run, error, stops)
    seconds = round(time.perf_counter() - began, 6)
    ended = replace(record, seconds=seconds, **_ending(run, failure, stops))
    record = judged(ended, spec.bounds)
    if directory is not None:
        write_trial(directory, record if stands is None else stands(record))
        _keep(directory, record, run, error)
    if isinstance(failure, SystemExit) and record.state is TrialState.FAILED:
        exited = RunError(f"train ended its trial by sys.exit: {_told(failure)}")
        exited.__cause__ = failure
        return record, exited  # an exit would end the host's process, not the trial
    return record, failure or error


@dataclass(frozen=True)
class Trials:
    """What all trials of a search have in common; each backend runs its trials through it.

    Args:
        train: `train(params, run)`.
        spec: what is measured.
        directory: the search's own; trial 7 gets `trials/0007` below it. None keeps nothing on disk.
        seed: trial n is seeded with `derive_seed(seed, n)`; None seeds nothing.
        fsync: see `EpochLog`.
        loggers: see `Run`; a trial of which nothing is kept has none.
        repeats: runs of each trial. Repeat r of trial n is seeded with `derive_seed(seed, n, r)`; the value
            of the trial is the mean. The host is told the epochs of the first repeat, so a pruner judges
            that one alone; a trial that it stops has no other.
        retries: how often, in all, a trial is tried again where a run of it fails: under the same seed, and
            from its last checkpoint if `train` restores it.

    Raises:
        RunError: there are no such numbers of repeats and retries.
    """

    train: Train
    spec: RunSpec
    directory: Path | None = None
    seed: int | None = None
    fsync: Fsync = "epoch"
    loggers: Sequence[LoggerLike] = ()
    repeats: int = 1
    retries: int = 0
    course: Course = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "course", Course(self.repeats, self.retries, self.spec.bounds))

    def directory_of(self, number: int) -> Path | None:
        """Return where a trial's record and checkpoints are."""
        return None if self.directory is None else self.directory / "trials" / f"{number:04d}"

    def seed_of(self, number: int, repeat: int = 0) -> int | None:
        """Return the seed of a repeat of a trial."""
        return None if self.seed is None else derive_seed(self.seed, number, repeat)

    def run(
        self, params: Mapping[str, Any], reporter: Reporter, keep: bool = True
    ) -> tuple[TrialRecord, BaseException | None]:
        """Run the trial that the reporter stands for; without a number, or unless `keep`, nothing is kept.

        A trial that was interrupted goes on with the repeat that it was at.
        """
        home = self.directory_of(reporter.number) if keep and reporter.number is not None else None
        trial = None if home is None else Ranks().from_first(lambda: _unfinished(home, params))
        host = HoldsLast(reporter) if self.repeats > 1 else None
        while True:
            record, error = self._run_one(params, host or reporter, trial, home)
            trial = self.course.after(trial, record)
            if trial.repeats and home is not None and process() == 0:
                write_trial(home, trial)
            if trial.state is not TrialState.RUNNING:
                break
        if host is not None and trial.state in (TrialState.COMPLETE, TrialState.INFEASIBLE):
            host.release(last_report(trial, self.spec.name))
        return trial, error

    def _run_one(
        self, params: Mapping[str, Any], host: Reporter, trial: TrialRecord | None, home: Path | None
    ) -> tuple[TrialRecord, BaseException | None]:
        """Run the repeat that is next, or the one that has failed; the first one in the trial's directory."""
        repeat = 0 if trial is None else len(trial.repeats)
        number = host.number or 0
        first = repeat == 0
        return attempt(
            self.train,
            params,
            self.spec,
            host if first else ListReporter(number, params),
            directory=home if first or home is None else home / REPEATS / str(repeat),
            seed=self.seed_of(number, repeat),
            fsync=self.fsync,
            loggers=() if home is None else self.loggers,
            trial=trial if first else None,
            stands=partial(self.course.after, trial) if first else None,
        )

    def with_epochs(self, record: TrialRecord) -> TrialRecord:
        """Return a host's record completed by what the trial itself wrote on disk."""
        directory = self.directory_of(record.number)
        written = None if directory is None else read_trial(directory)
        if written is None:
            seed = self.seed_of(record.number) if record.seed is None else record.seed
            return replace(record, seed=seed, threads=record.threads or self.spec.threads)
        return replace(written, state=record.state, reason=record.reason or written.reason)


def make_trials(
    train: Train,
    directory: Path | str | None,
    seed: int | None,
    fsync: Fsync,
    loggers: Sequence[LoggerLike],
    facts: Mapping[str, Any],
    params: Mapping[str, Sequence[Any]],
    repeats: int = 1,
    retries: int = 0,
) -> Trials:
    """Settle the facts of a search: those given, and those that `@engine` put on the function.

    `params` are all that a trial may be given, each with the values it can have; none of a range.

    Raises:
        RunError: no metric is given, or no number that makes sense.
        ConfigError, MissingExtraError: a logger does not exist, or its package is not installed.
        HpometricsError: what `train` itself says against the search.
    """
    known = {**engine_facts(train), **{name: fact for name, fact in facts.items() if fact is not None}}
    if "metric" not in known:
        raise RunError("what is optimised? metric= takes a name, a Metric or Reported(name, objective)")
    home = None if directory is None else Path(directory).absolute()
    for logger in loggers:
        check_logger(logger, home)
    spec = RunSpec(**known)
    check_search(train, spec, params)
    return Trials(train, spec, home, seed, fsync, tuple(loggers), repeats, retries)


def check_search(train: Train, spec: RunSpec, params: Mapping[str, Sequence[Any]]) -> None:
    """Let a train function that knows its params refuse before the first trial what would fail in every one.

    It does so by a method of this name; a plain function knows nothing.

    Raises:
        HpometricsError: it does.
    """
    check = getattr(train, "check_search", None)
    if check is not None:
        check(spec, params)


def as_space(space: Space | Mapping[str, Any]) -> Space:
    """Return a space for a space or the mapping that makes one."""
    return space if isinstance(space, Space) else Space(space)


def _begin(directory: Path | None, record: TrialRecord) -> None:
    if directory is None:
        return
    check_json(record.params)
    _earlier(directory, record.params)
    write_trial(directory, record)


def _earlier(directory: Path, params: Mapping[str, Any]) -> TrialRecord | None:
    """Read what an earlier process wrote of a trial.

    Raises:
        RecordError: it is one with other params.
    """
    earlier = read_trial(directory)
    if earlier is not None and earlier.params != params:
        raise RecordError(f"{directory} is the trial with {dict(earlier.params)}, not {dict(params)}")
    return earlier


def _unfinished(home: Path, params: Mapping[str, Any]) -> TrialRecord | None:
    """Take up a trial that goes on, if it does."""
    earlier = _earlier(home, params)
    if earlier is None or earlier.state.finished:
        return None
    trial = replace(earlier, state=TrialState.RUNNING, reason=None)
    if trial.repeats:
        write_trial(home, trial)
    return trial


def _trained(
    train: Train, params: dict[str, Any], make_run: Callable[[], Run]
) -> tuple[Run | None, BaseException | None]:
    """Train, and return the run, once it could be made, with what ended it too early."""
    run = None
    try:
        run = make_run()
        with run:
            train(params, run)
    except BaseException as err:  # every end is recorded; the caller decides what goes on
        return run, err
    return run, None


def _keep(directory: Path, record: TrialRecord, run: Run | None, error: BaseException | None) -> None:
    """Write what stands beside the record of a run, and the traceback of a failure."""
    if run is not None and record.state.finished:
        run.export_per_user()
        run.export_examples()
    if error is not None and record.state is TrialState.FAILED:
        text = "".join(traceback.format_exception(error))
        (directory / ERROR_FILE).write_text(text, encoding="utf8")


def _failure(
    run: Run | None, error: BaseException | None, stops: tuple[type[BaseException], ...]
) -> BaseException | None:
    """Return why a trial is not complete: what was raised, a stop that `train` swallowed, no value."""
    stopped_after_all = run is not None and run.ended and isinstance(error, stops)
    if error is not None and not stopped_after_all:
        return error
    if run is None or run.stopped is not None:
        return run.stopped if run else None
    try:
        run.value  # noqa: B018  # a run without a value has failed
    except NoFiniteValueError as err:
        return err
    return None


def _ending(
    run: Run | None, failure: BaseException | None, stops: tuple[type[BaseException], ...]
) -> dict[str, Any]:
    """Return what the end of a trial adds to its record."""
    state = _state_of(failure, stops)
    reason = None if failure is None else str(failure) if state is TrialState.PRUNED else _told(failure)
    ending: dict[str, Any] = {"state": state, "reason": reason, "epochs": run.history if run else ()}
    ending["ended_by"] = run.ended_by if run is not None and failure is None else None
    if run is not None and run.best_epoch is not None:
        ending["epoch"], ending["checkpoint"] = run.best_epoch, run.best_checkpoint
        ending["value"] = run.history[run.best_epoch].number(run.spec.name)
    return ending


def _state_of(error: BaseException | None, stops: tuple[type[BaseException], ...]) -> TrialState:
    if error is None:
        return TrialState.COMPLETE
    if isinstance(error, stops):
        return TrialState.PRUNED
    return TrialState.FAILED if isinstance(error, (Exception, SystemExit)) else TrialState.INTERRUPTED


def _told(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
