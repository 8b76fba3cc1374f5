"""The run directory, which holds all files of a sweep and is opened by one run at a time."""

from __future__ import annotations

import os
import pathlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..backends.storage_url import STORAGE_FILES
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
    write_text,
)
from ..records._json import may_be_newer
from ..records.epoch_log import EPOCHS_FILE, STATISTICS_FILE, read_epochs, read_trial
from ..records.recovery import quarantine, quarantine_study
from ..records.trial_record import TRIAL_FILE, TrialRecord, TrialState, write_trial
from ..selection.confirmation import CONFIRM, CONFIRM_FILE
from ..selection.limits import seconds_at_work
from ..selection.trial_attempts import Faults
from .manifest import Change, Resolved, changes, format_changes, read_resolved

if TYPE_CHECKING:
    from filelock import BaseFileLock


T = TypeVar("T")
TRIAL_FILES = (TRIAL_FILE, EPOCHS_FILE, STATISTICS_FILE, ".trainstats", "error.txt", "output.txt")
"""The files in the directory of each trial."""
_RUN = ("*", "checkpoints/*")
_OWN = (
    *("*", ".locks/*", ".locks/confirm/*", "trials/*"),
    *(f"trials/*/{part}" for part in _RUN),
    *(f"trials/*/{runs}/*/{part}" for runs in ("repeats", "confirm") for part in ("", *_RUN)),
)
"""Patterns of the paths that a run writes, reads and removes in its directory."""


