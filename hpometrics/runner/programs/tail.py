"""A file that a program writes, read as it grows."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from ...exceptions import RunError

T = TypeVar("T")

_HEAD = 4096  # bytes by which a file that was written anew is told from one that has grown
_SEARCH_INTERVAL = 1.0  # seconds; a directory of checkpoints may hold many files


class Tail:
    """The bytes that a program adds to a file; a file that is written anew is read from its start.

    Args:
        path: the file, which need not exist yet.
        skips: whether what the file holds now is left out, because an earlier program wrote it.
    """

    def __init__(self, path: Path, skips: bool) -> None:
        self.path = path
        self._inode: int | None = None
        self._head, self._position, self._changed = b"", 0, 0
        if skips:
            self.read()

    def read(self) -> tuple[bytes, bool]:
        """Return the bytes that are new, and whether the file was written anew before them.

        Raises:
            RunError: the path is not a file, or cannot be read.
        """
        try:
            return self._read()
        except FileNotFoundError:
            return b"", False
        except OSError as err:
            raise RunError(f"{self.path}: the values of the program cannot be read: {err.strerror}") from err

    def head(self) -> bytes:
        """Return the first bytes of the file."""
        return self._head

    def _read(self) -> tuple[bytes, bool]:
        facts = os.stat(self.path)
        if not stat.S_ISREG(facts.st_mode):
            raise RunError(f"{self.path}: is not a file, so the values of the program cannot be read")
        unchanged = (self._inode, self._position, self._changed)
        if (facts.st_ino, facts.st_size, facts.st_mtime_ns) == unchanged:
            return b"", False
        with self.path.open("rb") as file:
            head = file.read(_HEAD)
            known = self._inode is not None
            anew = known and (
                facts.st_ino != self._inode
                or facts.st_size <= self._position
                or not head.startswith(self._head)
            )
            if anew:
                self._position = 0
            self._inode, self._head = facts.st_ino, head
            file.seek(self._position)
            content = file.read()
            self._position += len(content)
            self._changed = os.fstat(file.fileno()).st_mtime_ns
        return content, anew


class Lines:
    """The complete lines that a program adds to a file.

    Args:
        path: the file.
        skips: see `Tail`.
    """

    def __init__(self, path: Path, skips: bool) -> None:
        self.tail = Tail(path, skips)
        self._rest = b""

    def read(self, last: bool = False) -> tuple[list[str], bool]:
        """Return the lines that are new, and whether the file was written anew before them.

        Args:
            last: whether the program has ended, so that a line without its end counts too.
        """
        content, anew = self.tail.read()
        *lines, self._rest = ((b"" if anew else self._rest) + content).split(b"\n")
        if last and self._rest:
            lines, self._rest = [*lines, self._rest], b""
        return [line.decode("utf8", "replace").strip("\r\ufeff") for line in lines], anew

    @property
    def first(self) -> str:
        """The first line of the file."""
        return self.tail.head().partition(b"\n")[0].decode("utf8", "replace").strip("\r\ufeff")


class Files(Generic[T]):
    """Files that a program creates while it runs, each with its reader.

    Args:
        find: returns the paths that there are.
        reader: creates the reader of a file, from its path and whether what it holds now is left out.
        skips: whether what the files of now hold is left out.
    """

    def __init__(
        self, find: Callable[[], Iterable[Path]], reader: Callable[[Path, bool], T], skips: bool
    ) -> None:
        self._find, self._reader = find, reader
        self._readers = {path: reader(path, skips) for path in sorted(find())}
        self._next_search = 0.0

    def read(self, last: bool = False) -> Iterator[tuple[Path, T]]:
        """Yield each path with its reader; new files are searched once a second, and at last."""
        if last or time.monotonic() >= self._next_search:
            self._next_search = time.monotonic() + _SEARCH_INTERVAL
            for path in sorted(self._find()):
                if path not in self._readers:
                    self._readers[path] = self._reader(path, False)
        yield from self._readers.items()
