"""A sweep file as a document: its data, the place of every key and value, and its problems.

The reader accepts a small, safe dialect of YAML. It builds data from PyYAML's events, so that a document
holds only mappings, lists and scalars: no tags but YAML's own of scalars (`!!float`), no aliases (hence no
bombs), no merge keys, one document.
Keys are text and unique; scalars follow YAML 1.2, which is in `scalars`.
"""

from __future__ import annotations

import pathlib
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import yaml

from .._redaction import excerpt, redacted
from .._text import nearest, printable
from ..exceptions import ConfigError
from ..records._files import open_regular
from .yaml_text import TAGS, ScalarError, read_plain, read_tagged

Path = tuple[str | int, ...]
"""The keys and indices that lead to a value of a document."""

ENGINE_PARAM = "engine"
"""The param that names which of several engines, `engine: {choice: ...}`, trains."""
PROGRAM = "${program}"
"""The placeholder of a command for `engine.program`."""
_DEFAULT_COMMAND = ("${env}", "${interpreter}", PROGRAM, "${args}")  # that of W&B
MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_KEYS = 1000
MAX_PROBLEMS = 100

_MAX_PROBLEM_LENGTH = 2000  # characters; the longest of ours is a list of metrics to choose from
_MAX_PRINTED = 50  # problems in one message
_SIMPLE = re.compile(r"[ \n\w:,.\[\]{}()'\"#=<+/;$^~-]*", re.ASCII)
"""Text that libyaml reads like PyYAML's own parser, in a fifth of the time."""


def engine_targets(engine: Mapping[str, Any]) -> list[str]:
    """Return the targets in the section `engine` of a sweep file; none for a program."""
    target = engine.get("target")
    return [target] if target else [*(engine.get("choice") or {}).values()]


def engine_command(engine: Mapping[str, Any]) -> list[str]:
    """Return the command in the section `engine` of a sweep file, with the program for `${program}`.

    >>> engine_command({"program": "train.py"}), engine_command({"target": "nets:train"})
    (['${env}', '${interpreter}', 'train.py', '${args}'], [])
    """
    program = engine.get("program")
    command = engine.get("command") or ([] if program is None else _DEFAULT_COMMAND)
    return [part if program is None else part.replace(PROGRAM, program) for part in command]


def engine_text(engine: Mapping[str, Any]) -> str:
    """Return the targets in the section `engine` of a sweep file, or the command line of a program.

    >>> engine_text({"choice": {"net": "nets:train", "svm": "svms:train"}})
    'nets:train or svms:train'
    """
    return " or ".join(engine_targets(engine)) or shlex.join(engine_command(engine))


@dataclass(frozen=True, order=True)
class Mark:
    """A place in a file, counted from 1; `line` 0 is a place on the command line."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        source = printable(self.source)
        return f"{source}:{self.line}:{self.column}" if self.line else source


@dataclass(frozen=True)
class Problem:
    """One thing to change.

    >>> str(Problem(Mark("sweep.yaml", 4, 11), ("space", "width", "step"), "must be above 0, got -1"))
    'sweep.yaml:4:11: space.width.step: must be above 0, got -1'
    """

    mark: Mark
    path: Path
    text: str

    def __str__(self) -> str:
        where = f"{show_path(self.path)}: " if self.path else ""
        too_long = len(self.text) > _MAX_PROBLEM_LENGTH
        text = f"{excerpt(self.text, _MAX_PROBLEM_LENGTH)}..." if too_long else self.text
        return redacted(f"{self.mark}: {where}{text}")


class SweepFileError(ConfigError):
    """A sweep file has problems; the message has a line for each, in the order of the file."""

    ran: ClassVar[str] = "nothing was run"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.mark))
        count = len(self.problems)
        more = [f"... and {count - _MAX_PRINTED} more"] if count > _MAX_PRINTED else []
        summary = f"{count} error{'s' if count > 1 else ''} - {self.ran}."
        super().__init__("\n".join([*map(str, self.problems[:_MAX_PRINTED]), *more, summary]))

    def __reduce__(self) -> tuple[type[SweepFileError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class ProbeError(SweepFileError):
    """One epoch did not record every value that a sweep file names."""

    ran = "one epoch was run, nothing is saved"


def show_path(path: Path) -> str:
    """Format a path as users write it.

    >>> show_path(("space", "lr", "float", 0))
    'space.lr.float[0]'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{printable(part)}" if text else printable(part)
    return text


