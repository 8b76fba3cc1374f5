"""The `worker` command: a process that joins a sweep and works on its trials until none is left."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..config.storage_url import is_url
from ..exceptions import ConfigError
from ..records.trial_record import TrialRecord
from ..results.run_directory import RunDirectory
from .context import make_job
from .in_process import run_in_process
from .joining import join
from .live import Progress
from .planned_again import planned_again
from .signals import exit_code, raising_interrupts
from .sweep import OK


@dataclass(frozen=True)
class WorkerOptions:
    """The flags of `worker`.

    `study` and `directory` are for a worker that sees the storage alone: the sweep, and where it writes.
    `hired` is set by the run that started the worker: it says the number of each trial that ends on stdout,
    nothing else, and leaves when nobody listens. `since` is when its `budget.time` began to run, in
    seconds of the clock; without it, when the worker has joined.
    """

    quiet: bool = False
    verbose: bool = False
    hired: bool = False
    since: float | None = None
    study: str | None = None
    directory: Path | None = None


def worker_command(place: str, options: WorkerOptions) -> int:
    """Work on the trials of a sweep beside others, and return the exit code.

    Nothing is concluded: `hpometrics best` says at any time what is best, `hpometrics run` ends the sweep.

    Args:
        place: the run directory, or the URL of the storage.
        options: see `WorkerOptions`.

    Raises:
        HpometricsError: there is no such sweep, its study is in memory, its engine cannot be had here, or a
            newer version of this package has gone on with it.
    """
    tell_number = _number_teller() if options.hired else None
    home, assignments = _home(place, options)
    path = home.path
    plan = planned_again(home, assignments)
    settings = plan.config.backend.optuna
    if settings is not None and settings.storage == "memory":
        raise ConfigError(f"{path}: storage: memory is of one process, no other can join it; choose sqlite")
    job = make_job(plan, extend=True)  # whoever made the directory has checked it
    job.arrange_grid()
    job.gathers = is_url(place)
    job.earlier = 0.0 if options.since is None else time.time() - options.since
    progress = Progress(job.resolved, [], options.quiet or options.hired, job.directory)
    job.tell = tell_number or progress.tell
    progress.say(f"{job.plan.name}  {job.directory.label}  joined")
    with raising_interrupts():
        try:
            run_in_process(job, options.verbose)
        except KeyboardInterrupt as interrupt:
            return exit_code(interrupt)
        except BrokenPipeError:  # the run that started it is gone; its last trial is recorded
            return OK
    progress.say(f"ended {job.ended} trials; none is left. See: hpometrics best {path}")
    return OK


def _home(place: str, options: WorkerOptions) -> tuple[RunDirectory, list[str]]:
    """Give the run directory of this worker, and what its sweep has in place of what is written there."""
    if is_url(place):
        home = join(place, options.study, options.directory)
        return home, [_assigned("results.dir", home.path), _assigned("backend.optuna.storage", place)]
    for flag, value in (("--study", options.study), ("--dir", options.directory)):
        if value is not None:
            raise ConfigError(f"{place}: a run directory is of one sweep; {flag} goes with a URL")
    home = RunDirectory(Path(place))
    home.check_private()
    home.check_formats()
    return home, [_assigned("results.dir", home.path)]


def _assigned(key: str, value: object) -> str:
    return f"{key}={json.dumps(str(value))}"


def _number_teller() -> Callable[[TrialRecord], None]:
    """Keep stdout for the numbers of trials; what the engine prints goes to stderr."""
    listener = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(record: TrialRecord) -> None:
        os.write(listener, f"{record.number}\n".encode())

    return tell
