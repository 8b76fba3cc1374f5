"""A sweep on Ray Tune: Tune's searcher claims slots of the study, and Tune's workers run the trials."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import ray
from ray import tune

from .._imports import environment
from .._text import one_line
from ..backends.fresh_runs import Training
from ..backends.optuna.trial_queue import reclaim
from ..backends.ray._internals import loss_of
from ..backends.ray.objective import RayObjective
from ..backends.ray.session import FULL, LEFT_BY_RAY, check_resources, start_ray
from ..config.backend_section import RayBackend
from ..exceptions import ConfigError, DiskError, RunError
from ..records._files import check_room
from ..records.epoch_log import read_trial
from ..records.recovery import Loss, format_loss
from ..records.trial_record import TrialRecord, TrialState, write_trial
from ..results.run_directory import RunDirectory
from ..run.trials import Trials
from ..space.space import Space
from .confirm import train_if_free
from .context import SweepContext
from .leases import LocalOwnership
from .reclaim import after_death
from .signals import raising_interrupts
from .study import has_open_trials, opened_study, reserve_slots

_DEATHS = 3  # workers that may die of the same fresh run
_ENVIRONMENT = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C is an exception like any other
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output cannot be turned off
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the records of trials contain more
}


class RayOwnership(LocalOwnership):
    """The trials that this process claims, by the locks of the directory, for Ray's workers.

    It takes no further trials when the sweep is over or paused, or once a worker could not record more:
    `full` is then the text of its error.

    Args:
        context: the context of the sweep.
    """

    def __init__(self, context: SweepContext) -> None:
        super().__init__(context.directory, context.plan.trials)
        self._context, self.full = context, ""

    def take(self, number: int) -> bool:
        """Lock a trial that a worker is to train; return False if another process has locked it."""
        context = self._context
        return not (context.over or self.full or context.paused) and super().take(number)

    def find_record(self, trial: optuna.Trial, space: Space) -> TrialRecord:
        """Return the record of a trial whose worker died before it wrote one."""
        seed = self._context.trials.seed_of(trial.number)
        return TrialRecord(trial.number, space.suggest(trial), TrialState.RUNNING, seed=seed)


@environment(_ENVIRONMENT, LEFT_BY_RAY)
def run_on_ray(context: SweepContext, verbose: bool = False) -> None:
    """Run trials until the budget is used up; a session of Ray that the caller has started stays.

    Args:
        context: the context of the sweep.
        verbose: whether to show Ray's own log.

    Raises:
        RunError: Ray ended without a further finished trial.
        DiskError: a worker could not write its record.
        KeyboardInterrupt: the user pressed Ctrl-C; the running trials are recorded as interrupted.
    """
    ownership = RayOwnership(context)
    with opened_study(context, ownership, verbose) as study:
        reserve_slots(study, context)
        if context.over or not has_open_trials(study, context):
            return
        try:
            with _session(context, verbose):
                _fit_all(context, study, ownership)
        except KeyboardInterrupt as interrupt:  # after the session, so that no worker writes after us
            _mark_interrupted(context, ownership, interrupt)
            raise


@contextmanager
def _session(context: SweepContext, verbose: bool) -> Iterator[None]:
    """Start Ray or join a cluster, and leave it at the end, unless the caller has started it."""
    level = logging.INFO if verbose else logging.CRITICAL  # a failed trial has its own line
    shutdown = (lambda: None) if ray.is_initialized() else ray.shutdown
    _start(context, verbose, level)
    log, before = logging.getLogger("ray"), logging.getLogger("ray").level
    log.setLevel(level)
    try:
        yield
    finally:
        shutdown()
        log.setLevel(before)


def _start(context: SweepContext, verbose: bool, level: int) -> None:
    """Start Ray or join a cluster, and restore our handler of SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    settings: RayBackend = context.plan.config.backend.section
    try:
        if settings.address not in (None, "auto"):  # Ray would try for minutes
            host, _, port = str(settings.address).rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=30).close()
        start_ray(
            address=settings.address or "local",
            log_to_driver=verbose,
            logging_level=level,
            runtime_env={"worker_process_setup_hook": _stay_in(os.getcwd())} if settings.address else None,
        )
    except (OSError, RuntimeError, ValueError, OverflowError) as err:
        if settings.address is None:
            raise
        raise ConfigError(
            f"backend.ray.address: no Ray cluster answers at {settings.address}: {one_line(err)}; one that "
            "asks for a token needs RAY_AUTH_MODE=token in the environment"
        ) from err
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


def _stay_in(folder: str) -> Callable[[], None]:
    """Return a function that changes into the current folder on a machine of the cluster that has it."""

    def enter() -> None:
        if os.path.isdir(folder):
            os.chdir(folder)

    return enter


