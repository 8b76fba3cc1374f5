"""The schedule of params that a population has found, read from the records of its trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..direction import Direction
from ..exceptions import ConfigError, NoFiniteValueError, RecordError
from .epoch_log import read_trial
from .trial_record import Exploit, TrialRecord, TrialState, number_in


@dataclass(frozen=True)
class Change:
    """From this epoch on, counted from 0, these params hold."""

    epoch: int
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Schedule:
    """The params of a training by epoch.

    Args:
        first: those that it begins with.
        changes: the later ones, by epoch.
    """

    first: Mapping[str, Any]
    changes: tuple[Change, ...] = ()

    def params_at(self, epoch: int) -> Mapping[str, Any]:
        """Return the params in force at an epoch.

        >>> Schedule({"lr": 0.1}, (Change(2, {"lr": 0.2}),)).params_at(1)
        {'lr': 0.1}
        """
        past = [change.params for change in self.changes if change.epoch <= epoch]
        return past[-1] if past else self.first

    def next_change(self, done: tuple[Exploit, ...]) -> Change | None:
        """Return the change that follows those of a trial; None after the last.

        Raises:
            RecordError: the trial has changed its params otherwise.
        """
        for change, exploit in zip(self.changes, done, strict=False):
            if (change.epoch, dict(change.params)) != (exploit.epoch, dict(exploit.params)):
                raise RecordError(
                    f"the trial changed to {dict(exploit.params)} at epoch {exploit.epoch}, but its schedule "
                    f"has {dict(change.params)} at epoch {change.epoch}: the trials of the schedule have "
                    "changed; start over in another directory"
                )
        return self.changes[len(done)] if len(done) < len(self.changes) else None


def schedule_of(records: Mapping[int, TrialRecord], number: int, end: int | None = None) -> Schedule:
    """Return the schedule that has led to the state of a trial.

    An exploit replaces the whole state of a trial by that of its donor. So what the trial did before its last
    exploit does not count: up to there the schedule is that of the donor.

    Args:
        records: of all trials, by number.
        number: of the trial.
        end: the epochs that count; None for all.

    Raises:
        RecordError: a donor has no record.
    """
    stretches = [*_stretches(records, number, end)]
    changes = [change for before, change in pairwise(stretches) if change.params != before.params]
    return Schedule(stretches[0].params, tuple(changes))


def _stretches(records: Mapping[int, TrialRecord], number: int, end: int | None) -> list[Change]:
    """Return the stretches of a schedule; the first begins at epoch 0."""
    later: list[Change] = []
    while True:
        record = records.get(number)
        if record is None:
            raise RecordError(f"trial {number}, which other trials continued from, has no record")
        exploits = [one for one in record.exploits if end is None or one.epoch < end]
        if not exploits:
            return [Change(0, record.given), *reversed(later)]
        last = exploits[-1]
        later.append(Change(last.epoch, last.params))
        number, end = last.donor, last.epoch


def read_schedule(run: Path, trial: int | None, metric: str, direction: Direction) -> Schedule:
    """Return the schedule that led to the picked epoch of a recorded trial.

    Args:
        run: the directory of the search.
        trial: the number of the trial; None for the best one.
        metric: the name of the metric by which the best one is chosen.
        direction: of the metric.

    Raises:
        ConfigError: there are no trials, no such trial, or none with a value of the metric.
        RecordError: a record is damaged.
    """
    homes = sorted(one for one in (run / "trials").glob("*") if one.name.isdigit())
    records = {int(home.name): record for home in homes if (record := read_trial(home)) is not None}
    if not records:
        raise ConfigError(f"{run} has no trials; name the directory of a search with pbt or pb2")
    if trial is None:
        trial = _best_of(run, records, metric, direction)
    if trial not in records:
        raise ConfigError(f"{run} has no trial {trial}; it has {', '.join(map(str, records))}")
    epoch = records[trial].epoch
    if epoch is None:
        raise ConfigError(f"trial {trial} of {run} has no epoch with a value; name another trial")
    return schedule_of(records, trial, epoch + 1)


def _best_of(run: Path, records: Mapping[int, TrialRecord], metric: str, direction: Direction) -> int:
    """Return the number of the best complete trial."""
    complete = [record for record in records.values() if record.state is TrialState.COMPLETE]
    try:
        best = direction.best_index(number_in(record.picked_values, metric) for record in complete)
    except NoFiniteValueError as err:
        raise ConfigError(
            f"{run} has no complete trial with a value of {metric}; name the trial, as in trial: 3"
        ) from err
    return complete[best].number
