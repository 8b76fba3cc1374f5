"""Studies: opened safely by many processes, checked against the metric, each slot claimed by one worker."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState as OptunaState, create_trial

from ..exceptions import DiskError, NotYetError, ObjectiveError, RecordError
from ..objective import Objective
from .readings import numbers_of
from .record import EpochRecord, TrialRecord, TrialState

PREFIX = "hpometrics:"
METRIC = f"{PREFIX}metric"
RESULT = f"{PREFIX}result"
REASON = f"{PREFIX}reason"
PRUNED = f"{PREFIX}pruned"  # the epoch after which the pruner stopped it

_SQLITE = "sqlite:///"
_FIXED = "fixed_params"  # what Optuna calls the params of an enqueued trial
STATES = {
    OptunaState.WAITING: TrialState.WAITING,
    OptunaState.RUNNING: TrialState.RUNNING,
    OptunaState.COMPLETE: TrialState.COMPLETE,
    OptunaState.PRUNED: TrialState.PRUNED,
    OptunaState.FAIL: TrialState.FAILED,
}
"""What each state of Optuna's is called here."""


def open_storage(place: str | Path) -> BaseStorage:
    """Open a storage: `memory`, an SQLite file (a path or `sqlite:///path`), or any URL that Optuna knows.

    An SQLite file is created under a file lock beside it, with a write-ahead log, so that any number of
    processes may open it at the same moment.

    Raises:
        NotYetError: a journal file or a gRPC address.
        RecordError: the file is damaged, or no SQLite file.
    """
    text = str(place)
    if text == "memory":
        return InMemoryStorage()
    if text.startswith(("journal:", "grpc:")):
        raise NotYetError(
            f"storage {text!r}: journal files and gRPC are not built yet; give a path for SQLite"
        )
    if "://" in text and not text.startswith(_SQLITE):
        return RDBStorage(text)
    path = Path(text.removeprefix(_SQLITE)).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        _log_ahead(path)
        return RDBStorage(f"{_SQLITE}{path}", engine_kwargs={"connect_args": {"timeout": 60}})


@contextmanager
def storing() -> Iterator[None]:
    """Say of a study that cannot be read or written that this is no fault of a trial.

    Raises:
        DiskError: it cannot.
    """
    try:
        yield
    except (optuna.exceptions.StorageInternalError, sqlite3.OperationalError) as err:
        cause: BaseException = err
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise DiskError(f"the study cannot be read or written: {cause}; what is recorded stands") from err


def close_storage(storage: BaseStorage) -> None:
    """Close the connections of a storage; the files stay."""
    storage.remove_session()
    engine = getattr(getattr(storage, "_backend", storage), "engine", None)
    if engine is not None:
        engine.dispose()


def open_study(
    storage: BaseStorage,
    name: str,
    metric: str,
    objective: Objective,
    sampler: BaseSampler | None = None,
    pruner: BasePruner | None = None,
    facts: Mapping[str, str] | None = None,
) -> optuna.Study:
    """Create a study, or go on with the one of that name if it is about the same; see `check_study`.

    Raises:
        ObjectiveError: the stored study has another direction.
        RecordError: it is about another metric or other facts.
    """
    with _locked(storage):
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            sampler=sampler,
            pruner=pruner,
            direction=objective.value,
            load_if_exists=True,
        )
        check_study(study, metric, objective, facts)
    return study


def check_direction(study: optuna.Study, metric: str, objective: Objective) -> None:
    """Refuse a study that does not search in the metric's direction.

    Raises:
        ObjectiveError: it searches in the other one; both facts are named.
        NotYetError: it has several objectives.
    """
    directions = [direction.name.lower() for direction in study.directions]
    if len(directions) > 1:
        raise NotYetError(f"the study has {len(directions)} objectives; several objectives are not built yet")
    if directions != [objective.value]:
        raise ObjectiveError(
            f"{metric} is to {objective.value}, but the study {study.study_name!r} is set to "
            f"{directions[0]}; create it with direction={objective.value!r}"
        )


def check_study(
    study: optuna.Study,
    metric: str,
    objective: Objective,
    facts: Mapping[str, str] | None = None,
) -> None:
    """Refuse a study that is about something else; note on a new one what it is about.

    Args:
        study: new or stored.
        metric: its canonical name.
        objective: the metric's.
        facts: what else must stay the same.

    Raises:
        ObjectiveError: the direction differs.
        RecordError: the metric or a fact differs.
    """
    check_direction(study, metric, objective)
    stored = study.user_attrs
    for name, fact in {"metric": metric, **(facts or {})}.items():
        key = f"{PREFIX}{name}"
        if key in stored and stored[key] != fact:
            raise RecordError(
                f"the study {study.study_name!r} was made with {name} {stored[key]!r}, now it is {fact!r}"
            )
        if stored.get(key) != fact:
            study.set_user_attr(key, fact)


def reserve(study: optuna.Study, total: int, points: Sequence[Mapping[str, Any]] = ()) -> int:
    """Fill the study up to `total` trials with waiting slots and return how many were added.

    Args:
        study: one process at a time adds to it.
        total: all trials that shall be, whatever their state; a study that has them gets none.
        points: stored points (see `Space.encode`) for the first trials; the rest is drawn when claimed.
    """
    with _locked(study._storage):
        present = len(study.get_trials(deepcopy=False))
        for number in range(present, total):
            study.enqueue_trial(dict(points[number]) if number < len(points) else {})
        return max(0, total - present)


