"""Remarks on the settings of a foreign file that cannot be converted, and its errors, each at its line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._text import did_you_mean, printable, slug_of
from ..config.document import Document, Path, Problem, SweepFileError
from ..config.yaml_text import flow_yaml
from ..space.values import is_number

Number = int | float
_SCHEMA = "# yaml-language-server: $schema=./sweep.schema.json"


class ImportRefused(SweepFileError):
    """A foreign file is not well formed, so that it cannot be converted."""

    ran = "nothing was written"


@dataclass(frozen=True)
class Note:
    """A remark on a place in a file; one with a `code` is about a mistake in the file itself.

    `instead` names what is written instead of the setting.
    """

    problem: Problem
    code: str = ""
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.problem}; {self.instead}" if self.instead else str(self.problem)


@dataclass
class Notes:
    """The remarks on a document, and its errors.

    Args:
        document: the foreign file.
    """

    document: Document
    remarks: list[Note] = field(default_factory=list)
    errors: list[Problem] = field(default_factory=list)

    def remark(self, path: Path, text: str, code: str = "", instead: str = "") -> None:
        """Add a remark on a setting that is not converted as it is, or with a code on a mistake."""
        note = Note(self.document.problem(path, text), code, instead)
        if note not in self.remarks:
            self.remarks.append(note)

    def add_error(self, path: Path, text: str) -> None:
        """Add an error that makes the file invalid for its tool."""
        self.errors.append(self.document.problem(path, text))

    def check(self) -> None:
        """Raise if the file has errors.

        Raises:
            ImportRefused: there are errors; it lists them with those of the reader of the file.
        """
        if problems := [*self.document.problems, *self.errors]:
            raise ImportRefused(problems)

    def sorted(self) -> list[Note]:
        """Return the remarks in the order of the file."""
        return sorted(self.remarks, key=lambda note: note.problem.mark)


@dataclass(frozen=True)
class Section:
    """A mapping in a document, which reads its keys and remarks on them."""

    mapping: Mapping[str, Any]
    path: Path
    notes: Notes

    def section(self, key: str) -> Section:
        """Return the mapping below a key; an empty one if there is none."""
        value = self.mapping.get(key)
        if value is not None and not isinstance(value, dict):
            self.notes.add_error((*self.path, key), f"expected a mapping, got {value!r}")
        return Section(value if isinstance(value, dict) else {}, (*self.path, key), self.notes)

    def number(self, key: str, default: Number | None = None) -> Number:
        """Return a number; a missing one without a default, or another value, is an error and reads as 0."""
        value = self.mapping.get(key, default)
        if not is_number(value):
            text = "is missing" if key not in self.mapping else f"expected a number, got {value!r}"
            self.notes.add_error((*self.path, key), f"{key} {text}" if key not in self.mapping else text)
            return 0
        return value

    def bounds(self, lowest: str, highest: str) -> tuple[Number, Number]:
        """Return two numbers in order; if they are not, it is an error, and both are the lower one."""
        low, high = self.number(lowest), self.number(highest)
        if low > high:
            self.notes.add_error((*self.path, lowest), f"{lowest} {low} is above {highest} {high}")
            return high, high
        return low, high

    def positive_bounds(self, lowest: str, highest: str) -> tuple[Number, Number]:
        """Return the bounds of a logarithmic range; not above 0, they are an error, and both are 1."""
        low, high = self.bounds(lowest, highest)
        if low <= 0:
            self.notes.add_error((*self.path, lowest), f"a log scale needs bounds above 0, got {low}")
            return 1, 1
        return low, high

    def step(self) -> Number:
        """Return the step `q`, 1 unless given; if it is not above 0, it is an error, and reads as 1."""
        step = self.number("q", 1)
        if step <= 0:
            self.notes.add_error((*self.path, "q"), f"a step must be above 0, got {step}")
            return 1
        return step

    def moments(self, mean: str, deviation: str) -> tuple[Number, Number]:
        """Return mean and deviation of a normal distribution; one below 0 is an error, and reads as 1.

        Args:
            mean: the key of the mean, 0 unless given.
            deviation: the key of the standard deviation, 1 unless given.
        """
        center, width = self.number(mean, 0), self.number(deviation, 1)
        if width < 0:
            self.notes.add_error((*self.path, deviation), f"a deviation must be at least 0, got {width}")
            return center, 1
        return center, width

    def whole(self, key: str) -> int | None:
        """Return a positive whole number; None if there is none, or another value, which is remarked on."""
        value = self.mapping.get(key)
        if value is None:
            return None
        if not is_number(value) or value != int(value) or value < 1:
            self.remark(key, f"{value!r} is dropped: it must be a whole number of at least 1")
            return None
        return int(value)

    def word(self, key: str, default: str = "") -> str:
        """Return a text."""
        value = self.mapping.get(key, default)
        if not isinstance(value, str):
            self.notes.add_error((*self.path, key), f"expected text, got {value!r}")
            return default
        return value

    def remark(self, key: str, text: str, code: str = "", instead: str = "") -> None:
        """Remark on a key."""
        self.notes.remark((*self.path, key), text, code, instead)

    def remark_left_out(self, reasons: Mapping[str, str]) -> None:
        """Remark on each present key why it is not converted."""
        for key, reason in reasons.items():
            if self.mapping.get(key) is not None:
                self.remark(key, f"dropped: {reason}")

    def remark_unknown(self, keys: Iterable[str], tool: str) -> None:
        """Remark on the keys that the tool does not know."""
        names = tuple(keys)
        for key in self.mapping:
            if key not in names:
                self.remark(key, f"{tool} has no such key{did_you_mean(key, names)}", "unknown-key")


@dataclass(frozen=True)
class ConvertedSweep:
    """A sweep of another tool, converted.

    Args:
        tool: name of that tool.
        name: name of the sweep, if it has one.
        config: the sections of the sweep file.
        notes: the remarks on what was not converted.
    """

    tool: str
    name: object
    config: dict[str, Any]
    notes: Notes

    def text(self) -> str:
        """Return the text of the sweep file, with the remarks at its head."""
        head = [_SCHEMA, f"# Converted from {self.notes.document.source}, a sweep of {self.tool}."]
        head += [f"# {printable(str(note))}" for note in self.notes.sorted()]
        name = slug_of(str(self.name or ""))
        sections = {"name": name, **self.config} if name else self.config
        return "\n".join([*head, *(f"\n{_section(*one)}" for one in sections.items()), ""])


def _section(key: str, value: Any) -> str:
    """Return a section as text; the space has a line per parameter."""
    if key != "space":
        return f"{key}: {flow_yaml(value)}"
    return "\n".join([f"{key}:", *(f"  {flow_yaml(name)}: {flow_yaml(one)}" for name, one in value.items())])
