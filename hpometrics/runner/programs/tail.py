"""A file that a program writes, read as it grows."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...exceptions import RunError

_HEAD = 4096  # bytes by which a file that was written anew is told from one that has grown


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
            raise RunError(f"{self.path}: is not a file, from which the values of the program can be read")
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