@dataclass
class Document:
    """The content of a file (`data`), the place of each value (`marks`), and its `problems`.

    `assignments` are the `--set key=value` texts that have changed it. A value at a path in `broken` has a
    problem of its own and cannot be used. `indices` maps the path of a list without its broken items to the
    indices that the remaining items had in the file. It is `incomplete` if it lacks a file that it includes.
    """

    source: str
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    marks: dict[Path, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    assignments: list[str] = field(default_factory=list)
    broken: set[Path] = field(default_factory=set)
    indices: dict[Path, list[int]] = field(default_factory=dict)
    incomplete: bool = False

    def add(self, path: Path, text: str) -> None:
        """Add a problem at a path, unless a part of the value there is broken and so cannot be judged."""
        path = self.original(path)
        if not any(broken[: len(path)] == path for broken in self.broken):
            self.problems.append(self.problem(path, text))
        if len(self.problems) > MAX_PROBLEMS:
            self.raise_problems()  # whatever else is wrong can wait

    def original(self, path: Path) -> Path:
        """Return the path that a value had in the file, before broken items of lists were left out."""
        original: Path = ()
        for part in path:
            indices = self.indices.get(original)
            inside = indices is not None and isinstance(part, int) and part < len(indices)
            original = (*original, indices[part] if inside else part)  # type: ignore[index]  # both are set
        return original

    def mark(self, path: Path) -> Mark:
        """Return the place of a path's key, or of the nearest parent in the file."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path, Mark(self.source, 1, 1))

    def problem(self, path: Path, text: str) -> Problem:
        """Return a problem at a path."""
        return Problem(self.mark(path), path, text)

    def raise_problems(self) -> None:
        """Raise SweepFileError with all problems, if there are any."""
        if self.problems:
            raise SweepFileError(self.problems)


def read_document(path: pathlib.Path, *, recorded: bool = False) -> Document:
    """Read a sweep file.

    Args:
        path: the file.
        recorded: whether the file belongs to a run directory, see `open_regular`, or was named by the user.

    Raises:
        RecordError: a recorded file is not a regular file.
        SweepFileError: the file cannot be read or is not YAML. Whatever else lies outside of the dialect is
            added to the problems of the document.
    """
    return parse_document(read_text(path, recorded=recorded), str(path))


def read_text(path: pathlib.Path, *, recorded: bool = False) -> str:
    """Read the text of a sweep file; see `read_document`."""
    source = str(path)
    try:
        with open_regular(path) if recorded else path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as err:
        hint = _similar(path) if isinstance(err, FileNotFoundError) else ""
        raise _refusal(source, 0, 0, f"cannot be read: {err.strerror or err}{hint}") from None
    if len(raw) > MAX_BYTES:
        raise _refusal(source, 1, 1, "is larger than 1 MiB; a sweep file has only a few lines")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line = raw.count(b"\n", 0, err.start) + 1
        raise _refusal(source, line, 1, f"byte {raw[err.start]:#04x} is not UTF-8 text") from None


def parse_document(text: str, source: str) -> Document:
    """Parse the text of a sweep file; see `read_document`."""
    value, document = _build(text, source)
    if not isinstance(value, dict):
        document.raise_problems()
    if value is None:
        raise _refusal(source, 1, 1, "is empty; start with `engine:`, `space:`, `metrics:` and `budget:`")
    if not isinstance(value, dict):
        raise _refusal(
            source, 1, 1, f"starts with a {_kind(value)}, but a sweep file is a mapping of sections"
        )
    document.data = value
    return document


def parse_value(text: str, source: str) -> Any:
    """Parse the value of `--set key=value`: `1e-3`, `[1, 2]`, `{tpe: {}}`, text."""
    try:
        value, document = _build(text, source)
        document.raise_problems()
    except SweepFileError as err:
        raise SweepFileError(
            [replace(problem, mark=Mark(source, 0, 0)) for problem in err.problems]
        ) from None
    return value


def _build(text: str, source: str) -> tuple[Any, Document]:
    if yaml.__with_libyaml__ and _SIMPLE.fullmatch(text):
        with suppress(yaml.YAMLError):  # PyYAML's own parser reports errors better
            return _Builder(source, text).build(yaml.CSafeLoader)
    builder = _Builder(source, text)
    try:
        return builder.build(yaml.SafeLoader)
    except yaml.YAMLError as err:
        raise SweepFileError([*builder.document.problems, _syntax_problem(err, text, source)]) from None


@dataclass
class _Open:
    """A mapping or list that is being filled."""

    value: dict[str, Any] | list[Any]
    path: Path
    key: str | None = None


class _Builder:
    """A builder that turns events into data, step by step and without recursion."""

    def __init__(self, source: str, text: str) -> None:
        self.document = Document(source, text)
        self.root: Any = None
        self._documents = self._values = 0
        self._open: list[_Open] = []

    def build(self, loader: type[Any]) -> tuple[Any, Document]:
        for event in yaml.parse(self.document.text, Loader=loader):
            self._handle(event)
        return self.root, self.document

    def _handle(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._fatal(event, "a second document starts here, but a file holds one sweep")
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.NodeEvent):
            self._handle_node(event)

    def _handle_node(self, event: yaml.NodeEvent) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._fatal(event, f"holds more than {MAX_VALUES} keys and values")
        if len(self.document.problems) >= MAX_PROBLEMS:
            raise self._fatal(event, f"{MAX_PROBLEMS} problems so far; the rest of the file was not read")
        parent = self._open[-1] if self._open else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            self._handle_key(event, parent)
        else:
            self._handle_value(event, parent)

    def _check_plain(self, event: yaml.NodeEvent, path: Path | None) -> None:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            has_value = not isinstance(event, yaml.AliasEvent)  # an anchor is followed by its value
            text = "anchors and aliases are not supported; write out the value"
            self._add_problem(event, text, None if has_value else path)
        elif (tag := getattr(event, "tag", None)) is not None and not (
            tag in TAGS and isinstance(event, yaml.ScalarEvent)
        ):
            self._add_problem(event, f"the tag {tag} is not supported; use plain YAML values", path)

    def _handle_key(self, event: yaml.NodeEvent, parent: _Open) -> None:
        self._check_plain(event, None)
        key = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else None
        merges = key == "<<" and not getattr(event, "style", None)
        if not isinstance(key, str) or merges:
            raise self._fatal(event, _key_text(event))
        path, mark = (*parent.path, key), self._mark(event)
        if key in parent.value:
            text = f"duplicate key {key!r} (first at line {self.document.marks[path].line})"
            self.document.problems.append(Problem(mark, parent.path, text))
        elif len(parent.value) >= MAX_KEYS:
            raise self._fatal(event, f"a mapping has at most {MAX_KEYS} keys")
        self.document.marks.setdefault(path, mark)
        parent.key = key

    def _handle_value(self, event: yaml.NodeEvent, parent: _Open | None) -> None:
        path = self._place(event, parent)
        self._check_plain(event, path)
        value = self._value(event, path)
        if parent is None:
            self.root = value
        elif isinstance(parent.value, dict):
            parent.value[str(parent.key)] = value
            parent.key = None
        else:
            parent.value.append(value)
        if isinstance(value, (dict, list)):
            self._open.append(_Open(value, path))
            if len(self._open) > MAX_DEPTH:
                raise self._fatal(event, f"nested deeper than {MAX_DEPTH} levels")

    def _place(self, event: yaml.NodeEvent, parent: _Open | None) -> Path:
        if parent is None:
            return ()
        if isinstance(parent.value, dict):
            return (*parent.path, str(parent.key))
        path = (*parent.path, len(parent.value))
        self.document.marks[path] = self._mark(event)
        return path

    def _value(self, event: yaml.NodeEvent, path: Path) -> Any:
        if isinstance(event, yaml.MappingStartEvent):
            return {}
        if isinstance(event, yaml.SequenceStartEvent):
            return []
        return self._scalar(event, path) if isinstance(event, yaml.ScalarEvent) else None

    def _scalar(self, event: yaml.ScalarEvent, path: Path | None = None) -> Any:
        text: str = event.value
        if any("\ud800" <= char <= "\udfff" for char in text):
            self._add_problem(event, "an unpaired surrogate is not text", path)
            return ""
        tag = event.tag if event.tag in TAGS else None
        if event.style and tag is None:
            return text
        try:
            return read_plain(text) if tag is None else read_tagged(tag, text)
        except ScalarError as err:
            self._add_problem(event, str(err), path)
            return 0

    def _add_problem(self, event: yaml.Event, text: str, path: Path | None) -> None:
        """Add a problem; the value at the path is a placeholder."""
        if path is not None:
            self.document.broken.add(path)
        self.document.problems.append(Problem(self._mark(event), (), text))

    def _fatal(self, event: yaml.Event, text: str) -> SweepFileError:
        return SweepFileError([*self.document.problems, Problem(self._mark(event), (), text)])

    def _mark(self, event: yaml.Event) -> Mark:
        start = event.start_mark
        return (
            Mark(self.document.source, start.line + 1, start.column + 1)
            if start
            else Mark(self.document.source, 1, 1)
        )


def _key_text(event: yaml.NodeEvent) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        return "a key is text, not a list or mapping"
    if event.value == "<<":
        return "merge keys are not supported; write out the keys"
    return f"the key {event.value} reads as a number or word of YAML; quote it to make it text"


def _syntax_problem(err: yaml.YAMLError, text: str, source: str) -> Problem:
    if isinstance(err, yaml.reader.ReaderError):
        line = text.count("\n", 0, err.position) + 1
        column = err.position - text.rfind("\n", 0, err.position)
        return Problem(
            Mark(source, line, column), (), f"the character #x{err.character:04x} is not YAML text"
        )
    mark = getattr(err, "problem_mark", None) or getattr(err, "context_mark", None)
    place = Mark(source, mark.line + 1, mark.column + 1) if mark else Mark(source, 1, 1)
    problem = getattr(err, "problem", None) or str(err)
    if "'\\t'" in problem:
        return Problem(place, (), "a tab is used where YAML requires spaces")
    key = _key_without_colon(err, text)
    if key is not None:
        line, name = key
        return Problem(Mark(source, line, 1), (), f"a key ends in a colon, as in {name}: ...")
    context = getattr(err, "context", None)
    return Problem(place, (), f"not YAML: {problem}{f' ({context})' if context else ''}")


def _key_without_colon(err: yaml.YAMLError, text: str) -> tuple[int, str] | None:
    """Return the line and the first word of a key that lacks its colon, if that is the error."""
    if not isinstance(err, yaml.MarkedYAMLError) or err.problem_mark is None:
        return None
    lines = text.splitlines()
    if err.problem == "could not find expected ':'" and err.context_mark is not None:
        number = err.context_mark.line
    elif err.problem == "mapping values are not allowed here":
        number = max((one for one in range(err.problem_mark.line) if lines[one].strip()), default=0)
    elif (err.problem or "").startswith("expected <block end>, but found '}'"):  # space {lr: {float: [0, 1]}}
        key = re.match(r"\s*([\w.-]+)\s+[\[{]", lines[err.problem_mark.line])
        return (err.problem_mark.line + 1, key[1]) if key else None
    else:
        return None
    key = re.match(r"\s*([\w.-]+)\s(?!.*:(\s|$))", lines[number].partition(" #")[0])
    return (number + 1, key[1]) if key else None


def _similar(path: pathlib.Path) -> str:
    """Return a question after the file beside a missing one whose name is most like its name."""
    try:
        files = {one.stem: one.name for one in path.parent.iterdir() if one.suffix in (".yaml", ".yml")}
    except OSError:
        return ""
    name = nearest(path.stem, files)
    return "" if name is None else f"; did you mean {files[name]!r}?"


def _refusal(source: str, line: int, column: int, text: str) -> SweepFileError:
    return SweepFileError([Problem(Mark(source, line, column), (), text)])


def _kind(value: object) -> str:
    return {list: "list", str: "text", bool: "boolean", int: "number", float: "number"}[type(value)]
