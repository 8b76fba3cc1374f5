"""The stamp of a finished sweep.

A second `run` of a finished sweep only compares the stamp and prints the results again. If the stamp cannot
be read or differs from the directory, `run` checks everything itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from .. import __version__
from .._text import printable_lines, slug_of
from ..config.document import Document
from ..config.placeholders import fill_environment
from ..exceptions import DiskError
from ..records._files import atomic_write, read_whole
from ..records._json import FORMAT, read_json
from .annotation_file import annotated
from .run_directory import RunDirectory
from .status import opening, print_results


@dataclass(frozen=True)
class Stamp:
    """The digests of a finished sweep.

    `question` is the digest of the sweep file and of the changes by `--set`. `files` is the digest of size
    and time of every file of the run directory and of the modules of its engines, the files `engines`.
    """

    question: str
    engines: list[str]
    files: str
    format: int = FORMAT

    @classmethod
    def of(cls, home: RunDirectory, question: str, engines: list[str]) -> Self:
        """Compute the stamp of the current state of a run directory.

        Raises:
            OSError: a file of it cannot be examined.
        """
        return cls(question, engines, _digest([*_file_facts(home.path), *map(_size_and_time, engines)]))

    @classmethod
    def read(cls, home: RunDirectory) -> Self | None:
        """Read the stamp of a run directory; return None if it is damaged or of another version.

        Raises:
            OSError: there is none.
        """
        try:
            stamp = cls(**read_json(read_whole(home.stamp)))
        except (ValueError, TypeError):
            return None
        return stamp if stamp.format == FORMAT and isinstance(stamp.engines, list) else None

    def write(self, home: RunDirectory) -> None:
        """Write the stamp if the disk has room for it; without it the next run takes longer."""
        with suppress(DiskError), atomic_write(home.stamp, sync=False) as file:
            file.write(json.dumps(asdict(self)).encode())


def print_finished(document: Document, quiet: bool = False, as_json: bool = False) -> bool:
    """Print the results of a finished sweep again; do nothing if it is not finished, or in doubt.

    Args:
        document: the sweep file with the overrides of the command.
        quiet: print the results only.
        as_json: print them as JSON.

    Returns:
        Whether they were printed.

    Raises:
        ConfigError: the directory is a symbolic link, contains one, or belongs to another user.
    """
    home = RunDirectory(path_of(document))
    if not is_finished(home, question_of(document)):
        return False
    resolved, records = annotated(home), home.records()
    if not quiet:
        print(printable_lines(opening(home, resolved, records)), file=sys.stderr, flush=True)
    print_results(home, resolved, records, as_json)
    return True


def is_finished(home: RunDirectory, question: str) -> bool:
    """Return whether the stamp of a run directory says that its sweep is finished; False in doubt.

    Raises:
        ConfigError: the directory is a symbolic link, contains one, or belongs to another user.
    """
    if not os.path.isfile(home.stamp):  # unlike Path.is_file, False for an impossible name
        return False
    home.check_private()
    try:
        stamp = Stamp.read(home)
        return stamp is not None and stamp == Stamp.of(home, question, stamp.engines)
    except (OSError, ValueError):  # a file has disappeared; or an impossible path
        return False


def question_of(document: Document, code: str = "") -> str:
    """Return the digest of the content of a sweep file, of its path and of the version of this package.

    Args:
        document: the sweep file with the overrides of the command.
        code: the code of an engine that is in no file.
    """
    path = str(Path(document.source).absolute())
    return _digest([__version__, path, document.text, fill_environment(document), *([code] if code else [])])


def path_of(document: Document) -> Path:
    """Return the run directory that a document names; its structure is not checked yet."""
    data = fill_environment(document)
    results, name = data.get("results"), data.get("name")
    directory = results.get("dir") if isinstance(results, dict) else None
    return Path(str(directory or f"runs/{name or slug_of(Path(document.source).stem)}"))


def _file_facts(home: Path) -> Iterator[list[Any]]:
    """Yield name, size and time of each file, without the hidden locks and the stamp beside the trials."""
    for folder, folders, names in os.walk(home):
        if folder == str(home):
            folders[:], names = ([name for name in some if name[0] != "."] for some in (folders, names))
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield [os.path.relpath(path, home), *_size_and_time(path)]


def _size_and_time(path: str) -> list[int]:
    facts = os.stat(path, follow_symlinks=False)
    return [facts.st_size, facts.st_mtime_ns]


def _digest(facts: Any) -> str:
    return sha256(json.dumps(facts).encode()).hexdigest()
