"""Measure another metric of closed epochs from their stored statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..exceptions import HpometricsError, NotKeptError, RecordError
from ..metrics._validation import batch_of
from ..metrics.collection import MetricCollection
from ..metrics.features import BINARY, CATEGORY, Binary, OutputFeature, Set
from ..metrics.multitask import TaskCollection
from ..metrics.registry.names import THRESHOLD, MetricName
from ..metrics.registry.scope import ALL_TASKS, VALIDATION
from ..metrics.row_values.row_meter import MetricRows, NoRowValuesError, RowMeter, mean_over_tasks
from ..metrics.statistics.confusion import Confusion
from ..records.epoch_log import STATISTICS_FILE
from ..records.trial_record import EpochRecord
from ..selection.intervals import Kept, Scale
from ..selection.model_rows import ModelRows
from .spec import RunSpec
from .split import EpochValues, Reasons, SplitMetrics, Values
from .statistics_store import (
    EpochStatistics,
    RowsDigest,
    StatisticsSnapshot,
    read_statistics,
    row_metrics_of,
    stored_rows,
)

Outputs = OutputFeature | Mapping[str, OutputFeature]

IntArray = npt.NDArray[np.int64]
_MATRIX = Confusion().label
_ROWWISE = (BINARY, CATEGORY)  # whose matrix counts rows, not words of one text or labels of one row
_SHARED = ("target", "sample_weight")  # by which rows of two models are known to be the same


class Rescorer:
    """Measures one metric of stored epochs, as a run would have measured it.

    If the metric is a function of the stored statistics, its value is exactly the one that the run would have
    had. Otherwise it is measured on the stored rows, if there are any.

    Args:
        metric: its canonical name.
        output: what the model predicts, or each output by name.
        threshold: the probability above which 1 is predicted, in place of the output's own.

    Raises:
        HpometricsError: the metric does not exist, or it cannot steer a search.
    """

    def __init__(
        self,
        metric: str,
        output: Outputs | None,
        threshold: float | None = None,
    ) -> None:
        requested = MetricName.parse(metric)
        self._threshold = threshold
        if threshold is not None:
            output = _with_threshold(output, requested.feature, threshold)
        self._spec = RunSpec(metric, output=output, defaults=False, statistics="none")
        self._splits: dict[str, SplitMetrics] = {}

    @property
    def name(self) -> str:
        """The name of its values."""
        return self._name_of(self._spec.name)

    @property
    def scale(self) -> Scale:
        """On which scale intervals of its values are symmetric."""
        return self._spec.scale

    def rescore(self, directory: Path, epochs: Sequence[EpochRecord]) -> tuple[EpochRecord, ...]:
        """Return epochs of a trial with the value of the metric added; nan with its reason.

        If updates of the test split are stored too, their value is added as `test:`.

        Raises:
            NotKeptError: the metric needs statistics that are not stored for one of them.
            RecordError: the file of statistics is damaged.
        """
        requested = {(record.attempt, record.epoch): record for record in epochs}
        rescored: dict[int, EpochRecord] = {}
        for statistics in read_statistics(directory):
            record = requested.get((statistics.attempt, statistics.epoch))
            if record is not None:
                rescored[record.epoch] = self._rescore_epoch(record, statistics)
        for record in epochs:
            if record.epoch not in rescored:
                raise NotKeptError(_nothing_stored(record))
        return tuple(rescored[record.epoch] for record in epochs)

    def statistics_of(self, directory: Path, record: EpochRecord) -> EpochStatistics:
        """Return the stored statistics of one epoch.

        Raises:
            NotKeptError: none are stored.
            RecordError: the file of statistics is damaged.
        """
        key = record.attempt, record.epoch
        matches = [
            statistics
            for statistics in read_statistics(directory)
            if (statistics.attempt, statistics.epoch) == key
        ]
        if not matches:
            raise NotKeptError(_nothing_stored(record))
        return matches[-1]

    def row_values(
        self, statistics: EpochStatistics, label: str, own_rows: bool = True
    ) -> tuple[ModelRows, Kept]:
        """Return the row values of an epoch, and what they were computed from.

        They are those that the run has kept, else those of its stored rows, else the jackknife of the cells
        of a confusion matrix, if the metric is a function of it alone.

        Args:
            statistics: those stored for the epoch.
            label: the name of the model.
            own_rows: whether stored rows may have their own values, see `RowMeter`.

        Raises:
            NotKeptError: none of these is stored, or the metric has no row values.
        """
        kept = statistics.rows
        if kept is not None and self._threshold is None and kept.metric == self.name:
            return kept.of_model(label), "rows"
        parts = [part for part in statistics.parts if self.reads(part)]
        if not parts:
            raise NotKeptError(f"{self.name} is not measured on stored rows")
        if not self._spec.pools_tasks:
            return self._of_tasks(statistics, parts, label, own_rows)
        return self._of_rows(statistics, parts, label, own_rows)

    def _of_tasks(
        self, statistics: EpochStatistics, parts: Sequence[StatisticsSnapshot], label: str, own_rows: bool
    ) -> tuple[ModelRows, Kept]:
        """Return the row values of a mean over tasks: a task adds its variance, whatever its rows are."""
        by_task = [
            self._of_rows(replace(statistics, parts=(part,)), [part], label, own_rows) for part in parts
        ]
        if len(by_task) == 1:
            return by_task[0]
        models, sources = zip(*by_task, strict=True)
        rows = mean_over_tasks([MetricRows(model.table[0], model.method) for model in models])
        rows_id = str([(part.task, model.rows_id) for part, model in zip(parts, models, strict=True)])
        joined = ModelRows(label, rows.values[None], rows.method, rows_id=rows_id)
        return joined, "matrix" if "matrix" in sources else "rows"

    def _of_rows(
        self, statistics: EpochStatistics, parts: Sequence[StatisticsSnapshot], label: str, own_rows: bool
    ) -> tuple[ModelRows, Kept]:
        """Return the row values of one task, or of all together."""
        live = self._split(VALIDATION).live(parts[0].output)
        metric = live.prototype[self._spec.objectives[0].key]
        stored = [rows for part in parts if (rows := stored_rows(live.output, part.statistics)) is not None]
        digest = RowsDigest()
        kept: Kept
        try:
            if len(stored) == len(parts):
                meter, kept = RowMeter(metric, own_rows=own_rows), "rows"
                for rows in stored:
                    meter.add(batch_of(live.output, **rows))
                    digest.add({name: rows[name] for name in _SHARED if name in rows})
            else:
                matrices = [self._matrix_of(live, part) for part in parts]
                meter, kept = RowMeter.of_matrix(metric, np.sum(matrices, axis=0)), "matrix"
                digest.add(label)  # nobody knows that two matrices are of the same rows
            found = meter.close(self.value(statistics))
        except NoRowValuesError as err:
            raise NotKeptError(str(err)) from err
        return ModelRows(label, found.values[None], found.method, 0, found.positive, digest.text), kept

    def _matrix_of(self, live: TaskCollection, part: StatisticsSnapshot) -> IntArray:
        """Return the confusion matrix of a part, of whose rows the metric is a function.

        Raises:
            NotKeptError: there is none, or it does not count rows.
        """
        state = part.statistics.get(_MATRIX)
        if state is None or self._needs(live) != {_MATRIX} or live.output.type not in _ROWWISE:
            raise NotKeptError(
                f"{self.name} cannot be computed from a confusion matrix alone, and {_unkept(live.output)}"
            )
        if state["matrix"].is_floating_point():
            raise NotKeptError("a confusion matrix of weighted rows does not contain the number of rows")
        return state["matrix"].numpy()

    def value(self, statistics: EpochStatistics) -> float:
        """Return the value of an epoch; nan where it is undefined."""
        values, _ = self._measure(statistics, VALIDATION)
        value = values[self._spec.name]
        return math.nan if isinstance(value, list) else value

    def reads(self, part: StatisticsSnapshot) -> bool:
        """Check whether the metric is one of rows, and the rows of a part are among them."""
        spec = self._spec.objectives[0]
        if spec.measured is None or part.split != VALIDATION or not part.rows:
            return False
        return part.output == spec.feature and spec.task in (None, ALL_TASKS, part.task)

    def _needs(self, live: TaskCollection) -> set[str]:
        """Return the labels of the statistics that the metric is a function of; none at another threshold."""
        return set() if self._threshold is not None else {one.label for one in live.prototype.statistics}

    def output_of(self, part: StatisticsSnapshot) -> OutputFeature:
        """Return the output feature of the rows of a part."""
        return self._split(VALIDATION).live(part.output).output

    def _rescore_epoch(self, record: EpochRecord, statistics: EpochStatistics) -> EpochRecord:
        values, reasons = dict(record.values), dict(record.reasons)
        splits = dict.fromkeys(part.split for part in statistics.parts if part.split != VALIDATION)
        measured, why = self._measure(statistics, VALIDATION)
        for split in splits:
            with suppress(NotKeptError):  # what stands beside the value that is asked for may be missing
                beside, beside_reasons = self._measure(statistics, split)
                measured, why = {**measured, **beside}, {**why, **beside_reasons}
        values |= {self._name_of(name): value for name, value in measured.items()}
        reasons |= {self._name_of(name): reason for name, reason in why.items()}
        tasks = {part.task for part in statistics.parts if part.task is not None}
        epoch = EpochValues(self._spec, tasks)
        epoch.take("measured", values, reasons)
        if self._threshold is None:
            epoch.combine()
            epoch.settle()
        return replace(record, values=epoch.values, reasons=epoch.reasons)

    def _measure(self, statistics: EpochStatistics, split: str) -> tuple[Values, Reasons]:
        if VALIDATION not in self._spec.collections:
            return {}, {}  # of what the engine reports
        metrics = self._split(split)
        metrics.reset()
        try:
            self._fill(metrics, [part for part in statistics.parts if part.split == split])
            return metrics.compute()
        except (RuntimeError, IndexError) as err:
            text = f"the stored statistics of epoch {statistics.epoch} do not fit {self.name}: {err}"
            raise RecordError(f"{STATISTICS_FILE}: {text}") from err

    def _split(self, split: str) -> SplitMetrics:
        if split not in self._splits:
            self._splits[split] = SplitMetrics(split, self._spec.collections.get(VALIDATION))
        return self._splits[split]

    def _fill(self, metrics: SplitMetrics, parts: Sequence[StatisticsSnapshot]) -> None:
        for part in parts:
            if part.void is not None:
                metrics.void[part.output, part.task] = part.void
            elif part.rows and metrics.measures(part.output):
                self._recall(metrics.live(part.output), part)

    def _recall(self, live: TaskCollection, part: StatisticsSnapshot) -> None:
        """Load the stored statistics of a task, or its rows."""
        state = None if self._threshold is not None else _state_for(live.prototype, part)
        if state is not None:
            live.merge_state({part.task or "": {"unasked": (), "state": state}})
            return
        rows = stored_rows(live.output, part.statistics)
        if rows is None:
            raise NotKeptError(_lacking(self.name, live, part, self._threshold is not None))
        try:
            live.take(part.task, rows)
        except HpometricsError as err:
            raise NotKeptError(f"{self.name} cannot be measured on the stored rows: {err}") from err

    def _name_of(self, name: str) -> str:
        """Return the name of a value, with the threshold if it is not the output's own."""
        if self._threshold is None:
            return name
        parsed = MetricName.parse(name)
        return str(replace(parsed, params=(*parsed.params, (THRESHOLD, self._threshold))))


