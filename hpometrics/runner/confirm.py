"""The confirmation of a sweep: its best trials trained again, by as many processes as the search had."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from filelock import FileLock, Timeout

from .._formatting import duration, number, plural
from ..config.models import Confirm
from ..exceptions import ConfigError
from ..records._files import make_private
from ..records.trial_record import TrialRecord
from ..run.fresh_runs import FreshRuns
from ..selection.confirmation import Confirmation, ConfirmSettings
from .command_engine import Program
from .context import SweepContext
from .imported_engine import ImportedEngine
from .processes import Workers

_POLL = 0.2  # seconds between looks at the runs of other processes


def confirm_winner(context: SweepContext, verbose: bool = False) -> Confirmation | None:
    """Train the contenders of a finished search again until the winner is decided, tied or all is spent.

    Args:
        context: the context of the sweep, whose trials have all ended.
        verbose: whether workers show the host's own log.

    Returns:
        How it ended; None if the sweep asks for none, or fewer than two of its trials are complete.

    Raises:
        ConfigError: the engine is one of stages, whose trainings do not depend on a seed.
        KeyboardInterrupt: after the run that it struck is recorded as interrupted.
    """
    runs = _fresh_runs(context)
    if runs is None:
        return None
    runs.begin()
    missing = runs.following().missing
    if missing:
        settings = context.plan.config.confirm
        context.say(f"confirm  {plural(len(missing), 'training')} to the next look{_limit(settings)}")
    workers = min(_workers(context), len(missing))
    with Workers(context, workers - 1, verbose, task="confirm") if workers > 1 else nullcontext():
        end = _work(context, runs)
    runs.write(end)
    return end


def join_confirmation(context: SweepContext) -> None:
    """Train contenders beside the process that leads the confirmation, until nothing is missing."""
    runs = _fresh_runs(context)
    if runs is not None:
        _work(context, runs, leads=False)


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


def _fresh_runs(context: SweepContext) -> FreshRuns | None:
    confirm = context.plan.config.confirm
    if confirm is None:
        return None
    settings = ConfirmSettings(**confirm.model_dump(exclude={"time"}))
    try:
        return FreshRuns(context.trials, context.directory.records(), settings)
    except ConfigError as err:
        context.say(str(err))
        return None


def _work(context: SweepContext, runs: FreshRuns, leads: bool = True) -> Confirmation:
    """Train what no other process trains until the end; the leader prints each run that ended."""
    confirm = context.plan.config.confirm
    deadline = None if confirm is None or confirm.time is None else time.monotonic() + confirm.time
    reported: set[tuple[int, int]] = set(runs.ended()) if leads else set()
    while True:
        following = runs.following(timed_out=deadline is not None and time.monotonic() >= deadline)
        if leads:
            ended = runs.ended()
            for key in ended.keys() - reported:
                context.say(_line(*key, ended[key], context))
            reported |= ended.keys()
        if following.end is not None:
            return following.end
        if not any(_train_if_free(context, runs, *run) for run in following.missing):
            time.sleep(_POLL)


def _train_if_free(context: SweepContext, runs: FreshRuns, trial: int, seed_number: int) -> bool:
    """Train a contender under a seed; return False if another process does."""
    with _claimed(context, trial, seed_number) as claimed:
        if claimed and (trial, seed_number) not in runs.ended():
            runs.train(trial, seed_number)
        return claimed


@contextmanager
def _claimed(context: SweepContext, trial: int, seed_number: int) -> Iterator[bool]:
    """Hold the lock of a fresh run, which the system frees if this process dies; yield whether it is held."""
    folder = context.directory.locks / "confirm"
    make_private(context.directory.locks)
    make_private(folder)
    lock = FileLock(folder / f"{trial:04d}-{seed_number}", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _workers(context: SweepContext) -> int:
    section = context.plan.config.backend.section
    return getattr(section, "workers", None) or 1


def _limit(confirm: Confirm | None) -> str:
    return "" if confirm is None or confirm.time is None else f", none begins after {duration(confirm.time)}"


def _line(trial: int, seed_number: int, record: TrialRecord, context: SweepContext) -> str:
    value = (
        f"{context.resolved.metric} {number(record.value)}" if record.state.trained else record.state.value
    )
    reason = "" if record.state.trained else f"  {(record.reason or '').partition(chr(10))[0]}"
    return f"   #{trial:<4} seed {seed_number:<3} {value}{reason}  {duration(record.seconds)}"
