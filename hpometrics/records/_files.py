"""Read and write the files of a record: regular, of bounded size, not behind a link, replaced atomically."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .._text import printable
from ..exceptions import ConfigError, DiskError, RecordError

_MIB = 1 << 20
_PLAIN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_AT_ONCE = _MIB  # bytes
_PROCESS = os.urandom(4).hex()
_DRAFT = re.compile(r"\..+\.\d+-[0-9a-f]{8}")

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_ROOM = 1 << 16  # bytes: many times what a trial writes of its end
_OF_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.ESTALE}


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


def open_regular(path: Path, limit: Limit = RECORD_LIMIT, *, follow: bool = False) -> BinaryIO:
    """Open a file to be read; whatever has taken its place, this neither waits nor reads it.

    Args:
        path: of the file.
        limit: how large it may be.
        follow: whether it may be a symbolic link, because the user has named it.

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
    with _open_buffered(handle, size) as file:
        remaining = size if limit.size is None else limit.size
        while line := file.readline(limit.line + 1):
            if len(line) > limit.line:
                raise _too_large(path, f"has a line of more than {limit.line} bytes", limit.line, limit)
            yield line
            remaining -= len(line)
            if remaining < 0 and limit.size is not None:  # it has grown
                raise _too_large(path, f"has more than {limit.size} bytes", limit.size, limit)


def check_regular(path: Path, limit: Limit = RECORD_LIMIT, *, follow: bool = False) -> None:
    """Check a file as `open_regular` does, if a library opens the file by its path.

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
    """Check that a path is not a symbolic link, which may lead out of its directory.

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
    """Read the bytes that a file had when it was opened; a system may return fewer at once."""
    content = os.read(handle, size)
    while len(content) < size and (more := os.read(handle, size - len(content))):
        content += more
    return content


def _open_buffered(handle: int, size: int) -> BinaryIO:
    """Read a small file at once, as most are; allocating a buffer would take longer than reading it."""
    if size > _AT_ONCE:
        return os.fdopen(handle, "rb")
    try:
        return io.BytesIO(_read(handle, size))
    finally:
        os.close(handle)


def _other_kind(path: Path, mode: int) -> RecordError:
    kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
    return RecordError(f"{path}: is {kind}, not a file; move it away")


def _too_large(path: Path, what: str, most: int, limit: Limit) -> RecordError:
    return RecordError(
        f"{path}: {what}, but the limit for {limit.name} is {most}; move it away if it is damaged, "
        f"otherwise {limit.remedy}"
    )


def check_own(directory: Path) -> None:
    """Check that no other user may have written the files of a directory; it may be missing.

    Raises:
        ConfigError: it is another user's, or others may write in it.
    """
    if os.name != "posix" or not directory.exists():
        return
    facts = directory.lstat()
    if facts.st_uid != os.geteuid():
        raise ConfigError(
            f"{directory}: belongs to user {facts.st_uid}, who can make it run any code; copy it, or make "
            f"it yours: chown -R {os.geteuid()} {directory}"
        )
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(facts.st_mode)
        raise ConfigError(
            f"{directory}: other users can write to it (mode {mode:04o}) and so make it run any code; if "
            f"you trust its content: chmod -R go-w {directory}"
        )


def draft_of(path: Path) -> Path:
    """Return where this process writes a file before it takes its place.

    On a shared disk the number of a process does not identify it: in each container the first one has 1.
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{_PROCESS}")


def is_draft(name: str) -> bool:
    """Return whether a file is a draft, also that of a process that was killed while it wrote.

    >>> is_draft(draft_of(Path("trial.json")).name), is_draft(".trainstats")
    (True, False)
    """
    return _DRAFT.fullmatch(name) is not None


@contextmanager
def atomic_write(path: Path, sync: bool = True, *, last: bool = True) -> Iterator[BinaryIO]:
    """Open a file to write; it takes its place when the block ends without an error.

    Args:
        path: of the file.
        sync: sync the content to disk. What can be derived again need not wait for the disk: it outlives the
            writer, but maybe not a power cut.
        last: sync its name to disk too. If False, the next file of the directory that is written so does it;
            until then a power cut may leave the old file, whole.

    Raises:
        DiskError: it cannot be written.
    """
    draft = draft_of(path)
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


def write_text(path: Path, text: str) -> None:
    """Write a file that holds the old text or the new text at any moment."""
    with atomic_write(path) as file:
        file.write(text.encode())


def is_of_disk(error: BaseException) -> bool:
    """Return whether an error means that a disk is full, broken, read-only or gone."""
    return isinstance(error, DiskError) or (isinstance(error, OSError) and error.errno in _OF_DISK)


class writing:
    """Turns an OSError into a DiskError with the file and the free space of its disk.

    It is a class since every epoch uses it: a context made of a generator takes three times as long.

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
    text = f"{path}: cannot be written: {error.strerror or error}; {free} bytes are free there"
    return DiskError(f"{text}, earlier records are kept")


def check_room(directory: Path) -> None:
    """Check that a directory can take another file of a few pages.

    Raises:
        DiskError: it cannot.
    """
    with atomic_write(directory / ".room") as file:
        file.write(bytes(_ROOM))
    (directory / ".room").unlink(missing_ok=True)


def free_name(path: Path, why: str) -> Path:
    """Return the first free name beside a file or directory to move it to: `study.db.damaged-1`."""
    number = 1
    while (aside := path.with_name(f"{path.name}.{why}-{number}")).exists():
        number += 1
    return aside


def make_private(directory: Path) -> None:
    """Make a directory that its owner alone can read, unless it is there.

    Raises:
        RecordError: a file is in its way, or permission is denied.
        DiskError: the disk is full, broken or read-only.
    """
    if directory.is_dir():
        return
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as err:
        file = next(path for path in (directory, *directory.parents) if path.exists())
        raise RecordError(f"{file}: is a file, but a directory is needed; name another one") from err
    except PermissionError as err:
        raise RecordError(f"{directory}: cannot be created, permission denied; name another one") from err
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
