"""The `worker` command: a process that joins a sweep and works on its trials until none remains."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import optuna

from .._formatting import plural
from .._imports import is_local
from ..backends.storage_url import MEMORY, is_url, redact_storage, url_of
from ..exceptions import ConfigError
from ..records._files import make_private, write_text
from ..records.trial_record import TrialRecord
from ..results.manifest import Resolved
from ..results.run_directory import RunDirectory
from .confirm import await_confirmation, join_confirmation
from .context import make_context
from .imported_engine import load_local
from .live import Progress
from .planned_trials import opened_storage, planned_again
from .processes import run_in_process
from .signals import exit_code, raising_interrupts, terminated_when
from .study import SWEEP, published
from .sweep import OK

_LOOK = 1.0
"""Seconds between two looks for a sweep that has not begun."""


def join(storage: str, name: str | None, directory: Path | None) -> RunDirectory:
    """Return the run directory on this machine of a sweep in a storage; create it if it does not exist.

    Args:
        storage: its URL; `${NAME}` stands for a variable of the environment.
        name: the name of the sweep; not needed if the storage has one sweep.
        directory: the run directory on this machine; `runs/{name}` unless given.

    Raises:
        ConfigError: there is no such sweep, or the directory belongs to another sweep or another user.
    """
    with opened_storage(url_of(storage)) as opened:
        resolved = _read_resolved(opened, name, redact_storage(storage))
    home = RunDirectory(directory or Path("runs") / resolved.name)
    home.check_private()
    home.check_formats()
    if home.resolved.exists():
        stored = home.read().name
        if stored != resolved.name:
            raise ConfigError(f"{home.path}: is the directory of {stored}, not of {resolved.name}; set --dir")
        return home
    if home.path.is_dir() and any(not path.name.startswith(".") for path in home.path.iterdir()):
        raise ConfigError(f"{home.path}: is neither empty nor a run directory; set another one with --dir")
    make_private(home.path)
    write_text(home.resolved, _relocate(resolved, home).to_yaml())  # first: by it a later worker knows it
    make_private(home.trials)
    return home


def _sweeps(storage: optuna.storages.BaseStorage) -> list[str]:
    """Return the names of the sweeps in a storage."""
    return [one.study_name for one in optuna.get_all_study_summaries(storage) if SWEEP in one.user_attrs]


def _read_resolved(storage: optuna.storages.BaseStorage, name: str | None, place: str) -> Resolved:
    names = _sweeps(storage)
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise ConfigError(f"{place}: {_format_choice(name, names)}")
    resolved = published(optuna.load_study(study_name=name, storage=storage))
    if resolved is None:
        raise ConfigError(f"{place}: the study {name!r} no longer contains its sweep")
    return resolved


def _format_choice(name: str | None, names: Sequence[str]) -> str:
    if not names:
        return (
            "has no sweep; start one with hpometrics run FILE and this storage, or wait for one with "
            "--wait 10m"
        )
    listing = ", ".join(sorted(names))
    if name:
        return f"has no sweep {name!r}, but {listing}"
    return f"has several sweeps; choose one with --study: {listing}"


def _relocate(resolved: Resolved, home: RunDirectory) -> Resolved:
    """Return the sweep for this machine, whose engine is in the current folder."""
    original = Path(resolved.file) if resolved.file else None
    file = resolved.file if original is not None and original.exists() else str(Path.cwd() / "sweep.yaml")
    results = {**resolved.config["results"], "dir": str(home.path)}
    return replace(resolved, file=file, config={**resolved.config, "results": results})


@dataclass(frozen=True)
class WorkerOptions:
    """The flags of `worker`.

    `study` and `directory` are for a worker that shares only the storage: the sweep, and its run directory.
    `managed` is set by the run that started the worker: the worker prints the number of each finished trial
    to stdout and nothing else, and ends when the run is gone. `since` is the clock time in seconds from which
    `budget.time` counts; unless given, the time at which the worker joins. `confirms` has it train contenders
    after the search. `trials` is the number after which it ends. `wait` is the number of seconds that it
    waits for the sweep to begin.
    """

    quiet: bool = False
    verbose: bool = False
    managed: bool = False
    since: float | None = None
    study: str | None = None
    directory: Path | None = None
    confirms: bool = False
    trials: int | None = None
    wait: float = 0.0


def worker_command(place: str, options: WorkerOptions) -> int:
    """Work on the trials of a sweep beside others, and return the exit code.

    A worker writes no results: `hpometrics best` shows the best at any time, `hpometrics run` ends the sweep.

    Args:
        place: the run directory, or the URL of the storage.
        options: see `WorkerOptions`.

    Raises:
        HpometricsError: there is no such sweep, its study is in memory, its engine cannot be imported here,
            or a newer version of this package has resumed it.
    """
    tell_number = _number_printer() if options.managed else None
    _await_sweep(place, options)
    home, assignments = _home(place, options)
    path = home.path
    plan = planned_again(home, assignments)
    if plan.config.backend.storage == MEMORY:
        raise ConfigError(f"{path}: storage: memory belongs to one process; workers need sqlite")
    is_sent = options.managed and is_local(plan.config.engine.target)
    train = load_local(sys.stdin.buffer) if is_sent else None
    context = make_context(plan, extend=True, train=train)  # `run`, which made the directory, has checked it
    context.gathers = is_url(place)
    context.earlier = 0.0 if options.since is None else time.time() - options.since
    progress = Progress(context.resolved, [], options.quiet or options.managed, context.directory)
    context.tell, context.say = tell_number or progress.tell, progress.say
    progress.say(f"{context.plan.name}  {context.directory.label}  joined")
    asked, trained = context.listen(), 0
    with raising_interrupts(), nullcontext() if options.managed else terminated_when(asked):
        try:
            if options.confirms:
                join_confirmation(context)
            else:
                trained = run_in_process(context, options.verbose, most=options.trials)
                joins = not (options.managed or options.trials)
                if joins and context.plan.config.confirm is not None:
                    await_confirmation(context)
        except KeyboardInterrupt as interrupt:
            return exit_code(interrupt)
        except BrokenPipeError:  # the run that started it is gone; the last trial is recorded
            return OK
    remains = "" if options.trials == trained else "; none remains"
    progress.say(f"ended {plural(trained, 'trial')}{remains}. See: hpometrics best {path}")
    return OK


def _await_sweep(place: str, options: WorkerOptions) -> None:
    """Wait until the sweep has begun, at most `options.wait` seconds."""
    deadline = time.monotonic() + options.wait
    while (left := deadline - time.monotonic()) > 0 and not _has_begun(place, options.study):
        time.sleep(min(_LOOK, left))


def _has_begun(place: str, study: str | None) -> bool:
    if not is_url(place):
        return RunDirectory(Path(place)).resolved.exists()
    with opened_storage(url_of(place)) as storage:
        names = _sweeps(storage)
    return study in names if study else bool(names)


def _home(place: str, options: WorkerOptions) -> tuple[RunDirectory, list[str]]:
    """Return the run directory of this worker, and the assignments that change its sweep."""
    if is_url(place):
        home = join(place, options.study, options.directory)
        return home, [
            _format_assignment("results.dir", home.path),
            _format_assignment(f"backend.{home.read().backend}.storage", place),
        ]
    for flag, value in (("--study", options.study), ("--dir", options.directory)):
        if value is not None:
            raise ConfigError(f"{place}: a run directory belongs to one sweep; use {flag} with a URL")
    home = RunDirectory(Path(place))
    home.check_private()
    home.check_formats()
    return home, [_format_assignment("results.dir", home.path)]


def _format_assignment(key: str, value: object) -> str:
    return f"{key}={json.dumps(str(value))}"


def _number_printer() -> Callable[[TrialRecord], None]:
    """Reserve stdout for the numbers of trials; the output of the engine goes to stderr."""
    listener = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(record: TrialRecord) -> None:
        os.write(listener, f"{record.number}\n".encode())

    return tell
