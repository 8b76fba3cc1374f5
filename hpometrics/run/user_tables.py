"""User tables: the values by user of the picked epoch, kept by a run and left beside its record."""

from __future__ import annotations

import os
import zipfile
from csv import Error as CsvError
from pathlib import Path

from ..exceptions import RecordError
from ..metrics.retrieval.per_user import PerUser
from ..records._files import Limit, check_regular
from ..records.atomic import atomic_write
from .picked_file import PickedFile

PER_USER = "per_user"
_MOST_CELLS = 1_000_000  # that are written as CSV
_LIMIT = Limit("values by user", 1 << 32, 1 << 32, "track fewer metrics")


class UserTables:
    """Follows the picked epoch of one run. `per_user-0003.npz` has the values of epoch 3 until the run ends.

    Args:
        directory: the trial's own; None holds the table in memory alone.
    """

    def __init__(self, directory: Path | None) -> None:
        self.table: PerUser | None = None
        self._directory = directory
        self._drafts = PickedFile(directory, PER_USER, ".npz")

    def follow(self, epoch: int, picked: int | None, table: PerUser) -> None:
        """Take the table of a closed epoch if that is the picked one now."""
        if picked == epoch:
            self.table = table or None
        self._drafts.follow(epoch, picked, None if self.table is None else self.table.to_npz)

    def checkpointed(self) -> None:
        """Note that the run can go on from here: what was picked before is of no use any more."""
        self._drafts.checkpointed()

    def restore(self, picked: int | None) -> None:
        """Go on after a checkpoint at which this epoch was the picked one.

        Raises:
            RecordError: its table is damaged.
        """
        path = self._drafts.restore(picked)
        self.table = None if path is None else read_table(path)

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
        self._drafts.prune()


def table_of(directory: Path, epoch: int | None) -> PerUser | None:
    """Read the values by user of a trial that picked this epoch; None if it keeps none.

    Raises:
        RecordError: the file is damaged.
    """
    drafts = (
        [] if epoch is None else [PickedFile(directory, PER_USER, ".npz").path(directory, epoch)]
    )  # of a trial that its host cut short
    found = [path for path in (*_exports(directory), *drafts) if os.path.lexists(path)]
    return read_table(found[0]) if found else None


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
    """Refuse a packed table that unpacks to more than a table may have."""
    if path.suffix != ".npz":
        return
    with zipfile.ZipFile(path) as file:
        size = sum(part.file_size for part in file.infolist())
    if size > _LIMIT.line:
        raise RecordError(
            f"{path}: unpacks to {size} bytes, and at most {_LIMIT.line} are read of {_LIMIT.name}"
        )


def _exports(directory: Path) -> tuple[Path, Path]:
    return directory / f"{PER_USER}.csv", directory / f"{PER_USER}.npz"
