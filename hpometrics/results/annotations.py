"""The tags and notes that users give a sweep and its trials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from .._text import printable, slug_objection

NOTE_LENGTH = 1000
_CELL = 60  # characters of a note in a table


@dataclass(frozen=True)
class Annotation:
    """The tags and the note of a sweep or of a trial; a note is one line."""

    tags: tuple[str, ...] = ()
    note: str = ""

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Read them from a mapping, which may lack both.

        Raises:
            ValueError, TypeError: a tag is not a valid name, or the note is not text.
        """
        tags, note = facts.get("tags", []), facts.get("note") or ""
        if not isinstance(tags, list) or not isinstance(note, str):
            raise TypeError("tags must be a list, and a note must be text")
        if any(not isinstance(tag, str) or slug_objection(tag) for tag in tags):
            raise ValueError(f"tags must be names, got {tags!r}")
        return cls(tuple(dict.fromkeys(tags)), " ".join(note.split()))

    def __bool__(self) -> bool:
        return bool(self.tags or self.note)

    def __str__(self) -> str:
        tags = f"tags {', '.join(self.tags)}" if self.tags else "no tags"
        return f"{tags}; note: {printable(self.note)}" if self.note else tags

    def facts(self) -> dict[str, Any]:
        """Return both as plain JSON."""
        return {"tags": list(self.tags), "note": self.note or None}


@dataclass(frozen=True)
class Annotations:
    """The tags and notes of a sweep: its own, beside those of its file, and those of its trials by number."""

    sweep: Annotation = Annotation()
    trials: Mapping[int, Annotation] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: it is something else.
        """
        trials = {int(number): Annotation.of(one) for number, one in content["trials"].items()}
        return cls(Annotation.of(content), trials)

    def to_json(self) -> dict[str, Any]:
        """Write them as plain JSON."""
        trials = {str(number): one.facts() for number, one in sorted(self.trials.items()) if one}
        return {**self.sweep.facts(), "trials": trials}

    def trial(self, number: int) -> Annotation:
        """Return the tags and the note of a trial."""
        return self.trials.get(number, Annotation())

    def columns(self, numbers: Sequence[int], most: int = _CELL) -> dict[str, list[str]]:
        """Return the columns of a table of trials by name: tags and note, each if one of the trials has some.

        Args:
            numbers: the trials.
            most: characters of a note that are shown.
        """
        some = [self.trial(number) for number in numbers]
        notes = [printable(f"{one.note[:most]}{'...' * (len(one.note) > most)}") for one in some]
        columns = {"tags": [" ".join(one.tags) for one in some], "note": notes}
        return {name: cells for name, cells in columns.items() if any(cells)}

    def numbers_by_tag(self) -> dict[str, list[int]]:
        """Return the trials that have each tag."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, one in sorted(self.trials.items()):
            for tag in one.tags:
                numbers[tag].append(number)
        return numbers


NONE = Annotations()
