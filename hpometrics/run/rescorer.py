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
import torch
from torch import Tensor

from ..exceptions import HpometricsError, NotKeptError, RecordError
from ..metrics.collection import MetricCollection
from ..metrics.features import BINARY, CATEGORY, Binary, OutputFeature, Set
from ..metrics.multitask import TaskCollection
from ..metrics.registry.names import THRESHOLD, MetricName
from ..metrics.registry.scope import ALL_TASKS, VALIDATION
from ..metrics.statistics.confusion import Confusion
from ..metrics.statistics.scores import Pooled, Scores
from ..records.trial_record import EpochRecord
from ..selection.intervals import Drawn, Interval
from .spec import RunSpec
from .split import EpochValues, Reasons, SplitMetrics, Values
from .statistics_store import (
    STATISTICS_FILE,
    EpochStatistics,
    State,
    StatisticsSnapshot,
    read_statistics,
    row_metrics_of,
    rows_of,
)

Outputs = OutputFeature | Mapping[str, OutputFeature]

FloatArray = npt.NDArray[np.float64]
DRAWS = 1000
MOST_VALUES = 1 << 18
"""Of more scores than these no rows are drawn: a thousand times so many take minutes."""
_MATRIX, _ROWS = Confusion().label, (Scores().label, Pooled().label)
_ROWWISE = (BINARY, CATEGORY)  # whose matrix counts rows, not words of one text or labels of one row
_DEFINED = 0.95  # of the draws at least so many must have a value


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

    def bootstrap(self, directory: Path, record: EpochRecord) -> Bootstrap:
        """Return one epoch to be drawn again.

        Raises:
            NotKeptError: see `kept_of` and `Bootstrap`.
            RecordError: the file of statistics is damaged.
        """
        return Bootstrap(self, self.statistics_of(directory, record))

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

    def needs(self, part: StatisticsSnapshot) -> set[str]:
        """Return the labels of the statistics that the metric is a function of; none at another threshold."""
        statistics = self._split(VALIDATION).live(part.output).prototype.statistics
        return set() if self._threshold is not None else {statistic.label for statistic in statistics}

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
        rows = rows_of(live.output, part.statistics)
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
    return f"epoch {record.epoch} has no stored statistics; results: {{statistics: small}} stores them"


