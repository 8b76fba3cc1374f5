"""Read an Optuna storage, SQLite or journal, from a copy; the file itself is opened read-only."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState as OptunaState

from ..backends.optuna.samplers import is_infeasible
from ..backends.optuna.storage import SQLITE, files_of, opened_copy, search_names
from ..backends.optuna.study import PREFIX, STATES, check_study_format
from ..direction import Direction
from ..exceptions import ConfigError
from ..records._files import STORAGE_LIMIT, open_regular
from .search import Finding, ForeignTrial, Search
from .terms import known_direction

_METRIC_ATTRS = (f"{PREFIX}metric", "metric", "metric_name")


def read_storage(path: Path, study: str | None = None, metric: str | None = None) -> list[Search]:
    """Read the studies of a storage.

    Args:
        path: an SQLite file or a journal.
        study: name of the only study to read.
        metric: the optimized metric; by default, what the study says.

    Raises:
        RecordError: the storage cannot be read.
        ConfigError: the storage has no study of that name.
    """
    silence = time.time() - max(file.lstat().st_mtime for file in files_of(path))
    with opened_copy(path) as storage:
        names = search_names(storage)
        if study is not None and study not in names:
            raise ConfigError(f"{path} has no study {study!r}; it has {', '.join(names) or 'none'}")
        if not names:
            raise ConfigError(f"{path} contains no study")
        chosen = names if study is None else [study]
        return [one for name in chosen for one in _searches(path, name, storage, metric, silence)]


def find_torn_journal(path: Path, follow: bool) -> Finding | None:
    """Find a journal whose last line is cut off: the next append would make all of it unreadable.

    Args:
        path: an SQLite file or a journal.
        follow: whether the path may be a symbolic link, because the user named it.

    Raises:
        RecordError: it is not a regular file, or too large.
    """
    with open_regular(path, STORAGE_LIMIT, follow=follow) as file:
        if file.read(len(SQLITE)) == SQLITE:
            return None
        file.seek(0, 2)
        if file.tell() == 0:
            return None
        file.seek(-1, 2)
        whole = file.read(1) == b"\n"
    if whole:
        return None
    text = "its last line is cut off; the next append would extend it, and no process could read the journal"
    return Finding("torn", text, "stop all workers, keep a copy, and cut the file after its last newline")


def _searches(
    path: Path, name: str, storage: BaseStorage, metric: str | None, silence: float
) -> Iterator[Search]:
    """Return the study as a search, or one search for each of its objectives."""
    study = optuna.load_study(study_name=name, storage=storage)
    check_study_format(name, study.user_attrs)
    trials = study.get_trials(deepcopy=False)
    several = len(study.directions) > 1
    for index, way in enumerate(study.directions):
        called, teller = _metric(study, index, several, metric)
        yield Search(
            f"Optuna study {name!r}" + (f", objective {index}" if several else ""),
            str(path),
            tuple(_convert_trial(trial, index, several) for trial in trials),
            called,
            teller,
            Direction.parse(way.name),
            silence,
            several,
            "a pruner (Optuna's default is the median pruner)",
        )


def _metric(study: optuna.Study, index: int, several: bool, requested: str | None) -> tuple[str | None, str]:
    if requested is not None and not several:
        return requested, "--metric"
    if study.metric_names is not None:
        return study.metric_names[index], "the metric name of the study"
    for key in () if several else _METRIC_ATTRS:
        if isinstance(study.user_attrs.get(key), str):
            return study.user_attrs[key], f"the study attribute {key}"
    words = [] if several else re.split(r"[^A-Za-z0-9@]+", study.study_name)
    likely = [word for word in words if len(word) > 2 or len(words) == 1 or word.lower() == "f1"]
    candidates = [word for word in likely if known_direction(word) is not None]  # `r2` may be a second round
    return (candidates[0], "the name of the study") if len(candidates) == 1 else (None, "")


def _convert_trial(trial: FrozenTrial, index: int, several: bool) -> ForeignTrial:
    complete = trial.state is OptunaState.COMPLETE and trial.values is not None
    return ForeignTrial(
        name=str(trial.number),
        params=dict(trial.params),
        state=STATES[trial.state],
        value=trial.values[index] if complete else None,
        epochs={} if several else dict(trial.intermediate_values),
        infeasible=is_infeasible(trial),
        seconds=_seconds(trial),
    )


def _seconds(trial: FrozenTrial) -> float | None:
    if trial.datetime_start is None:
        return None
    until = trial.datetime_complete or datetime.now(trial.datetime_start.tzinfo)
    return (until - trial.datetime_start).total_seconds()
