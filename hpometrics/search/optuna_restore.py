"""A study that its file has lost: found damaged, put aside, made again from the records of its trials."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import optuna

from ..exceptions import SpaceError
from .mending import put_aside
from .optuna_study import metrics_of, tell
from .record import TrialRecord
from .slots import claim
from .space import Space
from .storages import JOURNAL


def is_sound(path: Path) -> bool:
    """Say whether the file of a study, SQLite's or a journal, reads from end to end; an empty one does."""
    if path.suffix == JOURNAL:
        return _is_journal(path)
    try:
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            return bool(connection.execute("PRAGMA quick_check").fetchall() == [("ok",)])
    except sqlite3.OperationalError:
        raise  # it is busy, or cannot be read
    except sqlite3.DatabaseError:
        return False


def put_aside_study(path: Path) -> Path:
    """Rename the file of a study, and what SQLite keeps beside one; return its new name."""
    aside = put_aside(path)
    for end in ("-wal", "-shm"):
        beside = path.with_name(f"{path.name}{end}")
        if beside.exists():
            beside.rename(f"{aside}{end}")
    return aside


def restore(
    study: optuna.Study,
    records: Sequence[TrialRecord],
    space: Space,
    points: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Add the trials of records to a study, each under its number and finished as it was.

    A trial that has not ended, or has no record, waits to be claimed: with its params where they are known.

    Args:
        study: that nobody else uses; of trials that it has already, nothing is changed.
        records: of trials, in any order.
        space: whose params they have.
        points: see `reserve`.
    """
    of = {record.number: record for record in records}
    for number in range(len(study.get_trials(deepcopy=False)), max(of, default=-1) + 1):
        record = of.get(number)
        if record is None:
            study.enqueue_trial(dict(points[number]) if number < len(points) else {})
            continue
        point = _point(record, space)
        study.enqueue_trial(point or {})
        trial = claim(study, number.__eq__) if record.state.finished else None
        if trial is None:
            continue
        if point is not None:
            space.suggest(trial)
        metric, *others = metrics_of(study)
        for epoch in () if others else record.epochs:
            trial.report(epoch.number(metric), epoch.epoch)
        tell(study, trial, record)


def _is_journal(path: Path) -> bool:
    lines = path.read_bytes().split(b"\n")[:-1]  # what follows the last one is cut off when it is opened
    try:
        return all("op_code" in json.loads(line) for line in lines)
    except (ValueError, TypeError, RecursionError):
        return False


def _point(record: TrialRecord, space: Space) -> dict[str, Any] | None:
    """The stored form of a trial's params; None where an extended sweep has made its space another one."""
    try:
        return space.encode(record.given)
    except SpaceError:
        return None
