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
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState as OptunaState

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
_NO_EPOCH = -1  # of values that nobody says the epoch of
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
    optimised: Mapping[str, Objective],
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
            directions=[objective.value for objective in optimised.values()],
            load_if_exists=True,
        )
        check_study(study, optimised, facts)
    return study


def check_direction(study: optuna.Study, optimised: Mapping[str, Objective]) -> None:
    """Refuse a study that does not search in the directions of the metrics.

    Raises:
        ObjectiveError: it searches in others; both facts are named.
    """
    there = [direction.name.lower() for direction in study.directions]
    wanted = [objective.value for objective in optimised.values()]
    if there != wanted:
        told = ", ".join(f"{name} is to {objective.value}" for name, objective in optimised.items())
        give = f"direction={wanted[0]!r}" if len(wanted) == 1 else f"directions={wanted}"
        raise ObjectiveError(
            f"{told}, but the study {study.study_name!r} is set to {', '.join(there)}; create it with {give}"
        )


def check_study(
    study: optuna.Study,
    optimised: Mapping[str, Objective],
    facts: Mapping[str, str] | None = None,
) -> None:
    """Refuse a study that is about something else; note on a new one what it is about.

    Args:
        study: new or stored.
        optimised: the direction of each metric that is optimised, by its canonical name.
        facts: what else must stay the same.

    Raises:
        ObjectiveError: a direction differs.
        RecordError: a metric or a fact differs.
    """
    check_direction(study, optimised)
    stored, names = study.user_attrs, list(optimised)
    about = names if len(names) > 1 else names[0]
    for name, fact in {"metric": about, **(facts or {})}.items():
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


def claim(study: optuna.Study, take: Callable[[int], bool] | None = None) -> Trial | None:
    """Take the next waiting slot for this worker alone; None when there is none.

    Args:
        study: its slots come from `reserve`.
        take: called with a trial's number before it is claimed; False leaves it to others. A worker locks the
            trial's directory here, so that nobody takes the trial for an orphan.
    """
    with _locked(study._storage):  # on SQLite two processes can both turn a trial from waiting to running
        for waiting in study.get_trials(deepcopy=False, states=(OptunaState.WAITING,)):
            if (take is None or take(waiting.number)) and _claimed(study._storage, waiting):
                return _live_trial(study, waiting)
    return None


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
                return _live_trial(study, running)
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
        study.tell(trial, _told_values(study, record))
    elif record.state is TrialState.PRUNED:
        study.tell(trial, state=OptunaState.PRUNED)
    elif record.state.finished:
        study.tell(trial, state=OptunaState.FAIL)


def study_records(study: optuna.Study) -> list[TrialRecord]:
    """Read all trials of a study; epochs hold the one value that Optuna was told."""
    metrics = metrics_of(study)
    return [_record(trial, metrics) for trial in study.get_trials(deepcopy=False)]


def metrics_of(study: optuna.Study) -> list[str]:
    """Name what a study optimises, as it was noted on it; `value` where nothing was."""
    noted = study.user_attrs.get(METRIC, "value")
    return list(noted) if isinstance(noted, list) else [noted]


def _told_values(study: optuna.Study, record: TrialRecord) -> float | list[float] | None:
    """What a study is told of a trial; only one of several objectives is asked for their names."""
    return record.value if len(study.directions) == 1 else list(record.scores(metrics_of(study)))


def _record(trial: FrozenTrial, metrics: Sequence[str]) -> TrialRecord:
    metric = metrics[0]
    epochs = tuple(
        EpochRecord(step, {metric: value}) for step, value in sorted(trial.intermediate_values.items())
    )
    told = trial.user_attrs.get(RESULT)
    if told is not None and trial.state.is_finished():
        picked = {name: math.nan if v is None else v for name, v in told["picked"].items()}
        if len(metrics) > 1 and told["epoch"] is not None:  # of whose epochs Optuna was told none
            epochs = (EpochRecord(told["epoch"], picked),)
        epochs = tuple(replace(e, values=picked) if e.epoch == told["epoch"] else e for e in epochs)
        return TrialRecord.from_json({**told, "number": trial.number}, epochs)
    return TrialRecord(
        number=trial.number,
        params=dict(trial.params),
        state=STATES[trial.state],
        **_values_of(trial, metrics, epochs),
        reason=trial.user_attrs.get(REASON),
    )


def _values_of(trial: FrozenTrial, metrics: Sequence[str], epochs: tuple[EpochRecord, ...]) -> dict[str, Any]:
    """Say what is known of the values of a trial that another objective left."""
    if trial.state is not OptunaState.COMPLETE or not trial.values:
        return {"epochs": epochs}
    if len(metrics) == 1:
        return {"value": trial.value, "epochs": epochs}
    values = EpochRecord(_NO_EPOCH, dict(zip(metrics, trial.values, strict=True)))
    return {"value": trial.values[0], "epoch": _NO_EPOCH, "epochs": (values,)}


def _claimed(storage: BaseStorage, waiting: FrozenTrial) -> bool:
    try:
        return storage.set_trial_state_values(waiting._trial_id, OptunaState.RUNNING)
    except optuna.exceptions.UpdateFinishedTrialError:
        return False  # another worker claimed and finished it


def _live_trial(study: optuna.Study, frozen: FrozenTrial) -> Trial:
    study._thread_local.cached_all_trials = None  # as Study.ask does: samplers see what others finished
    return Trial(study, frozen._trial_id)


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
