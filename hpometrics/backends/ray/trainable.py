"""The trainable that Tune calls in a Ray worker.

With a searcher Tune starts one process at a time, and a process has started when it has loaded this module.
So nothing here loads the metrics: they come with the trials, which a process gets when it trains. Optuna,
which draws the params elsewhere, is not loaded at all.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from filelock import FileLock
from ray import tune

from ..._redaction import redacted
from ..._text import text_of
from ...exceptions import DiskError, ProgramError, RunError
from ...records._files import make_private
from ...records.epoch_log import read_epochs
from ...records.schedule import Schedule
from ...records.trial_record import Exploit
from .replay import StretchOver, StretchReporter, apply_change, check_first, next_stretch
from .reporter import HandedOn, Resumable, TuneReporter, checkpoint_of
from .session import DONOR, GIVEN, NUMBER, PARAMS, SINCE

if TYPE_CHECKING:
    from ...run.trials import Trials

    Shared = tuple[ray.ObjectRef[Trials]]

_LET_END = {"TUNE_FUNCTION_THREAD_TIMEOUT_S": "600"}
"""The seconds that a process waits for a stopped or paused trial before it takes the next one; if the trial
had not ended by then, Tune would lose the next one."""


def train_shared(
    config: dict[str, Any],
    shared: Shared,
    interval: int | None = None,
    schedule: Schedule | None = None,
    is_reallocated: bool = False,
) -> None:
    """Run the trial of a config.

    Args:
        config: of our searcher.
        shared: what all trials have in common, which reaches a process once, by Ray's object store.
        interval: the epochs after which a member of a population reports its state; it may start from that of
            another. None for other trials.
        schedule: the params by epoch that the trial replays; None for other trials.
        is_reallocated: whether Tune pauses the trial to change its resources.
    """
    number, params = config[NUMBER], config.get(GIVEN, config[PARAMS])
    trials = _load(*shared)
    os.environ.update(_LET_END)
    if schedule is not None:
        with _alone(trials, number) as home:
            _replay(number, params, trials, schedule, home)
        return
    if is_reallocated:
        with _alone(trials, number) as home:
            resumable = Resumable(partial(checkpoint_of, home), max(0, len(read_epochs(home)) - 1))
            _run(TuneReporter(number, params, resumable), params, trials)
        return
    if interval is None:
        _run(TuneReporter(number, params), params, trials)
        return
    with _alone(trials, number) as home:
        if DONOR in config:
            _exploit(config, params, trials)
        handed_on = HandedOn(interval, partial(checkpoint_of, home), len(read_epochs(home)))
        _run(TuneReporter(number, params, handed_on), params, trials)


@lru_cache(maxsize=1)
def _load(shared: ray.ObjectRef[Trials]) -> Trials:
    return ray.get(shared)


def _exploit(config: Mapping[str, Any], params: Mapping[str, Any], trials: Trials) -> None:
    """Record that a trial continues from the state of another, and store that state with it."""
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            change = Exploit(config[SINCE], config[DONOR], config[PARAMS])
            trials.exploit(config[NUMBER], params, change, Path(folder))


def _replay(number: int, params: Mapping[str, Any], trials: Trials, schedule: Schedule, home: Path) -> None:
    """Train each stretch of a schedule, from where the trial stands."""
    check_first(number, params, schedule)
    while True:
        change, is_trained = next_stretch(schedule, home)
        if change is not None and is_trained:
            apply_change(trials, number, schedule, change, home)
            continue
        try:
            reporter = StretchReporter(number, params, None if change is None else change.epoch, home)
            _run(reporter, params, trials)
        except StretchOver:
            continue
        return


@contextmanager
def _alone(trials: Trials, number: int) -> Iterator[Path]:
    """Wait until the process that Tune has paused the trial in has written all; yield its directory."""
    home = trials.directory_of(number)
    if home is None:
        raise RunError("a member of a population has a record; give directory=")
    make_private(home)
    with FileLock(home / ".at-work"):
        yield home


def _run(reporter: TuneReporter, params: Mapping[str, Any], trials: Trials) -> None:
    try:
        _, error = trials.run(params, reporter)
    except DiskError as err:  # its record could not be written
        error = err
    if isinstance(error, StretchOver):
        raise error
    if isinstance(error, (DiskError, ProgramError)):
        reporter.give_up(redacted(text_of(error)))
    if reporter.stopped:
        raise SystemExit(0)
    if error is not None:
        text = "".join(traceback.format_exception(error))  # with its causes, as Ray writes it to its files
        if redacted(text) != text:
            raise RunError(redacted(f"{type(error).__name__}: {text_of(error)}"))
        raise error
