"""Reading: a file of a record is a regular one, of bounded size, in its own place and not behind a link."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .._text import printable
from ..exceptions import RecordError

_MIB = 1 << 20
_PLAIN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_AT_ONCE = _MIB  # bytes


@dataclass(frozen=True)
class Limit:
    """How much of a file is read.

    Args:
        name: what messages call it.
        size: bytes of the whole file; None where it is read one line at a time.
        line: bytes of one line.
        remedy: what to do about a file that has more and is not damaged.
    """

    name: str
    size: int | None
    line: int
    remedy: str


RECORD_LIMIT = Limit("a record", 64 * _MIB, 64 * _MIB, "log fewer values, or shorter ones")
"""Of `trial.json`, and of each other file that is one JSON value."""
EPOCHS_LIMIT = Limit("the epochs of a trial", 512 * _MIB, 64 * _MIB, "log fewer values per epoch")
"""Of `epochs.jsonl`: 1000 epochs of 500 values have 20 MiB."""
STATISTICS_LIMIT = Limit(
    "the statistics of an epoch", None, 256 * _MIB, "keep fewer statistics: results.statistics: small"
)
"""Of `statistics.jsonl`, whose lines are read one at a time."""
STORAGE_LIMIT = Limit(
    "a storage", 4096 * _MIB, 256 * _MIB, "copy the study into another by optuna.copy_study"
)
"""Of the file of an Optuna storage that is copied before it is read."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path, limit: Limit = RECORD_LIMIT, *, follow: bool = False) -> BinaryIO:
    """Open a file to be read; whatever has taken its place, this neither waits nor reads it.

    Args:
        path: of the file.
        limit: how large it may be.
        follow: the user has named it, so it may be a symbolic link.

    Raises:
        FileNotFoundError: there is none.
        RecordError: it is a symbolic link, not a regular file, or too large.
    """
    return os.fdopen(_open(path, limit, follow)[0], "rb")


def read_whole(path: Path, limit: Limit = RECORD_LIMIT, *, follow: bool = False) -> bytes:
    """Read a file; see `open_regular`.

    Raises:
        FileNotFoundError: there is none.
        RecordError: it is a symbolic link, not a regular file, or too large.
    """
    handle, size = _open(path, limit, follow)
    try:
        return _read(handle, size)
    finally:
        os.close(handle)


def read_lines(path: Path, limit: Limit, *, follow: bool = False) -> Iterator[bytes]:
    """Yield the lines of a file with their ends, the last one as it is; see `open_regular`.

    Raises:
        FileNotFoundError: there is none.
        RecordError: it is a symbolic link, not a regular file, or too large, or a line is too long.
    """
    handle, size = _open(path, limit, follow)
    with _buffered(handle, size) as file:
        left = size if limit.size is None else limit.size
        while line := file.readline(limit.line + 1):
            if len(line) > limit.line:
                raise _too_large(path, f"has a line of more than {limit.line} bytes", limit.line, limit)
            yield line
            left -= len(line)
            if left < 0 and limit.size is not None:  # it has grown
                raise _too_large(path, f"has more than {limit.size} bytes", limit.size, limit)


def check_regular(path: Path, limit: Limit = RECORD_LIMIT, *, follow: bool = False) -> None:
    """Refuse what `open_regular` refuses, where a library opens the file by its path.

    Raises:
        FileNotFoundError: there is none.
        RecordError: it is a symbolic link, not a regular file, or too large.
    """
    os.close(_open(path, limit, follow)[0])


def is_regular(path: Path) -> bool:
    """Return whether a file is in its own place: no link, no pipe, no device, no directory."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def is_own_directory(path: Path) -> bool:
    """Return whether there is a directory.

    Raises:
        RecordError: it is a symbolic link.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISLNK(mode):
        check_no_link(path)
    return stat.S_ISDIR(mode)


def check_no_link(path: Path) -> None:
    """Refuse a symbolic link, which may lead out of the directory that it is in.

    Raises:
        RecordError: it is one.
    """
    if path.is_symlink():
        target = printable(str(path.readlink()))
        raise RecordError(f"{path}: is a symbolic link to {target}; a run directory holds its own files")


def _open(path: Path, limit: Limit, follow: bool) -> tuple[int, int]:
    """Open a file; return its handle and how many bytes it has."""
    try:
        handle = os.open(path, _PLAIN if follow else _PLAIN | _NO_LINK)
    except OSError as err:
        if err.errno == errno.ELOOP:
            check_no_link(path)
        if err.errno == errno.ENXIO:
            raise _other_kind(path, stat.S_IFSOCK) from None
        raise
    facts = os.fstat(handle)
    size = facts.st_size
    if stat.S_ISREG(facts.st_mode) and (limit.size is None or size <= limit.size):
        return handle, size
    os.close(handle)
    if not stat.S_ISREG(facts.st_mode):
        raise _other_kind(path, facts.st_mode)
    raise _too_large(path, f"has {size} bytes", limit.size or 0, limit)


def _read(handle: int, size: int) -> bytes:
    """Read what a file had when it was opened; a system may give less of it at once."""
    content = os.read(handle, size)
    while len(content) < size and (more := os.read(handle, size - len(content))):
        content += more
    return content


def _buffered(handle: int, size: int) -> BinaryIO:
    """Read a small file at once, as most are; allocating a buffer would take longer than reading it."""
    if size > _AT_ONCE:
        return os.fdopen(handle, "rb")
    try:
        return io.BytesIO(_read(handle, size))
    finally:
        os.close(handle)


def _other_kind(path: Path, mode: int) -> RecordError:
    kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
    return RecordError(f"{path}: is {kind} in the place of a file; move it away")


def _too_large(path: Path, what: str, most: int, limit: Limit) -> RecordError:
    return RecordError(
        f"{path}: {what}, and at most {most} are read of {limit.name}; "
        f"move it away if it is damaged, otherwise {limit.remedy}"
    )
