"""The confirmation of a sweep: its best trials trained again, by as many processes as the search had."""

from __future__ import annotations

import time

from .._formatting import duration, number, plural
from ..backends.fresh_runs import FreshRuns, read_plans
from ..exceptions import ConfigError
from ..records.trial_record import TrialRecord
from ..results.confirmation import read_confirmation
from ..selection.confirmation import ConfirmSettings
from ..selection.front_confirmation import AnyConfirmation
from .command_engine import Program
from .context import SweepContext
from .imported_engine import ImportedEngine
from .processes import hired, own_gpus

_POLL = 0.2  # seconds between looks at the runs of other processes
_WAIT = 1.0  # seconds between looks for a confirmation that begins


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
    runs.begin()
    missing = len(runs.following().missing)
    if missing:
        context.say(
            f"confirm  up to {plural(runs.planned, 'training')}, {missing} before the next comparison"
        )
    with own_gpus(context) as shares, hired(context, missing, shares, verbose, task="confirm"):
        end = _work(context, runs)
    runs.write(end)
    return end


def join_confirmation(context: SweepContext) -> None:
    """Train contenders beside the process that leads the confirmation, until nothing is missing."""
    _work(context, _fresh_runs(context), leads=False)


def await_confirmation(context: SweepContext) -> None:
    """Train contenders beside the run that leads a sweep, once its search is over; return if no run does."""
    home = context.directory
    while home.is_led:
        if read_plans(home.confirmation) and read_confirmation(home) is None:
            context.say("the search is over; training the contenders of its confirmation")
            join_confirmation(context)
            return
        time.sleep(_WAIT)


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


def _work(context: SweepContext, runs: FreshRuns, leads: bool = True) -> AnyConfirmation:
    """Train what no other process trains until the end; the leader prints each run that ended."""
    deadline = _deadline(context, runs)
    reported = set(runs.ended)
    while True:
        following = runs.following(timed_out=time.monotonic() >= deadline)
        if leads:
            for key in runs.ended.keys() - reported:
                context.say(_line(*key, runs.ended[key], context))
            reported |= runs.ended.keys()
        if following.end is not None:
            return following.end
        context.wait_while_paused()
        if not any(_train_if_free(context, runs, *run) for run in following.missing):
            time.sleep(_POLL)


def _deadline(context: SweepContext, runs: FreshRuns) -> float:
    """Return the moment from which no run may begin; earlier calls have used up a part of the time."""
    confirm = context.plan.config.confirm
    if confirm is None or confirm.time is None:
        return float("inf")
    runs.following()
    return time.monotonic() + confirm.time - sum(record.seconds for record in runs.ended.values())


def _train_if_free(context: SweepContext, runs: FreshRuns, trial: int, seed_number: int) -> bool:
    """Train a contender under a seed; return False if another process does."""
    with context.directory.claimed(f"{trial:04d}-{seed_number}") as claimed:
        if claimed and runs.is_missing(trial, seed_number):
            runs.train(trial, seed_number)
        return claimed


def _line(trial: int, seed_number: int, record: TrialRecord, context: SweepContext) -> str:
    text = f"{context.resolved.metric} {number(record.value)}"
    if not record.state.trained:
        reason, _, _ = (record.reason or "").partition("\n")
        text = f"{record.state.value}  {reason}"
    return f"   #{trial:<4} seed {seed_number:<3} {text}  {duration(record.seconds)}"