def claim(
    study: optuna.Study,
    take: Callable[[int], bool] | None = None,
    total: int = 0,
    points: Sequence[Mapping[str, Any]] = (),
) -> Trial | None:
    """Take the next waiting slot for this worker alone, or else a new one; None when there is none.

    Of a database Optuna reads each slot that waits anew whenever it looks at the trials, and a pruner looks
    at them after every epoch; so a slot that none has to know of before is best added as it is taken.

    Args:
        study: slots that wait there come from `reserve`.
        take: called with a trial's number before it is claimed; False leaves it to others. A worker locks the
            trial's directory here, so that nobody takes the trial for an orphan.
        total: a study that has fewer trials gets a new one if no slot waits.
        points: see `reserve`.
    """
    with _locked(study._storage):  # on SQLite two processes can both turn a trial from waiting to running
        trials = study.get_trials(deepcopy=False)
        for waiting in trials:
            if waiting.state is not OptunaState.WAITING:
                continue
            if (take is None or take(waiting.number)) and _claimed(study._storage, waiting):
                return _live_trial(study, waiting._trial_id)
        number = len(trials)
        if number >= total or not (take is None or take(number)):
            return None
        trial = _live_trial(study, _begun(study, points[number] if number < len(points) else None))
        others = trial.number != number  # who does not lock the study may have added one
        return None if others and take is not None and not take(trial.number) else trial


def reclaim(study: optuna.Study, take: Callable[[int], bool]) -> Trial | None:
    """Take a running trial whose worker died, to go on under its own number; None when there is none.

    Args:
        study: of the sweep.
        take: called with the number of a running trial: True if this worker now holds the lock that the
            trial's worker would hold if it lived.
    """
    for running in study.get_trials(deepcopy=False, states=(OptunaState.RUNNING,)):
        if take(running.number):
            now = study._storage.get_trial(
                running._trial_id
            )  # it may have finished just before its lock fell
            if now.state is OptunaState.RUNNING:
                return _live_trial(study, running._trial_id)
    return None


def write_result(trial: BaseTrial, record: TrialRecord) -> None:
    """Keep with the trial what it came to: constraints, params as received, picked epoch, reason, seed."""
    for text, excess in record.constraints.items():
        trial.set_constraint(text, excess)
    picked = {name: v if math.isfinite(v) else None for name, v in numbers_of(record.picked_values).items()}
    trial.set_user_attr(RESULT, {**record.to_json(), "picked": picked})
    if record.reason:
        trial.set_user_attr(REASON, record.reason)


def tell(study: optuna.Study, trial: Trial, record: TrialRecord) -> None:
    """Finish a trial the way its record says; an interrupted one stays running, to be reclaimed."""
    write_result(trial, record)
    if record.state in (TrialState.COMPLETE, TrialState.INFEASIBLE):
        study.tell(trial, record.value)
    elif record.state is TrialState.PRUNED:
        study.tell(trial, state=OptunaState.PRUNED)
    elif record.state.finished:
        study.tell(trial, state=OptunaState.FAIL)


def study_records(study: optuna.Study) -> list[TrialRecord]:
    """Read all trials of a study; epochs hold the one value that Optuna was told."""
    metric = study.user_attrs.get(METRIC, "value")
    return [_record(trial, metric) for trial in study.get_trials(deepcopy=False)]


def _record(trial: FrozenTrial, metric: str) -> TrialRecord:
    epochs = tuple(
        EpochRecord(step, {metric: value}) for step, value in sorted(trial.intermediate_values.items())
    )
    told = trial.user_attrs.get(RESULT)
    if told is not None and trial.state.is_finished():
        picked = {name: math.nan if v is None else v for name, v in told["picked"].items()}
        epochs = tuple(replace(e, values=picked) if e.epoch == told["epoch"] else e for e in epochs)
        return TrialRecord.from_json({**told, "number": trial.number}, epochs)
    return TrialRecord(
        number=trial.number,
        params=dict(trial.params),
        state=STATES[trial.state],
        value=trial.value if trial.state is OptunaState.COMPLETE else None,
        epochs=epochs,
        reason=trial.user_attrs.get(REASON),
    )


def _claimed(storage: BaseStorage, waiting: FrozenTrial) -> bool:
    try:
        return storage.set_trial_state_values(waiting._trial_id, OptunaState.RUNNING)
    except optuna.exceptions.UpdateFinishedTrialError:
        return False  # another worker claimed and finished it


def _begun(study: optuna.Study, point: Mapping[str, Any] | None) -> int:
    """Add a trial that runs, with the params of a point if there is one, and return its id."""
    fixed = {} if point is None else {_FIXED: dict(point)}
    template = create_trial(state=OptunaState.RUNNING, system_attrs=fixed) if fixed else None
    return study._storage.create_new_trial(study._study_id, template)


def _live_trial(study: optuna.Study, trial_id: int) -> Trial:
    study._thread_local.cached_all_trials = None  # as Study.ask does: samplers see what others finished
    return Trial(study, trial_id)


def _log_ahead(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            raise  # it is busy, or cannot be written to
        except sqlite3.DatabaseError as err:
            raise RecordError(f"{path}: is no study, or damaged: {err}") from err


@contextmanager
def _locked(storage: BaseStorage) -> Iterator[None]:
    url = str(getattr(getattr(storage, "_backend", storage), "url", ""))
    if not url.startswith(_SQLITE):
        yield
        return
    with FileLock(f"{url.removeprefix(_SQLITE)}.lock"):
        yield