def _nothing_stored(record: EpochRecord) -> str:
    return (
        f"epoch {record.epoch} has no stored statistics; logged values and evaluations never have any, "
        "and values from run.update have them with results: {statistics: small}"
    )


def _with_threshold(output: Outputs | None, feature: str | None, threshold: float) -> Outputs:
    """Return the outputs with another threshold for the named one."""
    if isinstance(output, Mapping):
        changed = {
            name: _with_threshold(one, None, threshold) for name, one in output.items() if name == feature
        }
        return {**output, **changed}  # type: ignore[dict-item]  # of one output it gives one
    if not isinstance(output, (Binary, Set)):
        raise NotKeptError(
            f"a threshold needs a binary output or a set; this output is {output or 'not known'}"
        )
    return replace(output, threshold=threshold)


def _state_for(prototype: MetricCollection, part: StatisticsSnapshot) -> dict[str, Any] | None:
    """Return the stored states that the metrics are functions of; None if they need more."""
    states = {repr(statistic): part.statistics.get(statistic.label) for statistic in prototype.statistics}
    of_their_own = any(not prototype[name].kept for name in prototype.names)
    if of_their_own or any(state is None for state in states.values()):
        return None
    metrics: dict[str, Any] = {name: {} for name in prototype.names}
    return {"rows": part.rows, "updates": 1, "complaint": None, "statistics": states, "metrics": metrics}


