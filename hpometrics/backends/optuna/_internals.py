"""The private parts of Optuna that this package reads or sets, each behind one function.

Optuna has no public name for them. `tests/backends/optuna/test_optuna_internals.py` names each one that a new
version moves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from operator import attrgetter
from typing import Any

from optuna import Study, Trial
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import BaseStorage
from optuna.storages._heartbeat import get_heartbeat_thread
from optuna.storages.journal import JournalFileBackend
from optuna.trial import BaseTrial, FrozenTrial

_STREAMS: Mapping[type[BaseSampler], tuple[Callable[[BaseSampler], Any], ...]] = {
    RandomSampler: (attrgetter("_rng.rng"),),
    TPESampler: (attrgetter("_rng.rng"), attrgetter("_random_sampler._rng.rng")),
}


_TRIALS_LOG = logging.getLogger("optuna.study._optimize")
_PRINTED_BY_PYTHON = "_hpometrics_printed_by_python"


def log_without_traceback(error: Exception) -> None:
    """Keep the traceback of an error out of Optuna's log of the failed trial.

    `study.optimize` raises the error as well, and Python prints it. The log still has its message.
    """
    setattr(error, _PRINTED_BY_PYTHON, True)
    _TRIALS_LOG.addFilter(_drop_traceback)  # once: a logger has a filter once


def _drop_traceback(record: logging.LogRecord) -> bool:
    """Remove a traceback that Python prints."""
    if record.exc_info and hasattr(record.exc_info[1], _PRINTED_BY_PYTHON):
        record.exc_info = None
    return True


def storage_of(study: Study) -> BaseStorage:
    """Return the storage of a study."""
    return study._storage


def study_id_of(study: Study) -> int:
    """Return the id of a study in its storage."""
    return study._study_id


def trial_id_of(trial: Trial | FrozenTrial) -> int:
    """Return the id of a trial in its storage."""
    return trial._trial_id


def set_trial_id(trial: FrozenTrial, trial_id: int) -> None:
    """Set the id of a trial that its storage has just got."""
    trial._trial_id = trial_id


def local_copy_of(trial: BaseTrial) -> Any:
    """Return what a trial keeps of itself: a `FrozenTrial` of a live one, else the trial.

    The public properties of a live trial read its storage; the copy has what was there when the trial was
    created, and all that was suggested, reported or set through it since.
    """
    return getattr(trial, "_cached_frozen_trial", trial)


def forget_trials(study: Study) -> None:
    """Drop the trials that this thread has read for a study, as `Study.ask` and `Study.tell` do.

    Its sampler and pruner then see what other processes have finished.
    """
    study._thread_local.cached_all_trials = None


@contextmanager
def optimizing(study: Study, trial: Trial) -> Iterator[None]:
    """Run a trial in this context as in `study.optimize`: it has heartbeats, and may call `study.stop`."""
    study._stop_flag = False
    study._thread_local.in_optimize_loop = True
    try:
        with get_heartbeat_thread(trial_id_of(trial), storage_of(study)):
            yield
    finally:
        study._thread_local.in_optimize_loop = False


def is_stopped(study: Study) -> bool:
    """Return whether `study.stop` was called in the last `study.optimize` or `optimizing`."""
    return study._stop_flag


def with_storage(study: Study, storage: Any) -> Any:
    """Return a copy of a study that has another storage."""
    other: Any = copy(study)
    other._storage = storage
    return other


def backend_of(storage: BaseStorage) -> Any:
    """Return the storage or the journal file behind a storage; itself if there is none behind it."""
    return getattr(storage, "_backend", storage)


def journal_path(backend: JournalFileBackend) -> str:
    """Return the path of the file of a journal."""
    return backend._file_path


def database_models() -> tuple[Any, Any]:
    """Return the models of trials and of their system attributes; this loads SQLAlchemy."""
    from optuna.storages._rdb import models

    return models.TrialModel, models.TrialSystemAttributeModel


def has_value(distribution: BaseDistribution, value: Any) -> bool:
    """Check whether a value lies within a distribution.

    Raises:
        ValueError, TypeError: the value has no form in a distribution of this class.
    """
    return distribution._contains(distribution.to_internal_repr(value))


def random_streams(sampler: BaseSampler) -> list[Any]:
    """Return the random streams of a sampler that draws a param by nothing else of its own.

    They are NumPy's, each with a method `seed`. For a sampler of another class, and where Optuna has moved
    them, the list is empty.
    """
    try:
        return [stream(sampler) for stream in _STREAMS[type(sampler)]]
    except (KeyError, AttributeError):
        return []
