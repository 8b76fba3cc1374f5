"""The crew: worker processes that a sweep starts beside its own, and whose trials it tells of."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from threading import Thread
from types import TracebackType
from typing import Self

from ..config.gpus import VISIBLE, check_gpus, gpu_shares, seeing
from ..config.storage_url import environment_of, storage_of
from .context import Job
from .in_process import run_in_process


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
