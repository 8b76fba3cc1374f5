"""The replay of the schedule of params that a population has found, by `pbt_replay`.

The schedule is known beforehand, so no scheduler decides anything: the process of a trial trains up to the
epoch of a change, records it, and trains on from its own state under the next params.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ray.tune.schedulers import FIFOScheduler

from ...direction import Direction
from ...exceptions import ConfigError, RunError
from ...records.epoch_log import read_epochs, read_trial
from ...records.schedule import Change, Schedule, read_schedule
from ...records.trial_record import Exploit
from ...run.reporter import Pause
from ...space.values import is_whole
from .reporter import TuneReporter, checkpoint_of


class Replay(FIFOScheduler):
    """Trains the schedule of params that a population has found, in each trial under a seed of its own.

    The schedule is the one that led to the picked epoch of a trial: its params, before its last exploit those
    of its donor, and so on. After the last change the params stay.

    Args:
        run: the directory of the search.
        trial: the number of the trial; None for the best one.
        metric: the name of the metric by which the best one is chosen.
        direction: of the metric.

    Attributes:
        read: reads the schedule.

    Raises:
        ConfigError: run or trial is not what it stands for.
    """

    kind = "pbt_replay"

    def __init__(
        self,
        run: str,
        trial: int | None = None,
        *,
        metric: str,
        direction: Direction,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if not isinstance(run, (str, Path)):
            raise ConfigError(f"run must be the directory of a search, as in runs/pbt, got {run!r}")
        if trial is not None and not is_whole(trial):
            raise ConfigError(f"trial must be a trial number, as in 3, got {trial!r}")
        self.read = partial(read_schedule, Path(run), trial, metric, direction)


class StretchOver(Pause):
    """The epochs before a change of the params are over; the trial goes on under the next ones."""


class StretchReporter(TuneReporter):
    """Reports the epochs of a trial up to the next change of its params.

    Args:
        number, params: see `TuneReporter`.
        end: the epoch of the change; None if none follows.
        home: the directory of the trial.
    """

    def __init__(self, number: int, params: Mapping[str, Any], end: int | None, home: Path) -> None:
        super().__init__(number, params)
        self._end, self._home = end, home

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report an epoch; end the stretch after its last one.

        Raises:
            StretchOver: the params change.
            RunError: the epoch has no checkpoint to go on from.
            StoppedByTune: see `TuneReporter.report`.
        """
        super().report(epoch, value, picked, values, final)
        if final or self._end is None or epoch + 1 < self._end:
            return
        if checkpoint_of(self._home, epoch) is None:
            raise RunError(
                f"pbt_replay changes the params after epoch {epoch}, but there is no state to continue "
                "from: call run.checkpoint(model=model, ...) in every epoch, and run.restore before the "
                "loop"
            )
        raise StretchOver(f"the params of trial {self.number} change after epoch {epoch}")


def next_stretch(schedule: Schedule, home: Path) -> tuple[Change | None, bool]:
    """Return the next change of a trial, and whether its epochs before that are over.

    Raises:
        RecordError: the trial has changed its params otherwise.
    """
    record = read_trial(home)
    change = schedule.next_change(() if record is None else record.exploits)
    if change is None:
        return None, False
    trained = len(read_epochs(home)) >= change.epoch and checkpoint_of(home, change.epoch - 1) is not None
    return change, trained


def apply_change(trials: Any, number: int, schedule: Schedule, change: Change, home: Path) -> None:
    """Record a change of the params as an exploit of the trial's own state, and store that state with it."""
    own = checkpoint_of(home, change.epoch - 1)
    with TemporaryDirectory() as folder:
        if own is not None:
            shutil.copy(own, folder)
        exploit = Exploit(change.epoch, number, dict(change.params))
        trials.exploit(number, dict(schedule.first), exploit, Path(folder))


def check_first(number: int, params: Mapping[str, Any], schedule: Schedule) -> None:
    """Check that a trial begins with the first params of the schedule.

    Raises:
        RunError: it does not.
    """
    if dict(params) != dict(schedule.first):
        raise RunError(
            f"trial {number} has the params {dict(params)}, but the schedule begins with "
            f"{dict(schedule.first)}. pbt_replay samples nothing, so leave out start, from and hpometrics "
            "add"
        )
