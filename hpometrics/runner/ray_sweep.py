"""A sweep on Ray Tune: slots of the same study, claimed by Tune's searcher and run in its workers."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import ray
from ray import tune

from .._text import one_line
from ..backends.optuna.study import tell
from ..backends.optuna.trial_queue import reclaim
from ..backends.ray._internals import loss_of
from ..backends.ray.cluster import start_ray
from ..backends.ray.objective import RayObjective
from ..backends.ray.session import FULL, environment
from ..config.models import RayBackend
from ..exceptions import ConfigError, DiskError, RunError
from ..records._files import check_room
from ..records.epoch_log import read_trial
from ..records.recovery import Loss, format_loss
from ..records.trial_record import TrialRecord, TrialState, write_trial
from .context import Job
from .leases import TrialLocks
from .reclaim import after_death
from .study import has_open_trials, opened_study, reserve_slots

_ENVIRONMENT = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C is an exception like any other
    "RAY_AIR_NEW_OUTPUT": "0",  # the new one prints even when it is told not to
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the records of trials say more
}


@environment(_ENVIRONMENT)
def run_on_ray(job: Job, verbose: bool = False) -> None:
    """Run trials until the budget is used up.

    Args:
        job: what to do.
        verbose: let Ray write its own log.

    Raises:
        RunError: Ray ends again and again without a trial that ended.
        DiskError: a worker could not write what it records.
        KeyboardInterrupt: once the trials at work are recorded as interrupted.
    """
    locks = TrialLocks(job.directory, job.plan.trials)
    with opened_study(job, locks, verbose) as study:
        reserve_slots(study, job)
        if job.over or not has_open_trials(study, job):
            return
        level = logging.INFO if verbose else logging.CRITICAL  # a failed trial has its own line
        _start(job, verbose, level)
        logging.getLogger("ray").setLevel(level)
        try:
            _fit_all(job, study, locks)
        except KeyboardInterrupt as interrupt:
            ray.shutdown()  # first, so that no worker writes after us
            _mark_interrupted(job, locks, interrupt)
            raise
        finally:
            ray.shutdown()


def _start(job: Job, verbose: bool, level: int) -> None:
    """Start Ray or join a cluster, and keep what SIGTERM means here: Ray puts a handler of its own in place.

    Raises:
        ConfigError: there is no cluster at the address.
    """
    before = signal.getsignal(signal.SIGTERM)
    settings = job.plan.config.backend.ray or RayBackend()
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
    """Give what brings a process of a cluster into the current folder, where its machine has that."""

    def enter() -> None:
        if os.path.isdir(folder):
            os.chdir(folder)

    return enter


def _fit_all(job: Job, study: optuna.Study, locks: TrialLocks) -> None:
    """Fit until the trials of the budget have ended; Tune may give up before they have."""
    while not job.over and has_open_trials(study, job):
        before = _ended(study)
        objective, teller = _objective(job), Teller(job, locks)
        try:
            _tuner(job, objective, study, locks, teller).fit()
        except Exception:  # Ray's, of a file that it could only write in part, can be anything
            _check_disk(job, teller)
            raise
        _check_disk(job, teller)
        again = settle_lost(study, job, locks, teller.losses)
        for record in objective.records():
            if record.state.finished:
                _write_end(job.directory.trial(record.number), record)
            if record.state.finished and record.number not in before | teller.told:
                job.note(record)
        if _ended(study) == before and not again and not job.over:
            raise RunError(
                f"{job.directory.label}: Ray ended before the trials of the budget did, "
                f"{len(before)} of {job.plan.trials} are done; -v shows its log"
            )


def _write_end(home: Path, record: TrialRecord) -> None:
    """Write how a trial ended, unless its worker has written the same end, which says more.

    A worker that Tune has stopped may still be writing.
    """
    written = read_trial(home)
    if written is None or written.state is not record.state:
        write_trial(home, record)


def _check_disk(job: Job, teller: Teller) -> None:
    """Refuse to take what a full disk has cut short for what became of a trial.

    Raises:
        DiskError: a worker could not write its record, or this process could not.
    """
    if teller.full is not None:
        raise DiskError(teller.full)
    check_room(job.directory.path)


def settle_lost(study: optuna.Study, job: Job, locks: TrialLocks, losses: Mapping[int, Loss | None]) -> bool:
    """Record what became of the trials that were claimed here and have no end.

    A lost machine costs nothing. A process that died counts as elsewhere, see `after_death`; so does a trial
    that Tune does not account for. What a worker has raised outside of `train` is a run that failed.

    Args:
        study: of the job.
        job: what the trials are of.
        locks: on the trials; all are released.
        losses: what Tune said that trials have lost; None of one whose worker has raised.

    Returns:
        Whether one of the trials is left to be tried again.
    """
    again = False
    while trial := reclaim(study, lambda number: number in locks.held):
        record = read_trial(job.directory.trial(trial.number))
        if record is None:
            params, seed = job.plan.space.suggest(trial), job.trials.seed_of(trial.number)
            record = TrialRecord(trial.number, params, TrialState.RUNNING, seed=seed)
        if not record.state.finished:
            record = _after_loss(trial, record, job, losses.get(trial.number, Loss.PROCESS))
        if record.state.finished:
            tell(study, trial, record)
        again = again or not record.state.finished
        locks.release(trial.number)
    for number in locks.held:
        locks.release(number)
    return again


def _after_loss(trial: optuna.Trial, record: TrialRecord, job: Job, loss: Loss | None) -> TrialRecord:
    """Return the record of a trial whose worker has left no end, and say what was lost."""
    home = job.directory.trial(trial.number)
    if loss is None:
        reason = "its worker ended without a result"
        run = replace(record, state=TrialState.FAILED, reason=reason, seconds=0.0)
        record = job.trials.course.after(record, run)
        write_trial(home, record)
    elif loss is Loss.PROCESS:
        record = after_death(trial, record, home)
    if loss is not None and not record.state.finished:
        job.say(format_loss(trial.number, loss, len(record.epochs)))
    return record


def _ended(study: optuna.Study) -> set[int]:
    return {trial.number for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()}


class Teller(tune.Callback):
    """Passes the record of every trial that ends on to the job.

    `told` are the trials whose end it has passed on; one without an end on disk is left to `settle_lost`.
    `losses` say what trials have lost that failed, `full` why a worker could record no more.
    """

    def __init__(self, job: Job, locks: TrialLocks) -> None:
        self._job, self._locks = job, locks
        self.told: set[int] = set()
        self.losses: dict[int, Loss | None] = {}
        self.full: str | None = None

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Take note of a worker that can record no more."""
        self.full = result.get(FULL, self.full)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Take note of a trial that ended, by itself or by the scheduler."""
        self._note(trial)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Take note of a trial that failed."""
        self.losses[trial.config["number"]] = loss_of(trial)
        self._note(trial)

    def __reduce__(self) -> tuple[type[tune.Callback], tuple[()]]:
        return tune.Callback, ()  # Tune pickles its callbacks; this one belongs to this process

    def _note(self, trial: Any) -> None:
        number = trial.config["number"]
        record = read_trial(self._job.directory.trial(number))
        if record is None or not record.state.finished:
            return
        seconds = record.seconds or float(trial.last_result.get("time_total_s", 0.0))
        self._job.note(replace(record, seconds=seconds))
        self.told.add(number)
        self._locks.release(number)


