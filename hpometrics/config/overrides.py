"""Overrides: `--set budget.trials=5` changes a document before it is checked, with the value read as YAML."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

from .document import Document, parse_value, read_document
from .problems import Mark, Path, Problem, SweepFileError

_EMPLOYERS = ("optuna", "ray")
"""Backends that have workers."""
_FREE = (("space",), ("engine", "params"), ("search", "start"), ("metrics", "optimize", "combine"))
"""Mappings whose keys may hold dots."""


def read_overridden(
    file: pathlib.Path, assignments: Iterable[str] = (), workers: int | None = None
) -> Document:
    """Read a sweep file and set what a command has in place of what stands there.

    Args:
        file: the YAML file.
        assignments: `key=value` texts that change it.
        workers: how many of its backend are at work, in the place of what it says.

    Raises:
        SweepFileError: the file cannot be read, or an assignment leads nowhere.
    """
    document = read_document(file)
    override(document, assignments)
    if workers is not None:
        set_workers(document, workers)
    return document


def override(document: Document, assignments: Iterable[str]) -> None:
    """Set values in a document; where a problem is found with one, it is shown as `--set key=value`.

    Raises:
        SweepFileError: it is not `key=value`, its value is no YAML, or its key leads into a value.
    """
    for text in assignments:
        key, equals, value = text.partition("=")
        source = f"--set {text}"
        if not equals or not key:
            raise _refusal(source, (), "write key=value, as in budget.trials=5")
        path = _find(document.data, key.split("."))
        if path is None:
            raise _refusal(source, (key,), "leads into a value that is no mapping")
        _place(document.data, path, parse_value(value, source))
        _mark(document, path, Mark(source, 0, 0))
        document.assignments.append(text)


def set_workers(document: Document, workers: int) -> None:
    """Let so many workers of the document's backend be at work, as `--set backend.optuna.workers=4` does.

    A backend that is none is left as it is; the check of the document says so.

    Raises:
        SweepFileError: it is a list, which has no workers.
    """
    given = document.data.get("backend")
    backend = given if isinstance(given, dict) else {"optuna" if given is None else str(given): None}
    if "list" in backend:
        text = "a list is tried one point after the other; leave --workers out, or sample the space"
        raise _refusal(f"--workers {workers}", ("backend",), text)
    name = next((name for name in _EMPLOYERS if name in backend), None)
    if name is not None:
        short = f"backend={{{name}: {{workers: {workers}}}}}"
        override(document, [f"backend.{name}.workers={workers}" if backend is given else short])


def _find(data: Any, parts: list[str], path: Path = ()) -> Path | None:
    """Follow a dotted key; keys that hold dots themselves are found by their longest form."""
    if not parts:
        return path
    if isinstance(data, list) and parts[0].isdigit() and int(parts[0]) < len(data):
        return _find(data[int(parts[0])], parts[1:], (*path, int(parts[0])))
    if data is None:
        data = {}
    if not isinstance(data, dict):
        return None
    for end in range(len(parts), 0, -1):
        key = ".".join(parts[:end])
        if key in data and (end == len(parts) or isinstance(data[key], (dict, list))):
            return _find(data[key], parts[end:], (*path, key))
    if path in _FREE:
        return (*path, ".".join(parts))
    if parts[0] in data and data[parts[0]] is not None:
        return None
    return _find({}, parts[1:], (*path, parts[0]))


def _place(data: Any, path: Path, value: Any) -> None:
    for part in path[:-1]:
        if isinstance(data, dict) and data.get(part) is None:
            data[part] = {}
        data = data[part]
    data[path[-1]] = value


def _mark(document: Document, path: Path, mark: Mark) -> None:
    for known in [known for known in document.marks if known[: len(path)] == path]:
        del document.marks[known]
    document.marks[path] = mark


def _refusal(source: str, path: Path, text: str) -> SweepFileError:
    return SweepFileError([Problem(Mark(source, 0, 0), path, text)])
