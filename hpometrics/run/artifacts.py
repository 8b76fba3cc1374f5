"""Traces: what a run leaves in its directory: record, statistics, checkpoints, tables by user, examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..records.atomic import sync_directory, writing
from ..records.epoch_log import EpochLog, Fsync
from ..records.trial_record import EpochRecord
from .checkpoint import Checkpoints, Keep, Stateful, copy_states, random_of_ranks
from .epoch import Panels
from .files import ExampleFiles
from .statistics_log import StatisticsLog
from .statistics_store import KeptPart
from .user_tables import UserTables

if TYPE_CHECKING:
    from ..backends.ray.ray_carried import Carried

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Stored:
    """What a run can go on from: its epochs, the state of each object, the random states of every rank.

    `adopted`: the states are another trial's.
    """

    done: tuple[EpochRecord, ...] = ()
    states: Mapping[str, Any] = field(default_factory=dict)
    random: Sequence[Any] = ()
    adopted: bool = False


class Traces:
    """The files of one run, written in an order that lets a run that is killed in between go on.

    Args:
        directory: the trial's own; None writes nothing and keeps the tables of the picked epoch in memory.
        fsync: see `EpochLog`.
        keep: which checkpoints.
        carried: takes checkpoints to the host where there is no directory.
    """

    def __init__(
        self,
        directory: Path | None,
        fsync: Fsync,
        keep: Keep = Keep.BEST,
        carried: Carried | None = None,
    ) -> None:
        self.directory, self._keep = directory, keep
        self.users, self.examples = UserTables(directory), ExampleFiles(directory)
        self._log = None if directory is None else EpochLog(directory, fsync)
        self._statistics = None if directory is None else StatisticsLog(directory)
        self._checkpoints = (
            None if directory is None or keep is Keep.NONE else Checkpoints(directory / CHECKPOINTS)
        )
        self._carried = carried if directory is None and keep is not Keep.NONE else None
        self._begun = False
        self._states: dict[str, Any] | None = None

    def append(self, record: EpochRecord, kept: Sequence[KeptPart] = ()) -> EpochRecord:
        """Write what is kept of an epoch, then the epoch into the record; return it as written.

        The first epoch voids the checkpoints of an earlier attempt that lie behind it, and brings the names
        in the directory to the disk: a line would be lost with that of its file.

        Raises:
            RunError: the run was to go on from the state of another trial, and has not taken it.
        """
        if self._checkpoints is not None and not self._begun:
            self._checkpoints.check_taken(record.epoch)
            self._checkpoints.drop(record.epoch)
        if self._carried is not None:
            self._carried.append(record)
        first, self._begun = not self._begun, True
        if self._log is None or self._statistics is None:
            return record
        self._statistics.append(self._log.attempt, record.epoch, kept)
        if first:
            with writing(self._log.path):
                sync_directory(self._log.path.parent)
        return self._log.append(record)

    def follow(self, epoch: int, picked: int | None, panels: Panels, random: Sequence[Any] = ()) -> None:
        """Keep what belongs to the picked epoch, then write the checkpoint that was asked for.

        Args:
            epoch: which has closed.
            picked: which counts now.
            panels: what measured it.
            random: the random states of every rank, for the checkpoint.
        """
        if panels.per_user is not None:
            self.users.follow(epoch, picked, panels.per_user)
        if panels.examples is not None:
            self.examples.follow(epoch, picked, panels.examples)
        if self._checkpoints is not None and self._states is not None:
            self._checkpoints.save(epoch, self._states, random)
            if self._keep is not Keep.ALL:
                self._checkpoints.keep(epoch, picked if self._keep is Keep.BEST else None)
            self.users.checkpointed()
            self.examples.checkpointed()
        if self._carried is not None and self._states is not None:
            Checkpoints(self._carried.folder(picked == epoch)).save(epoch, self._states, random)
        self._states = None

    def hold(self, objects: dict[str, Stateful]) -> None:
        """Copy states now, for the checkpoint of the open epoch; none is copied that is not to be kept.

        Raises:
            RunError: an object has no `state_dict`, or one that cannot be stored safely.
        """
        if self._checkpoints is not None or self._carried is not None:
            self._states = copy_states(objects)

    def checkpoint_of(self, epoch: int | None) -> Path | None:
        """The state at the end of an epoch, if it was kept."""
        return None if self._checkpoints is None or epoch is None else self._checkpoints.path(epoch)

    def stored(self) -> Stored:
        """Read the latest checkpoint and the epochs up to it; of a fresh run there is nothing."""
        if self._carried is not None:
            with self._carried.received() as received:
                return Stored() if received is None else _stored(Checkpoints(received[0]), received[1])
        if self._checkpoints is None or self._log is None:
            return Stored()
        return _stored(self._checkpoints, self._log.read())

    def go_on(self, picked: int | None) -> None:
        """Go on from the checkpoint at which this epoch was the picked one."""
        self.users.restore(picked)
        self.examples.restore(picked)

    def close(self) -> None:
        """Close the record and what is kept beside it."""
        for log in (self._log, self._statistics):
            if log is not None:
                log.close()


def _stored(checkpoints: Checkpoints, written: tuple[EpochRecord, ...]) -> Stored:
    content = checkpoints.load_latest(before=len(written))
    if content is None:
        return Stored()
    adopted = bool(content.get("adopted"))
    done = written[: content["epoch"] + 1]
    return Stored(done, content["states"], random_of_ranks(content), adopted)