class RunDirectory:
    """The files of a sweep by name; a trial has a directory of its own, `trials/0007`.

    Args:
        path: its path.
        label: its name in messages; by default, its path.
    """

    def __init__(self, path: pathlib.Path, label: pathlib.Path | None = None) -> None:
        self.path, self.label = path, label or path
        self.sweep_file = path / "sweep.yaml"
        self.resolved = path / "sweep.resolved.yaml"
        self.study = path / STORAGE_FILES["sqlite"]
        self.journal = path / STORAGE_FILES["journal"]
        self.trials = path / "trials"
        self.ray = path / "ray"  # Ray's own files, which repeat the records
        self.locks = path / ".locks"
        self._run_lock = path / ".lock"
        self.table = path / "trials.csv"
        self.best = path / "best.yaml"
        self.verdict = path / "verdict.json"
        self.confirmation = path / CONFIRM_FILE
        self.control = path / "control.json"
        self.annotations = path / "annotations.json"
        self.engine_params = path / "best.json"
        self.copied = path / "copied.json"
        self.stamp = path / ".finished"
        self.end = path / ".end"
        self.remarks: list[str] = []
        """Remarks on the opened directory: damage, or a changed engine."""
        self.is_known = True
        """Whether the directory held its resolved sweep when it was opened."""
        self.is_extended = False  # so that its study was put aside

    def trial(self, number: int) -> pathlib.Path:
        """Return the directory of a trial."""
        return self.trials / f"{number:04d}"

    def display_path(self, path: pathlib.Path) -> pathlib.Path:
        """Return the directory or a path in it as messages show it."""
        return self.label / path.relative_to(self.path)

    def report(self, kind: str) -> pathlib.Path:
        """Return the path of a report, `html` or `md`."""
        return self.path / f"report.{kind}"

    def numbers(self) -> list[int]:
        """Return the numbers of the trials that have a directory, or a file in its place.

        Raises:
            RecordError: their folder is a symbolic link.
        """
        check_no_link(self.trials)
        names = (path.name for path in self.trials.glob("[0-9]*"))
        return sorted(int(name) for name in names if name.isdecimal() and self.trial(int(name)).name == name)

    def trial_directories(self) -> list[pathlib.Path]:
        """Return the directories of trials and nothing else that lies beside them.

        Raises:
            RecordError: one is a symbolic link.
        """
        return [path for path in map(self.trial, self.numbers()) if is_own_directory(path)]

    def records(self) -> list[TrialRecord]:
        """Read the record of every trial that has started, by number.

        Raises:
            RecordError: a file of a trial is damaged, or a symbolic link.
        """
        return [record for record in map(self.record, self.numbers()) if record is not None]

    def count_finished(self) -> int:
        """Return the number of trials that have ended."""
        return sum(record.state.finished for record in self.records())

    def record(self, number: int) -> TrialRecord | None:
        """Read the record of a trial; None if it has none.

        Raises:
            RecordError: one of its files is damaged, or a symbolic link.
        """
        check_no_link(self.trials)
        trial = self.trial(number)
        record = read_trial(trial) if is_own_directory(trial) else None
        return None if record is None else replace(record, number=number)

    def trial_record(self, number: int) -> TrialRecord:
        """Read the record of a trial that has one.

        Raises:
            ConfigError: it has none; the message has the numbers of those that have.
            RecordError: see `record`.
        """
        record = self.record(number)
        if record is None:
            numbers = ", ".join(str(record.number) for record in self.records())
            raise ConfigError(f"{self.path}: has no trial {number}; there are {numbers or 'none'}")
        return record

    def read(self) -> Resolved:
        """Read the resolved sweep of the directory.

        Raises:
            ConfigError: the directory is not a run directory.
            RecordError: its file is damaged.
        """
        if not os.path.lexists(self.resolved):
            raise ConfigError(f"{self.label}: is not a run directory; it has no {self.resolved.name}")
        return read_resolved(self.resolved)

    def recover(self, path: pathlib.Path, read: Callable[[], T], empty: T) -> T:
        """Read a file; move it aside and add a remark if it is damaged, as if it were empty."""
        try:
            return read()
        except NewerFormatError:
            raise
        except RecordError:
            place, aside = self.display_path(path), quarantine(path)
            self.remarks.append(f"{place}: is damaged, kept as {aside.name}")
            return empty

    def home_id(self) -> str:
        """Return the id by which the workers of this directory know each other; create it once."""
        path = self.path / ".home"
        with file_lock(self.path / ".home.lock", blocking=True):
            if not path.exists():
                write_text(path, os.urandom(8).hex())
        return read_whole(path).decode()

    @contextmanager
    def opened(
        self, text: str, resolved: Resolved, *, fresh: bool, extend: bool, restarts: bool = False
    ) -> Iterator[None]:
        """Lock the directory for one run: created, or accepted as that of the same sweep.

        Args:
            text: the text of the sweep file.
            resolved: the resolved sweep.
            fresh: whether to move an earlier run aside and start over.
            extend: whether to accept a changed space and engine.
            restarts: whether to do so if the first two trials have failed alike, before any epoch.

        Raises:
            ConfigError: another run holds the directory, it belongs to something or someone else, or the
                sweep has changed.
            NewerFormatError: a newer version of this package has continued the sweep.
        """
        self.check_private()
        is_broken = restarts and not fresh and self._fails_alike
        if (fresh or is_broken) and self.path.exists():
            with self._lock():
                self._check_ours()
                self.check_no_worker()
                old = self.path.rename(free_name(self.path, "old"))
            if is_broken:
                self.remarks.append(f"the first trials had failed with the same error; kept as {old.name}")
        make_private(self.path)
        with self._lock():
            self._check_ours()
            self.check_formats()
            self._quarantine_obstacles()
            self._check_same(resolved, extend)
            self.stamp.unlink(missing_ok=True)
            write_text(self.resolved, resolved.to_yaml())  # first: by it a later run knows the directory
            write_text(self.sweep_file, text)
            make_private(self.trials)
            yield

    def check_formats(self) -> None:
        """Raise if a newer version of this package has continued the sweep in the directory.

        Raises:
            NewerFormatError: one has; the message names the file.
        """
        readers: dict[pathlib.Path, Callable[[], object]] = {
            self.resolved: partial(read_resolved, self.resolved)
        }
        for path in self.trial_directories():
            readers |= {path / TRIAL_FILE: partial(read_trial, path)}
            readers |= {path / EPOCHS_FILE: partial(read_epochs, path)}
        for file, read in readers.items():
            try:
                limit = EPOCHS_LIMIT if file.name == EPOCHS_FILE else RECORD_LIMIT
                if is_regular(file) and may_be_newer(read_whole(file, limit)):
                    read()
            except RecordError:
                pass  # it is damaged: its reader reports it, or recovers it
            except NewerFormatError as err:
                raise NewerFormatError(str(err).replace(str(self.path), str(self.label))) from None

    def check_private(self) -> None:
        """Raise if writing in the directory would write somewhere else, or if others may write there.

        Raises:
            ConfigError: it, or one of its files, is a symbolic link, or it belongs to another user.
        """
        inside = (self.path.glob(pattern) for pattern in _OWN)
        for path in (self.path, *chain.from_iterable(inside)):
            if path.is_symlink():
                raise ConfigError(
                    f"{self.display_path(path)}: is a symbolic link to {path.readlink()}; a run directory "
                    "must be a real directory"
                )
        check_own(self.path)

    @property
    def is_led(self) -> bool:
        """Whether a run is at work in it."""
        try:
            with file_lock(self._run_lock) if is_regular(self._run_lock) else nullcontext():
                return False
        except TimeoutError:
            return True

    @property
    def is_at_work(self) -> bool:
        """Whether a run or a worker is at work in it."""
        try:
            self.check_no_worker()
        except ConfigError:
            return True
        return self.is_led

    @contextmanager
    def _lock(self) -> Iterator[None]:
        path = self._run_lock
        if path.is_dir():
            self._check_ours()
            self._quarantine(path)
        lock = file_lock(path)
        try:
            lock.acquire()
        except TimeoutError:
            raise ConfigError(f"{self.label}: another run is using it; wait for it or stop it") from None
        try:
            yield
        finally:
            lock.release()

    def fresh_run(self, trial: int, seed_number: int) -> Path:
        """Return the directory of a contender's fresh run."""
        return self.trial(trial) / CONFIRM / str(seed_number)

    def fresh_locks(self) -> Path:
        """Return the folder of the locks of fresh runs; create it if it does not exist."""
        folder = self.locks / CONFIRM
        for path in (self.locks, folder):
            make_private(path)
        return folder

    def check_no_worker(self) -> None:
        """Raise if a worker runs a trial of the directory.

        Raises:
            ConfigError: a worker is; the message names its trial.
        """
        locks = chain(self.locks.glob("*"), self.locks.glob(f"{CONFIRM}/*"))
        for path in filter(is_regular, locks):  # nobody can hold another one
            try:
                with file_lock(path):
                    pass
            except TimeoutError:
                trial, _, seed_number = path.name.partition("-")
                is_shared = path.parent != self.locks and not seed_number  # by its number in a study
                work = "a fresh run" if is_shared else f"trial {int(trial)}"
                raise ConfigError(f"{self.label}: a worker is running {work}") from None

    def _check_ours(self) -> None:
        others = [path.name for path in self.path.iterdir() if not path.name.startswith(".")]
        ours = any(path.exists() for path in (self.resolved, *self.path.glob(f"trials/*/{TRIAL_FILE}")))
        if others and not ours:
            raise ConfigError(f"{self.label}: holds {others[0]!r} and no sweep; choose another results.dir")

    @property
    def _fails_alike(self) -> bool:
        """Whether the first two trials have failed alike, before any epoch: no param is to blame for it."""
        faults = Faults()
        try:
            for record in self.records():
                faults.add(record)
        except (RecordError, NewerFormatError):  # recovery and `check_formats` report them
            return False
        return faults.alike

    def _quarantine_obstacles(self) -> None:
        """Move aside any directory in the place of a file, or the reverse."""
        reports = (self.report("html"), self.report("md"))
        results = (self.table, self.best, self.verdict, self.confirmation, self.engine_params, *reports)
        beside = (self.study.with_name(f"{self.study.name}-{end}") for end in ("wal", "shm", "journal"))
        studies = (self.study.name, self.journal.name, f"{self.journal.name}.slots")
        locks = (
            *(self.path / f"{name}.lock" for name in (*studies, ".home", ".annotations", ".control")),
            *(path for path in self.locks.glob("*") if path.name.isdecimal()),
            *(path for path in self.locks.glob("confirm/*") if path.name.replace("-", "").isdecimal()),
        )
        hidden = (self.path / ".home", self.stamp, self.end)
        own = (self.sweep_file, self.resolved, self.study, self.journal, self.annotations, self.copied)
        files = (*beside, *locks, *hidden, *own, *results)
        parts = (
            path for trial in self.trial_directories() for path in trial.iterdir() if path.name in TRIAL_FILES
        )
        for path in (*files, *parts):
            if os.path.lexists(path) and not is_regular(path):
                self._quarantine(path)
        runs = (trial / part for trial in self.trial_directories() for part in ("repeats", "confirm"))
        for path in (self.trials, self.locks, self.locks / "confirm", *runs):
            if path.exists() and not path.is_dir():
                self.remarks.append(f"{self.display_path(path)}: is a file, kept as {quarantine(path).name}")

    def _quarantine(self, path: pathlib.Path) -> None:
        """Move aside what is in the place of a file, and add a remark."""
        what = "a directory" if path.is_dir() else "no regular file"
        self.remarks.append(f"{self.display_path(path)}: is {what}, kept as {quarantine(path).name}")

    def _check_same(self, resolved: Resolved, extend: bool) -> None:
        before = self._before()
        differences = [] if before is None else [*changes(before, resolved), *_other_engine(before, resolved)]
        if any(change.fatal for change in differences):
            raise ConfigError(self._describe_changes(differences, "--fresh starts over"))
        if differences and not extend:
            raise ConfigError(self._describe_changes(differences, "--extend resumes it, --fresh starts over"))
        changed = [] if before is None else changed_sources(before.sources, resolved.sources)
        if changed and self.numbers():
            self.remarks.append(
                f"{', '.join(changed)}: the engine has changed since the recorded trials; new trials join "
                "them in one table, --fresh starts over"
            )
        if before is not None and extend:
            self._reopen_trials(before, resolved)

    def _reopen_trials(self, before: Resolved, now: Resolved) -> None:
        """Reopen the trials that have used up `budget.epochs` or `steps`, if it has grown, to resume them.

        The study cannot reopen one, so its file is put aside, and recovery makes it again from the records.
        A confirmation compared shorter trainings, and is put aside too.
        """
        unit = "steps" if "steps" in before.config["budget"] else "epochs"
        most, more = (one.config["budget"].get(unit) for one in (before, now))
        if most is not None and more is not None and more < most and self.numbers():
            self.remarks.append(f"new trials train for {more} {unit}; trials with {most} are kept unchanged")
        records: list[TrialRecord] = []
        for number in self.numbers() if most is not None and (more or 0) > most else ():
            with suppress(RecordError):  # recovery repairs it, and it stays as it ended
                records += [one for one in [self.record(number)] if one is not None and one.state.finished]
        if not records:
            return
        self.check_no_worker()
        if limit := _used_up(records, now):
            raise ConfigError(
                f"{self.label}: budget.{limit} is used up, so no trial can continue; raise it too"
            )
        stays = {record.number: self._why_it_stays(record, most, before) for record in records}
        reopened = [record for record in records if not stays[record.number]]
        counts = Counter(filter(None, stays.values()))
        parts = [f"{count} not, {why}" for why, count in counts.items()]
        continued = f"{len(reopened)} of {len(records)} trials continue from {most} to {more} {unit}"
        self.remarks.append("; ".join([continued, *parts]))
        if not reopened:
            return
        for path in filter(Path.exists, (self.study, self.journal)):
            quarantine_study(path, "extended")
            self.is_extended = True
        confirmed = (*self.path.glob("trials/*/confirm"), self.confirmation)
        for path in filter(Path.exists, confirmed):
            quarantine(path, "extended")
        for record in reopened:
            state = replace(record, state=TrialState.INTERRUPTED, reason=None, ended=None)
            write_trial(self.trial(record.number), state)

    def _why_it_stays(self, record: TrialRecord, most: int, before: Resolved) -> str:
        """Return why a trial does not go on to more epochs or steps; empty if it does."""
        if not record.state.trained:
            return record.state.value
        if before.is_shared:
            return "because a shared storage keeps ended trials"
        if record.ended_by is not None or record.extent < most:
            return f"ended by {record.ended_by or 'the engine'}"
        if record.repeats or record.exploits:
            return "of several repeats" if record.repeats else "of a population"
        has_checkpoint = any(self.trial(record.number).glob("checkpoints/epoch-*.pt"))
        return "" if has_checkpoint else "without a checkpoint"

    def _before(self) -> Resolved | None:
        """Read the earlier resolved sweep; None if the directory is new, or the file is lost or damaged."""
        if not self.resolved.exists() and not self.numbers():
            return None
        what, aside = "lost", ""
        try:
            if self.resolved.exists():
                return read_resolved(self.resolved, check=True)
        except RecordError:  # the sweep file says it too
            what, aside = "damaged", f", kept as {quarantine(self.resolved).name}"
        name = self.display_path(self.resolved)
        self.remarks.append(f"{name} is {what}{aside}: it is recreated from the sweep file")
        self.is_known = False
        return None

    def _describe_changes(self, differences: list[Change], remedy: str) -> str:
        lines = format_changes(differences)
        return f"{self.label}: its trials belong to another sweep:\n{lines}\n{remedy}"


