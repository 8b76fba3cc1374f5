"""The fresh runs of a confirmation: contenders of a search trained again, all under the same seeds."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ..direction import Direction
from ..exceptions import ConfigError, NewerFormatError, NoFiniteValueError, RecordError, RunError
from ..metrics._device import world_size
from ..records._files import read_whole, write_text
from ..records._json import FORMAT, FORMAT_KEY, read_sealed, real, sealed, whole
from ..records.epoch_log import read_trial
from ..records.trial_record import EpochRecord, TrialRecord
from ..run.distributed import Ranks
from ..run.reporter import ListReporter
from ..run.spec import RunSpec
from ..run.statistics_store import StoredRows, read_statistics
from ..run.trials import Trials
from ..selection.confirm_settings import ConfirmSettings
from ..selection.confirmation import (
    CONFIRM,
    CONFIRM_FILE,
    Confirmation,
    ConfirmationPlan,
    ConfirmationRecord,
    Contender,
    FreshRun,
    Rows,
    RowTables,
)
from ..selection.confirmation_plan import Next, contenders_of, has_looked, plan_for
from ..selection.front_confirmation import AnyConfirmation, FrontConfirmation
from ..selection.front_plan import front_contenders, plan_front
from ..selection.honest_value import Redraws
from ..selection.rules import At, violation_of
from ..selection.selection import Best
from ..space.draws import derive_seed

T = TypeVar("T")


class FreshTrials(Trials):
    """The fresh runs of one contender; run 3 has the third of the seeds that all contenders share.

    Its directory is that of the contender's trial.
    """

    def directory_of(self, number: int) -> Path | None:
        """Return where the record and the checkpoints of a fresh run are."""
        return None if self.directory is None else self.directory / CONFIRM / str(number)

    def seed_of(self, number: int, repeat: int = 0) -> int:
        """Return the seed of a fresh run, which does not depend on the trial; 0 stands for a missing seed."""
        return derive_seed(self.seed or 0, number, repeat, CONFIRM)

    def _compare_rows(self, trial: TrialRecord) -> None:
        """Accept other validation rows: a seed may draw them."""


def _fresh_trials(trials: Trials, trial: int) -> FreshTrials:
    """Return the fresh runs of one trial of a search."""
    home, spec = trials.directory_of(trial), trials.spec.with_row_values()
    return FreshTrials(trials.train, spec, home, trials.seed, trials.fsync, trials.loggers, 1, trials.retries)


class Training(NamedTuple):
    """A contender under one of the seeds: a fresh run.

    Args:
        trial: the trial of the search.
        number: that of the seed.
        params: those of the trial.
    """

    trial: int
    number: int
    params: Mapping[str, Any]

    def run(self, trials: Trials) -> TrialRecord:
        """Train it; an interrupted run resumes.

        Raises:
            BaseException: what interrupted the run, once it is recorded; in a process group also that by
                which it failed.
        """
        reporter = ListReporter(self.number, self.params)
        record, error = _fresh_trials(trials, self.trial).run(self.params, reporter)
        fails_together = world_size() == 1 or isinstance(error, NoFiniteValueError)
        if error is not None and not (record.state.finished and fails_together):
            raise error
        return record


class FreshRuns:
    """Trains the contenders of a search again, and knows what is trained and how it stands.

    Args:
        trials: the trials of the search.
        records: their records.
        settings: how much is trained again. If a confirmation in the directory had other settings, or other
            contenders, this one extends it.

    Raises:
        NoFiniteValueError: it has fewer than two complete trials; of several objectives, their front has.
        RecordError: the file of an earlier confirmation is damaged.
    """

    def __init__(self, trials: Trials, records: Sequence[TrialRecord], settings: ConfirmSettings) -> None:
        spec = trials.spec
        self._trials = trials
        self._records = {record.number: record for record in records}
        self.ended: dict[tuple[int, int], TrialRecord] = {}
        """The runs that have ended, by trial and number of the seed."""
        self._fresh: dict[tuple[int, int], FreshRun] = {}
        self._redraws: Redraws | None = None
        self._clustered = False
        if len(spec.optimized) > 1:
            settings = replace(settings, until="spent")  # a front has no leader that others could lose to
            chosen, others = front_contenders(records, spec.optimized, settings.top)
        else:
            complete = contenders_of(records, self.direction)
            chosen, others = complete[: settings.top], complete[settings.top :]
        self._plans = self._extended(ConfirmationPlan(settings, tuple(chosen)))
        numbers = {one.trial for plan in self._plans for one in plan.contenders}
        self._others = tuple(one for one in [*chosen, *others] if one.trial not in numbers)
        if len(numbers) < 2:
            self._plan(self.record())

    @property
    def direction(self) -> Direction:
        """The direction of the metric."""
        return next(iter(self._trials.spec.optimized.values()))

    @property
    def path(self) -> Path | None:
        """The file of the confirmation; None without a directory."""
        return None if self._trials.directory is None else self._trials.directory / CONFIRM_FILE

    def record(self, timed_out: bool = False) -> ConfirmationRecord:
        """Return all that decides, as far as it was read."""
        spec = self._trials.spec
        runs = {key: self._fresh_run(key) for key in self.ended}
        search, digest = (None, None) if len(spec.optimized) > 1 else self._searched_rows
        digests = {digest, *(run.rows_id for run in runs.values() if run.value is not None)}
        return ConfirmationRecord(
            spec.name,
            self.direction,
            self._plans,
            runs,
            others=self._others,
            bounds=spec.bounds,
            search=search if len(digests) == 1 else None,
            scale=spec.scale,
            clustered=self._clustered,
            timed_out=timed_out,
        )

    def following(self, timed_out: bool = False) -> Next[Confirmation] | Next[FrontConfirmation]:
        """Return the runs that are missing before the next look, or the end; it sees what others trained."""
        self._read_ended()
        return self._plan(self.record(timed_out))

    def _plan(self, record: ConfirmationRecord) -> Next[Confirmation] | Next[FrontConfirmation]:
        optimized = self._trials.spec.optimized
        if len(optimized) > 1:
            return plan_front(record, optimized)
        if self._redraws is None or not self._redraws.fits(record):
            self._redraws = Redraws.of(record)
        return plan_for(record, self._redraws)

    @property
    def planned(self) -> int:
        """The most trainings that there can be."""
        trials = {one.trial for plan in self._plans for one in plan.contenders}
        return len(trials) * max(plan.settings.repeats for plan in self._plans)

    def begin(self) -> None:
        """Write the plans, so that settings which change before the end extend them."""
        if self.is_new:
            self.write(None)

    def write(self, end: AnyConfirmation | None) -> None:
        """Write how it ended to the directory, if there is one."""
        if self.path is not None:
            write_confirmation(self.path, self._plans, end)

    def training(self, trial: int, number: int) -> Training:
        """Return a contender under one of the seeds."""
        return Training(trial, number, self._records[trial].given)

    def course(self) -> Generator[Training, TrialRecord, AnyConfirmation]:
        """Yield what is missing, one training after the other, is sent its record, and write the end."""
        self.begin()
        while True:
            following = self.following()
            if following.end is not None:
                self.write(following.end)
                return following.end
            for trial, number in following.missing:
                self.ended[trial, number] = yield self.training(trial, number)

    def best(self, confirmation: Confirmation) -> Best:
        """Return the winner; if confirmed, with the means of its fresh runs and the median's checkpoint."""
        best = Best.of(self._records[confirmation.winner], self._trials.spec.optimized)
        standing = confirmation.standing
        if standing.mean is None or confirmation.honest is None:
            return best
        numbers = range(1, standing.seeds + 1)
        return best.trained_again([self.ended[confirmation.winner, number] for number in numbers])

    def _fresh_run(self, key: tuple[int, int]) -> FreshRun:
        """Return a run that ended as the confirmation reads it; its rows are read once."""
        if key not in self._fresh:
            trial, number = key
            home = _fresh_trials(self._trials, trial).directory_of(number)
            rows = _rows_of(self.ended[key], home, self._trials.spec)
            self._fresh[key] = _fresh(self.ended[key], rows)
            self._clustered |= rows is not None and rows.clustered
        return self._fresh[key]

    @cached_property
    def _searched_rows(self) -> tuple[RowTables | None, str | None]:
        """The row values of the complete trials of the search, if all have some, and what identifies them."""
        tables: dict[int, Rows] = {}
        digests: set[str] = set()
        for one in (*(one for plan in self._plans for one in plan.contenders), *self._others):
            record = self._records[one.trial]
            rows = _rows_of(record, self._trials.directory_of(one.trial), self._trials.spec)
            if rows is None or record.repeats:
                return None, None
            tables[one.trial] = rows.values
            digests.add(rows.digest)
        return (tables, digests.pop()) if len(digests) == 1 else (None, None)

    def _read_ended(self) -> None:
        """Read the runs that ended in other processes."""
        most = max(plan.settings.repeats for plan in self._plans)
        for trial in {one.trial for plan in self._plans for one in plan.contenders}:
            for number in range(1, most + 1):
                self._read(trial, number)

    def _read(self, trial: int, number: int) -> None:
        ended = (trial, number) in self.ended
        home = None if ended else _fresh_trials(self._trials, trial).directory_of(number)
        record = None if home is None else read_trial(home)
        if record is not None and record.state.finished:
            self.ended[trial, number] = record

    def _extended(self, plan: ConfirmationPlan) -> tuple[ConfirmationPlan, ...]:
        """Return the plans of an earlier confirmation and this one, unless it was the last of them.

        It replaces plans under which nothing was compared yet.
        """
        plans = () if self.path is None else read_plans(self.path)
        self.is_new = plan not in plans[-1:]
        """Whether settings or contenders differ from those of the confirmation in the directory."""
        if not self.is_new:
            return plans
        while plans and not self._has_looked(plans):
            plans = plans[:-1]
        return plans if plan in plans[-1:] else (*plans, plan)

    def _has_looked(self, plans: tuple[ConfirmationPlan, ...]) -> bool:
        """Check whether the contenders were compared under the last of some plans."""
        self._plans, spec = plans, self._trials.spec
        self._read_ended()
        runs = {key: self._fresh_run(key) for key in self.ended}
        record = ConfirmationRecord(spec.name, self.direction, plans, runs, bounds=spec.bounds)
        if len(spec.optimized) > 1:
            return not plan_front(record, spec.optimized).missing
        return has_looked(record)


