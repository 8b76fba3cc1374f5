"""Carried: a foreign sweep as it became one of ours, and the text of its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._text import printable
from ..config.slugs import slug_of
from ..config.yaml_writer import flow_yaml
from .notes import Notes

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