def _with_threshold(output: Outputs | None, feature: str | None, threshold: float) -> Outputs:
    """Return the outputs with another threshold for the named one."""
    if isinstance(output, Mapping):
        changed = {
            name: _with_threshold(one, None, threshold) for name, one in output.items() if name == feature
        }
        return {**output, **changed}  # type: ignore[dict-item]  # of one output it gives one
    if not isinstance(output, (Binary, Set)):
        raise NotKeptError(
            f"a threshold is that of a binary output or a set; this one is {output or 'not known'}"
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
    return f"{name} needs {what}{reasons}; kept are {stored}. Run it anew, --fresh, with {' or '.join(ways)}"


class Bootstrap:
    """One epoch of a trial, drawn again.

    Stored rows are drawn with replacement. If a metric is a function of the confusion matrix alone, a
    multinomial draw of its cells is the same as drawing rows: the metric does not depend on which row fell
    into a cell. Each task is drawn by itself, so that it keeps its number of rows.

    Args:
        rescorer: measures the metric.
        statistics: those stored for the epoch.

    Raises:
        NotKeptError: the stored statistics do not have single rows.

    Source: Efron 1979, Annals of Statistics 7(1); Efron & Tibshirani 1993, An Introduction to the Bootstrap,
        chapters 6 and 13 (percentile intervals).
    """

    def __init__(self, rescorer: Rescorer, statistics: EpochStatistics) -> None:
        self._rescorer = rescorer
        parts = [part for part in statistics.parts if rescorer.reads(part)]
        if not parts:
            raise NotKeptError(f"{rescorer.name} is not measured on stored rows")
        self.what: Drawn = "rows" if all(_rows_in(part) for part in parts) else "matrix"
        if self.what == "matrix":
            for part in parts:
                _check_matrix(rescorer, part)
        self._statistics = replace(statistics, parts=tuple(map(self._alone, parts)))

    def values(self, seed: int) -> FloatArray:
        """Compute the metric of every draw, (DRAWS,); one seed draws the same rows of two epochs of one size.

        Raises:
            NotKeptError: every draw has the same value, as when all rows are right: an interval without width
                would promise more than a bootstrap can know.
        """
        random = np.random.default_rng(seed)
        samples = (tuple(_draw(part, random) for part in self._statistics.parts) for _ in range(DRAWS))
        values = np.array([self._rescorer.value(replace(self._statistics, parts=parts)) for parts in samples])
        if (values == values[0]).all():
            raise NotKeptError(f"every draw gives {values[0]:g}, which says nothing of other rows")
        return values

    def pairs_with(self, other: Bootstrap) -> bool:
        """Check whether both have the same rows: as many of each task, in one order, with equal targets."""
        if self.what != "rows" or other.what != "rows":
            return False
        own, others = (_targets(each._statistics) for each in (self, other))
        return own.keys() == others.keys() and all(torch.equal(own[key], others[key]) for key in own)

    @staticmethod
    def percentile_interval(value: float, draws: FloatArray, level: float) -> Interval:
        """Return the percentile interval of draws.

        Raises:
            NotKeptError: the metric is undefined in too many of them.

        >>> Bootstrap.percentile_interval(0.5, np.linspace(0, 1, 101), 0.5)
        Interval(value=0.5, low=0.25, high=0.75)
        """
        finite = draws[np.isfinite(draws)]
        if len(finite) < _DEFINED * len(draws):
            raise NotKeptError(f"the metric is undefined in {len(draws) - len(finite)} of {len(draws)} draws")
        low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
        return Interval(value, float(low), float(high))

    def _alone(self, part: StatisticsSnapshot) -> StatisticsSnapshot:
        """Return the part with nothing but the statistics that are drawn."""
        labels = _ROWS if self.what == "rows" else (_MATRIX,)
        return replace(part, statistics={k: state for k, state in part.statistics.items() if k in labels})


def _rows_in(part: StatisticsSnapshot) -> bool:
    """Check whether the rows of a part are stored and not too many."""
    states = [part.statistics[label] for label in _ROWS if part.statistics.get(label)]
    return bool(states) and all(tensor.numel() <= MOST_VALUES for tensor in states[0].values())


def _check_matrix(rescorer: Rescorer, part: StatisticsSnapshot) -> None:
    """Check that a draw of the cells is the same as a draw of rows.

    Raises:
        NotKeptError: it does not; the message says why.
    """
    state, large = part.statistics.get(_MATRIX), any(part.statistics.get(label) for label in _ROWS)
    if state is None or rescorer.needs(part) != {_MATRIX} or rescorer.output_of(part).type not in _ROWWISE:
        rows = f"the trial has more than {MOST_VALUES} scores" if large else _unkept(rescorer.output_of(part))
        raise NotKeptError(f"{rescorer.name} cannot be computed from a confusion matrix alone, and {rows}")
    if state and state["matrix"].is_floating_point():
        raise NotKeptError("a confusion matrix of weighted rows does not say how many rows there were")


def _unkept(output: OutputFeature) -> str:
    """Return why the rows of an output are not stored, and what would store them, if anything."""
    if row_metrics_of(output):
        return "the trial keeps no rows; results: {statistics: all} keeps them"
    return f"the rows of {output} are never kept"


def _draw(part: StatisticsSnapshot, random: np.random.Generator) -> StatisticsSnapshot:
    return replace(part, statistics={label: _drawn_state(s, random) for label, s in part.statistics.items()})


def _drawn_state(state: State, random: np.random.Generator) -> State:
    if "matrix" in state:
        counts = state["matrix"].numpy().ravel()
        total = int(counts.sum())
        cells = torch.from_numpy(random.multinomial(total, counts / max(1, total)))
        return {"matrix": cells.reshape(state["matrix"].shape)}
    rows = len(state.get("scores", state.get("values", ())))
    if not rows:
        return state
    chosen = torch.from_numpy(random.integers(rows, size=rows))
    facts = {name for name, tensor in state.items() if name == "are_logits" or not len(tensor)}  # of all rows
    return {name: tensor if name in facts else tensor[chosen] for name, tensor in state.items()}


def _targets(statistics: EpochStatistics) -> Mapping[tuple[str | None, str | None], Tensor]:
    """Return the target of each row, by output and task."""
    targets = {}
    for part in statistics.parts:
        for state in part.statistics.values():
            target = state["target"] if "target" in state else state["values"][:, 1]
            targets[part.output, part.task] = target
    return targets
