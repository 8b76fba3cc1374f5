"""A copy of a run directory at a URL: in an object store, or any other file system that fsspec knows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from .._redaction import redacted
from .._text import one_line
from ..exceptions import ConfigError, DiskError, RecordError
from ._files import is_draft, is_regular, read_whole, write_text

INDEX = "copied.json"
"""The file with the name of the sweep, the id of its run directory, and the size and time of each file.

It is written first and last. The run directory holds its id in a file of the same name, so a directory that
is downloaded from the copy as a whole has it too.
"""
Files = Mapping[str, list[int]]
"""The size in bytes and the time in nanoseconds of each file, by its name in the directory."""


class Index(NamedTuple):
    """The name of the copied sweep, and its files; none before the first copy is whole.

    `id` is that of the run directory, empty until one claims the copy, and `directory` its path.
    """

    name: str
    files: Files
    id: str
    directory: str


def is_remote(place: object) -> bool:
    """Return whether a place is a URL rather than a directory.

    >>> is_remote("s3://sweeps/digits"), is_remote("runs/digits")
    (True, False)
    """
    return "://" in str(place)


def url_problem(url: str) -> str | None:
    """Return why nothing can be copied to a URL; None if it may be possible. Loads no file system.

    >>> url_problem("memory://digits"), url_problem("digits")
    (None, 'is not a URL; write it as in s3://bucket/folder')
    """
    from fsspec.registry import known_implementations

    if not is_remote(url) or not url.isprintable():
        return "is not a URL; write it as in s3://bucket/folder"
    if urlsplit(url).password is not None:
        return (
            "contains a password; leave it out, because the file system reads its own configuration or "
            "environment"
        )
    scheme = url.partition("://")[0]
    known: Mapping[str, Any] = known_implementations
    if scheme not in known:
        return f"{scheme}:// is not a file system that fsspec knows"
    package = known[scheme]["class"].partition(".")[0]
    if find_spec(package) is None:
        return f"{scheme}:// needs {package}, which is not installed: pip install {package}"
    return None


def claim_copy(url: str, name: str, home: Path) -> None:
    """Make a URL the place of a sweep's copy, unless it is; done before a search, it finds what is wrong.

    Args:
        url: a folder of its own, which may not exist yet.
        name: the name of the sweep.
        home: the run directory. If it has an id, see `identify`, no other one can claim the URL from then on.

    Raises:
        DiskError: nothing can be written there, or it holds something else, which is not touched.
    """
    with _disk_errors(url):
        _claim(url, *_open(url), name, home)


def identify(home: Path, id_: str | None = None) -> None:
    """Write an id by which the copy of a run directory is known, unless it has one.

    Args:
        home: the directory.
        id_: the id of the directory that it replaces; by default, a new one.

    Raises:
        DiskError: it cannot be written.
    """
    if not directory_id(home):
        write_text(home / INDEX, json.dumps({"id": id_ or uuid4().hex}))


def directory_id(home: Path) -> str:
    """Return the id of a run directory; empty if it has none, or if the file with it is damaged."""
    path = home / INDEX
    if not is_regular(path):
        return ""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(read_whole(path))["id"])
    return ""


def copy_directory(home: Path, url: str, name: str, leave: Collection[str] = ()) -> int:
    """Copy what has changed in a directory since the last copy, and return the number of copied files.

    Hidden files of the directory itself, such as locks, stay where they are, as do drafts. Files that were
    copied and are gone are removed.

    Args:
        home: the directory.
        url: where its files go, see `claim_copy`.
        name: the name of the sweep.
        leave: names in the directory itself that are not copied.

    Raises:
        DiskError: see `claim_copy`. What was copied before stays, and another call goes on.
    """
    with _disk_errors(url):
        identify(home)
        now = dict(_files_in(home, {INDEX, *leave}))
        system, root = _open(url)
        before = _claim(url, system, root, name, home)
        changed = [file for file, facts in now.items() if before.get(file) != facts]
        for file in changed:
            system.makedirs(f"{root}/{file}".rpartition("/")[0], exist_ok=True)
            system.put_file(str(home / file), f"{root}/{file}")
        for file in before.keys() - now.keys():
            if system.exists(f"{root}/{file}"):
                system.rm_file(f"{root}/{file}")
        if now != before:
            _write_index(system, root, _index(name, now, home))
    return len(changed)


@contextmanager
def _disk_errors(url: str) -> Iterator[None]:
    """Raise what a file system raises, which may be anything, as errors of a disk."""
    try:
        yield
    except DiskError:
        raise
    except Exception as err:
        raise DiskError(f"{url}: {_reason(err)}") from err


def _claim(url: str, system: Any, root: str, name: str, home: Path) -> Files:
    """Return the files that the copy of a sweep has; a new one begins with an index without files."""
    own = _index(name, {}, home)
    index = _read_index(system, root)
    if index is None and system.exists(root) and system.ls(root, detail=False):
        raise DiskError(f"{url}: is neither empty nor a copy of a run directory; name another URL")
    is_claimed = index is not None and bool(index.id or index.files)
    if index is not None and (index.name != name or (is_claimed and index.id != own.id)):
        raise DiskError(
            f"{url}: holds a copy of the sweep {index.name} of "
            f"{index.directory or 'an unknown directory'}; name another URL for the sweep {name} of "
            f"{own.directory}, or delete the copy if it is not needed"
        )
    if index is None or index.id != own.id:
        _write_index(system, root, own)
    return {} if index is None else index.files


def _index(name: str, files: Files, home: Path) -> Index:
    return Index(name, files, directory_id(home), str(home.absolute()))


def fetch_directory(url: str, home: Path, wanted: Callable[[str], bool]) -> None:
    """Fetch files of a copy that are not in a directory yet, or have changed.

    Args:
        url: where the copy is.
        home: the directory that receives them.
        wanted: whether a file is fetched, by its name in the directory.

    Raises:
        ConfigError: there is no copy, or it cannot be read.
        RecordError: its index names a file outside of it.
    """
    if problem := url_problem(url):
        raise ConfigError(f"{url} {problem}")
    try:
        system, root = _open(url)
        index = _read_index(system, root)
        if index is None or not index.files:
            lack = f"it has no {INDEX}" if index is None else "its first copy is not complete yet"
            raise ConfigError(f"{url}: is not a copy of a run directory; {lack}")
        for name, facts in index.files.items():
            _check_name(name, url)
            target = home / name
            if wanted(name) and not (target.is_file() and _facts(target) == facts):
                target.parent.mkdir(parents=True, exist_ok=True)
                system.get_file(f"{root}/{name}", str(target))
                os.utime(target, ns=(facts[1], facts[1]))
                if _facts(target) != facts:
                    raise ConfigError(f"{url}: {name} is still being copied; read it when the run has ended")
    except (ConfigError, RecordError):
        raise
    except Exception as err:  # a file system may raise anything
        raise ConfigError(f"{url}: cannot be read: {_reason(err)}") from err


def _open(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    system, root = url_to_fs(url)
    return system, root.rstrip("/")


def _read_index(system: Any, root: str) -> Index | None:
    """Return the index of a copy; None where there is none.

    Raises:
        ValueError: it is damaged.
    """
    try:
        text = system.cat_file(f"{root}/{INDEX}")
    except FileNotFoundError:
        return None
    try:
        content = json.loads(text)
        owner = (str(content.get(key, "")) for key in ("id", "directory"))
        return Index(str(content["name"]), dict(content["files"]), *owner)
    except (ValueError, TypeError, KeyError) as err:
        raise ValueError(f"{INDEX} is damaged; delete the copy, and the next run makes it again") from err


def _write_index(system: Any, root: str, index: Index) -> None:
    system.makedirs(root, exist_ok=True)
    system.pipe_file(f"{root}/{INDEX}", json.dumps(index._asdict()).encode())


def _files_in(home: Path, leave: Collection[str]) -> Iterator[tuple[str, list[int]]]:
    for folder, folders, names in os.walk(home):
        if folder == str(home):
            folders[:], names = (
                [name for name in some if name[0] != "." and name not in leave] for some in (folders, names)
            )
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and not is_draft(name):
                yield path.relative_to(home).as_posix(), _facts(path)


def _facts(path: Path) -> list[int]:
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns]


def _check_name(name: str, url: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name.isprintable():
        raise RecordError(f"{url}: {INDEX} names a file outside the copy: {name!r}")


def _reason(err: Exception) -> str:
    return redacted(one_line(err) or type(err).__name__)