@contextmanager
def cluster_pool(context: SweepContext, verbose: bool = False) -> Iterator[ClusterPool]:
    """Yield the pool of a Ray cluster; it is started on this machine unless the sweep file names one.

    Raises:
        ConfigError: no cluster answers, or no machine of it has the resources of a trial.
    """
    with environment(_ENVIRONMENT, LEFT_BY_RAY), _session(context, verbose):
        yield ClusterPool(context)


class ClusterPool:
    """The workers of a Ray cluster that train fresh runs, each with the resources of a trial.

    Args:
        context: the context of the sweep.

    Raises:
        ConfigError: no machine has these resources.
    """

    def __init__(self, context: SweepContext) -> None:
        settings: RayBackend = context.plan.config.backend.section
        amounts = settings.resources.of_trial(context.facts["threads"])
        check_resources(amounts)
        cores, gpus, memory = amounts.pop("cpu"), amounts.pop("gpu"), amounts.pop("memory", None)
        self._task = ray.remote(_train_in_worker).options(
            num_cpus=cores, num_gpus=gpus, memory=memory, resources=amounts, max_retries=0
        )
        self._say, self._most = context.say, settings.workers
        self._home = RunDirectory(context.directory.path)
        self._trials = ray.put(context.trials)
        self._at_work: dict[Any, tuple[int, int]] = {}
        self._deaths: Counter[tuple[int, int]] = Counter()

    def begin(self, trainings: Sequence[Training]) -> None:
        """Have the cluster train each of them, unless it is at work; no more at a time than the file says."""
        begun = set(self._at_work.values())
        for training in trainings:
            key = (training.trial, training.number)
            if key not in begun and (self._most is None or len(self._at_work) < self._most):
                self._at_work[self._task.remote(self._home, self._trials, training)] = key

    def wait(self, seconds: float) -> None:
        """Wait for the end of one of them, at most so long; one whose worker died is begun again.

        Raises:
            RunError: three workers died of the same run.
            Exception: what a worker raised, such as a `DiskError`.
        """
        if not self._at_work:
            time.sleep(seconds)
            return
        ended, _ = ray.wait(list(self._at_work), timeout=seconds)
        for task in ended:
            trial, number = key = self._at_work.pop(task)
            try:
                if not ray.get(task):  # a worker that has joined is at it
                    time.sleep(seconds)
            except ray.exceptions.RayTaskError as err:
                raise err.cause from err
            except ray.exceptions.RayError as err:
                self._deaths[key] += 1
                if self._deaths[key] == _DEATHS:
                    raise RunError(
                        f"trial {trial}, seed {number}: {_DEATHS} of its workers died: {one_line(err)}"
                    ) from err
                self._say(f"trial {trial}, seed {number}: its worker died; another worker trains it")


def _train_in_worker(home: RunDirectory, trials: Trials, training: Training) -> bool:
    """Train a fresh run in a worker, see `train_if_free`; SIGTERM interrupts it.

    Ray sends that when the driver has died. Its own handler raises SystemExit in the engine, which would be a
    failure of the engine.
    """
    with raising_interrupts():
        return train_if_free(home, trials, training)


def _fit_all(context: SweepContext, study: optuna.Study, ownership: RayOwnership) -> None:
    """Call `fit` until the trials of the budget have ended, because Tune may end before that."""
    while not context.over and has_open_trials(study, context):
        context.wait_while_paused()
        before = _finished_numbers(study)
        objective, callback = _make_objective(context), RecordCallback(context, ownership)
        try:
            _make_tuner(context, objective, study, ownership, callback).fit()
        except Exception:  # after a partly written file Ray may raise anything
            _check_disk(context, ownership)
            raise
        _check_disk(context, ownership)
        again = settle_lost(study, context, ownership, callback.losses)
        for record in (one for one in objective.records() if one.state.finished):
            _write_end(context.directory.trial(record.number), record)
            if record.number not in before | callback.numbers:
                context.note(record)
        if _finished_numbers(study) == before and not (again or context.over or context.paused):
            raise RunError(
                f"{context.directory.label}: Ray stopped before the budget was spent: {len(before)} of "
                f"{context.plan.trials} trials are done; -v shows its log"
            )


def _write_end(home: Path, record: TrialRecord) -> None:
    """Write the record of a finished trial, unless its worker has written the same state with more facts.

    A worker that Tune has stopped may still be writing.
    """
    stored = read_trial(home)
    if stored is None or stored.state is not record.state:
        write_trial(home, record)


def _check_disk(context: SweepContext, ownership: RayOwnership) -> None:
    """Check for a full disk, so that a record which is cut short does not count as the result of a trial."""
    if ownership.full:
        raise DiskError(ownership.full)
    check_room(context.directory.path)


