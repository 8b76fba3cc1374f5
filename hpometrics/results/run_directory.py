"""The run directory: where everything of a sweep is kept, opened by one run at a time.

They are the file of the engine and the modules beside it that it has imported; of a command, its files.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.yaml_writer import write_text
from ..exceptions import ConfigError, NewerFormatError, RecordError
from ..records._files import (
    EPOCHS_LIMIT,
    RECORD_LIMIT,
    check_no_link,
    check_own,
    free_name,
    is_own_directory,
    is_regular,
    make_private,
    read_whole,
)
from ..records._json import may_be_newer
from ..records.epoch_log import EPOCHS_FILE, read_epochs, read_trial
from ..records.recovery import put_aside
from ..records.trial_record import TRIAL_FILE, TrialRecord
from .manifest import Change, Resolved, changes, read_resolved

if TYPE_CHECKING:
    from filelock import BaseFileLock


def changed_sources(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the files that have changed; a folder that was moved as a whole has not."""
    names = {_beside(path, now): digest for path, digest in now.items()}
    earlier = {_beside(path, before): digest for path, digest in before.items()}
    return [name for name, digest in names.items() if earlier.get(name, digest) != digest]


def other_engine(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the files of two engines if they are different; that of one that has moved is gone."""
    first, second = next(iter(before), None), next(iter(now), None)
    if first is None or second is None or first == second or not Path(first).exists():
        return None
    return first, second


def _beside(path: str, sources: Mapping[str, str]) -> str:
    """The path of a file as seen from the folder of the engine's own."""
    home = Path(next(iter(sources))).parent
    return str(Path(path).relative_to(home)) if Path(path).is_relative_to(home) else path


TRIAL_FILES = (TRIAL_FILE, EPOCHS_FILE, "statistics.jsonl", ".trainstats", "error.txt", "output.txt")
"""What is a file in the directory of each trial."""

_RUN = ("*", "checkpoints/*")
_OWN = (
    *("*", ".locks/*", "trials/*"),
    *(f"trials/*/{part}" for part in (*_RUN, "repeats/*", *(f"repeats/*/{part}" for part in _RUN))),
)
"""Patterns of the paths that a run writes, reads and removes in its directory."""


class RunDirectory:
    """The files of a sweep by name; a trial has a directory of its own, `trials/0007`.

    Args:
        path: where it is.
        label: what messages call it; its path unless given.
    """

    def __init__(self, path: pathlib.Path, label: pathlib.Path | None = None) -> None:
        self.path, self.label = path, label or path
        self.given = path / "sweep.yaml"
        self.resolved = path / "sweep.resolved.yaml"
        self.study = path / "study.db"
        self.journal = path / "study.journal"
        self.trials = path / "trials"
        self.locks = path / ".locks"
        self.table = path / "trials.csv"
        self.best = path / "best.yaml"
        self.verdict = path / "verdict.json"
        self.engine_params = path / "best.json"
        self.stamp = path / ".finished"
        self.remarks: list[str] = []
        """What has to be said of the directory that was opened: damage, or that the engine has changed."""
        self.is_known = True
        """Whether the directory said, when it was opened, of which sweep it is."""

    def trial(self, number: int) -> pathlib.Path:
        """Give the directory of a trial."""
        return self.trials / f"{number:04d}"

    def named(self, path: pathlib.Path) -> pathlib.Path:
        """Return the directory or a path in it as messages call it."""
        return self.label / path.relative_to(self.path)

    def report(self, kind: str) -> pathlib.Path:
        """Give the file of a report, `html` or `md`."""
        return self.path / f"report.{kind}"

    def numbers(self) -> list[int]:
        """Return the numbers of the trials that have a directory, or what has taken its place.

        Raises:
            RecordError: they are behind a symbolic link.
        """
        check_no_link(self.trials)
        names = (path.name for path in self.trials.glob("[0-9]*"))
        return sorted(int(name) for name in names if name.isdecimal() and self.trial(int(name)).name == name)

    def begun(self) -> list[pathlib.Path]:
        """Return the directories of trials; what else lies beside them is left aside.

        Raises:
            RecordError: one is a symbolic link.
        """
        return [path for path in map(self.trial, self.numbers()) if is_own_directory(path)]

    def records(self) -> list[TrialRecord]:
        """Read the record of every trial that has begun, by number.

        Raises:
            RecordError: a file of a trial is damaged, or a symbolic link.
        """
        found = ((int(path.name), read_trial(path)) for path in self.begun())
        return [replace(record, number=number) for number, record in found if record is not None]

    def record(self, number: int) -> TrialRecord | None:
        """Read the record of a trial; None if it has none.

        Raises:
            RecordError: a file of it is damaged, or a symbolic link.
        """
        check_no_link(self.trials)
        trial = self.trial(number)
        return read_trial(trial) if is_own_directory(trial) else None

    def read(self) -> Resolved:
        """Read what the directory is about.

        Raises:
            ConfigError: it is no run directory.
            RecordError: its file is damaged.
        """
        if not os.path.lexists(self.resolved):
            raise ConfigError(f"{self.label}: is no run directory; it has no {self.resolved.name}")
        return read_resolved(self.resolved)

    def home_id(self) -> str:
        """Give the id by which workers that see the directory know each other in a storage; made once."""
        path = self.path / ".home"
        with _file_lock(self.path / ".home.lock", blocking=True):
            if not path.exists():
                write_text(path, os.urandom(8).hex())
        return read_whole(path).decode()

    @contextmanager
    def opened(self, text: str, resolved: Resolved, *, fresh: bool, extend: bool) -> Iterator[None]:
        """Hold the directory for one run: made, or accepted as that of the same sweep.

        Args:
            text: the sweep file as it was given.
            resolved: what it means.
            fresh: put an earlier run aside and start over.
            extend: accept a changed space and engine.

        Raises:
            ConfigError: another run holds it, it is something else or another user's, or the sweep has
                changed.
            NewerFormatError: a newer version of this package has gone on with it.
        """
        self.check_private()
        if fresh and self.path.exists():
            with self._held():
                self._check_ours()
                self.check_no_worker()
                self.path.rename(free_name(self.path, "old"))
        make_private(self.path)
        with self._held():
            self._check_ours()
            self.check_formats()
            self._clear()
            self._check_same(resolved, extend)
            self.stamp.unlink(missing_ok=True)
            make_private(self.trials)
            write_text(self.given, text)
            write_text(self.resolved, resolved.to_yaml())
            yield

    def check_formats(self) -> None:
        """Refuse a directory that a newer version of this package has gone on with.

        Raises:
            NewerFormatError: one has; the message names the file that says so.
        """
        readers: dict[pathlib.Path, Callable[[], object]] = {
            self.resolved: partial(read_resolved, self.resolved)
        }
        for path in self.begun():
            readers |= {path / TRIAL_FILE: partial(read_trial, path)}
            readers |= {path / EPOCHS_FILE: partial(read_epochs, path)}
        for file, read in readers.items():
            try:
                limit = EPOCHS_LIMIT if file.name == EPOCHS_FILE else RECORD_LIMIT
                if is_regular(file) and may_be_newer(read_whole(file, limit)):
                    read()
            except RecordError:
                pass  # it is damaged: whoever reads it says so, or mends it
            except NewerFormatError as err:
                raise NewerFormatError(str(err).replace(str(self.path), str(self.label))) from None

    def check_private(self) -> None:
        """Refuse a directory in which writing would write somewhere else, or others may write.

        Raises:
            ConfigError: it is a symbolic link, or one of its files is; it is another user's.
        """
        inside = (self.path.glob(pattern) for pattern in _OWN)
        for path in (self.path, *chain.from_iterable(inside)):
            if path.is_symlink():
                raise ConfigError(
                    f"{self.named(path)}: is a symbolic link to {path.readlink()}; "
                    "a run directory is one itself and holds its own files"
                )
        check_own(self.path)

    @contextmanager
    def _held(self) -> Iterator[None]:
        path = self.path / ".lock"
        if path.is_dir():
            self._check_ours()
            self._put_aside(path)
        lock = _file_lock(path)
        try:
            lock.acquire()
        except TimeoutError:
            raise ConfigError(f"{self.label}: another run is at work in it; wait for it or stop it") from None
        try:
            yield
        finally:
            lock.release()

    def check_no_worker(self) -> None:
        """Refuse what needs the directory for itself while a worker is at a trial.

        Raises:
            ConfigError: one is; the message names its trial.
        """
        for path in filter(is_regular, self.locks.glob("*")):  # nobody can hold another one
            try:
                with _file_lock(path):
                    pass
            except TimeoutError:
                raise ConfigError(f"{self.label}: a worker is at work on trial {int(path.name)}") from None

    def _check_ours(self) -> None:
        others = [path.name for path in self.path.iterdir() if not path.name.startswith(".")]
        ours = any(path.exists() for path in (self.resolved, *self.path.glob(f"trials/*/{TRIAL_FILE}")))
        if others and not ours:
            raise ConfigError(f"{self.label}: holds {others[0]!r} and no sweep; choose another results.dir")

    def _clear(self) -> None:
        """Put aside what is a directory in the place of a file, or the reverse."""
        reports = (self.report("html"), self.report("md"))
        results = (self.table, self.best, self.verdict, self.engine_params, *reports)
        beside = (self.study.with_name(f"{self.study.name}-{end}") for end in ("wal", "shm", "journal"))
        names = (self.study.name, self.journal.name, f"{self.journal.name}.slots", ".home")
        locks = (*(self.path / f"{name}.lock" for name in names), *filter(_is_numbered, self.locks.glob("*")))
        facts = (self.path / ".home", self.given, self.resolved, self.study, self.journal, self.stamp)
        files = (*beside, *locks, *facts, *results)
        parts = (path for trial in self.begun() for path in trial.iterdir() if path.name in TRIAL_FILES)
        for path in (*files, *parts):
            if os.path.lexists(path) and not is_regular(path):
                self._put_aside(path)
        for path in (self.trials, self.locks):
            if path.exists() and not path.is_dir():
                self.remarks.append(f"{self.named(path)}: is a file, kept as {put_aside(path).name}")

    def _put_aside(self, path: pathlib.Path) -> None:
        """Put aside what stands in the place of a file, and note it in the remarks."""
        what = "a directory" if path.is_dir() else "no regular file"
        self.remarks.append(f"{self.named(path)}: is {what}, kept as {put_aside(path).name}")

    def _check_same(self, resolved: Resolved, extend: bool) -> None:
        before = self._before()
        found = [] if before is None else [*changes(before, resolved), *_other_engine(before, resolved)]
        if any(change.fatal for change in found):
            raise ConfigError(self._explained(found, "--fresh starts over beside it"))
        if found and not extend:
            raise ConfigError(self._explained(found, "--extend goes on, --fresh starts over beside it"))
        changed = [] if before is None else changed_sources(before.sources, resolved.sources)
        if changed and self.numbers():
            self.remarks.append(
                f"{', '.join(changed)}: the engine has changed since trials were run; "
                "new ones stand in the table with them, --fresh starts over"
            )

    def _before(self) -> Resolved | None:
        """Read of which sweep the directory is; None if it is new, or does not say it any more."""
        if not self.resolved.exists() and not self.numbers():
            return None
        what, aside = "lost", ""
        try:
            if self.resolved.exists():
                return read_resolved(self.resolved, check=True)
        except RecordError:  # the sweep file says it too
            what, aside = "damaged", f", kept as {put_aside(self.resolved).name}"
        name = self.named(self.resolved)
        self.remarks.append(f"{name} is {what}{aside}: it is made again from the sweep file")
        self.is_known = False
        return None

    def _explained(self, found: list[Change], remedy: str) -> str:
        lines = "\n".join(map(str, found))
        return f"{self.label}: its trials were made by another sweep:\n{lines}\n{remedy}"


def _other_engine(before: Resolved, now: Resolved) -> list[Change]:
    """Compare the files of two engines that are called the same; a run directory that was copied has both."""
    files = other_engine(before.sources, now.sources)
    return [] if files is None or before.home != now.home else [Change("engine.file", *files, fatal=False)]


def _is_numbered(path: pathlib.Path) -> bool:
    return path.name.isdecimal()


def _file_lock(path: pathlib.Path, *, blocking: bool = False) -> BaseFileLock:
    """Give a lock that the system frees when its holder dies; taking one that is held is a `TimeoutError`."""
    from filelock import FileLock  # where a directory is written; its readers hold nothing

    return FileLock(path, blocking=blocking)
