"""Trials of run directories with their stored rows: of the search, and of their fresh trainings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from ..._formatting import listed
from ...exceptions import ConfigError, MetricNameError, NotKeptError, UnknownMetricError
from ...metrics.features import OutputFeature
from ...metrics.registry.facts import value_range
from ...metrics.registry.register import get_metric
from ...records.trial_record import EpochRecord, TrialRecord
from ...run.statistics_store import stored_rows
from ...scoring.prediction_sets import PredictionSet
from ...selection.confirmation import CONFIRM
from ...selection.intervals import Kept, Scale
from ...selection.model_rows import ModelRows
from ..best import record_of
from ..confirmation import fresh_runs, stored_confirmation
from ..manifest import Resolved
from ..rescoring import MetricRequest, make_rescorer, outputs_in
from ..run_directory import RunDirectory
from ..status import Outcome

_TRIAL = re.compile(r"(?P<directory>.+):(?P<trial>[0-9]+)\Z", re.DOTALL)


@dataclass(frozen=True)
class StoredTrial:
    """A trial of a run directory at its picked epoch, of which rows may be stored.

    Args:
        place: the directory, or `DIRECTORY:TRIAL`, as it was named.
        home: the directory.
        resolved: the sweep.
        record: the trial.
        fresh: its fresh trainings in a confirmation, in the order of their seeds; none without one.
    """

    place: str
    home: RunDirectory
    resolved: Resolved
    record: TrialRecord
    fresh: Sequence[TrialRecord] = ()

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a run directory, which stands for its pick, or `DIRECTORY:TRIAL`.

        Raises:
            ConfigError: there is no such file, directory or trial, or no trial is the best.
        """
        match = None if Path(text).is_dir() else _TRIAL.fullmatch(text)
        directory = Path(match["directory"] if match else text)
        if not directory.is_dir():
            raise ConfigError(f"{text} is neither a file of predictions nor a run directory")
        if not match:
            return cls.of(text, Outcome.read(directory))
        home = RunDirectory(directory)
        record, resolved = home.trial_record(int(match["trial"])), home.read()
        end = stored_confirmation(home, home.records(), resolved)
        return cls(text, home, resolved, record, fresh_runs(home, end, record.number))

    @classmethod
    def of(cls, place: str, result: Outcome) -> Self:
        """Return the pick of a sweep.

        Raises:
            ConfigError: no trial is the best.
        """
        if result.best is None:
            raise ConfigError(f"{place}: {result.reason}")
        home, record = RunDirectory(result.directory), record_of(result.best, result.records)
        return cls(place, home, result.resolved, record, fresh_runs(home, result.confirmation, record.number))

    def scale(self, request: MetricRequest) -> Scale:
        """Return the scale on which intervals of a metric of its output are symmetric."""
        output = outputs_in(self.resolved)
        return scale_of(request.measured, output) if isinstance(output, OutputFeature) else Scale.IDENTITY

    def predictions(self, request: MetricRequest) -> PredictionSet | None:
        """Return the stored scores of its rows; None if there are none of this metric's output."""
        if self.record.repeats:
            return None
        try:
            rescorer = make_rescorer(self.resolved, request.measured, request.threshold)
            statistics = rescorer.statistics_of(self._folder, _picked(self.place, self.record))
        except (NotKeptError, UnknownMetricError, MetricNameError):
            return None
        parts = [part for part in statistics.parts if rescorer.reads(part)]
        rows = stored_rows(rescorer.output_of(parts[0]), parts[0].statistics) if len(parts) == 1 else None
        return None if rows is None else PredictionSet(self.place, rescorer.output_of(parts[0]), rows)

    def rows(self, request: MetricRequest) -> ModelRows:
        """Return row values of what is stored of its training in the search.

        Raises:
            NotKeptError: there are none.
        """
        if self.record.repeats:
            count = len(self.record.repeats)
            raise NotKeptError(
                f"{self.place}: its value is a mean over {count} seeds, whose rows are not stored"
            )
        return self._rows(request, self.record, self._folder)[0]

    def fresh_rows(self, request: MetricRequest, count: int) -> ModelRows:
        """Return row values of its first fresh trainings.

        Raises:
            NotKeptError: there are none, or not of the same rows in each training.
        """
        folder = self._folder / CONFIRM
        both = [
            self._rows(request, run, folder / str(number)) for number, run in enumerate(self.fresh[:count], 1)
        ]
        models = [rows for rows, _ in both]
        if any(kept != "rows" for _, kept in both):
            raise NotKeptError(f"{self.place}: no rows of its fresh trainings are stored")
        if len({(one.rows_id, one.method, one.table.shape) for one in models}) > 1:
            raise NotKeptError(f"{self.place}: its fresh trainings have different rows, or a different order")
        return replace(models[0], table=np.concatenate([one.table for one in models]))

    def _rows(self, request: MetricRequest, record: TrialRecord, folder: Path) -> tuple[ModelRows, Kept]:
        try:
            rescorer = make_rescorer(self.resolved, request.measured, request.threshold)
            statistics = rescorer.statistics_of(folder, _picked(self.place, record))
            return rescorer.row_values(statistics, self.place)
        except (NotKeptError, UnknownMetricError, MetricNameError) as err:
            raise NotKeptError(f"{self.place}: {err}") from err

    @property
    def _folder(self) -> Path:
        return self.home.trial(self.record.number)


def _picked(place: str, record: TrialRecord) -> EpochRecord:
    epochs = [one for one in record.epochs if one.epoch == record.epoch]
    if not epochs:
        raise ConfigError(f"{place} has no picked epoch ({record.state.value})")
    return epochs[-1]


def fresh_models(
    sides: Sequence[StoredTrial], request: MetricRequest, beside_files: bool = False
) -> tuple[list[ModelRows], str]:
    """Return the fresh trainings of trials, and a line on which trainings are compared.

    Where one was not trained again, or its rows are not kept, there are none: each trial is then compared by
    its training in the search. Without any confirmation the line is empty.

    Args:
        sides: the trials.
        request: the metric.
        beside_files: whether files are compared with them, of a training each.
    """
    if not any(side.fresh for side in sides):
        return [], ""
    count = min(len(side.fresh) for side in sides)
    why = "files have one training each" if beside_files else ""
    if not count:
        missing = [side.place for side in sides if not side.fresh]
        why = f"{listed(missing)} {'was' if len(missing) == 1 else 'were'} not trained again"
    models: list[ModelRows] = []
    if not why:
        try:
            models = [side.fresh_rows(request, count) for side in sides]
        except NotKeptError as err:
            why = str(err)
    if why:
        return [], f"compared by the training of each trial in the search, with its luck, because {why}"
    shared = len({tuple(run.seed for run in side.fresh[:count]) for side in sides}) == 1
    seeds = "the same seeds" if shared else "different seeds"
    return models, f"compared by {count} fresh trainings of each, under {seeds}"


def scale_of(metric: str, output: OutputFeature) -> Scale:
    """Return the scale on which intervals of a metric are symmetric."""
    return Scale.of_range(*value_range(type(get_metric(metric, output))))
