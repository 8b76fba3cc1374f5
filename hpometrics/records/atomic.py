"""Atomic files: a reader finds the old file or the new one, whole, whenever the writer dies."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..exceptions import DiskError, RecordError

_ROOM = 1 << 16  # bytes: many times what a trial writes of its end


@contextmanager
def atomic_write(path: Path, sync: bool = True, *, last: bool = True) -> Iterator[BinaryIO]:
    """Open a file to write; it takes its place when the block ends without an error.

    Args:
        path: of the file.
        sync: it is on disk by then. What can be derived again need not wait for the disk: it outlives the
            writer, but maybe not a power cut.
        last: its place is on disk by then too. Where False, the next file of the directory that is written
            so brings it there; until then a power cut may leave the old file, whole.

    Raises:
        DiskError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        try:
            with draft.open("wb") as file:
                yield file
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        if sync and last:
            sync_directory(path.parent)


_OF_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.ESTALE}


def is_of_disk(error: BaseException) -> bool:
    """Return whether an error means that a disk is full, broken, read-only or gone."""
    return isinstance(error, DiskError) or (isinstance(error, OSError) and error.errno in _OF_DISK)


class writing:
    """Say of a file that cannot be written which it is, and how full its disk.

    A class, as every epoch is written in it: to make a context of a generator takes three times as long.

    Raises:
        DiskError: it cannot.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, OSError):
            raise _disk_error(self._path, error) from error


def _disk_error(path: Path, error: OSError) -> DiskError:
    free = shutil.disk_usage(next(folder for folder in path.parents if folder.exists())).free
    told = f"{path}: cannot be written: {error.strerror or error}; {free} bytes are free there"
    return DiskError(f"{told}, what is recorded stands")


def check_room(directory: Path) -> None:
    """Refuse to go on in a directory that cannot take another file of a few pages.

    Raises:
        DiskError: it cannot.
    """
    with atomic_write(directory / ".room") as file:
        file.write(bytes(_ROOM))
    (directory / ".room").unlink(missing_ok=True)


def free_name(path: Path, why: str) -> Path:
    """Give the first free name beside a file or directory for what is put aside: `study.db.damaged-1`."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{why}-{number}")).exists():
        number += 1
    return aside


def make_private(directory: Path) -> None:
    """Make a directory that its owner alone can read, unless it is there.

    Raises:
        RecordError: a file is in its way, or it may not be made there.
        DiskError: the disk does not take it.
    """
    if directory.is_dir():
        return
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as err:
        file = next(path for path in (directory, *directory.parents) if path.exists())
        raise RecordError(f"{file}: is a file, where a directory is wanted; give another one") from err
    except PermissionError as err:
        raise RecordError(f"{directory}: cannot be made, permission denied; give another one") from err
    except OSError as err:
        if not is_of_disk(err):
            raise
        raise _disk_error(directory, err) from err


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive a power cut, where the system lets one."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