def _lacking(name: str, live: TaskCollection, part: StatisticsSnapshot, rows: bool) -> str:
    """Format what a metric needs, what is stored, and how to store it the next time."""
    needed = [statistic.label for statistic in live.prototype.statistics]
    lacking = [label for label in needed if label not in part.statistics]
    reasons = "".join(f" ({part.left_out[label]})" for label in lacking if label in part.left_out)
    what = "the scores of every row" if rows or not needed else ", ".join(lacking)
    stored = ", ".join(part.statistics) or "none"
    ways = ["results: {statistics: all}"] if row_metrics_of(live.output) or reasons else []
    ways += [] if rows else [f"metrics: {{track: [{name}]}}"]
    return (
        f"{name} needs {what}{reasons}; the sweep stored: {stored}. Rerun with --fresh and "
        f"{' or '.join(ways)}"
    )


def _unkept(output: OutputFeature) -> str:
    """Return why the rows of an output are not stored, and what would store them, if anything."""
    if not row_metrics_of(output):
        return (
            f"no rows of {output} are stored; to store the row values of the optimized metric, rerun with "
            "--fresh and results: {statistics: rows}"
        )
    return (
        "no rows are stored; rerun with --fresh and results: {statistics: rows} for the optimized "
        "metric, or {statistics: all} for any"
    )
