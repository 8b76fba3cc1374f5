"""Run the user's train function for one trial, under the same conditions on every backend."""

from __future__ import annotations

import math
import os
import platform
import re
import sys
import sysconfig
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

import torch

from .._imports import installed_versions, same_folder
from .._redaction import excerpt, format_error, redacted
from .._text import did_you_mean, lacks_memory, text_of
from ..exceptions import (
    DiskError,
    NewerFormatError,
    NoFiniteValueError,
    ProgramEndError,
    ProgramError,
    RecordError,
    RunError,
)
from ..loggers.registry import LoggerLike
from ..metrics._device import process
from ..records._files import writing
from ..records.epoch_log import Fsync, read_trial
from ..records.trial_record import Exploit, TrialRecord, TrialState, write_trial
from ..selection.trial_attempts import apply_constraints
from ..space.values import check_json
from .checkpoint import seed_all
from .logged_values import is_idle
from .reporter import Pause, Reporter
from .run import Run
from .spec import RunSpec, Train

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_OURS = str(Path(__file__).parent.parent) + os.sep
_INSTALLED = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("purelib", "platlib"))
_PYTHON = (f"{sysconfig.get_path('stdlib')}{os.sep}", "<frozen")
_NUMBER = re.compile(r"(?<!exit code )(?<!\w)[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)\b", re.I)
_AT_WORK = threading.Lock()  # held by a trial while it trains

ERROR_FILE = "error.txt"


def versions(numbered: bool) -> Mapping[str, str]:
    """Return the versions that a value depends on; of the hosts, those that are loaded or draw its params.

    Args:
        numbered: whether the host counts trials, as a study does; your own Tuner does not.
    """
    result = {"python": platform.python_version(), "torch": str(torch.__version__)}
    for host in ("optuna", "ray"):
        if host in sys.modules:
            result[host] = str(sys.modules[host].__version__)
    if numbered and "ray" in result and "optuna" not in result:  # it draws the params, and no worker loads it
        result["optuna"] = installed_versions()["optuna"]
    return result


@cache  # once per process
def machine() -> str | None:
    """Return the name of this machine and what identifies its last start; None where the system has none."""
    try:
        return f"{platform.node()} {_BOOT_ID.read_text(encoding='ascii').strip()}"
    except (OSError, ValueError):
        return None


@contextmanager
def conditions(seed: int | None, threads: int | None) -> Iterator[None]:
    """Train in this context under a seed and with so many threads; None leaves each as it is.

    Afterwards the current folder and the number of threads are restored.
    """
    before = torch.get_num_threads()
    alone = _AT_WORK.acquire(blocking=False)
    try:
        with same_folder() if alone else nullcontext():
            if seed is not None:
                if not alone:
                    _warn_shared()
                seed_all(seed)
            if threads is not None:
                torch.set_num_threads(threads)
            try:
                yield
            finally:
                if torch.get_num_threads() != before:
                    torch.set_num_threads(before)
    finally:
        if alone:
            _AT_WORK.release()


@cache  # once per process
def _warn_shared() -> None:
    warnings.warn(
        "seeded trials overlap in this process and share its random streams, so the seed cannot reproduce "
        "them; leave n_jobs= at 1 and start several processes",
        RuntimeWarning,
        stacklevel=1,  # the caller is a pool of the host
    )


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
        directory: the trial's own; a run that was killed there resumes if `train` restores it.
        seed: of python, numpy and torch; None leaves them as they are.
        fsync: see `EpochLog`.
        loggers: see `Run`.

    Raises:
        RecordError: the directory belongs to other params.
        SpaceError: the params cannot be written down as JSON.
        DiskError: what it records cannot be written.
        KeyboardInterrupt: recorded as interrupted, then passed on. All else that `train` raises is a failure,
            `sys.exit` and other BaseExceptions included.
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
    trial: TrialRecord | None = None,
    record_after: Callable[[TrialRecord], TrialRecord] | None = None,
    exploits: Sequence[Exploit] = (),
) -> tuple[TrialRecord, BaseException | None]:
    """Run a trial as `run_trial` does and return beside its record what ended it, for hosts that raise it.

    If a trial has several runs, `trial` is its record before this one, and `record_after` returns its record
    after it, which is written instead of that of the run. `exploits` have changed its params.

    Raises:
        RecordError, SpaceError: as `run_trial`.
    """
    trial_record = _record_at_start(params, spec, reporter, seed, exploits)
    if trial is not None:
        trial_record = replace(trial_record, failed_attempts=trial.failed_attempts)
    leads = process() == 0  # in a process group the first rank writes
    directory = directory.absolute() if directory is not None and leads else None
    if directory is not None:
        check_json(trial_record.params)
        earlier_trial(directory, trial_record.given)
        earlier = 0.0 if trial is None else trial.seconds  # for whoever goes on if this process is killed
        # its place is on disk with the first epoch
        write_trial(directory, replace(trial_record, seconds=earlier), last=False)
    make_run = partial(
        Run,
        reporter,
        spec=spec,
        directory=directory,
        params=trial_record.params,
        seed=seed,
        fsync=fsync,
        loggers=loggers,
    )
    record, run, error, failure = _run_once(train, trial_record, spec, reporter, make_run)
    if directory is not None:
        write_trial(directory, record if record_after is None else record_after(record))
        _keep(directory, record, run, error)
    if failure is not None and record.state is TrialState.FAILED and not _can_be_raised(failure):
        return record, _passed_on(failure)
    return record, failure or error


