"""Trials in processes of this machine: the process of the sweep, and workers that it starts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from tempfile import TemporaryFile
from threading import Thread
from types import TracebackType
from typing import Literal, Self

import optuna

from ..backends.optuna.trial_queue import with_point
from ..backends.storage_url import environment_of, is_shared
from ..config.backend_section import VISIBLE, OptunaBackend, check_gpus, gpu_shares, restricted_to
from ..records.recovery import quarantine
from .context import SweepContext
from .imported_engine import LocalEngine
from .leases import LeasedOwnership, LocalOwnership
from .reclaim import RecordCollector, claim_stale_or_next
from .study import has_open_trials, is_over, is_used_up, opened_study, reserve_slots


def run_in_process(context: SweepContext, verbose: bool = False, most: int | None = None) -> int:
    """Run trials in this process until the budget is used up, and return their number.

    Args:
        context: the context of the sweep.
        verbose: whether to show Optuna's own log.
        most: the number of trials after which this process ends.

    Raises:
        BaseException: the error that stopped a trial, once it is recorded as interrupted.
        DiskError: the record or the study cannot be written.
    """
    ownership, trained = _make_ownership(context), 0
    with opened_study(context, ownership, verbose) as study:
        collector = RecordCollector(context, ownership) if context.gathers else None
        while (most is None or trained < most) and not is_over(study, context):
            context.wait_while_paused()
            trial = _claim_next(study, context, ownership)
            if collector is not None:
                collector.collect(study)
            if trial is not None:
                trained += _run(trial, study, context, ownership)
            elif has_open_trials(study, context) and ownership.wait():
                continue  # other processes work on the last trials; one of them may die
            elif context.plan.trials is not None or is_used_up(study, context):
                break
        if collector is not None:
            collector.collect(study)
    return trained


def _make_ownership(context: SweepContext) -> LocalOwnership:
    settings = context.plan.config.backend.section
    if not isinstance(settings, OptunaBackend) or not is_shared(settings.storage):
        return LocalOwnership(context.directory, context.plan.trials)
    return LeasedOwnership(context.directory, context.plan.trials, settings.heartbeat)


def _claim_next(study: optuna.Study, context: SweepContext, ownership: LocalOwnership) -> optuna.Trial | None:
    """Claim a stale trial, or else the next one.

    Optuna reads each waiting slot again in every query, so a slot is added only when it is claimed. A storage
    that cannot be locked gets all slots at once: of several processes that add a slot each may add one too
    many.
    """
    if is_used_up(study, context):
        return claim_stale_or_next(study, context, ownership, total=0, starts=False)
    if ownership.can_add_slots(study):
        total = sys.maxsize if context.plan.trials is None else context.plan.trials
        return claim_stale_or_next(study, context, ownership, total)
    points = context.plan.points
    reserve_slots(study, context)
    trial = claim_stale_or_next(study, context, ownership, total=0)
    if trial is None or trial.number >= len(points):
        return trial
    return with_point(study, trial, points[trial.number])


def _run(trial: optuna.Trial, study: optuna.Study, context: SweepContext, ownership: LocalOwnership) -> bool:
    """Run a trial of this process and write its result; return False if another process has taken it."""
    reporter = ownership.begin(trial)
    record, error = context.trials.run(context.plan.space.suggest(trial), reporter)
    home = context.directory.trial(trial.number)
    is_ours = ownership.finish(study, trial, record, home if context.plan.config.confirm else None)
    if not is_ours:
        quarantine(home, "lost")
    ownership.release(trial.number)
    if is_ours:
        context.note(record)
    if not record.state.finished and error is not None:
        raise error
    return is_ours


def run_optuna(context: SweepContext, verbose: bool = False) -> None:
    """Run trials in as many processes as the sweep file says until the budget is used up.

    Each process sees its share of the GPUs, the same one if fewer processes start because few trials remain.

    Args:
        context: the context of the sweep.
        verbose: whether to show Optuna's own log.

    Raises:
        ConfigError: the sweep names a GPU that the machine does not have.
        BaseException: the error that stopped a trial here, once every worker has recorded its own trial.
    """
    with own_gpus(context) as shares:
        with hired(context, _count_remaining(context), shares, verbose) as workers:
            run_in_process(context, verbose)
        if workers:
            run_in_process(context, verbose)  # finishes the trials of workers that died


@contextmanager
def own_gpus(context: SweepContext) -> Iterator[Sequence[str] | None]:
    """Restrict this process to its share of the GPUs, the same one if fewer workers start.

    Yields the `CUDA_VISIBLE_DEVICES` of each process; None where the sweep file shares none out.

    Raises:
        ConfigError: the sweep names a GPU that the machine does not have.
    """
    gpus = getattr(context.plan.config.backend.section, "gpus", "all")
    check_gpus(gpus)
    shares = gpu_shares(gpus, _process_count(context))
    with nullcontext() if shares is None else restricted_to(shares[0]):
        yield shares


@contextmanager
def hired(
    context: SweepContext,
    tasks: int,
    shares: Sequence[str] | None,
    verbose: bool,
    task: Literal["search", "confirm"] = "search",
) -> Iterator[int]:
    """Have workers beside this process, as many as the sweep file says and no more than there are tasks.

    The end of the block waits for them, an error terminates them; yields their number.

    Args:
        context: the context of the sweep.
        tasks: the number of trials or trainings that remain.
        shares: the GPUs of each process, see `own_gpus`.
        verbose: whether they show Optuna's own log.
        task: see `Workers`.
    """
    processes = min(_process_count(context), tasks)
    if processes < 2:
        yield 0
        return
    with Workers(context, processes - 1, verbose, shares and shares[1:processes], task):
        yield processes - 1


def _process_count(context: SweepContext) -> int:
    return getattr(context.plan.config.backend.section, "workers", None) or 1


def _count_remaining(context: SweepContext) -> int:
    """Return how many trials remain, as far as this process knows; `sys.maxsize` without a limit."""
    total = context.plan.trials
    if context.over or context.used_up:
        return 0
    return sys.maxsize if total is None else total - context.finished


class Workers:
    """Worker processes of a sweep: the end of the `with` block waits for them, an error terminates them.

    Args:
        context: the context of the sweep, which is notified of each trial that they finish.
        size: the number of processes.
        verbose: whether they show Optuna's own log.
        gpus: the `CUDA_VISIBLE_DEVICES` of each; that of this process unless given.
        task: `search`, or `confirm` for the trainings after it.
    """

    def __init__(
        self,
        context: SweepContext,
        size: int,
        verbose: bool,
        gpus: Sequence[str] | None = None,
        task: Literal["search", "confirm"] = "search",
    ) -> None:
        self._context = context
        command = [sys.executable, "-m", "hpometrics", "worker", str(context.directory.path), "--hired"]
        command += ["--verbose"] if verbose else []
        command += ["--confirm"] if task == "confirm" else []
        command += ["--since", str(time.time() - context.spent)]
        environment = environment_of(context.plan.config.backend.storage)
        shares: Sequence[dict[str, str]] = [{VISIBLE: share} for share in gpus or ()] or [{}] * size
        engine = context.engine
        sent = engine.dumped() if isinstance(engine, LocalEngine) else None
        self._workers = [_start_worker(command, environment | share, sent) for share in shares]
        self._listeners = [Thread(target=self._listen, args=(one,), daemon=True) for one in self._workers]

    def __enter__(self) -> Self:
        for listener in self._listeners:
            listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._terminate()
            return
        try:
            self._wait()
        except BaseException:  # Ctrl-C while they are at their last trials
            self._terminate()
            raise

    def _terminate(self) -> None:
        for worker in self._workers:
            worker.terminate()
        try:
            self._wait()
        except BaseException:  # a second Ctrl-C ends them at once; trials without a record are trained again
            for worker in self._workers:
                worker.kill()
            raise

    def _wait(self) -> None:
        for worker in self._workers:
            worker.wait()  # an interrupted join of a thread would count as its end
        for listener in self._listeners:
            listener.join()

    def _listen(self, worker: subprocess.Popen[str]) -> None:
        with worker:  # closes the pipe and waits
            for line in worker.stdout or ():
                record = self._context.directory.record(int(line))
                if record is not None:
                    self._context.note(record)


def _start_worker(
    command: list[str], environment: Mapping[str, str], sent: bytes | None = None
) -> subprocess.Popen[str]:
    """Start a worker out of reach of Ctrl-C: only this process gets it, and ends its workers in order.

    It reads what is sent, an engine that it cannot import, from stdin.
    """
    with TemporaryFile() as file:  # a pipe would wait until the worker has read it
        file.write(sent or b"")
        file.seek(0)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if sent is None else file,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment,
        )
