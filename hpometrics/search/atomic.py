"""Atomic files: a reader finds the old file or the new one, whole, whenever the writer dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: Path, sync: bool = True) -> Iterator[BinaryIO]:
    """Open a file to write; it takes its place when the block ends without an error.

    Args:
        path: of the file.
        sync: it is on disk by then. What can be derived again need not wait for the disk: it outlives the
            writer, but maybe not a power cut.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if sync:
        sync_directory(path.parent)


def make_private(directory: Path) -> None:
    """Make a directory that its owner alone can read, unless it is there."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory survive a power cut, where the system lets one."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
