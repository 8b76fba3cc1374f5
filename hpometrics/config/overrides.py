"""The layers of a sweep file, before it is checked: the files it includes, itself, and `--set key=value`."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable
from typing import Any

from .._text import one_line
from ..backends.registry import BACKENDS, DEFAULT
from ..exceptions import RecordError
from .document import MAX_BYTES, Document, Mark, Path, Problem, SweepFileError, parse_value, read_document
from .yaml_writer import dump_yaml

INCLUDE = "include"
MAX_DEPTH, MAX_FILES = 10, 100
_MERGE_PATHS = {
    *((name,) for name in ("engine", "space", "metrics", "search", "budget", "confirm", "results")),
    ("engine", "params"),
}
"""Mappings that a file merges with those of the files it includes; any other value replaces theirs."""

_SWITCH = "confirm"
"""A mapping of which `true` stands for the empty one."""

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
    document = read_layers(file)
    override(document, assignments)
    if workers is not None:
        set_workers(document, workers)
    return document


def read_layers(file: pathlib.Path) -> Document:
    """Read a sweep file with the files that it includes, of which later ones and the file itself win.

    Raises:
        SweepFileError: a file cannot be read or is not YAML; other problems are those of the document.
    """
    return _with_includes(read_document(file), (file,), [])


def _with_includes(document: Document, chain: tuple[pathlib.Path, ...], sizes: list[int]) -> Document:
    """Return a document on top of those that it includes.

    Args:
        document: the document.
        chain: the files that lead to it, itself the last.
        sizes: the characters of each file included so far.
    """
    if INCLUDE not in document.data:
        return document
    value = document.data.pop(INCLUDE)
    merged = Document(document.source)
    for index, name in enumerate(value if isinstance(value, list) else [value]):
        place = (INCLUDE, index) if isinstance(value, list) else (INCLUDE,)
        try:
            _merge(merged, _read_included(name, chain, sizes))
        except (_IncludeError, RecordError) as err:
            document.problems.append(document.problem(place, one_line(err)))
            document.incomplete = True
        except SweepFileError as err:
            mark, document.incomplete = document.mark(place), True
            document.problems += [
                one if one.mark.line else Problem(mark, place, f"{name} {one.text}") for one in err.problems
            ]
    _merge(merged, document)
    merged.text = f"# With the files that it includes.\n{dump_yaml(merged.data)}"
    return merged


class _IncludeError(ValueError):
    """A file cannot be included."""


def _read_included(name: Any, chain: tuple[pathlib.Path, ...], sizes: list[int]) -> Document:
    """Read an included file, which lies below the folder of the file that includes it, behind no link."""
    if not isinstance(name, str) or not name.isprintable() or not name:
        raise _IncludeError("expected the name of a file, or a list of names, as in base.yaml")
    parts = pathlib.PurePath(name).parts
    if not parts or ".." in parts or pathlib.PurePath(name).is_absolute():
        raise _IncludeError(f"{name} is outside the folder of this file; copy or move it into the folder")
    folder = path = chain[-1].parent
    for part in parts:
        path = path / part
        if os.path.islink(path):
            raise _IncludeError(f"{path} is a link; include the file it points to")
    path = folder.joinpath(*parts)
    if path in chain:
        raise _IncludeError(f"{name} includes itself: {' -> '.join(map(str, (*chain, path)))}")
    if len(chain) > MAX_DEPTH:
        raise _IncludeError(f"{name} is nested more than {MAX_DEPTH} includes deep")
    if len(sizes) >= MAX_FILES:
        raise _IncludeError(f"{name} exceeds the {MAX_FILES} files that a sweep can include")
    sizes.append(0)
    document = read_document(path, recorded=True)
    sizes[-1] = len(document.text)
    if sum(sizes) > MAX_BYTES:
        raise _IncludeError(
            "the included files are larger than 1 MiB in total; a sweep file has only a few lines"
        )
    return _with_includes(document, (*chain, path), sizes)


def _merge(base: Document, upper: Document) -> None:
    """Merge a document into the one below it, with its places and problems."""
    replacements: set[Path] = set()
    _merge_mapping(base.data, upper.data, (), replacements)

    def stands(path: Path) -> bool:
        return not any(path[:end] in replacements for end in range(1, 4))

    base.marks = {path: mark for path, mark in base.marks.items() if stands(path)} | upper.marks
    base.broken = {path for path in base.broken if stands(path)} | upper.broken
    base.problems += upper.problems
    base.incomplete |= upper.incomplete


def _merge_mapping(base: dict[str, Any], upper: dict[str, Any], path: Path, replacements: set[Path]) -> None:
    for key, value in upper.items():
        inner = (*path, key)
        if inner in _MERGE_PATHS and isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge_mapping(base[key], value, inner, replacements)
        else:
            base[key] = value
            replacements.add(inner)


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
        if key.startswith(f"{_SWITCH}.") and document.data.get(_SWITCH) is True:
            document.data[_SWITCH] = {}
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
        text = f"a list is tried one point after another; {out}, or sample the space"
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
