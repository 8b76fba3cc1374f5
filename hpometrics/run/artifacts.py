"""The files of one run: its record, statistics, checkpoints, values by user and examples."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from csv import Error as CsvError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ..exceptions import RecordError
from ..metrics.retrieval.per_user import PerUser
from ..records._files import (
    EPOCHS_LIMIT,
    Limit,
    atomic_write,
    check_regular,
    read_lines,
    sync_directory,
    writing,
)
from ..records._json import read_json
from ..records.epoch_log import EpochLog, Fsync
from ..records.trial_record import CHECKPOINTS, EpochRecord
from .checkpoint import Checkpoints, Keep, Stateful, copy_states, random_of_ranks
from .epoch import EpochMeter
from .example_selection import Line
from .statistics_store import StatisticsLog, StatisticsSnapshot, StoredRows

Write = Callable[[BinaryIO], object]

PER_USER = "per_user"
_MOST_CELLS = 1_000_000  # that are written as CSV
_LIMIT = Limit("values by user", 1 << 32, 1 << 32, "track fewer metrics")
EXAMPLES = "examples"


@dataclass(frozen=True)
class Stored:
    """The stored state of a run: its epochs, the state of each object, the random states of every rank.

    `adopted` is true if the states are another trial's.
    """

    epochs: tuple[EpochRecord, ...] = ()
    states: Mapping[str, Any] = field(default_factory=dict)
    random: Sequence[Any] = ()
    adopted: bool = False


class HostCheckpoints(Protocol):
    """The checkpoints of a run without a directory, which its host stores, as Ray Tune does."""

    def append(self, record: EpochRecord) -> None:
        """Add an epoch that has closed."""

    def folder(self, picked: bool) -> Path:
        """Return a new folder for the checkpoint of the last epoch, which is the picked one or not."""

    def received(self) -> AbstractContextManager[tuple[Path, tuple[EpochRecord, ...]] | None]:
        """Return a folder with the checkpoint that the run resumes from, and the epochs up to it."""


class Artifacts:
    """The files of one run, written in an order that lets a run that is killed in between go on.

    Args:
        directory: the trial's own; None writes nothing and keeps the tables of the picked epoch in memory.
        fsync: see `EpochLog`.
        keep: which checkpoints.
        host: stores the checkpoints where there is no directory.
    """

    def __init__(
        self,
        directory: Path | None,
        fsync: Fsync,
        keep: Keep = Keep.BEST,
        host: HostCheckpoints | None = None,
    ) -> None:
        self.directory, self._keep = directory, keep
        self.users, self.examples = UserTables(directory), ExampleFiles(directory)
        self._log = None if directory is None else EpochLog(directory, fsync)
        self._statistics = None if directory is None else StatisticsLog(directory)
        self._checkpoints = (
            None if directory is None or keep is Keep.NONE else Checkpoints(directory / CHECKPOINTS)
        )
        self._host = host if directory is None and keep is not Keep.NONE else None
        self._begun = False
        self._states: dict[str, Any] | None = None

    def append(
        self,
        record: EpochRecord,
        statistics: Sequence[StatisticsSnapshot] = (),
        rows: StoredRows | None = None,
        held_out: StoredRows | None = None,
    ) -> EpochRecord:
        """Write what is kept of an epoch, then the epoch into the record; return it as written.

        The first epoch deletes the checkpoints of later epochs that an earlier attempt left, and syncs the
        directory to disk: without the name of its file a line would be lost.

        Raises:
            RunError: the run must resume from the state of another trial, and has not restored it.
        """
        if self._checkpoints is not None and not self._begun:
            self._checkpoints.check_restored(record.epoch)
            self._checkpoints.drop(record.epoch)
        if self._host is not None:
            self._host.append(record)
        first, self._begun = not self._begun, True
        if self._log is None or self._statistics is None:
            return record
        self._statistics.append(self._log.attempt, record.epoch, statistics, rows, held_out)
        if first:
            with writing(self._log.path):
                sync_directory(self._log.path.parent)
        return self._log.append(record)

    def follow(self, epoch: int, picked: int | None, meter: EpochMeter, random: Sequence[Any] = ()) -> None:
        """Keep what belongs to the picked epoch, then write the requested checkpoint.

        Args:
            epoch: the epoch that has closed.
            picked: the epoch that counts now.
            meter: what measured the epoch.
            random: the random states of every rank, for the checkpoint.
        """
        if meter.per_user is not None:
            self.users.follow(epoch, picked, meter.per_user)
        if meter.examples is not None:
            self.examples.follow(epoch, picked, meter.examples)
        if self._checkpoints is not None and self._states is not None:
            self._checkpoints.save(epoch, self._states, random)
            if self._keep is not Keep.ALL:
                self._checkpoints.keep(epoch, picked if self._keep is Keep.BEST else None)
            self.users.mark_checkpoint()
            self.examples.mark_checkpoint()
        if self._host is not None and self._states is not None:
            Checkpoints(self._host.folder(picked == epoch)).save(epoch, self._states, random)
        self._states = None

    def hold(self, objects: dict[str, Stateful]) -> None:
        """Copy states now, for the checkpoint of the open epoch, unless no checkpoint is kept.

        Raises:
            RunError: an object has no `state_dict`, or one that cannot be stored safely.
        """
        if self._checkpoints is not None or self._host is not None:
            self._states = copy_states(objects)

    def checkpoint_of(self, epoch: int | None) -> Path | None:
        """Return the checkpoint at the end of an epoch, if it was kept."""
        return None if self._checkpoints is None or epoch is None else self._checkpoints.path(epoch)

    def read_stored(self) -> Stored:
        """Read the latest checkpoint and the epochs up to it; of a fresh run there is nothing."""
        if self._host is not None:
            with self._host.received() as received:
                return Stored() if received is None else _read_stored(Checkpoints(received[0]), received[1])
        if self._checkpoints is None or self._log is None:
            return Stored()
        return _read_stored(self._checkpoints, self._log.read())

    def read_written(self) -> Stored:
        """Read all epochs on disk, for an engine that keeps its state itself."""
        return Stored() if self._log is None else Stored(self._log.read())

    def go_on(self, picked: int | None) -> None:
        """Go on from the checkpoint at which this epoch was the picked one."""
        self.users.restore(picked)
        self.examples.restore(picked)

    def close(self) -> None:
        """Close the record and the statistics, each whatever the other raises."""
        with ExitStack() as last:
            for log in (self._statistics, self._log):
                if log is not None:
                    last.callback(log.close)


def _read_stored(checkpoints: Checkpoints, written: tuple[EpochRecord, ...]) -> Stored:
    content = checkpoints.load_latest(before=len(written))
    if content is None:
        return Stored()
    adopted = bool(content.get("adopted"))
    epochs = written[: content["epoch"] + 1]
    return Stored(epochs, content["states"], random_of_ranks(content), adopted)


class PickedFile:
    """A file such as `name-0003.jsonl`, which has the content of epoch 3 while that is the picked one.

    A run that resumes from its checkpoint may have picked an earlier epoch at that time, so the file of that
    epoch stays until the next checkpoint is written.

    Args:
        directory: the trial's own; None writes nothing.
        name: of the file, without epoch and ending.
        ending: of the file, with its dot.
    """

    def __init__(self, directory: Path | None, name: str, ending: str) -> None:
        self.directory = directory
        self._name, self._ending = name, ending
        self._picked: int | None = None
        self._at_checkpoint: int | None = None
        self._found: set[Path] | None = None

    def write(self, epoch: int, picked: int | None, write: Write | None) -> None:
        """Write the content of a closed epoch if that is the picked one now and has any."""
        self._picked = picked
        if picked == epoch and write is not None and self.directory is not None:
            path = self.path(self.directory, epoch)
            with atomic_write(path) as file:
                write(file)
            self._files.add(path)
        self.prune(picked, self._at_checkpoint)

    def mark_checkpoint(self) -> None:
        """Mark a checkpoint, from which the run can resume: earlier picks are not needed any more."""
        self._at_checkpoint = self._picked
        self.prune(self._picked)

    def find(self, picked: int | None) -> Path | None:
        """Go on after a checkpoint at which this epoch was the picked one; return its file, if it has one."""
        self._picked = self._at_checkpoint = picked
        if self.directory is None or picked is None:
            return None
        path = self.path(self.directory, picked)
        return path if path.exists() else None

    def prune(self, *epochs: int | None) -> None:
        """Delete the files of all other epochs."""
        if self.directory is None or not self._files:
            return
        current = {self.path(self.directory, epoch) for epoch in epochs if epoch is not None}
        for path in self._files - current:
            path.unlink(missing_ok=True)
        self._files.intersection_update(current)

    @property
    def _files(self) -> set[Path]:
        """Those there are; the directory is looked at once, for what an earlier process left."""
        if self._found is None:
            pattern = f"{self._name}-*{self._ending}"
            self._found = set() if self.directory is None else set(self.directory.glob(pattern))
        return self._found

    def path(self, directory: Path, epoch: int) -> Path:
        """Return the path of the file of an epoch."""
        return directory / f"{self._name}-{epoch:04d}{self._ending}"


class UserTables(PickedFile):
    """The values by user of the picked epoch. `per_user-0003.npz` has those of epoch 3 until the run ends.

    Args:
        directory: the trial's own; None holds the table in memory alone.
    """

    def __init__(self, directory: Path | None) -> None:
        super().__init__(directory, PER_USER, ".npz")
        self.table: PerUser | None = None

    def follow(self, epoch: int, picked: int | None, table: PerUser) -> None:
        """Keep the table of a closed epoch if that is the picked one now."""
        if picked == epoch:
            self.table = table or None
        self.write(epoch, picked, None if self.table is None else self.table.to_npz)

    def restore(self, picked: int | None) -> None:
        """Go on after a checkpoint at which this epoch was the picked one.

        Raises:
            RecordError: its table is damaged.
        """
        path = self.find(picked)
        self.table = None if path is None else read_table(path)

    def export(self) -> None:
        """Write the table to `per_user.csv`, or to `per_user.npz` if it is large, and delete the drafts."""
        if self.table is None or self.directory is None:
            return
        large = self.table.cells > _MOST_CELLS
        csv, npz = _exports(self.directory)
        with atomic_write(npz if large else csv) as file:
            if large:
                self.table.to_npz(file)
            else:
                file.write(self.table.csv_text().encode())
        (csv if large else npz).unlink(missing_ok=True)
        self.prune()


def read_user_table(directory: Path, epoch: int | None) -> PerUser | None:
    """Read the values by user of a trial that picked this epoch; None if it keeps none.

    Raises:
        RecordError: the file is damaged.
    """
    drafts = (
        [] if epoch is None else [PickedFile(directory, PER_USER, ".npz").path(directory, epoch)]
    )  # of a trial that its host cut short
    paths = [path for path in (*_exports(directory), *drafts) if os.path.lexists(path)]
    return read_table(paths[0]) if paths else None


def read_table(path: Path) -> PerUser:
    """Read a table.

    Raises:
        RecordError: the file is damaged.
    """
    check_regular(path, _LIMIT)
    try:
        _check_unpacked(path)
        return PerUser.read(path)
    except RecordError:
        raise
    except (ValueError, KeyError, IndexError, EOFError, MemoryError, CsvError, zipfile.BadZipFile) as err:
        raise RecordError(f"{path}: holds no values by user: {err}") from err


def _check_unpacked(path: Path) -> None:
    """Check that a packed table does not unpack to more than a table may have."""
    if path.suffix != ".npz":
        return
    with zipfile.ZipFile(path) as file:
        size = sum(part.file_size for part in file.infolist())
    if size > _LIMIT.line:
        raise RecordError(
            f"{path}: unpacks to {size} bytes, but at most {_LIMIT.line} are read for {_LIMIT.name}"
        )


def _exports(directory: Path) -> tuple[Path, Path]:
    return directory / f"{PER_USER}.csv", directory / f"{PER_USER}.npz"


class ExampleFiles(PickedFile):
    """The worst and best examples of the picked epoch.

    Args:
        directory: the trial's own; None holds the lines in memory alone.
    """

    def __init__(self, directory: Path | None) -> None:
        super().__init__(directory, EXAMPLES, ".jsonl")
        self.lines: tuple[Line, ...] = ()

    def follow(self, epoch: int, picked: int | None, lines: Sequence[Line]) -> None:
        """Keep the examples of a closed epoch if that is the picked one now."""
        if picked == epoch:
            self.lines = tuple({"epoch": epoch, **line} for line in lines)
        self.write(epoch, picked, self._write if self.lines else None)

    def restore(self, picked: int | None) -> None:
        """Go on after a checkpoint at which this epoch was the picked one.

        Raises:
            RecordError: its file is damaged.
        """
        path = self.find(picked)
        self.lines = () if path is None else read_examples(path)

    def export(self) -> None:
        """Write the lines to `examples.jsonl`, and delete the drafts."""
        if self.lines and self.directory is not None:
            with atomic_write(self.directory / f"{EXAMPLES}.jsonl") as file:
                self._write(file)
            self.prune()

    def _write(self, file: BinaryIO) -> None:
        for line in self.lines:
            text = json.dumps(line, allow_nan=False, ensure_ascii=False)
            file.write(
                f"{text}\n".encode(errors="backslashreplace")
            )  # half a surrogate becomes JSON's escape


def read_examples(path: Path) -> tuple[Line, ...]:
    """Read what a run left.

    Raises:
        RecordError: a line is damaged; the message names it.
    """
    lines = []
    for number, line in enumerate(read_lines(path, EPOCHS_LIMIT), 1):
        try:
            lines.append(read_json(line))
        except ValueError as err:
            raise RecordError(f"{path}:{number}: does not hold an example: {err}") from err
    return tuple(lines)
