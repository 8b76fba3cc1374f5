"""The private parts of Ray that this package reads: losses of workers, judges of trials, states of PBT."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
import ray
from ray import cloudpickle, tune
from ray._private.state import actors
from ray.air.constants import EXPR_ERROR_PICKLE_FILE
from ray.exceptions import RayActorError, RayTaskError
from ray.train._internal.session import get_session
from ray.tune.error import TuneError
from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    MedianStoppingRule,
    PopulationBasedTraining,
    ResourceChangingScheduler,
    TrialScheduler,
)
from ray.tune.search import SearchAlgorithm, Searcher
from ray.tune.utils.util import SafeFallbackEncoder  # type: ignore[attr-defined]

from ..._redaction import format_error
from ...exceptions import RunError
from ...records.recovery import Loss, Losses
from .session import EPOCHS, NUMBER

_TUNER = "tuner.pkl"
_PATIENCE = 5.0  # seconds to wait for an answer of a node


def in_train_worker() -> bool:
    """Return whether this process is a worker of Ray Train V2, where `tune.report` has no effect."""
    functions = sys.modules.get("ray.train.v2._internal.execution.train_fn_utils")
    if functions is None:  # Ray Train loads it before the function of the worker is called
        return False
    try:
        functions.get_train_fn_utils()
    except RuntimeError:
        return False
    return True


def loss_of(trial: Any) -> Loss | None:
    """Return what a trial of Tune that has just failed has lost; None if its worker has raised.

    Ray pickles an error if a worker has raised it or an actor has died. All else ends the process, as its
    memory monitor does.
    """
    path = trial.pickled_error_file
    if path is None:
        return Loss.PROCESS
    try:
        error = cloudpickle.loads(Path(path).read_bytes())
    except Exception:  # unpickling runs the code of a user's exception class
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
    """Return whether the node of an actor no longer answers; Ray itself may take minutes to notice."""
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
    """Return the most epochs that a trial has reported, those before a restart included."""
    return int(trial.metric_analysis.get(EPOCHS, {}).get("max", 0))


class Enduring(Trial):
    """A trial of Tune that continues after the loss of its worker; see `endure`.

    Tune counts the loss of a worker and an exception alike, and judges by the count without asking. So the
    failures that the trial may have follow the count where it has lost a worker, and stay behind where its
    worker has raised.
    """

    def handle_error(self, exc: Any = None) -> None:
        """Record a failure, and whether the trial continues."""
        super().handle_error(exc)
        loss = _loss_in(exc)
        if loss is not None:
            _resume_or_fail(self, loss)
        elif isinstance(exc, RayTaskError) and isinstance(exc.cause, BaseException):
            losses: Losses = vars(self.temporary_state)["losses"]
            losses.reasons[self.config[NUMBER]] = format_error(exc.cause)


def _resume_or_fail(trial: Any, loss: Loss) -> None:
    """Resume a trial that has lost its worker, or replace Tune's error by our reason."""
    reason = trial.temporary_state.losses.reason_to_fail(trial.config[NUMBER], epochs_of(trial), loss)
    if reason is None:
        trial.max_failures = trial.num_failures
        trial.run_metadata.pickled_error_filename = None  # a later failure may leave no error of its own
    else:
        trial.run_metadata.pickled_error_filename = EXPR_ERROR_PICKLE_FILE
        error = cloudpickle.dumps(RunError(reason))  # type: ignore[no-untyped-call]
        Path(trial.pickled_error_file).write_bytes(error)
    trial.invalidate_json_state()


def endure(trial: Any, losses: Losses) -> bool:
    """Resume a trial after each loss of its worker, unless `losses` has a reason to fail.

    Returns:
        Whether that was new to it.
    """
    if isinstance(trial, Enduring):
        return False
    trial.__class__ = Enduring
    trial.temporary_state.losses = losses  # Tune stores all of a trial but this state
    return True


def goes_on(trial: Any) -> bool:
    """Return whether a trial that has just failed is run again by `endure`."""
    return isinstance(trial, Enduring) and bool(trial.should_recover())  # type: ignore[no-untyped-call]


class MetricMode(NamedTuple):
    """The metric and the mode of a `TuneConfig`, a scheduler or a searcher, as the user set them."""

    name: str
    metric: str | None
    mode: str | None