def confirm_together(trials: Trials, course: Generator[Training, TrialRecord | None, T]) -> T:
    """Train what a course yields, and return its end; in a process group, on every rank that of the first.

    Args:
        trials: the trials of the search.
        course: is sent the record of each training; only the first rank asks it.

    Raises:
        RunError: the trials have retries in a process group.
        RankError: another rank has failed.
    """
    ranks = Ranks()
    if not ranks.alone and trials.retries:
        raise RunError("leave out retries=: when one rank fails, all ranks fail")
    record: TrialRecord | None = None

    def following() -> tuple[Training | None, T | None]:
        try:
            return course.send(record), None
        except StopIteration as end:
            return None, end.value

    while True:
        training, end = ranks.from_first(following)
        if training is None:
            return cast(T, end)
        record = training.run(trials)


class _RowsOfRun(NamedTuple):
    """The row values of the epochs of a run that could be picked, of shape (epochs, rows)."""

    values: Rows
    picked: int
    digest: str
    clustered: bool
    held_out: StoredRows | None


def _rows_of(record: TrialRecord, home: Path | None, spec: RunSpec) -> _RowsOfRun | None:
    """Read the row values of a run; None unless each epoch that could be picked has some of the same rows.

    Raises:
        RecordError: the file of them is damaged.
    """
    values = [(epoch, epoch.number(spec.name)) for epoch in record.epochs]
    epochs = [epoch for epoch, value in values if math.isfinite(value)]
    epochs = epochs[-1:] if spec.at is At.LAST else _least_violating(epochs, record.epoch, spec)
    if home is None or record.epoch not in [epoch.epoch for epoch in epochs]:
        return None
    stored = {(one.attempt, one.epoch): one for one in read_statistics(home)}
    kept = [stored.get((epoch.attempt, epoch.epoch)) for epoch in epochs]
    rows = [None if one is None else one.rows for one in kept]
    own = [one for one in rows if one is not None and one.metric == spec.name]
    if len(own) < len(epochs) or len({(one.digest, one.method, len(one.values)) for one in own}) > 1:
        return None
    picked = [epoch.epoch for epoch in epochs].index(record.epoch)
    at_pick = kept[picked]
    held_out = None if at_pick is None else at_pick.held_out
    return _RowsOfRun(
        np.stack([one.values for one in own]), picked, own[0].digest, own[0].clustered, held_out
    )


