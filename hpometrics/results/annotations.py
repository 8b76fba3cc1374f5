"""The tags and notes that users give a sweep and its trials, in `annotations.json` of the run directory."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from .._text import printable, slug_objection
from ..exceptions import ConfigError, NewerFormatError, RecordError
from ..records._files import read_whole, write_text
from ..records._json import FORMAT, FORMAT_KEY, read_sealed, sealed

if TYPE_CHECKING:
    from .manifest import Resolved
    from .run_directory import RunDirectory

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
            ValueError, TypeError: a tag is no name, or the note is no text.
        """
        tags, note = facts.get("tags", []), facts.get("note") or ""
        if not isinstance(tags, list) or not isinstance(note, str):
            raise TypeError("tags are a list, and a note is text")
        if any(not isinstance(tag, str) or slug_objection(tag) for tag in tags):
            raise ValueError(f"tags are names, got {tags!r}")
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
    def read(cls, home: RunDirectory) -> Self:
        """Read them from a run directory; without a file there are none.

        Raises:
            RecordError: the file is damaged.
            NewerFormatError: a newer version wrote it.
        """
        if not os.path.lexists(home.annotations):
            return cls()
        place = home.display_path(home.annotations)
        try:
            content = read_sealed(read_whole(home.annotations).decode(), place)
            trials = {int(number): Annotation.of(one) for number, one in content["trials"].items()}
            return cls(Annotation.of(content), trials)
        except NewerFormatError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise RecordError(f"{place}: is damaged; hpometrics run moves it aside") from err

    def write(self, home: RunDirectory) -> None:
        """Write them."""
        trials = {str(number): one.facts() for number, one in sorted(self.trials.items()) if one}
        content = {FORMAT_KEY: FORMAT, **self.sweep.facts(), "trials": trials}
        write_text(home.annotations, sealed(json.dumps(content)) + "\n")

    @classmethod
    def recover(cls, home: RunDirectory) -> Self:
        """Read them; move a damaged file aside, as if there were none."""
        return home.recover(home.annotations, lambda: cls.read(home), cls())

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


def annotated(home: RunDirectory) -> Resolved:
    """Read the resolved sweep of a run directory with its tags and notes.

    Raises:
        ConfigError: the directory is not a run directory.
        RecordError: one of the files is damaged.
    """
    return replace(home.read(), annotations=Annotations.read(home))


def annotate(
    home: RunDirectory,
    tags: Sequence[str],
    trials: Sequence[int] = (),
    *,
    remove: bool = False,
    note: str | None = None,
) -> str:
    """Add tags to a sweep or to some of its trials, or remove them; return lines that say what they have.

    Args:
        home: the run directory; processes may be at work in it.
        tags: names as those of sweeps.
        trials: the numbers of the trials; without one, the sweep itself is annotated.
        remove: whether to remove the tags.
        note: a text that replaces the note; an empty one removes it.

    Raises:
        ConfigError: a tag is no name, or is to be removed where it is not; the note is too long, or there is
            no such trial.
        RecordError: the file is damaged.
    """
    from filelock import FileLock  # only writers of a directory need it

    resolved = home.read()
    home.check_private()
    for tag in tags:
        if problem := slug_objection(tag):
            raise ConfigError(f"a tag is a name: {problem}")
    if note is not None and len(note) > NOTE_LENGTH:
        raise ConfigError(f"a note has at most {NOTE_LENGTH} characters, got {len(note)}; write it to a file")
    for number in trials:
        home.trial_record(number)
    with FileLock(home.path / ".annotations.lock"):
        now = Annotations.read(home)
        for number in trials:
            one = _changed(now.trial(number), tags, remove, note, f"{home.label}: trial {number}")
            now = replace(now, trials={**now.trials, number: one})
        if not trials:
            place = f"{home.label}: apart from its file the sweep"
            now = replace(now, sweep=_changed(now.sweep, tags, remove, note, place))
        now.write(home)
    sweep = replace(resolved, annotations=now).annotation
    lines = {f"trial {number}": now.trial(number) for number in trials} or {"the sweep": sweep}
    return "\n".join(f"{home.label}: {what}: {one}" for what, one in lines.items())


def _changed(
    before: Annotation, tags: Sequence[str], remove: bool, note: str | None, place: str
) -> Annotation:
    """Return the tags and the note after a change."""
    for tag in tags if remove else ():
        if tag not in before.tags:
            raise ConfigError(
                f"{place} has no tag {tag!r} to remove; it has {', '.join(before.tags) or 'none'}"
            )
    now = [tag for tag in before.tags if tag not in tags] if remove else [*before.tags, *tags]
    return Annotation.of({"tags": now, "note": before.note if note is None else note})
