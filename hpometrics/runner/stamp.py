"""The stamp of a finished sweep: by it the next `run` of the same file knows that nothing is left to do.

Whatever differs from what it says, or cannot be read, makes a `run` look for itself.
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
from .._text import printable_lines
from ..config.document import Document
from ..config.slugs import slug_of
from ..exceptions import DiskError
from ..records._files import read_whole
from ..records._json import FORMAT, read_json
from ..records.atomic import atomic_write
from ..results.run_directory import RunDirectory
from ..results.status import opening, results_text, status_json


@dataclass(frozen=True)
class Stamp:
    """The digests of a finished sweep.

    `question` is of the sweep file and what `--set` changes of it, `files` of the size and the time of every
    file of the run directory, and of the module of the engine, which is at `engine` if it is a file.
    """

    question: str
    engine: str | None
    files: str
    format: int = FORMAT

    @classmethod
    def of(cls, home: RunDirectory, question: str, engine: str | None) -> Self:
        """Compute the stamp of a run directory as it stands.

        Raises:
            OSError: a file of it cannot be looked at.
        """
        return cls(question, engine, _digest([*_facts(home.path), engine and _fact(engine)]))

    @classmethod
    def read(cls, home: RunDirectory) -> Self | None:
        """Read the stamp of a run directory; None where it is damaged, or of another version.

        Raises:
            OSError: there is none.
        """
        try:
            stamp = cls(**read_json(read_whole(home.stamp)))
        except (ValueError, TypeError):
            return None
        return stamp if stamp.format == FORMAT and isinstance(stamp.engine, str | None) else None

    def write(self, home: RunDirectory) -> None:
        """Write it, where the disk has room for it; without it the next run takes longer."""
        with suppress(DiskError), atomic_write(home.stamp, sync=False) as file:
            file.write(json.dumps(asdict(self)).encode())


def print_finished(document: Document, quiet: bool = False, as_json: bool = False) -> bool:
    """Print again what a sweep has found that has nothing left to do; otherwise, or in doubt, do nothing.

    Args:
        document: the sweep file, with what is set in place of what stands there.
        quiet: print the results only.
        as_json: print them as JSON.

    Returns:
        Whether it was printed.

    Raises:
        ConfigError: the directory is a symbolic link or holds one, or is another user's.
    """
    home = RunDirectory(path_of(document))
    if not os.path.isfile(home.stamp):  # unlike that of a Path, False where no file can be called so
        return False
    home.check_private()
    if not _is_as_stamped(home, document):
        return False
    resolved, records = home.read(), home.records()
    if not quiet:
        print(printable_lines(opening(home, resolved, records)), file=sys.stderr, flush=True)
    told = status_json(home.path) if as_json else printable_lines(results_text(home, resolved, records))
    print(told, flush=True)
    return True


def _is_as_stamped(home: RunDirectory, document: Document) -> bool:
    try:
        stamp = Stamp.read(home)
        return stamp is not None and stamp == Stamp.of(home, question_of(document), stamp.engine)
    except (OSError, ValueError):  # something has gone, or goes in this moment; a path that is none
        return False


def question_of(document: Document) -> str:
    """Return the digest of what a sweep file asks, of its place and of the version that understands it."""
    file = str(Path(document.source).absolute())
    return _digest([__version__, file, document.text, document.data])


def path_of(document: Document) -> Path:
    """Return the run directory that a document names, whose structure nobody has checked yet."""
    results, name = document.data.get("results"), document.data.get("name")
    directory = results.get("dir") if isinstance(results, dict) else None
    return Path(str(directory or f"runs/{name or slug_of(Path(document.source).stem)}"))


def _facts(home: Path) -> Iterator[list[Any]]:
    """Yield name, size and time of each file; what is hidden beside the trials are locks and the stamp."""
    for folder, folders, names in os.walk(home):
        if folder == str(home):
            folders[:], names = ([name for name in some if name[0] != "."] for some in (folders, names))
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield [os.path.relpath(path, home), *_fact(path)]


def _fact(path: str) -> list[int]:
    facts = os.stat(path, follow_symlinks=False)
    return [facts.st_size, facts.st_mtime_ns]


def _digest(facts: Any) -> str:
    return sha256(json.dumps(facts).encode()).hexdigest()