def _least_violating(epochs: Sequence[EpochRecord], picked: int | None, spec: RunSpec) -> list[EpochRecord]:
    """Return the epochs that violate constraints least, among which a draw of rows picks by the metric."""
    bounds = [bound for bound in spec.bounds if bound.name != spec.name]  # a draw changes the metric alone
    violations = [violation_of(bounds, epoch.values) for epoch in epochs]
    least = min(violations, default=0.0)
    both = zip(epochs, violations, strict=True)
    return [epoch for epoch, violation in both if violation == least or epoch.epoch == picked]


def _fresh(record: TrialRecord, rows: _RowsOfRun | None) -> FreshRun:
    trained = record.state.trained and record.value is not None
    held_out = None if rows is None else rows.held_out
    return FreshRun(
        record.value if trained else None,
        rows=None if rows is None else rows.values,
        picked=0 if rows is None else rows.picked,
        rows_id=None if rows is None else rows.digest,
        values=record.picked_values,
        seconds=record.seconds,
        reason=None if trained else record.reason or record.state.value,
        held_out=None if held_out is None else held_out.values,
        held_out_id=None if held_out is None else held_out.digest,
    )


def write_confirmation(path: Path, plans: Sequence[ConfirmationPlan], end: AnyConfirmation | None) -> None:
    """Write the plans of a confirmation, and how it ended, if it has.

    Raises:
        DiskError: it cannot be written.
    """
    written = [
        {"settings": asdict(plan.settings), "contenders": [list(one) for one in plan.contenders]}
        for plan in plans
    ]
    content = {FORMAT_KEY: FORMAT, "plans": written, "end": None if end is None else asdict(end)}
    write_text(path, sealed(json.dumps(content, allow_nan=False)))


def read_plans(path: Path) -> tuple[ConfirmationPlan, ...]:
    """Read the plans of an earlier confirmation; none if there is no file.

    Raises:
        RecordError: the file is damaged.
        NewerFormatError: a newer version wrote it.
    """
    if not os.path.lexists(path):
        return ()
    try:
        content = read_sealed(read_whole(path).decode(), path)
        return tuple(
            ConfirmationPlan(
                ConfirmSettings(**plan["settings"]),
                tuple(Contender(whole(trial), real(value)) for trial, value in plan["contenders"]),
            )
            for plan in content["plans"]
        )
    except NewerFormatError:
        raise
    except (ValueError, KeyError, TypeError, RecordError, ConfigError) as err:
        raise RecordError(
            f"{path} is damaged ({err}); move it away to compare the existing trainings again"
        ) from err
