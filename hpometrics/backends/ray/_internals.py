"""The internals of Ray Tune that are read here: what it tells nobody in public."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray import cloudpickle, tune
from ray._private.state import actors
from ray.air.constants import EXPR_ERROR_PICKLE_FILE
from ray.exceptions import RayActorError, RayTaskError
from ray.train._internal.session import get_session
from ray.tune.error import TuneError
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import SearchAlgorithm, Searcher

from ...exceptions import RunError
from ...records.recovery import Loss
from .session import EPOCH, NUMBER

_TUNER = "tuner.pkl"
_PATIENCE = 5.0  # seconds for the answer of a node


def in_train_worker() -> bool:
    """Check whether this process is a worker of Ray Train V2, where `tune.report` reaches nobody."""
    functions = sys.modules.get("ray.train.v2._internal.execution.train_fn_utils")
    if functions is None:  # Ray Train loads it before the function of the worker is called
        return False
    try:
        functions.get_train_fn_utils()
    except RuntimeError:
        return False
    return True


def loss_of(trial: Any) -> Loss | None:
    """Return what a trial of Tune that has just failed has lost; None where its worker has raised.

    What Ray keeps of an error is pickled if a worker has raised it or an actor has died. All else ends the
    process, as its memory monitor does.
    """
    path = trial.pickled_error_file
    if path is None:
        return Loss.PROCESS
    try:
        error = cloudpickle.loads(Path(path).read_bytes())
    except Exception:  # the code of whoever wrote the exception that a worker has raised
        return None
    return _loss_in(error)


def _loss_in(error: BaseException | None) -> Loss | None:
    """Return the loss behind an error; None for an error that a worker or Tune itself raised."""
    if isinstance(error, RayActorError):
        if error.actor_init_failed:
            return None
        return Loss.MACHINE if error.preempted or _is_node_gone(error.actor_id) else Loss.PROCESS
    return None if isinstance(error, (RayTaskError, TuneError)) else Loss.PROCESS


def _is_node_gone(actor_id: str | None) -> bool:
    """Check whether the node that an actor was on answers no more; Ray itself may take minutes to notice."""
    facts = actors(actor_id) if actor_id else {}
    place = facts.get("Address", {}).get("NodeID")
    node = next((node for node in ray.nodes() if node["NodeID"] == place), None)  # type: ignore[no-untyped-call]
    if node is None:
        return False
    try:
        socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), _PATIENCE).close()
    except OSError:
        return True
    return not node["Alive"]


def epochs_of(trial: Any) -> int:
    """Return the most epochs that a trial has reported, before it began again included."""
    return int(trial.metric_analysis.get(EPOCH, {}).get("max", 0))


class Enduring(Trial):
    """A trial of Tune that goes on after the loss of its worker; see `endure`.

    Tune counts the loss of a worker and an exception alike, and asks nobody before it judges by the count.
    So the allowed failures of the trial follow the count where it has lost a worker, and stay behind where
    its worker has raised.
    """

    def handle_error(self, exc: Any = None) -> None:
        """Note a failure, and whether the trial goes on."""
        super().handle_error(exc)
        loss = _loss_in(exc)
        if loss is not None:
            _settle(self, loss)


def _settle(trial: Any, loss: Loss) -> None:
    """Resume a trial that has lost its worker, or replace Tune's error by our reason."""
    reason = trial.temporary_state.reason_to_fail(trial.config[NUMBER], epochs_of(trial), loss)
    if reason is None:
        trial.max_failures = trial.num_failures
        trial.run_metadata.pickled_error_filename = None  # a later failure may leave no error of its own
    else:
        trial.run_metadata.pickled_error_filename = EXPR_ERROR_PICKLE_FILE
        error = cloudpickle.dumps(RunError(reason))  # type: ignore[no-untyped-call]
        Path(trial.pickled_error_file).write_bytes(error)
    trial.invalidate_json_state()


def endure(trial: Any, reason_to_fail: Callable[[int, int, Loss], str | None]) -> bool:
    """Resume a trial after each loss of its worker, unless there is a reason to fail.

    Returns:
        Whether that was new to it.
    """
    if isinstance(trial, Enduring):
        return False
    trial.__class__ = Enduring
    trial.temporary_state.reason_to_fail = reason_to_fail  # Tune stores all of a trial but this state
    return True


def goes_on(trial: Any) -> bool:
    """Check whether a trial that has just failed is run again by `endure`."""
    return isinstance(trial, Enduring) and bool(trial.should_recover())  # type: ignore[no-untyped-call]


class Judge(NamedTuple):
    """What judges the trials of an experiment: a key of their reports, and in which mode."""

    name: str
    metric: str | None
    mode: str | None


def judges() -> tuple[Judge, ...]:
    """Return the `TuneConfig`, the scheduler and the searcher of the experiment that this trial belongs to.

    A Tuner writes its settings beside the experiment before the first trial begins. Outside of a trial there
    are none, and `tune.run` keeps its metric and mode in the driver, where no trial can read them.
    """
    session = get_session()
    storage = None if session is None else session.storage
    if storage is None:
        return ()
    path = f"{storage.experiment_fs_path}/{_TUNER}"
    try:
        with storage.storage_filesystem.open_input_stream(path) as file:
            settings = cloudpickle.loads(file.read())["_tune_config"]
    except (OSError, KeyError, ImportError, AttributeError):  # `tune.run` writes none; a class may be missing
        return ()
    return tuple(_judges(settings))


def _judges(settings: tune.TuneConfig) -> Iterator[Judge]:
    yield Judge("TuneConfig", settings.metric, settings.mode)
    for part in (*_with_inner(settings.scheduler), *_with_inner(settings.search_alg)):
        metric = getattr(part, "_metric", None) or settings.metric
        mode = getattr(part, "_mode", None) or settings.mode
        several = isinstance(metric, list) and isinstance(mode, list)
        metrics, modes = (list(metric), list(mode)) if several else ([metric], [mode])  # type: ignore[arg-type]
        for one in zip(metrics, modes, strict=False):
            yield Judge(type(part).__name__, *one)


def _with_inner(part: object) -> Iterator[object]:
    """Yield a scheduler or a searcher, after those that it wraps, as a ConcurrencyLimiter wraps one."""
    if isinstance(part, (TrialScheduler, Searcher, SearchAlgorithm)):
        for inner in vars(part).values():
            yield from _with_inner(inner)
        yield part