def _record_at_start(
    params: Mapping[str, Any],
    spec: RunSpec,
    reporter: Reporter,
    seed: int | None,
    exploits: Sequence[Exploit],
) -> TrialRecord:
    """Return the record of a run that begins now."""
    return TrialRecord(
        number=reporter.number or 0,
        params=deepcopy(dict(params if not exploits else exploits[-1].params)),
        first_params=deepcopy(dict(params)) if exploits else None,
        exploits=tuple(exploits),
        state=TrialState.RUNNING,
        seed=seed,
        threads=spec.threads or torch.get_num_threads(),
        started=datetime.now(UTC).replace(microsecond=0),
        versions=versions(numbered=reporter.number is not None),
        machine=machine(),
        gpus=_gpu_count(reporter),
    )


def _gpu_count(reporter: Reporter) -> float:
    """Return the number of GPUs of this process: those its host lends it, also a fraction, or all it sees."""
    lent: float | None = getattr(reporter, "gpus", None)
    return torch.cuda.device_count() if lent is None else lent


def earlier_trial(directory: Path, params: Mapping[str, Any]) -> TrialRecord | None:
    """Read what an earlier process wrote of a trial.

    Raises:
        RecordError: that trial has other params.
    """
    earlier = read_trial(directory)
    if earlier is not None and earlier.given != params:
        raise RecordError(
            f"{directory} is the trial with {dict(earlier.given)}, not {dict(params)}: another seed, space "
            "or sampler drew it; use another directory for this search, or the seed and space of that trial"
        )
    return earlier


def _run_once(
    train: Train, trial_record: TrialRecord, spec: RunSpec, reporter: Reporter, make_run: Callable[[], Run]
) -> tuple[TrialRecord, Run | None, BaseException | None, BaseException | None]:
    """Train under the conditions of a trial.

    Returns:
        Its record, the run if it could be created, what was raised, and why the trial is not complete.
    """
    since = time.perf_counter()
    with conditions(trial_record.seed, spec.threads):
        run, error = _train(train, trial_record, spec, make_run)
    stops = reporter.stops if run is None else run.stops
    failure = _failure(run, error, stops)
    seconds = round(time.perf_counter() - since, 6)
    ending = _ending(run, failure, stops)
    if (hint := _params_hint(error, trial_record.params)) and error is not None:
        error.add_note(hint)
        ending["reason"] = f"{ending['reason']}; {hint}"
    ending["params"] = trial_record.params_at(ending.get("epoch"))
    final = replace(trial_record, seconds=seconds, ended=datetime.now(UTC), **ending)
    return apply_constraints(final, spec.bounds), run, error, failure


def _train(
    train: Train, trial_record: TrialRecord, spec: RunSpec, make_run: Callable[[], Run]
) -> tuple[Run | None, BaseException | None]:
    """Train, and return the run, once it could be made, with what ended it too early."""
    run = None
    try:
        if spec.unit.name == "gpu_seconds" and not trial_record.gpus:
            raise RunError(
                "cost_unit is gpu_seconds, but the process of the trial has no GPU; choose seconds"
            )
        run = make_run()
        with run:
            returned = train(deepcopy(dict(trial_record.params)), run)
        if returned is not None and not run.history:
            _refuse(returned, run.spec.name)
    except BaseException as err:  # every end is recorded; the caller decides what goes on
        return run, err
    return run, None


def _refuse(returned: Any, metric: str) -> NoReturn:
    """Raise the error for a value that train has returned although it has reported no epoch.

    Raises:
        RunError: always.
    """
    if isinstance(returned, (Generator, Coroutine)):
        what = "a generator" if isinstance(returned, Generator) else "a coroutine"
        returned.close()
        raise RunError(
            f"train is {what}, so its body did not run; write train(params, run) without yield or async"
        )
    raise RunError(
        f"train reported no epoch and returned {excerpt(repr(returned), 80)}, but no returned value is used; "
        f"report {metric} by run.log(...), or call run.update(...), which measures it"
    )


def _keep(directory: Path, record: TrialRecord, run: Run | None, error: BaseException | None) -> None:
    """Write what stands beside the record of a run, and the traceback of a failure."""
    if run is not None and record.state.finished:
        run.export_per_user()
        run.export_examples()
    if error is not None and record.state is TrialState.FAILED:
        text = "".join(traceback.format_exception(error))
        with writing(directory / ERROR_FILE):
            (directory / ERROR_FILE).write_text(redacted(text), encoding="utf8", errors="backslashreplace")


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
    cost = run.spec.unit.logged
    if cost is None:
        return None
    costs = [epoch.number(cost) for epoch in run.history]
    if negative := [value for value in costs if value < 0]:
        return NoFiniteValueError(
            f"its cost is the logged value {cost}, which must be at least 0 in each epoch; got "
            f"{negative[0]:g}"
        )
    if not _lacks_cost(run):
        return None
    return NoFiniteValueError(
        f"its cost is the logged value {cost}, which no epoch has; call run.log({cost}=...) in each epoch"
    )