def settle_lost(
    study: optuna.Study, context: SweepContext, ownership: RayOwnership, losses: Mapping[int, Loss | None]
) -> bool:
    """Record the state of the trials that this process claimed and that have no result.

    The loss of a machine does not count against a trial. The death of a process counts, see `after_death`, as
    does a trial that Tune does not report. An error that a worker raised outside of `train` is a failed run.

    Args:
        study: the study of the sweep.
        context: the context of the sweep.
        ownership: the trials of this process, which are all released.
        losses: the loss of each trial that Tune reported; None if the worker has raised an error.

    Returns:
        Whether one of the trials must be tried again.
    """
    again = False
    while trial := reclaim(study, lambda number: number in ownership.numbers):
        record = read_trial(context.directory.trial(trial.number))
        if record is None:
            record = ownership.find_record(trial, context.plan.space)
        if not record.state.finished:
            record = _after_loss(trial, record, context, losses.get(trial.number, Loss.PROCESS))
        if record.state.finished:
            ownership.finish(study, trial, record)
        again = again or not record.state.finished
        ownership.release(trial.number)
    for number in ownership.numbers:
        ownership.release(number)
    return again


def _after_loss(
    trial: optuna.Trial, record: TrialRecord, context: SweepContext, loss: Loss | None
) -> TrialRecord:
    """Return the record of a trial whose worker wrote no result, and print the loss."""
    home = context.directory.trial(trial.number)
    if loss is None:
        run = replace(
            record, state=TrialState.FAILED, reason="its worker ended without a result", seconds=0.0
        )
        record = context.trials.attempts.after(record, run)
        write_trial(home, record)
    elif loss is Loss.PROCESS:
        record = after_death(trial, record, home, lambda text: context.say(f"trial {trial.number}: {text}"))
    else:
        context.say(f"trial {trial.number}: {format_loss(loss, len(record.epochs))}")
    return record


def _finished_numbers(study: optuna.Study) -> set[int]:
    return {trial.number for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()}


class RecordCallback(tune.Callback):
    """A callback that passes the record of every finished trial to the context of the sweep.

    `numbers` are the trials whose records it has passed on; `settle_lost` handles trials without a result on
    disk. `losses` are the losses of failed trials.
    """

    def __init__(self, context: SweepContext, ownership: RayOwnership) -> None:
        self._context, self._ownership = context, ownership
        self.numbers: set[int] = set()
        self.losses: dict[int, Loss | None] = {}

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Note the error of a worker that cannot record more."""
        self._ownership.full = result.get(FULL, self._ownership.full)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note a trial that ended by itself or was stopped by the scheduler."""
        self._note(trial)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note a trial that failed."""
        self.losses[trial.config["number"]] = loss_of(trial)
        self._note(trial)

    def __reduce__(self) -> tuple[type[tune.Callback], tuple[()]]:
        return tune.Callback, ()  # Tune pickles its callbacks; this one works only in this process

    def _note(self, trial: Any) -> None:
        number = trial.config["number"]
        record = read_trial(self._context.directory.trial(number))
        if record is None or not record.state.finished:
            return
        seconds = record.seconds or float(trial.last_result.get("time_total_s", 0.0))
        self._context.note(replace(record, seconds=seconds))
        self.numbers.add(number)
        self._ownership.release(number)


def _make_objective(context: SweepContext) -> RayObjective:
    trials = context.trials
    return RayObjective(
        trials.train,
        context.plan.space,
        directory=trials.directory,
        seed=trials.seed,
        fsync=trials.fsync,
        loggers=trials.loggers,
        repeats=trials.repeats,
        retries=trials.retries,
        **context.facts,
    )


def _make_tuner(
    context: SweepContext,
    objective: RayObjective,
    study: optuna.Study,
    ownership: RayOwnership,
    callback: RecordCallback,
) -> tune.Tuner:
    pruner = context.plan.config.search.pruner
    settings: RayBackend = context.plan.config.backend.section
    return objective.tuner(
        context.plan.trials or 0,
        scheduler=None if pruner is None else pruner.spec,
        study=study,
        resources=settings.resources.of_trial(context.facts["threads"]),
        max_concurrent=settings.workers,
        reuse_actors=settings.reuse_actors,
        take=ownership.take,
        stale=context.resolved.stale,
        cost=context.resolved.most_cost,
        run_config=tune.RunConfig(
            storage_path=_storage_path(settings.storage, context),
            callbacks=[callback],
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            verbose=0,
        ),
        name=context.plan.name,
    )


def _storage_path(place: str | None, context: SweepContext) -> str:
    """Return the place of Ray's own files: an absolute path, or a URI."""
    if place is None:
        return str(context.directory.ray)
    return place if "://" in place else str(Path(place).absolute())


def _mark_interrupted(context: SweepContext, ownership: RayOwnership, interrupt: KeyboardInterrupt) -> None:
    reason = type(interrupt).__name__ + (f": {interrupt}" if str(interrupt) else "")
    for number in ownership.numbers:
        directory = context.directory.trial(number)
        record = read_trial(directory)
        if record is not None and not record.state.finished:
            write_trial(directory, replace(record, state=TrialState.INTERRUPTED, reason=reason))
