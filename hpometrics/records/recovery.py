"""Repair the record of a trial: move a damaged file aside and write again what is known from elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from .._formatting import plural
from .._redaction import excerpt
from ..exceptions import NewerFormatError, RecordError, SpaceError
from ._files import EPOCHS_LIMIT, atomic_write, free_name, read_whole, sync_directory
from ._json import read_json
from .epoch_log import EPOCHS_FILE, current_epochs
from .trial_record import (
    TRIAL_FILE,
    EpochRecord,
    TrialRecord,
    TrialState,
    check_trial_format,
    is_as_written,
    write_trial,
)

_log = logging.getLogger("hpometrics")

MOST_DEATHS = 3
"""Deaths at one epoch after which a trial has failed: as far as can be known its params end the process."""

Repair = Callable[[], str]
"""Repairs one trial and returns one line: what was damaged, where it is kept, what is left."""


class Loss(StrEnum):
    """The loss that ended the worker of a trial."""

    PROCESS = "process"
    MACHINE = "machine"


class Deaths(NamedTuple):
    """Deaths in a row without a further epoch in between.

    Attributes:
        times: how many there are.
        reached: the most epochs that the trial has had at one of them.
    """

    times: int = 0
    reached: int = -1

    def another(self, epochs: int) -> Deaths:
        """Return the count after a death in a trial that has had so many epochs."""
        return Deaths(self.times + 1 if epochs <= self.reached else 1, max(epochs, self.reached))


def format_deaths(times: int, epochs: int) -> str:
    """Return why a trial has failed whose process died too often."""
    often = "once" if times == 1 else f"{times} times"
    return f"its process died {often} in epoch {epochs}; did it have enough memory?"


def format_loss(loss: Loss, epochs: int, deaths: int = 0, most: int = MOST_DEATHS) -> str:
    """Return what ended the worker of a trial that continues.

    Args:
        loss: what it was.
        epochs: of the trial by then.
        deaths: of its process in a row, this one included; a lost machine does not count.
        most: deaths after which the trial fails.
    """
    if loss is Loss.MACHINE:
        return f"its machine was lost in epoch {epochs}; the trial continues in another process"
    often = "once" if deaths == 1 else f"{deaths} times"
    continues = f"the trial continues in another process and fails after {plural(most, 'death')}"
    return f"its process died {often} in epoch {epochs}; {continues}"


class Losses:
    """Decides, by the deaths of each trial, whether it goes on; a lost machine does not count.

    Args:
        epochs_written: returns how many epochs a trial has on disk, by its number.
        most: deaths in a row without a further epoch in between, after which a trial has failed.

    Attributes:
        reasons: why trials have failed, by number.
    """

    def __init__(self, epochs_written: Callable[[int], int], most: int = MOST_DEATHS) -> None:
        self._epochs_written, self._most = epochs_written, most
        self._deaths: dict[int, Deaths] = {}
        self.reasons: dict[int, str] = {}

    def reason_to_fail(self, number: int, reported: int, loss: Loss) -> str | None:
        """Count a loss; return why the trial has failed, None where it goes on.

        Args:
            number: of the trial.
            reported: the epochs that it has reported.
            loss: what ended its worker.
        """
        epochs = max(reported, self._epochs_written(number))
        deaths = self._deaths.get(number, Deaths())
        if loss is Loss.PROCESS:
            self._deaths[number] = deaths = deaths.another(epochs)
            if deaths.times >= self._most:
                self.reasons[number] = format_deaths(deaths.times, epochs)
                return self.reasons[number]
        _log.warning("trial %d: %s", number, format_loss(loss, epochs, deaths.times, self._most))
        return None


@dataclass(frozen=True)
class StudyTrial:
    """A trial as its study knows it.

    Attributes:
        record: its state and results; its epochs hold what was reported to the study.
        params: those with which an open trial resumes; None if they are not drawn yet.
        is_current: whether an open trial has params of the current space, a finished one those of its record.
    """

    record: TrialRecord
    params: Mapping[str, Any] | None
    is_current: bool = True


class ParamSpace(Protocol):
    """The space of a search, as far as recovery needs it: see `Space`."""

    def encode(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert params to a stored point."""

    def decode(self, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a stored point to params."""


def quarantine(path: Path, why: str = "damaged") -> Path:
    """Rename what is damaged, or lost to another process, a file or a directory; return its new name."""
    aside = free_name(path, why)
    path.rename(aside)
    sync_directory(path.parent)
    return aside


def quarantine_study(path: Path, why: str = "damaged") -> Path:
    """Rename the file of a study and the files that SQLite has beside it; return the new name."""
    aside = quarantine(path, why)
    for end in ("-wal", "-shm"):
        beside = path.with_name(f"{path.name}{end}")
        if beside.exists():
            beside.rename(f"{aside}{end}")
    return aside


def find_repair(
    directory: Path, study_trial: StudyTrial | None, metric: str, space: ParamSpace | None = None
) -> Repair | None:
    """Return the repair that the record of a trial needs; None if nothing is damaged.

    The name of the directory is the number of the trial. A finished trial is restored from its study,
    and keeps every epoch that reads; the study has the metric of the others. An open trial keeps the epochs
    before the damage and trains the rest again; it begins anew if its params are unknown or have changed.

    Args:
        directory: the trial's own, or where it should be.
        study_trial: what its study has of it; None if it does not have the trial.
        metric: the metric that is optimized.
        space: the space from which a trial that the study does not have is drawn again.

    Raises:
        NewerFormatError: a newer version of this package has written the record.
    """
    facts = directory / TRIAL_FILE
    final = study_trial.record if study_trial is not None and study_trial.record.state.finished else None
    if not directory.is_dir():
        lost = final is not None or directory.exists()
        return partial(_restore, directory, directory, final, metric) if lost else None
    if not facts.exists() and not (directory / EPOCHS_FILE).exists() and final is None:
        return None
    record, is_sound = _read_facts(facts)
    if record is not None and is_sound and record.number != int(directory.name):
        return partial(_put_aside_copy, directory, record.number, study_trial, metric)
    if final is not None and not (is_sound and record is not None and record.state.finished):
        return partial(_restore, directory, facts, final, metric)
    if record is None:
        if study_trial is None or study_trial.params is None:
            return partial(_restore, directory, facts, None, metric)
        return partial(_go_on, directory, study_trial, metric)
    if not record.state.finished:
        current = None if study_trial is None or not study_trial.is_current else study_trial
        params = _params_in(space, record) if current is None else current.params
        if params != record.given:
            return partial(_begin_anew, directory, record)
    epochs = _examine_epochs(directory, record, study_trial, metric)
    return epochs if is_sound else partial(_rewrite, directory, record, epochs)


def _restore(directory: Path, damaged: Path, final: TrialRecord | None, metric: str) -> str:
    """Write the record of a trial as its study has it; one that has none, or is open, begins anew."""
    lost = damaged if final is not None or damaged == directory else directory
    what = f"{damaged} is damaged, kept as {quarantine(lost).name}" if lost.exists() else f"{damaged} is lost"
    if final is None:
        return f"{what}: the trial restarts"
    has_checkpoint = final.checkpoint is not None and final.checkpoint.exists()
    write_trial(directory, final if has_checkpoint else replace(final, checkpoint=None))
    epochs = _examine_epochs(directory, final, StudyTrial(final, None), metric)
    return _join(f"{what}: trial {final.number} is restored from the study", epochs)


def _put_aside_copy(directory: Path, number: int, study_trial: StudyTrial | None, metric: str) -> str:
    """Move a directory aside that belongs to another trial, and restore this one from its study."""
    aside = quarantine(directory, "copy")
    what = f"{directory} holds the record of trial {number}, kept as {aside.name}"
    if study_trial is None:
        return f"{what}: it is not counted"
    final = study_trial.record if study_trial.record.state.finished else None
    return f"{what}; {_restore(directory, directory, final, metric)}"


def _rewrite(directory: Path, record: TrialRecord, epochs: Repair | None) -> str:
    """Write again what reads of the facts of a trial, where its study has no other copy of them."""
    aside = quarantine(directory / TRIAL_FILE)
    write_trial(directory, record)
    text = (
        f"{directory / TRIAL_FILE} is damaged, kept as {aside.name}: it is rewritten from its readable part"
    )
    return _join(text, epochs)


def _go_on(directory: Path, study_trial: StudyTrial, metric: str) -> str:
    """Write the facts of an open trial, whose params its study has."""
    facts, number = directory / TRIAL_FILE, int(directory.name)
    what = f"damaged, kept as {quarantine(facts).name}" if facts.exists() else "lost"
    record = TrialRecord(number, study_trial.params or {}, TrialState.INTERRUPTED)
    write_trial(directory, record)
    text = f"{facts} is {what}: trial {number} continues with the params from the study"
    return _join(text, _examine_epochs(directory, record, study_trial, metric))


def _params_in(space: ParamSpace | None, record: TrialRecord) -> Mapping[str, Any] | None:
    """Return the params of a trial as a space encodes and decodes them; None if it cannot."""
    try:
        return record.given if space is None else space.decode(space.encode(record.given))
    except SpaceError:
        return None


def _begin_anew(directory: Path, record: TrialRecord) -> str:
    """Move an open trial aside whose params differ from those it must have."""
    aside = quarantine(directory, "replaced")
    what = f"{directory} is the trial with {dict(record.given)}, kept as {aside.name}"
    return f"{what}: it restarts with other params"


def _join(text: str, epochs: Repair | None) -> str:
    return text if epochs is None else f"{text}; {epochs()}"


def _read_facts(path: Path) -> tuple[TrialRecord | None, bool]:
    """Read the facts of a trial, and whether they are as they were written; None if they do not read.

    The number of damaged facts is that of their directory.

    Raises:
        NewerFormatError: a newer version has written them.
    """
    number = int(path.parent.name)
    try:
        content = read_json(read_whole(path))
        check_trial_format(content, path)
        record = TrialRecord.from_json(content, home=path.parent)
    except NewerFormatError:
        raise
    except (ValueError, OSError, RecordError):  # the caller moves it aside and reports it
        return None, False
    is_sound = is_as_written(content)
    return (record if is_sound else replace(record, number=number)), is_sound


def _examine_epochs(
    directory: Path, record: TrialRecord, study_trial: StudyTrial | None, metric: str
) -> Repair | None:
    """Examine the epochs of a trial, which it keeps as far as they read and fit its record."""
    path = directory / EPOCHS_FILE
    lines, damage = _read_lines(path, record.state.finished)
    sound = [line for line in lines if line is not None]
    stored = () if study_trial is None else study_trial.record.epochs
    if record.state.finished:
        picked = _picked_epoch(record, metric)
        stored = stored or picked
        wrong = {one.epoch for one in picked if not _agrees(one, sound, metric)}
        sound = [one for one in sound if one.epoch not in wrong]
    elif None in lines:
        sound = [line for line in lines[: lines.index(None)] if line is not None]
    missing = [one for one in stored if one.epoch not in {one.epoch for one in sound}]
    if damage is None and not missing:
        return None
    if damage is None and not record.state.finished:
        numbers = ", ".join(str(one.epoch) for one in missing)
        return lambda: f"{path} lacks epoch {numbers}, which the study has: the epoch is trained again"
    added = missing if record.state.finished else []
    return partial(_write_epochs, path, damage or f"{path}: is damaged", sound, added, missing, metric)


def _write_epochs(
    path: Path,
    damage: str,
    sound: list[EpochRecord],
    added: list[EpochRecord],
    missing: list[EpochRecord],
    metric: str,
) -> str:
    attempt = max((one.attempt for one in sound), default=1)
    epochs = [*sound, *(replace(one, attempt=attempt) for one in added)]
    epochs.sort(key=lambda one: (one.attempt, one.epoch))
    aside = f", kept is {quarantine(path).name}" if path.exists() else ""
    with atomic_write(path) as file:
        file.writelines(f"{one.to_line()}\n".encode() for one in epochs)
    numbers = ", ".join(str(one.epoch) for one in missing)
    fate = f"; of {numbers} {metric} alone" if added else f"; {numbers} is trained again" if missing else ""
    count = len({one.epoch for one in epochs})
    return f"{damage}: {plural(count, 'epoch')} {'is' if count == 1 else 'are'} left{aside}{fate}"


def _picked_epoch(final: TrialRecord, metric: str) -> tuple[EpochRecord, ...]:
    """Return the picked epoch of a finished trial from its facts; of repeats, that of the first."""
    if final.epoch is None or final.value is None:
        return ()
    value = final.repeats[0].value if final.repeats else final.value
    return (EpochRecord(final.epoch, {metric: value}, step=final.step),)


def _agrees(picked: EpochRecord, records: Iterable[EpochRecord], metric: str) -> bool:
    """Check whether the epochs of a trial have the value of the picked one."""
    same = [one for one in current_epochs(list(records)) if one.epoch == picked.epoch]
    return any(one.values.get(metric) == picked.values[metric] for one in same)


def _read_lines(path: Path, is_ended: bool) -> tuple[list[EpochRecord | None], str | None]:
    """Read each line of the epochs, None if it does not read; return them and where the first such line is.

    What follows the last newline of an open trial was being written.
    """
    try:
        texts = read_whole(path, EPOCHS_LIMIT).split(b"\n")
    except FileNotFoundError:
        return [], None
    except RecordError as err:
        return [], str(err).partition(";")[0]
    if not texts[-1] or not (is_ended or _epoch(texts[-1], path)):
        texts.pop()
    lines = _in_order([_epoch(text, f"{path}:{number}") for number, text in enumerate(texts, 1)])
    if None not in lines:
        return lines, None
    number = lines.index(None)
    start = excerpt(texts[number].decode(errors="replace"), 80)
    return lines, f"{path}:{number + 1}: not an epoch record: {start!r}"


def _in_order(lines: list[EpochRecord | None]) -> list[EpochRecord | None]:
    """Remove what no run has written: an epoch or an attempt after one that is missing."""
    ordered: list[EpochRecord | None] = []
    length, attempt = 0, 1
    for line in lines:
        if line is None or not 1 <= line.attempt <= attempt + 1 or line.epoch > length:
            ordered.append(None)
            length += line is None  # the epoch that does not read was there
            continue
        ordered.append(line)
        if line.attempt >= attempt:
            length, attempt = max(line.epoch + 1, length * (line.attempt == attempt)), line.attempt
    return ordered


def _epoch(line: bytes, place: object) -> EpochRecord | None:
    try:
        return EpochRecord.from_line(line.decode(), str(place))
    except (RecordError, UnicodeDecodeError):  # the caller moves it aside and reports it
        return None