def metric_modes() -> tuple[MetricMode, ...]:
    """Return those of the `TuneConfig`, the scheduler and the searcher of this trial's experiment.

    A Tuner writes its settings beside the experiment before the first trial starts. Outside of a trial there
    are none, and `tune.run` has its metric and mode in the driver, where no trial can read them.
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
    return tuple(_metric_modes(settings))


def _metric_modes(settings: tune.TuneConfig) -> Iterator[MetricMode]:
    yield MetricMode("TuneConfig", settings.metric, settings.mode)
    for part in (*_with_inner(settings.scheduler), *_with_inner(settings.search_alg)):
        own_metric, own_mode = metric_and_mode(part)
        metric, mode = own_metric or settings.metric, own_mode or settings.mode
        several = isinstance(metric, list) and isinstance(mode, list)
        metrics, modes = (list(metric), list(mode)) if several else ([metric], [mode])  # type: ignore[arg-type]
        for one in zip(metrics, modes, strict=False):
            yield MetricMode(type(part).__name__, *one)


def _with_inner(part: object) -> Iterator[object]:
    """Yield a scheduler or a searcher, after those that it wraps, as a ConcurrencyLimiter wraps one."""
    if isinstance(part, (TrialScheduler, Searcher, SearchAlgorithm)):
        for inner in vars(part).values():
            yield from _with_inner(inner)
        yield part


def metric_and_mode(part: object) -> tuple[Any, Any]:
    """Return the metric and the mode of a scheduler or a searcher, None for each that it does not have."""
    return getattr(part, "_metric", None), getattr(part, "_mode", None)


def stops_for_good(scheduler: MedianStoppingRule) -> bool:
    """Return whether a scheduler never resumes the trials that it stopped."""
    return bool(getattr(scheduler, "_hard_stop", True))


def base_of(scheduler: ResourceChangingScheduler) -> TrialScheduler:
    """Return the scheduler that decides which trials are stopped."""
    return scheduler._base_scheduler


def set_base(scheduler: ResourceChangingScheduler, base: TrialScheduler) -> None:
    """Replace the scheduler that decides which trials are stopped."""
    scheduler._base_scheduler = base


def perturbation_interval(scheduler: PopulationBasedTraining) -> int:
    """Return the epochs between two exploits."""
    return int(scheduler._perturbation_interval)


def next_perturbation(scheduler: PopulationBasedTraining) -> int:
    """Return the epoch at which the members of a population wait for each other next."""
    return int(scheduler._next_perturbation_sync)


def postpone(scheduler: PopulationBasedTraining, epoch: int) -> None:
    """Make the members of a population wait for each other at this epoch, or at a later one."""
    scheduler._next_perturbation_sync = max(scheduler._next_perturbation_sync, epoch)


def bandit_problem() -> str | None:
    """Return why Ray's PB2 can choose no params; None if it can."""
    from ray.tune.schedulers import pb2  # needs scikit-learn

    if hasattr(pb2, "select_length"):
        return None
    return f"pb2 of Ray {ray.__version__} needs GPy too: pip install GPy, or install a newer Ray"


def bandit_point(
    observed: Sequence[Sequence[float]],
    changes: Sequence[float],
    taken: Sequence[Sequence[float]],
    base: Sequence[float],
    bounds: Mapping[str, tuple[float, float]],
) -> list[float] | None:
    """Return the params that Ray's PB2 chooses, from numpy's random stream; None if it can fit no model.

    Args:
        observed: for each observation the epoch, the value before, and the params.
        changes: the change of the value of each.
        taken: the params that others have been given already.
        base: the epoch and the value before of the trial that is copied.
        bounds: the lowest and the highest value of each param, in the order of `observed`.
    """
    from ray.tune.schedulers.pb2 import _select_config  # needs scikit-learn

    current: Any = np.array(taken) if taken else None
    with catch_warnings():
        simplefilter("ignore")  # of a fit at its bounds, and of options that SciPy has deprecated
        try:
            point = _select_config(
                np.array(observed), np.array(changes), current, np.array(base), dict(bounds), num_f=len(base)
            )
        except (np.linalg.LinAlgError, ValueError):  # equal observations, or values that are too far apart
            return None
    return [float(one) for one in point]


def state_of(scheduler: PopulationBasedTraining, trial: Trial) -> Any:
    """Return the state of a member of a population: its last score, result, training and perturbation."""
    return scheduler._trial_state[trial]


def members_of(scheduler: PopulationBasedTraining) -> list[Trial]:
    """Return the members of a population, those that have ended included."""
    return list(scheduler._trial_state)


def json_line(result: Mapping[str, Any]) -> str:
    """Return a report as Tune's own logger writes it: a line of JSON, what has no form in JSON as text."""
    return json.dumps(result, cls=SafeFallbackEncoder) + "\n"
