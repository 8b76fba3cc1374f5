"""The trainable that Tune calls in a Ray worker.

With a searcher Tune starts one process at a time, and a process has started when it has loaded this module.
So nothing here loads the metrics: they come with the trials, which a process gets when it trains. Optuna,
which draws the params elsewhere, is not loaded at all.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

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


def train_shared(config: dict[str, Any], shared: Shared, course: Course) -> None:
    """Run the trial of a config.

    Args:
        config: of our searcher.
        shared: what all trials have in common, which reaches a process once, by Ray's object store.
        course: how it is trained.
    """
    os.environ.update(_LET_END)
    course.train(config, _load(*shared))


class Course:
    """A training from the first params of a trial to its end, or on from the latest checkpoint.

    Attributes:
        hands_on: whether Tune gets states from which other trials go on.
        reuses_actors: whether a process trains one trial after another; None where the GPUs decide.
    """

    hands_on: ClassVar[bool] = False
    reuses_actors: ClassVar[bool | None] = None

    def check(self, trials: Trials, max_concurrent: int | None, reuse_actors: bool | None) -> None:
        """Check that the settings of a tuner allow it.

        Raises:
            RunError: they do not.
        """

    def first_points(
        self, points: Iterable[Mapping[str, Any]], warm_start: Sequence[Any], count: int
    ) -> Iterable[Mapping[str, Any]]:
        """Return the params that the first trials have, of so many.

        Raises:
            RunError: the trials begin with others.
        """
        return points

    def train(self, config: Mapping[str, Any], trials: Trials) -> None:
        """Train the trial of a config."""
        number, params = _first_of(config)
        _run(TuneReporter(number, params), params, trials)


@dataclass(frozen=True)
class MemberCourse(Course):
    """The training of a member of a population, which may go on from the state of another.

    Args:
        kind: the name of the scheduler.
        interval: the epochs after which the member reports its state.
    """

    kind: str
    interval: int
    hands_on = True
    reuses_actors = True

    def check(self, trials: Trials, max_concurrent: int | None, reuse_actors: bool | None) -> None:
        """Check that the members can hand on their states."""
        if trials.directory is None:
            raise RunError(
                f"{self.kind} passes states between trials and records their origin; set directory="
            )
        if trials.repeats > 1:
            raise RunError(
                f"{self.kind} changes params during training, which another seed would not repeat; leave "
                "repeats out"
            )
        if max_concurrent is not None:
            raise RunError(
                f"the trials of {self.kind} wait for each other, so all run at once; leave max_concurrent "
                "out: the resources decide how many train at a time"
            )

    def train(self, config: Mapping[str, Any], trials: Trials) -> None:
        """Train the member from the state of its donor, if Tune has changed it, or from its own."""
        number, params = _first_of(config)
        with _alone(trials, number) as home:
            if DONOR in config:
                _exploit(config, params, trials)
            handed_on = HandedOn(self.interval, partial(checkpoint_of, home), len(read_epochs(home)))
            _run(TuneReporter(number, params, handed_on), params, trials)


@dataclass(frozen=True)
class ReplayCourse(Course):
    """The training of a schedule of params that a population has found.

    Args:
        read: reads the schedule from the records of that search.
    """

    read: Callable[[], Schedule]

    @cached_property
    def schedule(self) -> Schedule:
        """The params by epoch; a worker gets what was read by the process that prepares the search."""
        return self.read()

    def check(self, trials: Trials, max_concurrent: int | None, reuse_actors: bool | None) -> None:
        """Check that the trials can change their params."""
        if trials.directory is None:
            raise RunError("pbt_replay changes params and records the changes; set directory=")
        if trials.repeats > 1:
            raise RunError("pbt_replay trains each trial with its own seed; leave repeats out")

    def first_points(
        self, points: Iterable[Mapping[str, Any]], warm_start: Sequence[Any], count: int
    ) -> Iterable[Mapping[str, Any]]:
        """Return the first params of the schedule for each trial."""
        if [*points] or warm_start:
            raise RunError(
                "pbt_replay starts with the first params of its run; leave points and warm_start out"
            )
        return [self.schedule.first] * count

    def train(self, config: Mapping[str, Any], trials: Trials) -> None:
        """Train each stretch of the schedule, from where the trial stands."""
        number, params = _first_of(config)
        check_first(number, params, self.schedule)
        with _alone(trials, number) as home:
            while True:
                change, is_trained = next_stretch(self.schedule, home)
                if change is not None and is_trained:
                    apply_change(trials, number, self.schedule, change, home)
                    continue
                end = None if change is None else change.epoch
                try:
                    _run(StretchReporter(number, params, end, home), params, trials)
                except StretchOver:
                    continue
                return


class ReallocatedCourse(Course):
    """A training that Tune pauses to change its resources, and that goes on from its latest epoch."""

    reuses_actors = False

    def check(self, trials: Trials, max_concurrent: int | None, reuse_actors: bool | None) -> None:
        """Check that a trial can go on in another process."""
        what = "a ResourceChangingScheduler"
        if trials.directory is None:
            raise RunError(f"{what} continues trials in other processes from their records; set directory=")
        if trials.spec.checkpoints == "none":
            raise RunError(f"{what} continues trials from their checkpoints; keep the latest checkpoint")
        if trials.repeats > 1:
            raise RunError(f"{what} pauses a trial in its only run; leave repeats out")
        if reuse_actors:
            raise RunError(f"{what} starts a new process when resources change; leave reuse_actors out")

    def train(self, config: Mapping[str, Any], trials: Trials) -> None:
        """Train the trial until it ends or is paused; its last epoch on disk may not have been reported."""
        number, params = _first_of(config)
        with _alone(trials, number) as home:
            reported = max(0, len(read_epochs(home)) - 1)
            resumable = Resumable(partial(checkpoint_of, home), reported)
            _run(TuneReporter(number, params, resumable), params, trials)


def _first_of(config: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Return the number of a trial and the params that it began with."""
    return config[NUMBER], config.get(GIVEN, config[PARAMS])


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


@contextmanager
def _alone(trials: Trials, number: int) -> Iterator[Path]:
    """Wait until the process that Tune has paused the trial in has written all; yield its directory."""
    home = trials.directory_of(number)
    if home is None:
        raise RunError("each member of a population needs a record; set directory=")
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