def _used_up(records: Sequence[TrialRecord], resolved: Resolved) -> str | None:
    """Return the limit of the budget by which no trial may start any more; None if one may."""
    budget = resolved.config["budget"]
    time, target, failures = (budget.get(key) for key in ("time", "target", "failures"))
    values = [one.value for one in records if one.state is TrialState.COMPLETE and one.value is not None]
    if time is not None and seconds_at_work(records) >= float(time.removesuffix("s")):
        return "time"
    if target is not None and not all(resolved.direction.better(target, value) for value in values):
        return "target"
    failed = sum(record.state is TrialState.FAILED for record in records)
    return "failures" if failures is not None and failed >= failures else None


def changed_sources(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the files that have changed; moving a folder as a whole changes none."""
    names = {_beside(path, now): digest for path, digest in now.items()}
    earlier = {_beside(path, before): digest for path, digest in before.items()}
    return [name for name, digest in names.items() if earlier.get(name, digest) != digest]


def _beside(path: str, sources: Mapping[str, str]) -> str:
    """Return the path of a file relative to the folder of the engine's own file."""
    home = Path(next(iter(sources))).parent
    return str(Path(path).relative_to(home)) if Path(path).is_relative_to(home) else path


def _other_engine(before: Resolved, now: Resolved) -> list[Change]:
    """Compare the files of two engines of the same name; a copied run directory has both.

    The file of a moved engine no longer exists, so they are one.
    """
    first, second = next(iter(before.sources), None), next(iter(now.sources), None)
    if first is None or second is None or first == second or not Path(first).exists():
        return []
    return [Change("engine.file", first, second, fatal=False)] if before.home == now.home else []


def file_lock(path: pathlib.Path, *, blocking: bool = False) -> BaseFileLock:
    """Return a lock that the system frees when its holder dies; a held one raises `TimeoutError`."""
    from filelock import FileLock  # only writers of a directory need it

    return FileLock(path, blocking=blocking)
