"""User tables: the values by user of the picked epoch, kept by a run and left beside its record."""

from __future__ import annotations

import zipfile
from pathlib import Path

from ..exceptions import RecordError
from ..metrics.ranking.per_user import PerUser
from ..search.atomic import atomic_write

PER_USER = "per_user"
_MOST_CELLS = 1_000_000  # that are written as CSV


class UserTables:
    """Follows the picked epoch of one run. `per_user-0003.npz` has the values of epoch 3 until the run ends.

    A run that goes on after its checkpoint may have picked an earlier epoch by then, so the table of that one
    stays until the next checkpoint is written.

    Args:
        directory: the trial's own; None holds the table in memory alone.
    """

    def __init__(self, directory: Path | None) -> None:
        self.table: PerUser | None = None
        self._directory = directory
        self._picked: int | None = None
        self._at_checkpoint: int | None = None

    def follow(self, epoch: int, picked: int | None, table: PerUser) -> None:
        """Take the table of a closed epoch if that is the picked one now."""
        self._picked = picked
        if picked == epoch:
            self.table = table or None
            if self.table is not None and self._directory is not None:
                with atomic_write(_draft(self._directory, epoch)) as file:
                    self.table.to_npz(file)
        self._prune(picked, self._at_checkpoint)

    def checkpointed(self) -> None:
        """Note that the run can go on from here: what was picked before is of no use any more."""
        self._at_checkpoint = self._picked
        self._prune(self._picked)

    def restore(self, picked: int | None) -> None:
        """Go on after a checkpoint at which this epoch was the picked one.

        Raises:
            RecordError: its table is damaged.
        """
        self._picked = self._at_checkpoint = picked
        path = None if self._directory is None or picked is None else _draft(self._directory, picked)
        self.table = read_table(path) if path is not None and path.exists() else None

    def export(self) -> None:
        """Leave the table as `per_user.csv`, or as `per_user.npz` if it is large, and nothing else."""
        if self.table is None or self._directory is None:
            return
        large = self.table.cells > _MOST_CELLS
        csv, npz = _exports(self._directory)
        with atomic_write(npz if large else csv) as file:
            if large:
                self.table.to_npz(file)
            else:
                file.write(self.table.csv_text().encode())
        (csv if large else npz).unlink(missing_ok=True)
        self._prune()

    def _prune(self, *epochs: int | None) -> None:
        if self._directory is None:
            return
        kept = [_draft(self._directory, epoch) for epoch in epochs if epoch is not None]
        for path in self._directory.glob(f"{PER_USER}-*.npz"):
            if path not in kept:
                path.unlink()


def table_of(directory: Path, epoch: int | None) -> PerUser | None:
    """Read the values by user of a trial that picked this epoch; None if it keeps none.

    Raises:
        RecordError: the file is damaged.
    """
    drafts = [] if epoch is None else [_draft(directory, epoch)]  # of a trial that its host cut short
    found = [path for path in (*_exports(directory), *drafts) if path.exists()]
    return read_table(found[0]) if found else None


def read_table(path: Path) -> PerUser:
    """Read a table.

    Raises:
        RecordError: the file is damaged.
    """
    try:
        return PerUser.read(path)
    except (ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile) as err:
        raise RecordError(f"{path}: holds no values by user: {err}") from err


def _exports(directory: Path) -> tuple[Path, Path]:
    return directory / f"{PER_USER}.csv", directory / f"{PER_USER}.npz"


def _draft(directory: Path, epoch: int) -> Path:
    return directory / f"{PER_USER}-{epoch:04d}.npz"