def _objective(job: Job) -> RayObjective:
    trials = job.trials
    return RayObjective(
        trials.train,
        job.plan.space,
        directory=trials.directory,
        seed=trials.seed,
        fsync=trials.fsync,
        loggers=trials.loggers,
        repeats=trials.repeats,
        retries=trials.retries,
        **job.facts,
    )


def _tuner(
    job: Job, objective: RayObjective, study: optuna.Study, locks: TrialLocks, teller: Teller
) -> tune.Tuner:
    pruner = job.plan.config.search.pruner
    settings = job.plan.config.backend.ray or RayBackend()
    return objective.tuner(
        job.plan.trials or 0,
        scheduler=None if pruner is None else pruner.spec,
        study=study,
        resources=settings.resources.of_trial(job.facts["threads"]),
        max_concurrent=settings.workers,
        reuse_actors=settings.reuse_actors,
        take=_taker(job, locks, teller),
        run_config=tune.RunConfig(
            storage_path=_storage(settings.storage, job),
            callbacks=[teller],
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            verbose=0,
        ),
        name=job.plan.name,
    )


def _storage(place: str | None, job: Job) -> str:
    """Give what Ray takes for a place: a whole path, or a URI."""
    if place is None:
        return str(job.directory.path / "ray")
    return place if "://" in place else str(Path(place).absolute())


def _taker(job: Job, locks: TrialLocks, teller: Teller) -> Callable[[int], bool]:
    def take(number: int) -> bool:
        return not job.over and teller.full is None and locks.take(number)

    return take


def _mark_interrupted(job: Job, locks: TrialLocks, interrupt: KeyboardInterrupt) -> None:
    reason = type(interrupt).__name__ + (f": {interrupt}" if str(interrupt) else "")
    for number in locks.held:
        directory = job.directory.trial(number)
        record = read_trial(directory)
        if record is not None and not record.state.finished:
            write_trial(directory, replace(record, state=TrialState.INTERRUPTED, reason=reason))