def _lacks_cost(run: Run) -> bool:
    """Return whether the cost of a trial is a logged value that no epoch has."""
    cost = run.spec.unit.logged
    return cost is not None and not any(math.isfinite(epoch.number(cost)) for epoch in run.history)


def _ending(
    run: Run | None, failure: BaseException | None, stops: tuple[type[BaseException], ...]
) -> dict[str, Any]:
    """Return what the end of a trial adds to its record."""
    state = _state_of(failure, stops)
    pruned = state is TrialState.PRUNED
    reason = None if failure is None else redacted(text_of(failure)) if pruned else format_error(failure)
    ending: dict[str, Any] = {"state": state, "reason": reason, "epochs": run.history if run else ()}
    ending["ended_by"] = run.ended_by if run is not None and failure is None else None
    ending["targets"] = None if run is None else run.targets
    if state is TrialState.FAILED and failure is not None:
        ending["fault"] = _fault(failure, run)
    if run is not None and run.best_epoch is not None:
        ending["epoch"], ending["checkpoint"] = run.best_epoch, run.best_checkpoint
        ending["value"] = run.history[run.best_epoch].number(run.spec.name)
    return ending


def _fault(failure: BaseException, run: Run | None) -> str | None:
    """Return what identifies an error before the first epoch, its type and place; or a cost without a value.

    None if it may be of this trial alone: a later epoch, a lack of memory, a program that a signal ended.
    An error without a line of the user has its message without numbers, as of a returned value.
    """
    if run is not None and run.history and isinstance(failure, NoFiniteValueError) and _lacks_cost(run):
        return f"{run.spec.unit.logged} is never logged"
    if (run is not None and not is_idle(run.history, run.spec.optimized)) or _may_be_luck(failure):
        return None
    frame = failing_frame(failure)
    if frame is None:
        return excerpt(_NUMBER.sub("#", format_error(failure).partition("\n")[0]), 200)
    return redacted(f"{type(failure).__name__} at {frame.filename}:{frame.lineno}")


def _may_be_luck(error: BaseException | None) -> bool:
    """Return whether an error, or one that caused it, may spare a trial with other params."""
    if error is None:
        return False
    return lacks_memory(error) or isinstance(error, ProgramEndError) or _may_be_luck(error.__cause__)


def failing_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the line of the user's code that raised an error, or that called what raised it.

    It is the last one in neither this package nor an installed one, else the last one in an installed one.
    """
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(_OURS)]
    installed = [one for one in frames if one.filename.startswith(_INSTALLED)]
    own = [one for one in frames if one not in installed and not one.filename.startswith(_PYTHON)]
    return next(iter([*installed, *own][::-1]), None)


def _params_hint(error: BaseException | None, params: Mapping[str, Any]) -> str:
    """Return the names that exist if an error is the KeyError of `params["name"]`, else an empty text."""
    if not isinstance(error, KeyError) or not error.args or error.args[0] in params:
        return ""
    line = (traceback.extract_tb(error.__traceback__)[-1].line or "").replace(" ", "")
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    owner = getattr(frame.f_locals.get("self"), "__dict__", {})
    places = {**frame.f_locals, **{f"self.{name}": value for name, value in owner.items()}}
    holders = [
        name for name, value in places.items() if isinstance(value, Mapping) and value.keys() >= {*params}
    ]
    if not any(f"{name}[" in line or f"{name}.pop(" in line for name in holders):
        return ""
    there = ", ".join(map(str, params)) or "none"
    return f"the params are {there}{did_you_mean(error.args[0], map(str, params))}"


def _can_be_raised(failure: BaseException) -> bool:
    """Check whether a host can raise the failure of a trial: catch it as an Exception, and print it."""
    try:
        str(failure), repr(failure)
    except Exception:  # the user's own code
        return False
    return isinstance(failure, Exception)


def _passed_on(failure: BaseException) -> RunError:
    """Return what stands for a failure that would end the host's process, or that it could not print."""
    kinds = {SystemExit: "an exit", GeneratorExit: "an exit"}
    # Rust's panic, whose class PyO3 creates anew in each extension module
    is_panic = type(failure).__module__ == "pyo3_runtime" and not isinstance(failure, Exception)
    what = "a panic of compiled code" if is_panic else kinds.get(type(failure), "an exception")
    passed_on = RunError(f"train ended its trial with {what}: {format_error(failure)}")
    passed_on.__cause__ = failure
    return passed_on


def _state_of(error: BaseException | None, stops: tuple[type[BaseException], ...]) -> TrialState:
    if error is None:
        return TrialState.COMPLETE
    if isinstance(error, stops):
        return TrialState.PRUNED
    goes_on_later = (DiskError, NewerFormatError, ProgramError, KeyboardInterrupt, Pause)
    return TrialState.INTERRUPTED if isinstance(error, goes_on_later) else TrialState.FAILED
