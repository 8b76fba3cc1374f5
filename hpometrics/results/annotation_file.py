"""The file of a run directory with the tags and notes of its sweep, `annotations.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace

from .._text import slug_objection
from ..exceptions import ConfigError, NewerFormatError, RecordError
from ..records._files import read_whole, write_text
from ..records._json import FORMAT, FORMAT_KEY, read_sealed, sealed
from .annotations import NONE, NOTE_LENGTH, Annotation, Annotations
from .manifest import Resolved
from .run_directory import RunDirectory, file_lock


def read_annotations(home: RunDirectory) -> Annotations:
    """Read the tags and notes of a run directory; without a file there are none.

    Raises:
        RecordError: the file is damaged.
        NewerFormatError: a newer version wrote it.
    """
    if not os.path.lexists(home.annotations):
        return NONE
    place = home.display_path(home.annotations)
    try:
        return Annotations.from_json(read_sealed(read_whole(home.annotations).decode(), place))
    except NewerFormatError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise RecordError(f"{place}: is damaged; hpometrics run sets it aside") from err


def recover_annotations(home: RunDirectory) -> Annotations:
    """Read the tags and notes; move a damaged file aside, as if there were none."""
    return home.recover(home.annotations, lambda: read_annotations(home), NONE)


def annotated(home: RunDirectory) -> Resolved:
    """Read the resolved sweep of a run directory with its tags and notes.

    Raises:
        ConfigError: the directory is not a run directory.
        RecordError: one of the files is damaged.
    """
    return replace(home.read(), annotations=read_annotations(home))


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
        ConfigError: a tag is not a valid name, a tag to remove does not exist, the note is too long, or the
            trial does not exist.
        RecordError: the file is damaged.
    """
    resolved = home.read()
    home.check_private()
    for tag in tags:
        if problem := slug_objection(tag):
            raise ConfigError(f"a tag must be a name: {problem}")
    if note is not None and len(note) > NOTE_LENGTH:
        raise ConfigError(
            f"a note can have at most {NOTE_LENGTH} characters, got {len(note)}; write longer text to a file"
        )
    for number in trials:
        home.trial_record(number)
    with file_lock(home.path / ".annotations.lock", blocking=True):
        now = read_annotations(home)
        for number in trials:
            one = _changed(now.trial(number), tags, remove, note, f"{home.label}: trial {number}")
            now = replace(now, trials={**now.trials, number: one})
        if not trials:
            place = f"{home.label}: the sweep itself"
            now = replace(now, sweep=_changed(now.sweep, tags, remove, note, place))
        content = {FORMAT_KEY: FORMAT, **now.to_json()}
        write_text(home.annotations, sealed(json.dumps(content)) + "\n")
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
