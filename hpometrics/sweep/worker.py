"""The `worker` command: a process that joins a sweep and works on its trials until none is left."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ..search.record import TrialRecord
from .command import INTERRUPTED, OK, make_job, terminated_as_interrupted
from .directory import RunDirectory
from .in_process import run_in_process
from .planned_again import planned_again
from .progress import Progress


@dataclass(frozen=True)
class WorkerOptions:
    """The flags of `worker`.

    `hired` is set by the run that started the worker: it says the number of each trial that ends on stdout,
    nothing else, and leaves when nobody listens. `seconds` are those left to start trials in.
    """

    quiet: bool = False
    verbose: bool = False
    hired: bool = False
    seconds: float | None = None


def worker_command(path: Path, options: WorkerOptions) -> int:
    """Work on the trials of a run directory beside others, and return the exit code.

    Nothing is concluded: `hpometrics best` says at any time what is best, `hpometrics run` ends the sweep.

    Raises:
        HpometricsError: it is no run directory, or its engine cannot be had here.
    """
    left = [] if options.seconds is None else [f"budget.time={options.seconds}"]
    plan = planned_again(RunDirectory(path), [f"results.dir={json.dumps(str(path))}", *left])
    job = make_job(plan, extend=True)  # whoever made the directory has checked it
    progress = Progress(job.resolved, [], options.quiet or options.hired, job.directory)
    job.tell = _tell_number if options.hired else progress.tell
    progress.say(f"{job.plan.name}  {job.directory.path}  joined")
    with terminated_as_interrupted():
        try:
            run_in_process(job, options.verbose)
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:  # the run that started it is gone; its last trial is recorded
            return OK
    progress.say(f"ended {job.ended} trials; none is left. See: hpometrics best {path}")
    return OK


def _tell_number(record: TrialRecord) -> None:
    print(record.number, flush=True)
