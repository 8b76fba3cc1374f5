"""A sweep on Ray Tune: slots of the same study, claimed by Tune's searcher and run in its workers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import optuna
import ray
from ray import tune

from ..ray_objective import RayObjective
from ..search.epoch_log import read_trial
from ..search.ray_backend import start_ray
from ..search.record import TrialState, write_trial
from .config import RayBackend
from .job import Job
from .studies import TrialLocks, has_open_trials, opened_study, reserve_slots

_ENVIRONMENT = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C is an exception like any other
    "RAY_AIR_NEW_OUTPUT": "0",  # the new one prints even when it is told not to
}


def run_on_ray(job: Job, verbose: bool = False) -> None:
    """Run trials until the budget is used up.

    Args:
        job: what to do.
        verbose: let Ray write its own log.

    Raises:
        KeyboardInterrupt: once the trials at work are recorded as interrupted.
    """
    os.environ.update(_ENVIRONMENT)
    locks = TrialLocks(job.directory, job.plan.trials)
    with opened_study(job, locks, verbose) as study:
        reserve_slots(study, job)
        if job.over or not has_open_trials(study, job):
            return
        level = logging.INFO if verbose else logging.CRITICAL  # a failed trial has its own line
        start_ray(log_to_driver=verbose, logging_level=level)
        logging.getLogger("ray").setLevel(level)
        try:
            _fit(job, study, locks)
        except KeyboardInterrupt:
            ray.shutdown()  # first, so that no worker writes after us
            _mark_interrupted(job, locks)
            raise
        finally:
            ray.shutdown()


def _fit(job: Job, study: optuna.Study, locks: TrialLocks) -> None:
    objective = _objective(job)
    _tuner(job, objective, study, locks).fit()
    for record in objective.records():  # a worker that Tune stopped may have had the last word on disk
        if record.state.finished:
            write_trial(job.directory.trial(record.number), record)


class Teller(tune.Callback):
    """Passes the record of every trial that ends on to the job."""

    def __init__(self, job: Job, locks: TrialLocks) -> None:
        self._job, self._locks = job, locks

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Take note of a trial that ended, by itself or by the scheduler."""
        self._note(trial)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Take note of a trial that failed."""
        self._note(trial)

    def __reduce__(self) -> tuple[type[tune.Callback], tuple[()]]:
        return tune.Callback, ()  # Tune pickles its callbacks; this one belongs to this process

    def _note(self, trial: Any) -> None:
        number = trial.config["number"]
        record = read_trial(self._job.directory.trial(number))
        if record is not None:
            seconds = record.seconds or float(trial.last_result.get("time_total_s", 0.0))
            self._job.note(replace(record, seconds=seconds))
        self._locks.release(number)


def _objective(job: Job) -> RayObjective:
    trials = job.trials
    return RayObjective(
        trials.train,
        job.plan.space,
        directory=trials.directory,
        seed=trials.seed,
        fsync=trials.fsync,
        **job.facts,
    )


def _tuner(job: Job, objective: RayObjective, study: optuna.Study, locks: TrialLocks) -> tune.Tuner:
    pruner = job.plan.config.search.pruner
    settings = job.plan.config.backend.ray or RayBackend()
    return objective.tuner(
        job.plan.trials or 0,
        scheduler=None if pruner is None else pruner.spec,
        study=study,
        resources={"cpu": settings.resources.cpu or job.facts["threads"], "gpu": settings.resources.gpu},
        max_concurrent=settings.workers,
        take=_taker(job, locks),
        run_config=tune.RunConfig(
            storage_path=settings.storage or str(job.directory.path.absolute() / "ray"),
            callbacks=[Teller(job, locks)],
            verbose=0,
        ),
    )


def _taker(job: Job, locks: TrialLocks) -> Callable[[int], bool]:
    def take(number: int) -> bool:
        return not job.over and locks.take(number)

    return take


def _mark_interrupted(job: Job, locks: TrialLocks) -> None:
    for number in locks.held:
        directory = job.directory.trial(number)
        record = read_trial(directory)
        if record is not None and not record.state.finished:
            write_trial(directory, replace(record, state=TrialState.INTERRUPTED, reason="KeyboardInterrupt"))
