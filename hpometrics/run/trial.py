"""A trial: one run of the user's train function, under the same conditions on every backend."""

from __future__ import annotations

import platform
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from ..exceptions import DiskError, NoFiniteValueError, RecordError, RunError
from ..logs.loggers import LoggerLike, check_logger
from ..metrics.ranks import process
from ..redaction import redacted
from ..search.constraints import judged
from ..search.epoch_log import Fsync, read_trial
from ..search.record import TrialRecord, TrialState, write_trial
from ..search.reporter import Reporter
from ..search.seeds import derive_seed
from ..search.space import Space
from ..search.values import check_json
from .checkpoint import seed_all
from .run import Run
from .spec import RunSpec, Train, engine_facts

ERROR_FILE = "error.txt"
_AT_WORK = threading.Lock()  # held by a trial while it trains
_EXITS = (SystemExit, GeneratorExit)  # of a trial they are a failure like any other


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
        DiskError: what it records cannot be written.
        KeyboardInterrupt: recorded as interrupted, then passed on. `sys.exit` in `train` is a failure.
    """
    record, error = attempt(
        train, params, spec, reporter, directory=directory, seed=seed, fsync=fsync, loggers=loggers
    )
    if error is not None and not record.state.finished:
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
) -> tuple[TrialRecord, BaseException | None]:
    """Run a trial as `run_trial` does and return beside its record what ended it, for hosts that raise it.

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
    )
    directory = directory if process() == 0 else None  # in a process group the first rank writes
    _begin(directory, record)
    began = time.perf_counter()
    make_run = partial(
        Run, reporter, spec=spec, directory=directory, params=record.params, fsync=fsync, loggers=loggers
    )
    with _conditions(seed, spec.threads):
        run, error = _trained(train, deepcopy(dict(params)), make_run)
    stops = reporter.stops if run is None else run.stops
    failure = _failure(run, error, stops)
    seconds = round(time.perf_counter() - began, 6)
    ended = replace(record, seconds=seconds, **_ending(run, failure, stops))
    record = judged(ended, spec.bounds)
    if directory is not None:
        _keep(directory, record, run, error)
    if isinstance(failure, _EXITS) and record.state is TrialState.FAILED:
        exited = RunError(f"train ended its trial by an exit: {_told(failure)}")
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
    """

    train: Train
    spec: RunSpec
    directory: Path | None = None
    seed: int | None = None
    fsync: Fsync = "epoch"
    loggers: Sequence[LoggerLike] = ()

    def directory_of(self, number: int) -> Path | None:
        """Return where a trial's record and checkpoints are."""
        return None if self.directory is None else self.directory / "trials" / f"{number:04d}"

    def seed_of(self, number: int) -> int | None:
        """Return the seed of a trial."""
        return None if self.seed is None else derive_seed(self.seed, number)

    def run(
        self, params: Mapping[str, Any], reporter: Reporter, keep: bool = True
    ) -> tuple[TrialRecord, BaseException | None]:
        """Run the trial that the reporter stands for; without a number, or unless `keep`, nothing is kept."""
        number = reporter.number or 0
        kept = keep and reporter.number is not None
        return attempt(
            self.train,
            params,
            self.spec,
            reporter,
            directory=self.directory_of(number) if kept else None,
            seed=self.seed_of(number),
            fsync=self.fsync,
            loggers=self.loggers if kept else (),
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
) -> Trials:
    """Settle the facts of a search: those given, and those that `@engine` put on the function.

    `params` are all that a trial may be given, each with the values it can have; none of a range.

    Raises:
        RunError: no metric is given.
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
    return Trials(train, spec, home, seed, fsync, tuple(loggers))


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


@cache
def versions() -> Mapping[str, str]:
    """Return the versions that a value depends on; of the hosts, those that are loaded."""
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    for host in ("optuna", "ray"):
        if host in sys.modules:
            found[host] = str(sys.modules[host].__version__)
    return found


def _begin(directory: Path | None, record: TrialRecord) -> None:
    if directory is None:
        return
    check_json(record.params)
    earlier = read_trial(directory)
    if earlier is not None and earlier.params != record.params:
        raise RecordError(f"{directory} is the trial with {dict(earlier.params)}, not {dict(record.params)}")
    write_trial(directory, record)


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
    """Write what is left of a trial: its record, what stands beside it, the traceback of a failure."""
    write_trial(directory, record)
    if run is not None and record.state.finished:
        run.export_per_user()
        run.export_examples()
    if error is not None and record.state is TrialState.FAILED:
        text = "".join(traceback.format_exception(error))
        (directory / ERROR_FILE).write_text(redacted(text), encoding="utf8")


@contextmanager
def _conditions(seed: int | None, threads: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    alone = _AT_WORK.acquire(blocking=False)
    if seed is not None:
        if not alone:
            _warn_shared()
        seed_all(seed)
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        if alone:
            _AT_WORK.release()


@cache  # once per process
def _warn_shared() -> None:
    warnings.warn(
        "seeded trials overlap in this process and share its random streams, so the seed does not repeat "
        "them; leave n_jobs= at 1 and start several processes",
        RuntimeWarning,
        stacklevel=1,  # the caller is a pool of the host
    )


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
    if run is not None and run.best_epoch is not None:
        ending["epoch"], ending["checkpoint"] = run.best_epoch, run.best_checkpoint
        ending["value"] = run.history[run.best_epoch].number(run.spec.name)
    return ending


def _state_of(error: BaseException | None, stops: tuple[type[BaseException], ...]) -> TrialState:
    if error is None:
        return TrialState.COMPLETE
    if isinstance(error, stops):
        return TrialState.PRUNED
    fault = isinstance(error, (Exception, *_EXITS)) and not isinstance(error, DiskError)
    return TrialState.FAILED if fault else TrialState.INTERRUPTED


def _told(error: BaseException) -> str:
    text = redacted(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
