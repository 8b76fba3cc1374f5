"""Notes: what a foreign file says that cannot be carried over, and what is wrong in it, each at its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._text import did_you_mean, printable
from ..config.document import Document, Path, Problem, SweepFileError
from ..config.fields import slug_of
from ..config.yaml_writer import flow_yaml
from ..space.dimensions import is_number

Number = int | float


class ImportRefused(SweepFileError):
    """A foreign file is not well formed, so that nothing can be made of it."""

    ran = "nothing was written"


@dataclass(frozen=True)
class Note:
    """A remark on a place of a file; one with a `code` is about a mistake in the file itself.

    `instead` says what is written in the place of what was not carried over.
    """

    problem: Problem
    code: str = ""
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.problem}; {self.instead}" if self.instead else str(self.problem)


@dataclass
class Notes:
    """Collects the remarks on a document.

    Args:
        document: the foreign file.
    """

    document: Document
    said: list[Note] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)

    def say(self, path: Path, text: str, code: str = "", instead: str = "") -> None:
        """Note what is not carried over as it is, or with a code what is wrong; see `Note`."""
        note = Note(Problem(self.document.mark(path), path, text), code, instead)
        if note not in self.said:
            self.said.append(note)

    def refuse(self, path: Path, text: str) -> None:
        """Note what makes the file no file of its tool."""
        self.refused.append(Problem(self.document.mark(path), path, text))

    def check(self) -> None:
        """Raise what was refused, with what the reader of the file refused.

        Raises:
            ImportRefused: there is any.
        """
        if problems := [*self.document.problems, *self.refused]:
            raise ImportRefused(problems)

    def sorted(self) -> list[Note]:
        """Give the remarks in the order of the file."""
        return sorted(self.said, key=lambda note: note.problem.mark)


@dataclass(frozen=True)
class Section:
    """A mapping of a document at its place, which reads its keys and remarks on them."""

    given: Mapping[str, Any]
    path: Path
    notes: Notes

    def section(self, key: str) -> Section:
        """Give the mapping below a key; an empty one where there is none."""
        value = self.given.get(key)
        if value is not None and not isinstance(value, dict):
            self.notes.refuse((*self.path, key), f"wants a mapping, got {value!r}")
        return Section(value if isinstance(value, dict) else {}, (*self.path, key), self.notes)

    def number(self, key: str, default: Number | None = None) -> Number:
        """Give a number; one that is missing without a default, or is none, is refused and taken as 0."""
        value = self.given.get(key, default)
        if not is_number(value):
            told = "is missing" if key not in self.given else f"wants a number, got {value!r}"
            self.notes.refuse((*self.path, key), f"{key} {told}" if key not in self.given else told)
            return 0
        return value

    def bounds(self, lowest: str, highest: str) -> tuple[Number, Number]:
        """Give two numbers in order; where they are not it is refused, and both are the lower one."""
        low, high = self.number(lowest), self.number(highest)
        if low > high:
            self.notes.refuse((*self.path, lowest), f"{lowest} {low} is above {highest} {high}")
            return high, high
        return low, high

    def whole(self, key: str) -> int | None:
        """Give a positive whole number; None where there is none, or something else, which is noted."""
        value = self.given.get(key)
        if value is None:
            return None
        if not is_number(value) or value != int(value) or value < 1:
            self.say(key, f"{value!r} is no whole number of at least 1 and is left out")
            return None
        return int(value)

    def word(self, key: str, default: str = "") -> str:
        """Give a text."""
        value = self.given.get(key, default)
        if not isinstance(value, str):
            self.notes.refuse((*self.path, key), f"wants text, got {value!r}")
            return default
        return value

    def say(self, key: str, text: str, code: str = "", instead: str = "") -> None:
        """Remark on a key."""
        self.notes.say((*self.path, key), text, code, instead)

    def left_out(self, reasons: Mapping[str, str]) -> None:
        """Say of each key that is there why it is not carried over."""
        for key, reason in reasons.items():
            if self.given.get(key) is not None:
                self.say(key, f"is left out: {reason}")

    def unknown(self, known: Iterator[str] | Mapping[str, Any] | tuple[str, ...], tool: str) -> None:
        """Remark on the keys that the tool does not know."""
        names = tuple(known)
        for key in self.given:
            if key not in names:
                self.say(key, f"{tool} knows no such key{did_you_mean(key, names)}", "unknown-key")


_SCHEMA = "# yaml-language-server: $schema=./sweep.schema.json"


@dataclass(frozen=True)
class Carried:
    """A sweep of another tool, read.

    Args:
        tool: it comes from.
        name: of the sweep, if it has one.
        config: the sections of ours.
        notes: what was not carried over.
    """

    tool: str
    name: object
    config: dict[str, Any]
    notes: Notes

    def text(self) -> str:
        """Give the text of the sweep file, with what was not carried over at its head."""
        source = self.notes.document.source
        head = [_SCHEMA, f"# From {source}, a sweep of {self.tool}."]
        head += [f"# {printable(str(note))}" for note in self.notes.sorted()]
        name = slug_of(str(self.name or ""))
        sections = {"name": name, **self.config} if name else self.config
        return "\n".join([*head, *(f"\n{_section(*one)}" for one in sections.items()), ""])


def _section(key: str, value: Any) -> str:
    """Write a section; of the space a line per parameter."""
    if key != "space":
        return f"{key}: {flow_yaml(value)}"
    return "\n".join([f"{key}:", *(f"  {flow_yaml(name)}: {flow_yaml(one)}" for name, one in value.items())])
