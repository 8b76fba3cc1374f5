"""Override values of a sweep file by `--set key=value`, before the file is checked."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

from ..backends.registry import BACKENDS, DEFAULT
from .document import Document, Mark, Path, Problem, SweepFileError, parse_value, read_document

_FREE = (("space",), ("engine", "params"), ("search", "start"), ("metrics", "optimize", "combine"))
"""Mappings whose keys may hold dots."""


def read_with_overrides(
    file: pathlib.Path, assignments: Iterable[str] = (), workers: int | None = None
) -> Document:
    """Read a sweep file and override values of it by those of a command.

    Args:
        file: the YAML file.
        assignments: `key=value` texts that change it.
        workers: the number of workers of its backend, instead of the number in the file.

    Raises:
        SweepFileError: the file cannot be read, or an assignment leads nowhere.
    """
    document = read_document(file)
    override(document, assignments)
    if workers is not None:
        set_workers(document, workers)
    return document


def override(document: Document, assignments: Iterable[str], source: str | None = None) -> None:
    """Set values in a document; the place of each in problems is `--set key=value`.

    Args:
        document: the document.
        assignments: `key=value` texts that change it.
        source: another place of them.

    Raises:
        SweepFileError: a text is not `key=value`, its value is not YAML, or its key leads into a value.
    """
    for text in assignments:
        key, equals, value = text.partition("=")
        place = source or f"--set {text}"
        if not equals or not key:
            raise _refusal(place, (), "write key=value, as in budget.trials=5")
        path = _find_path(document.data, key.split("."))
        if path is None:
            raise _refusal(place, (key,), "leads into a value that is not a mapping")
        _set_value(document.data, path, parse_value(value, place))
        _set_mark(document, path, Mark(place, 0, 0))
        document.assignments.append(text)


def set_workers(document: Document, workers: object, source: str | None = None) -> None:
    """Set the number of workers of the document's backend, as `--set backend.optuna.workers=4` does.

    An unknown backend is left unchanged; the check of the document reports it. `source` is as in `override`.

    Raises:
        SweepFileError: the backend has no workers.
    """
    section = document.data.get("backend")
    backend = section if isinstance(section, dict) else {DEFAULT if section is None else str(section): None}
    name = next((name for name in BACKENDS if name in backend), None)
    if name is None:
        return
    place, out = source or f"--workers {workers}", f"leave {'' if source else '--'}workers out"
    if BACKENDS[name].has_points:
        text = f"a list is tried one point after the other; {out}, or sample the space"
        raise _refusal(place, ("backend",), text)
    if not BACKENDS[name].has_workers:
        raise _refusal(place, ("backend",), f"{name} has no workers; {out}")
    short = f"backend={{{name}: {{workers: {workers}}}}}"
    override(document, [f"backend.{name}.workers={workers}" if backend is section else short], source)


def _find_path(data: Any, parts: list[str], path: Path = ()) -> Path | None:
    """Return the path of a dotted key; a key that contains dots itself matches in its longest form."""
    if not parts:
        return path
    if isinstance(data, list) and parts[0].isdigit() and int(parts[0]) < len(data):
        return _find_path(data[int(parts[0])], parts[1:], (*path, int(parts[0])))
    if data is None:
        data = {}
    if not isinstance(data, dict):
        return None
    for end in range(len(parts), 0, -1):
        key = ".".join(parts[:end])
        if key in data and (end == len(parts) or isinstance(data[key], (dict, list))):
            return _find_path(data[key], parts[end:], (*path, key))
    if path in _FREE:
        return (*path, ".".join(parts))
    if parts[0] in data and data[parts[0]] is not None:
        return None
    return _find_path({}, parts[1:], (*path, parts[0]))


def _set_value(data: Any, path: Path, value: Any) -> None:
    for part in path[:-1]:
        if isinstance(data, dict) and data.get(part) is None:
            data[part] = {}
        data = data[part]
    data[path[-1]] = value


def _set_mark(document: Document, path: Path, mark: Mark) -> None:
    for inner in [inner for inner in document.marks if inner[: len(path)] == path]:
        del document.marks[inner]
    document.marks[path] = mark


def _refusal(source: str, path: Path, text: str) -> SweepFileError:
    return SweepFileError([Problem(Mark(source, 0, 0), path, text)])
