"""The `worker` command: a process that joins a sweep and works on its trials until none is left."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..exceptions import ConfigError
from ..search.owners import check_own
from ..search.record import TrialRecord
from .command import OK, make_job
from .directory import RunDirectory
from .in_process import run_in_process
from .interrupts import exit_code, raising_interrupts
from .planned_again import planned_again
from .progress import Progress


@dataclass(frozen=True)
class WorkerOptions:
    """The flags of `worker`.

    `hired` is set by the run that started the worker: it says the number of each trial that ends on stdout,
    nothing else, and leaves when nobody listens. `since` is when its `budget.time` began to run, in
    seconds of the clock; without it, when the worker has joined.
    """

    quiet: bool = False
    verbose: bool = False
    hired: bool = False
    since: float | None = None


def worker_command(path: Path, options: WorkerOptions) -> int:
    """Work on the trials of a run directory beside others, and return the exit code.

    Nothing is concluded: `hpometrics best` says at any time what is best, `hpometrics run` ends the sweep.

    Raises:
        HpometricsError: it is no run directory, its study is not on disk, or its engine cannot be had here.
    """
    tell_number = _number_teller() if options.hired else None
    home = RunDirectory(path)
    home.check_links()
    check_own(home.path)
    plan = planned_again(home, [f"results.dir={json.dumps(str(path))}"])
    settings = plan.config.backend.optuna
    if settings is not None and settings.storage == "memory":
        raise ConfigError(f"{path}: storage: memory is of one process, no other can join it; choose sqlite")
    job = make_job(plan, extend=True)  # whoever made the directory has checked it
    job.earlier = 0.0 if options.since is None else time.time() - options.since
    progress = Progress(job.resolved, [], options.quiet or options.hired, job.directory)
    job.tell = tell_number or progress.tell
    progress.say(f"{job.plan.name}  {job.directory.path}  joined")
    with raising_interrupts():
        try:
            run_in_process(job, options.verbose)
        except KeyboardInterrupt as interrupt:
            return exit_code(interrupt)
        except BrokenPipeError:  # the run that started it is gone; its last trial is recorded
            return OK
    progress.say(f"ended {job.ended} trials; none is left. See: hpometrics best {path}")
    return OK


def _number_teller() -> Callable[[TrialRecord], None]:
    """Keep stdout for the numbers of trials; what the engine prints goes to stderr."""
    listener = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(record: TrialRecord) -> None:
        os.write(listener, f"{record.number}\n".encode())

    return tell
