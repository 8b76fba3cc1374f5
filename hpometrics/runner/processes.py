"""The crew: worker processes that a sweep starts beside its own, and whose trials it tells of."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from threading import Thread
from types import TracebackType
from typing import Self

import optuna

from ..backends.optuna.storage import is_lockable
from ..backends.optuna.trial_queue import claim, with_point
from ..config.gpus import VISIBLE, check_gpus, gpu_shares, seeing
from ..config.storage_url import environment_of, is_shared, storage_of
from ..records.recovery import put_aside
from .context import Job
from .leases import TrialLeases, TrialLocks
from .reclaim import Gathering, take_up, take_up_or_claim
from .study import has_open_trials, is_over, opened_study, reserve_slots


def run_in_process(job: Job, verbose: bool = False) -> None:
    """Run trials until the budget is used up.

    Args:
        job: what to do.
        verbose: let Optuna write its own log.

    Raises:
        BaseException: what stopped the trial at work, once it is recorded as interrupted.
        DiskError: the record or the study cannot be written.
    """
    with closing(_locks(job)) as locks, opened_study(job, locks, verbose) as study:
        elsewhere = Gathering(job) if locks.shared and job.gathers else None
        while not is_over(study, job):
            trial = _next(study, job, locks)
            if elsewhere is not None:
                elsewhere.gather(study)
            if trial is not None:
                _run(trial, study, job, locks)
            elif locks.shared and has_open_trials(study, job):
                locks.pause()  # others are at the last trials; one of them may die
            elif job.plan.trials is not None:
                break
        if elsewhere is not None:
            elsewhere.gather(study)


def _locks(job: Job) -> TrialLocks:
    settings = job.plan.config.backend.optuna
    if settings is None or not is_shared(storage_of(job.plan.config.backend)):
        return TrialLocks(job.directory, job.plan.trials)
    return TrialLeases(job.directory, job.plan.trials, settings.heartbeat)


def _next(study: optuna.Study, job: Job, locks: TrialLocks) -> optuna.Trial | None:
    """Take a trial that a dead process has left, or else the next one.

    Optuna reads each slot that waits anew at each look, so a slot is added as it is taken. A storage that
    cannot be locked gets all slots at once: of several that add one, each may add one too many.
    """
    if not locks.shared or is_lockable(study):
        total = sys.maxsize if job.plan.trials is None else job.plan.trials
        return take_up_or_claim(study, job, locks, total)
    orphan = take_up(study, job, locks)
    if orphan is not None:
        return orphan
    points = job.plan.points
    reserve_slots(study, job)
    trial = claim(study, locks.take, release=locks.release)
    if trial is None or trial.number >= len(points):
        return trial
    return with_point(study, trial, points[trial.number])


def _run(trial: optuna.Trial, study: optuna.Study, job: Job, locks: TrialLocks) -> None:
    """Run a trial that this process has taken, and tell how it ended, unless another has taken it since."""
    reporter = locks.begin(trial)
    record, error = job.trials.run(job.plan.space.suggest(trial), reporter)
    told = locks.tell(study, trial, record)
    if not told:
        put_aside(job.directory.trial(trial.number), "lost")
    locks.release(trial.number)
    if told:
        job.note(record)
    if not record.state.finished and error is not None:
        raise error


def run_with_crew(job: Job, workers: int, verbose: bool = False) -> None:
    """Run trials in so many processes, this one among them, until the budget is used up.

    Each sees its share of the GPUs.

    Raises:
        ConfigError: the sweep names a GPU that the machine does not have.
        BaseException: what stopped the trial at work here, once every worker has recorded its own.
    """
    settings = job.plan.config.backend.optuna
    gpus = "all" if settings is None else settings.gpus
    check_gpus(gpus)
    shares = gpu_shares(gpus, workers)
    with nullcontext() if shares is None else seeing(shares[0]):
        with Crew(job, workers - 1, verbose, shares and shares[1:]):
            run_in_process(job, verbose)
        run_in_process(job, verbose)  # goes on with what a worker has left that died


class Crew:
    """Workers on a job. Within the context they work; its end waits for them, an error sends them home.

    Args:
        job: what they work on too; it is told of each trial that they end.
        size: how many.
        verbose: let Optuna write its own log.
        gpus: what each finds in `CUDA_VISIBLE_DEVICES`; what this process does unless given.
    """

    def __init__(self, job: Job, size: int, verbose: bool, gpus: Sequence[str] | None = None) -> None:
        self._job = job
        command = [sys.executable, "-m", "hpometrics", "worker", str(job.directory.path), "--hired"]
        command += ["--verbose"] if verbose else []
        command += ["--since", str(time.time() - job.spent)]
        environment = environment_of(storage_of(job.plan.config.backend))
        shares: Sequence[dict[str, str]] = [{VISIBLE: share} for share in gpus or ()] or [{}] * size
        self._workers = [_started(command, environment | share) for share in shares]
        self._listeners = [Thread(target=self._listen, args=(one,), daemon=True) for one in self._workers]

    def __enter__(self) -> Self:
        for listener in self._listeners:
            listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._send_home()
            return
        try:
            self._wait()
        except BaseException:  # Ctrl-C while they are at their last trials
            self._send_home()
            raise

    def _send_home(self) -> None:
        for worker in self._workers:
            worker.terminate()
        try:
            self._wait()
        except BaseException:  # Ctrl-C once more: at once, what is not recorded is trained again
            for worker in self._workers:
                worker.kill()
            raise

    def _wait(self) -> None:
        for worker in self._workers:
            worker.wait()  # a thread whose join is interrupted passes for ended
        for listener in self._listeners:
            listener.join()

    def _listen(self, worker: subprocess.Popen[str]) -> None:
        with worker:  # closes the pipe and waits
            for line in worker.stdout or ():
                record = self._job.directory.record(int(line))
                if record is not None:
                    self._job.note(record)


def _started(command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a worker; Ctrl-C reaches this process only, which then ends its workers once and in order."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    )
