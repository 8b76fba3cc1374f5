"""The `worker` command: a process that joins a sweep and works on its trials until none is left."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import optuna

from ..backends.optuna.storage import close_storage, open_storage, storing
from ..config.document import parse_document
from ..config.metric_section import anything
from ..config.plan import Plan, make_plan, override
from ..config.storage_url import is_url, url_of, written
from ..config.yaml_writer import dump_yaml, write_text
from ..exceptions import ConfigError
from ..records._files import make_private
from ..records.trial_record import TrialRecord
from ..results.manifest import Resolved
from ..results.run_directory import RunDirectory
from .context import make_job
from .live import Progress
from .processes import run_in_process
from .signals import exit_code, raising_interrupts
from .study import SWEEP, published
from .sweep import OK


def join(storage: str, name: str | None, directory: Path | None) -> RunDirectory:
    """Make the run directory of a sweep in a storage, or find it.

    Args:
        storage: its URL; `${NAME}` stands for a variable of the environment.
        name: of the sweep; may be left out where the storage has one sweep.
        directory: of the run on this machine; `runs/{name}` unless given.

    Raises:
        ConfigError: there is no such sweep, or the directory is that of another one, or another user's.
    """
    with storing():
        opened = open_storage(url_of(storage))
        try:
            resolved = _resolved(opened, name, written(storage))
        finally:
            close_storage(opened)
    home = RunDirectory(directory or Path("runs") / resolved.name)
    home.check_private()
    home.check_formats()
    if home.resolved.exists():
        found = home.read().name
        if found != resolved.name:
            raise ConfigError(f"{home.path}: is the directory of {found}, not of {resolved.name}; give --dir")
        return home
    if home.path.is_dir() and any(home.path.iterdir()):
        raise ConfigError(f"{home.path}: is not empty, and no run directory; give another one with --dir")
    make_private(home.path)
    make_private(home.trials)
    write_text(home.resolved, _moved(resolved, home).to_yaml())
    return home


def _resolved(storage: optuna.storages.BaseStorage, name: str | None, place: str) -> Resolved:
    studies = [one for one in optuna.get_all_study_summaries(storage) if SWEEP in one.user_attrs]
    names = [one.study_name for one in studies]
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise ConfigError(f"{place}: {_choice(name, names)}")
    found = published(optuna.load_study(study_name=name, storage=storage))
    if found is None:
        raise ConfigError(f"{place}: the study {name!r} says nothing of its sweep any more")
    return found


def _choice(name: str | None, names: Sequence[str]) -> str:
    if not names:
        return "has no sweep; hpometrics run FILE with this storage begins one"
    known = ", ".join(sorted(names))
    return (
        f"has no sweep {name!r}, but {known}" if name else f"has several sweeps, name one by --study: {known}"
    )


def _moved(resolved: Resolved, home: RunDirectory) -> Resolved:
    """Give the sweep as it stands on this machine, whose engine is in the current folder."""
    there = Path(resolved.file) if resolved.file else None
    file = resolved.file if there is not None and there.exists() else str(Path.cwd() / "sweep.yaml")
    results = {**resolved.config["results"], "dir": str(home.path)}
    return replace(resolved, file=file, config={**resolved.config, "results": results})


def planned_again(home: RunDirectory, assignments: Iterable[str] = ()) -> Plan:
    """Plan the sweep of a run directory from all that was settled when it was made; errors name its file.

    Args:
        home: the run directory.
        assignments: `key=value` texts that change it.

    Raises:
        ConfigError: it is no run directory.
        SweepFileError: what it holds can no longer be carried out.
    """
    resolved = home.read()
    document = parse_document(dump_yaml(resolved.config), resolved.file or str(home.resolved))
    override(document, assignments)
    return make_plan(document, registers=anything)


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
