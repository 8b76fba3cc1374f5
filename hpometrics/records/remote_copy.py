"""A copy of a run directory at a URL: in an object store, or any other file system that fsspec knows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from .._redaction import redacted
from .._text import one_line
from ..exceptions import ConfigError, DiskError, RecordError

INDEX = "copied.json"
"""The file with the size and the time of each copied file. It is written last."""
State = Mapping[str, list[int]]
"""The size in bytes and the time in nanoseconds of each file, by its name in the directory."""


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
        return "has a password; leave it out, and the file system reads its own configuration or environment"
    scheme = url.partition("://")[0]
    known: Mapping[str, Any] = known_implementations
    if scheme not in known:
        return f"{scheme}:// is not a file system that fsspec knows"
    package = known[scheme]["class"].partition(".")[0]
    if find_spec(package) is None:
        return f"{scheme}:// needs {package}, which is not installed: pip install {package}"
    return None


def copy_directory(home: Path, url: str, leave: Collection[str] = ()) -> int:
    """Copy what has changed in a directory since the last copy, and return the number of copied files.

    Hidden files of the directory itself, such as locks, stay where they are. Files that were copied and are
    gone are removed.

    Args:
        home: the directory.
        url: where its files go.
        leave: names in the directory itself that are not copied.

    Raises:
        DiskError: a file cannot be written there. What was copied before stays, and another call goes on.
    """
    try:
        state = dict(_state(home, leave))
        files, root = _open(url)
        before = _read_index(files, root)
        changed = [name for name, facts in state.items() if before.get(name) != facts]
        for name in changed:
            _make_folder(files, f"{root}/{name}")
            files.put_file(str(home / name), f"{root}/{name}")
        for name in before.keys() - state.keys():
            if files.exists(f"{root}/{name}"):
                files.rm_file(f"{root}/{name}")
        if changed or before.keys() != state.keys():
            _make_folder(files, f"{root}/{INDEX}")
            files.pipe_file(f"{root}/{INDEX}", json.dumps(state).encode())
    except Exception as err:  # each file system has errors of its own
        raise DiskError(f"{url}: {_reason(err)}") from err
    return len(changed)


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
        files, root = _open(url)
        state = _read_index(files, root)
        if not state:
            raise ConfigError(f"{url}: is not a copy of a run directory; it has no {INDEX}")
        for name, facts in state.items():
            target = home / _checked(name, url)
            if wanted(name) and not (target.is_file() and _facts(target) == facts):
                target.parent.mkdir(parents=True, exist_ok=True)
                files.get_file(f"{root}/{name}", str(target))
                os.utime(target, ns=(facts[1], facts[1]))
    except (ConfigError, RecordError):
        raise
    except Exception as err:  # each file system has errors of its own
        raise ConfigError(f"{url}: cannot be read: {_reason(err)}") from err


def _open(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    files, root = url_to_fs(url)
    return files, root.rstrip("/")


def _make_folder(files: Any, path: str) -> None:
    files.makedirs(path.rpartition("/")[0], exist_ok=True)


def _read_index(files: Any, root: str) -> State:
    try:
        content: State = json.loads(files.cat_file(f"{root}/{INDEX}"))
    except FileNotFoundError:
        return {}
    return content


def _state(home: Path, leave: Collection[str]) -> Iterator[tuple[str, list[int]]]:
    for folder, folders, names in os.walk(home):
        if folder == str(home):
            folders[:], names = (
                [name for name in some if name[0] != "." and name not in leave] for some in (folders, names)
            )
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(home).as_posix(), _facts(path)


def _facts(path: Path) -> list[int]:
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns]


def _checked(name: str, url: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name.isprintable():
        raise RecordError(f"{url}: {INDEX} names a file outside of the copy: {name!r}")
    return name


def _reason(err: Exception) -> str:
    return redacted(one_line(err) or type(err).__name__)
