"""The confirmation of a sweep: its best trials trained again, by as many processes as the search had."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Protocol

import optuna
from filelock import FileLock, Timeout
from optuna.exceptions import UpdateFinishedTrialError

from .._formatting import duration, number, plural
from .._imports import load_path
from ..backends.fresh_runs import FreshRuns, Training, read_plans
from ..backends.optuna.fresh_study import FreshStudy, Key, key_of, write_fresh_run
from ..backends.optuna.trial_queue import reclaim_or_claim
from ..backends.registry import BACKENDS
from ..backends.storage_url import is_shared
from ..config.backend_section import OptunaBackend
from ..exceptions import ConfigError
from ..records.epoch_log import read_trial
from ..records.recovery import quarantine
from ..records.trial_record import TrialRecord, TrialState
from ..results.confirmation import read_confirmation
from ..results.run_directory import RunDirectory
from ..run.trials import Trials
from ..selection.confirm_settings import ConfirmSettings
from ..selection.confirmation import Confirmation, ConfirmationState
from ..selection.front_confirmation import AnyConfirmation
from ..selection.limits import seconds_at_work
from .command_engine import Program
from .context import SweepContext
from .imported_engine import ImportedEngine
from .leases import LeasedOwnership
from .processes import hired, own_gpus
from .reclaim import after_death
from .study import opened_fresh_study

_JOINING = "the search is over; training the contenders of its confirmation"
_POLL = 0.2  # seconds between looks at the runs of other processes
_WAIT = 1.0  # seconds between looks for a confirmation that begins
_PATIENCE = 4  # heartbeats without an open run, after which a worker elsewhere stops waiting for more


def confirm_winner(context: SweepContext, verbose: bool = False) -> AnyConfirmation:
    """Train the contenders of a finished search again until the winner is decided, tied or all is spent.

    Of several objectives the trials of the front are trained again.

    Args:
        context: the context of the sweep, whose trials have all ended.
        verbose: whether workers show the host's own log.

    Raises:
        NoFiniteValueError: fewer than two trials are complete.
        KeyboardInterrupt: after the run that it struck is recorded as interrupted.
    """
    runs = _fresh_runs(context)
    before = read_confirmation(context.directory) if runs.is_new else None
    runs.begin()
    missing = len(runs.following().missing)
    if missing:
        context.say(
            f"confirm  up to {plural(runs.planned, 'training')}, {missing} before the next comparison"
        )
    with _opened_pool(context, verbose) if missing else nullcontext() as pool:
        if pool is None:
            with own_gpus(context) as shares, hired(context, missing, shares, verbose, task="confirm"):
                end = _work(context, runs, leads=True)
        else:
            end = _work(context, runs, leads=True, pool=pool)
    runs.write(end)
    if end == before and end.reason is None:
        is_decided = isinstance(end, Confirmation) and end.state is ConfirmationState.DECIDED
        why = "the winner is decided" if is_decided else "all seeds are trained; raise confirm.repeats"
        context.say(f"confirm  the changed settings have no effect: {why}")
    return end


class TrainingPool(Protocol):
    """Processes elsewhere that train fresh runs into the directory of the sweep, which they all see."""

    def begin(self, trainings: Sequence[Training]) -> None:
        """Have each of them trained, unless it is at work."""

    def wait(self, seconds: float) -> None:
        """Wait for the end of one of them, at most so long.

        Raises:
            RunError: processes that train the same run died again and again.
        """


@contextmanager
def _opened_pool(context: SweepContext, verbose: bool) -> Iterator[TrainingPool | None]:
    path = BACKENDS[context.plan.config.backend.name].pool
    with nullcontext() if path is None else load_path(path)(context, verbose) as pool:
        yield pool


def join_confirmation(context: SweepContext) -> None:
    """Train contenders beside the process that leads the confirmation, until nothing is missing."""
    _work(context, _fresh_runs(context))


def await_confirmation(context: SweepContext) -> None:
    """Train contenders beside the run that leads a sweep, once its search is over; return if no run does."""
    if context.gathers:
        _train_elsewhere(context)
        return
    home = context.directory
    while home.is_led:
        if read_plans(home.confirmation) and read_confirmation(home) is None:
            context.say(_JOINING)
            join_confirmation(context)
            return
        time.sleep(_WAIT)


def _train_elsewhere(context: SweepContext) -> None:
    """Train contenders in a directory that shares only the storage with the run that leads the sweep."""
    context.say(_JOINING)
    with _opened_queue(context) as queue:
        if not isinstance(queue, _SharedQueue):
            return
        since = time.monotonic()
        while not queue.study.is_over:
            context.wait_while_paused()
            if queue.train_next([]) or queue.study.is_open:
                since = time.monotonic()
            elif time.monotonic() - since > _PATIENCE * queue.interval:
                context.say("no run leads the confirmation; hpometrics run resumes it")
                return
            queue.wait()


def check_confirmable(context: SweepContext) -> None:
    """Check that the trainings of an engine may depend on their seed.

    Raises:
        ConfigError: they do not.
    """
    if context.plan.config.confirm is None or isinstance(context.engine, (ImportedEngine, Program)):
        return
    raise ConfigError(
        f"{context.plan.file}: confirm trains under other seeds, and an engine of stages has none; leave "
        "confirm out, and compare folds"
    )


def _fresh_runs(context: SweepContext) -> FreshRuns:
    confirm = context.plan.config.confirm
    section = {} if confirm is None else confirm.model_dump(exclude={"time"}, exclude_none=True)
    settings = ConfirmSettings(**section)
    return FreshRuns(context.trials, context.directory.records(), settings)


def _work(
    context: SweepContext, runs: FreshRuns, leads: bool = False, pool: TrainingPool | None = None
) -> AnyConfirmation:
    """Train what no other process trains until the end; the leader prints each run that ended."""
    deadline = _deadline(context, runs)
    reported = set(runs.ended)
    with _opened_queue(context, pool) as queue:
        while True:
            queue.collect()
            following = runs.following(timed_out=time.monotonic() >= deadline)
            if leads:
                for key in runs.ended.keys() - reported:
                    context.say(_line(*key, runs.ended[key], context))
                reported |= runs.ended.keys()
                queue.show(runs)
            if following.end is not None:
                queue.close()
                return following.end
            context.wait_while_paused()
            if not queue.train_next([runs.training(*key) for key in following.missing]):
                queue.wait()


class _DirectoryQueue:
    """The fresh runs that the processes of a run directory share out, by a lock file each.

    Args:
        context: the context of the sweep.
        study: shows them; None if the studies of the sweep are not stored.
    """

    def __init__(self, context: SweepContext, study: FreshStudy | None) -> None:
        self._context, self._study = context, study

    def collect(self) -> None:
        """Write the records of runs that other machines trained: here there are none."""

    def show(self, runs: FreshRuns) -> None:
        """Add the runs that have ended to the study."""
        if self._study is not None:
            self._study.show(runs.ended)

    def train_next(self, missing: Sequence[Training]) -> bool:
        """Train one that no other process trains; return False if there is none."""
        return any(map(self._train_if_free, missing))

    def wait(self) -> None:
        """Wait for a run that another process may give up."""
        time.sleep(_POLL)

    def close(self) -> None:
        """Withdraw the runs that wait: here none does."""

    def _train_if_free(self, training: Training) -> bool:
        return train_if_free(self._context.directory, self._context.trials, training)


def train_if_free(home: RunDirectory, trials: Trials, training: Training) -> bool:
    """Train a fresh run unless it is trained already; return False if another process is at it."""
    trial, number, _ = training
    try:
        with FileLock(home.fresh_locks() / f"{trial:04d}-{number}", blocking=False):
            record = read_trial(home.fresh_run(trial, number))
            if record is None or not record.state.finished:
                training.run(trials)
    except Timeout:
        return False
    return True


class _PooledQueue(_DirectoryQueue):
    """The fresh runs that a pool trains; this process waits for them.

    Args:
        context: the context of the sweep.
        study: see `_DirectoryQueue`.
        pool: trains them.
    """

    def __init__(self, context: SweepContext, study: FreshStudy | None, pool: TrainingPool) -> None:
        super().__init__(context, study)
        self._pool = pool

    def train_next(self, missing: Sequence[Training]) -> bool:
        """Have the pool train what is missing; return False, since this process trains nothing."""
        self._pool.begin(missing)
        return False

    def wait(self) -> None:
        """Wait for a run that the pool trains."""
        self._pool.wait(_POLL)


class _SharedQueue(_DirectoryQueue):
    """The fresh runs that all processes at a storage share out, as trials of a study with an owner each.

    Args:
        context: the context of the sweep.
        study: the study.
        interval: seconds between two heartbeats of an owner.
    """

    def __init__(self, context: SweepContext, study: FreshStudy, interval: float) -> None:
        super().__init__(context, study)
        self.study, self.interval = study, interval
        self.ownership = LeasedOwnership(context.directory, None, interval, fresh=True)
        self.ownership.bind(study.study)
        self._collected: set[int] = set()

    def collect(self) -> None:
        """Write the records of runs that other machines trained."""
        for trial in self.study.finished():
            if trial.number in self._collected or not self.ownership.take(trial.number):
                continue  # a process of this directory is about to notice that it has lost the run
            home = self._context.directory.fresh_run(*key_of(trial))
            local = read_trial(home)
            if local is None or not local.state.finished:
                if local is not None:
                    quarantine(home, "lost")
                write_fresh_run(home, trial)
            self._collected.add(trial.number)
            self.ownership.release(trial.number)

    def train_next(self, missing: Sequence[Training]) -> bool:
        """Offer the missing runs to all processes, and train one that waits or whose process died."""
        if missing:
            self.study.offer({(one.trial, one.number): one.params for one in missing})
        owner = self.ownership
        trial, died = reclaim_or_claim(self.study.study, owner.take_stale, owner.take, release=owner.release)
        if trial is None:
            return False
        owner.own(trial)
        try:
            self._train(trial, key_of(trial), died)
        finally:
            owner.release(trial.number)
        return True

    def wait(self) -> None:
        """Wait for a run that another process may give up."""
        self.ownership.wait()

    def close(self) -> None:
        """Withdraw the runs that wait."""
        self.study.close()

    def _train(self, trial: optuna.Trial, key: Key, died: bool) -> None:
        """Train a run of this process and write its result, unless another process has taken it meanwhile."""
        home = self._context.directory.fresh_run(*key)
        contender = self._context.directory.record(key[0])
        if contender is None:
            raise ConfigError(f"{self._context.directory.label}: has no trial {key[0]} to train again")
        training = Training(*key, contender.given)
        record = read_trial(home) or TrialRecord(key[1], training.params, TrialState.RUNNING)
        if died and not record.state.finished:
            name = f"trial {key[0]}, seed {key[1]}"
            record = after_death(trial, record, home, lambda text: self._context.say(f"{name}: {text}"))
        if not record.state.finished:
            record = training.run(self._context.trials)
        try:
            if record.epochs:  # otherwise there may be no file
                self.ownership.sender(trial, home).send()
            self.study.describe(trial, record)
            is_ours = self.ownership.finish(self.study.study, trial, record, home)
        except UpdateFinishedTrialError:
            is_ours = False
        if not is_ours:
            quarantine(home, "lost")


@contextmanager
def _opened_queue(context: SweepContext, pool: TrainingPool | None = None) -> Iterator[_DirectoryQueue]:
    section = context.plan.config.backend.section
    with opened_fresh_study(context) as study:
        if pool is not None:
            yield _PooledQueue(context, study, pool)
            return
        if study is None or not isinstance(section, OptunaBackend) or not is_shared(section.storage):
            yield _DirectoryQueue(context, study)
            return
        queue = _SharedQueue(context, study, section.heartbeat)
        with closing(queue.ownership):
            yield queue


def _deadline(context: SweepContext, runs: FreshRuns) -> float:
    """Return the moment from which no run may begin; earlier calls have used up a part of the time."""
    confirm = context.plan.config.confirm
    if confirm is None or confirm.time is None:
        return float("inf")
    runs.following()
    return time.monotonic() + confirm.time - seconds_at_work(runs.ended.values())


def _line(trial: int, seed_number: int, record: TrialRecord, context: SweepContext) -> str:
    text = f"{context.resolved.metric} {number(record.value)}"
    if not record.state.trained:
        reason, _, _ = (record.reason or "").partition("\n")
        text = f"{record.state.value}  {reason}"
    return f"   #{trial:<4} seed {seed_number:<3} {text}  {duration(record.seconds)}"
