"""Recovery of a study: finding damage, moving the file aside, restoring the trials from their records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, Trial, TrialState as OptunaState

from ...direction import Direction
from ...exceptions import RecordError, SpaceError
from ...records._files import STORAGE_LIMIT, is_regular, read_lines
from ...records._json import read_json
from ...records.recovery import StudyTrial
from ...records.trial_record import TrialRecord, TrialState
from ...selection.rules import judgeable
from ...space.dimensions import Choice, Dimension, Float, Int
from ...space.draws import drawn
from ...space.space import Space
from ._internals import has_value
from .pruners import write_judged, write_rung
from .storage import JOURNAL, foreign_part, is_damage
from .study import RESULT, STATES, metrics_of, record_of, tell
from .trial_queue import FIXED, claim


def is_sound(path: Path) -> bool:
    """Return whether the file of a study, SQLite's or a journal, can be read to its end; an empty one can.

    Raises:
        sqlite3.OperationalError: the file is busy, or the system does not let it be read.
    """
    if not is_regular(path):
        return False
    if path.suffix == JOURNAL:
        return _is_journal(path)
    try:
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            if foreign_part(connection) is not None:
                return False
            return bool(connection.execute("PRAGMA quick_check").fetchall() == [("ok",)])
    except sqlite3.DatabaseError as err:
        if not is_damage(err):
            raise
        return False


def read_trials(study: optuna.Study, space: Space, *, is_shared: bool = False) -> dict[int, StudyTrial]:
    """Return what a study has stored about its trials, by number.

    Args:
        study: the study of a sweep.
        space: the space from which its next trials are drawn.
        is_shared: it has no file that could be moved aside, so the params of its finished trials stand.
    """
    trials = {}
    for trial, record in _trials_of(study):
        is_current = _is_current(trial, record, space, is_shared)
        trials[trial.number] = StudyTrial(record, _params_of(trial, space), is_current)
    return trials


def _trials_of(study: optuna.Study) -> Iterator[tuple[FrozenTrial, TrialRecord]]:
    """Yield the trials of a study with their records, all as they were at one moment: workers add trials."""
    metrics = metrics_of(study)
    for trial in study.get_trials(deepcopy=False):
        yield trial, record_of(trial, metrics)


def _is_current(trial: FrozenTrial, record: TrialRecord, space: Space, is_shared: bool) -> bool:
    """Return whether the params of a trial let the study stay as it is."""
    if not trial.state.is_finished():  # what it has drawn so far must be of the space
        return all(
            name in space.dimensions and distribution_of(space.dimensions[name]) == distribution
            for name, distribution in trial.distributions.items()
        )
    return is_shared or RESULT not in trial.user_attrs or _has_params_of(trial, record, space)


def _has_params_of(trial: FrozenTrial, record: TrialRecord, space: Space) -> bool:
    """Return whether a finished trial was drawn with the params that its result has."""
    point = _point(record, space)
    if point is None:  # of another space, from which it may have been restored without params
        params = record.given
        return all(params.get(name, value) == value for name, value in trial.params.items())
    try:  # draws that stand for one value are equal
        return all(
            name in trial.params and space.value_of(name, trial.params[name]) == space.value_of(name, draw)
            for name, draw in point.items()
        )
    except SpaceError:
        return False


def check_trials(study: optuna.Study) -> None:
    """Refuse a study, written by a sweep alone, if one of its trials contradicts itself.

    Raises:
        RecordError: a trial contradicts itself.
    """
    metrics = metrics_of(study)
    for index, (trial, record) in enumerate(_trials_of(study)):
        _check_trial(trial, record, index, metrics)


def _check_trial(trial: FrozenTrial, record: TrialRecord, index: int, metrics: Sequence[str]) -> None:
    """Refuse a trial that contradicts itself.

    Raises:
        RecordError: it does.
    """
    if trial.number != index:
        raise RecordError(f"trial {index} has the number {trial.number}")
    for name, distribution in trial.distributions.items():
        if not _contains(distribution, trial.params[name]):
            raise RecordError(f"trial {index} has {name} {trial.params[name]!r}, outside {distribution}")
    if not trial.state.is_finished():
        return
    if RESULT not in trial.user_attrs:
        raise RecordError(f"trial {index} has ended and has no result")
    states = {TrialState.INFEASIBLE: TrialState.COMPLETE}
    if states.get(record.state, record.state) is not STATES[trial.state]:
        raise RecordError(f"trial {index} is {record.state.value}, but {trial.state.name} for Optuna")
    names = metrics if len(metrics) > 1 else ()
    if trial.state is OptunaState.COMPLETE and list(record.scores(names)) != trial.values:
        raise RecordError(f"trial {index} has {trial.values}, and {record.value} in its result")


def _contains(distribution: BaseDistribution, value: Any) -> bool:
    try:
        return has_value(distribution, value)
    except (ValueError, TypeError):  # nan, or not a number
        return False


def distribution_of(dimension: Dimension) -> BaseDistribution | None:
    """Return the distribution of a dimension that `Space.suggest` draws from; None for a constant."""
    plain = drawn(dimension)
    if isinstance(plain, Float):
        return FloatDistribution(plain.low, plain.high, log=plain.log, step=plain.step)
    if isinstance(plain, Int):
        return IntDistribution(plain.low, plain.high, log=plain.log, step=plain.step)
    return CategoricalDistribution(plain.options) if isinstance(plain, Choice) else None


def _params_of(trial: FrozenTrial, space: Space) -> Mapping[str, Any] | None:
    """Return the params that an open trial is resumed with; None if some of them have yet to be drawn."""
    stored = trial.params or trial.system_attrs.get(FIXED, {})
    try:
        return space.decode({name: value for name, value in stored.items() if name in space.dimensions})
    except SpaceError:
        return None


def restore(
    study: optuna.Study,
    records: Sequence[TrialRecord],
    space: Space,
    points: Sequence[Mapping[str, Any]] = (),
    judged: Mapping[str, Direction] = MappingProxyType({}),
) -> None:
    """Add the trials of records to a study, each under its number and in its final state.

    A trial that has not ended, or has no record, waits to be claimed: with its params where they are known.

    Args:
        study: a study that no other process uses; the trials that it already has do not change.
        records: the records of trials, in any order.
        space: the space of their params.
        points: see `reserve`.
        judged: the direction of each value by which a pruner judges, see `RunSpec.judged`.
    """
    by_number = {record.number: record for record in records}
    for number in range(len(study.get_trials(deepcopy=False)), max(by_number, default=-1) + 1):
        record = by_number.get(number)
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
        tell_record(study, trial, record, judged)


def tell_record(
    study: optuna.Study,
    trial: Trial,
    record: TrialRecord,
    judged: Mapping[str, Direction] = MappingProxyType({}),
) -> None:
    """Report the epochs of a record to its running trial, and finish it; see `restore`.

    A pruner with rungs stores the values at them; it is not asked after the last epoch of a whole run.
    """
    metric, *others = metrics_of(study)
    for epoch in record.epochs:
        numbers = judgeable(epoch, (metric, *judged))
        if not others and metric in numbers:
            trial.report(numbers[metric], epoch.epoch)
        is_judged = numbers.keys() >= (judged.keys() or {metric})
        if judged and is_judged:
            write_judged(trial, epoch.epoch, {name: epoch.number(name) for name in judged})
        if is_judged and (epoch is not record.epochs[-1] or record.state is TrialState.PRUNED):
            write_rung(trial, judged)
    tell(study, trial, record)


def _is_journal(path: Path) -> bool:
    try:
        lines = read_lines(path, replace(STORAGE_LIMIT, size=None))
        return all("op_code" in read_json(line) for line in lines if line.endswith(b"\n"))
    except (ValueError, TypeError):  # what follows the last newline is cut off when it is opened
        return False


def _point(record: TrialRecord, space: Space) -> dict[str, Any] | None:
    """Return the stored form of a trial's params; None if an extended sweep has changed the space since."""
    try:
        return space.encode(record.given)
    except SpaceError:
        return None
