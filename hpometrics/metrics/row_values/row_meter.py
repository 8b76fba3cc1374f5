"""RowMeter collects numbers, one for each row of an epoch, whose mean is the value of a metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...exceptions import HpometricsError
from .._device import without_autograd
from .._state import disable_sync
from .._validation import counting_rows
from ..aggregation import RowValues
from ..batch import Outputs
from ..metric import MeanMetric, Metric
from .by_row import has_row_values
from .influence import CellJackknife, GroupJackknife, Values, placements, spread_evenly

MOST_ROWS = 1 << 18
"""The usual most rows that have values of their own."""
_GROUPS_OF_MANY = 1 << 11
_MOST_ELEMENTS = 1 << 20  # of the batches that are copied, to be measured together
_NEAR = 1e-5  # relative; a metric may measure in float32


class RowMeterState(NamedTuple):
    """The rows of a meter, `collected` by a method, or why its metric has no row values."""

    method: str | None
    collected: Any
    why_not: str | None


class MetricRows(NamedTuple):
    """Numbers whose mean is the value of a metric, and whose spread is that of the metric from row to row."""

    values: Values
    """(n,) float64, in the order of the rows, or of their groups."""
    method: str
    """How they were computed, see `RowMeter`."""
    positive: NDArray[np.bool_] | None = None
    """(n,) for the method `pairs`, which rows are of the class."""

    @property
    def of_single_rows(self) -> bool:
        """Whether each value is that of one row, so that they can be summed by what rows belong to."""
        return self.method != GroupJackknife.method


def mean_over_tasks(tasks: Sequence[MetricRows]) -> MetricRows:
    """Return the row values of the unweighted mean over tasks: each adds its variance, whatever its rows.

    Args:
        tasks: the row values of each task.

    >>> few, many = (MetricRows(np.array(rows), "rows") for rows in ([0.0, 1.0], [1.0, 1.0, 1.0, 0.0]))
    >>> mean_over_tasks([few, many]).values.tolist()
    [-0.125, 1.375, 0.8125, 0.8125, 0.8125, 0.0625]
    """
    methods = {one.method for one in tasks}
    mean = float(np.mean([one.values.mean() for one in tasks]))
    total = sum(len(one.values) for one in tasks)
    values = [
        mean + (one.values - one.values.mean()) * (total / (len(tasks) * len(one.values))) for one in tasks
    ]
    method = GroupJackknife.method if GroupJackknife.method in methods else min(methods)
    return MetricRows(np.concatenate(values), method)


class NoRowValuesError(HpometricsError, ValueError):
    """A metric has no row values; the message gives the reason."""


class _Collector(Protocol):
    """Collects what row values are computed from."""

    method: str

    def add(self, batch: Outputs) -> None:
        """Add the rows of a batch."""

    def values(self, value: float) -> Values:
        """Return numbers by row or group whose mean is `value`, that of the metric over all rows."""

    def state(self) -> Any:
        """Return what was collected, as plain tensors and arrays."""

    def merge_state(self, state: Any) -> None:
        """Add what another collector of the same metric has collected."""


class RowMeter:
    """Computes row values: numbers whose mean is the value of a metric, each being value + influence.

    The method follows from the metric:

    - `rows`: the value is a mean over rows (or users), which have their own values and weights. Exact.
    - `pairs`: the value is a share of pairs of rows, as `roc_auc`; each row has its placement. Exact.
    - `cells`: the value is a function of a confusion matrix. Rows of one cell have the same influence, that
      of deleting one of them (the jackknife).
    - `groups`: any other function of the rows. Up to 100 rows are deleted one at a time; more rows are put
      into 100 groups, which are deleted one at a time. A metric that stores every row has 50 groups.

    Args:
        metric: what is measured; it stays as it is.
        most_rows: so many rows have values of their own; more are summed by group.
        own_rows: whether the method may be `rows`. A metric that is not a mean over rows may be one on some
            data, such as a root of equal squares. Models are compared by one method.

    Source: Efron & Stein 1981, Annals of Statistics 9(3), for the jackknife; DeLong, DeLong & Clarke-Pearson
        1988, Biometrics 44(3), for placements; Busing, Meijer & van der Leeden 1999, Statistics and
        Computing 9(1), for groups of several sizes.

    >>> from hpometrics.metrics.registry.register import get_metric
    >>> meter = RowMeter(get_metric("f1", "binary"))
    >>> batch = Outputs(meter.metric.output, predictions=[1, 1, 0, 0, 1], target=[1, 1, 1, 0, 0])
    >>> meter.add(batch)
    >>> rows = meter.close(2 / 3)
    >>> rows.method, rows.values.round(3).tolist()
    ('cells', [1.28, 1.28, 0.08, 0.613, 0.08])
    """

    def __init__(self, metric: Metric, most_rows: int = MOST_ROWS, own_rows: bool = True) -> None:
        self.metric, self._most_rows, self._own_rows = metric.alone(), most_rows, own_rows
        disable_sync(self.metric)
        self.reset()

    @classmethod
    def of_matrix(cls, metric: Metric, matrix: NDArray[np.int64]) -> Self:
        """Return a meter of the rows that a confusion matrix counts, for a metric of nothing else.

        Args:
            metric: what is measured.
            matrix: (classes, classes) how many rows have each pair of target and prediction.
        """
        meter = cls(metric)
        cells = CellJackknife(meter.metric)
        cells.add_matrix(matrix)
        meter._collector = cells
        return meter

    def reset(self) -> None:
        """Forget every row."""
        self._waiting: list[Outputs] = []
        self._elements = 0
        self._collector: _Collector | None = None
        self._why_not: str | None = None

    def add(self, batch: Outputs) -> None:
        """Add the rows of a validated batch, which are copied and measured together with others."""
        if self._why_not is not None or not len(batch):
            return
        counting = counting_rows(batch)
        if counting is None:
            counting = torch.ones(len(batch), dtype=torch.bool, device=batch.target.device)
        rows = batch.rows(counting)  # a copy
        if not len(rows):
            return
        self._waiting.append(rows)
        self._elements += max(rows.elements, rows.target.numel(), len(rows))
        if self._elements >= _MOST_ELEMENTS:
            self._measure()

    def close(self, value: float) -> MetricRows:
        """Return the row values, and forget every row.

        Args:
            value: the value of the metric over all rows.

        Raises:
            NoRowValuesError: the metric has none, cannot be measured on a part of the rows, or is undefined
                without some of them.
        """
        try:
            self._measure()
            if self._why_not is not None or self._collector is None:
                raise NoRowValuesError(self._why_not or f"{self.metric.name} has not measured any rows")
            if not np.isfinite(value):
                raise NoRowValuesError(f"{self.metric.name} is undefined")
            with self._on_parts():
                values = self._collector.values(value)
            if not np.isfinite(values).all():
                raise NoRowValuesError(f"{self.metric.name} is undefined without some of the rows")
            if len(values) > self._most_rows:
                return MetricRows(spread_evenly(values, value, _GROUPS_OF_MANY), self._collector.method)
            positive = self._collector.positive if isinstance(self._collector, _Pairs) else None
            return MetricRows(values, self._collector.method, positive)
        finally:
            self.reset()

    def state(self) -> RowMeterState:
        """Return what the meter holds, for that of another process to merge."""
        self._measure()
        if self._collector is None or self._why_not is not None:
            return RowMeterState(None, None, self._why_not)
        try:
            with self._on_parts():
                return RowMeterState(self._collector.method, self._collector.state(), None)
        except NoRowValuesError as err:
            return RowMeterState(None, None, str(err))

    def merge_state(self, state: RowMeterState) -> None:
        """Add the rows of another meter of the same metric, behind those that were added before."""
        self._measure()
        self._why_not = self._why_not or state.why_not
        if state.method is None or self._why_not is not None:
            return
        if self._collector is None:
            self._collector = _METHODS[state.method](self.metric)
        if self._collector.method != state.method:
            methods = f"{self._collector.method} and {state.method}"
            self._why_not = f"{self.metric.name} has row values of two methods in two processes: {methods}"
            return
        try:
            with self._on_parts():
                self._collector.merge_state(state.collected)
        except NoRowValuesError as err:
            self._why_not = str(err)

    def _measure(self) -> None:
        """Measure the batches that wait."""
        waiting, self._waiting, self._elements = self._waiting, [], 0
        if not waiting or self._why_not is not None:
            return
        batches = _joined(waiting)
        try:
            with self._on_parts():
                if self._collector is None:
                    self._collector = _collector_of(self.metric, batches, self._own_rows)
                for batch in batches:
                    self._collector.add(batch)
        except NoRowValuesError as err:
            self._why_not = str(err)

    @contextmanager
    def _on_parts(self) -> Iterator[None]:
        """Measure parts of the rows, on which a metric may fail or warn although all of them are sound."""
        with without_autograd(), warnings.catch_warnings(action="ignore"):
            try:
                yield
            except NoRowValuesError:
                raise
            except Exception as err:  # of a metric of the user's, which may raise anything
                kind = type(err).__name__
                raise NoRowValuesError(
                    f"{self.metric.name} cannot be measured on a part of the rows: {kind}: {err}"
                ) from err


class _RowMeans:
    """The rows' own values and weights."""

    method = "rows"

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._parts: list[tuple[Values, Values]] = []

    def add(self, batch: Outputs) -> None:
        rows = _rows_at_hand(self._metric, batch)
        if rows is None:
            raise NoRowValuesError(f"{self._metric.name} has one value for a whole batch")
        weights = rows.weights if batch.weight is None else rows.weights * batch.weight
        self._parts.append((_numpy(rows.values), _numpy(weights)))

    def mean(self) -> float:
        """Return the weighted mean."""
        values, weights = self._columns()
        return float((values * weights).sum() / weights.sum())

    def values(self, value: float) -> Values:
        mean = self.mean()
        if not abs(mean - value) <= _NEAR * max(abs(value), 1e-4):
            raise NoRowValuesError(f"{self._metric.name} is not the mean of the values of its rows")
        values, weights = self._columns()
        spread: Values = weights / weights.mean() * (values - mean)
        return value + spread

    def state(self) -> list[tuple[Values, Values]]:
        return self._parts

    def merge_state(self, state: list[tuple[Values, Values]]) -> None:
        self._parts += state

    def _columns(self) -> tuple[Values, Values]:
        values, weights = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        return np.where(weights > 0, values, 0.0), weights


class _Pairs:
    """Scores, and which rows are of the class."""

    method = "pairs"

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._parts: list[tuple[NDArray[np.float64], NDArray[np.bool_]]] = []
        self.positive: NDArray[np.bool_] | None = None

    def add(self, batch: Outputs) -> None:
        pairs = self._metric.ordered_pairs(batch)
        if pairs is None:
            raise NoRowValuesError(f"{self._metric.name}: only some batches have a sample_weight")
        scores, positive = pairs
        self._parts.append((_numpy(scores), positive.cpu().numpy()))

    def values(self, value: float) -> Values:
        scores, self.positive = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        return placements(scores, self.positive)

    def state(self) -> list[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        return self._parts

    def merge_state(self, state: list[tuple[NDArray[np.float64], NDArray[np.bool_]]]) -> None:
        self._parts += state


_METHODS: Mapping[str, Callable[[Metric], _Collector]] = {
    each.method: each for each in (_RowMeans, _Pairs, CellJackknife, GroupJackknife)
}


def _collector_of(metric: Metric, batches: Sequence[Outputs], own_rows: bool) -> _Collector:
    """Return what collects the rows of a metric, chosen by its first batches.

    Raises:
        NoRowValuesError: nothing does.
    """
    if own_rows and has_row_values(metric) and (rows := _row_means(metric, batches)) is not None:
        return rows
    if isinstance(metric, MeanMetric) and _rows_at_hand(metric, batches[0]) is None:
        raise NoRowValuesError(f"{metric.name} has one value for a whole batch")
    if metric.ordered_pairs(batches[0]) is not None:
        return _Pairs(metric)
    if not all(statistic.jackknifes for statistic in metric.kept.values()):
        raise NoRowValuesError(
            f"{metric.name} depends on few rows: deleting one row does not show its spread"
        )
    if (cells := CellJackknife.of(metric, batches[0])) is not None:
        return cells
    return GroupJackknife(metric)


def _rows_at_hand(metric: Metric, batch: Outputs) -> RowValues | None:
    """Return the values that a metric computes for all rows at once."""
    metric.prepare(batch)
    for statistic in metric.kept.values():
        statistic.prepare(batch)
    return metric.row_values(batch)


def _row_means(metric: Metric, batches: Sequence[Outputs]) -> _RowMeans | None:
    """Return an empty collector of the rows' own values if their mean is the value of the metric."""
    rows = _RowMeans(metric)
    metric.reset()
    try:
        for batch in batches:
            rows.add(batch)
            metric.reset()
    except NoRowValuesError:
        return None
    for batch in batches:
        metric.prepare(batch)
        metric.observe(batch)
    value = float(metric.compute())
    metric.reset()
    if np.isfinite(value) and not abs(rows.mean() - value) <= _NEAR * max(abs(value), 1e-4):
        return None
    return _RowMeans(metric)


def _joined(batches: Sequence[Outputs]) -> list[Outputs]:
    """Join neighbors of one form, so that many rows are measured at once."""
    runs: list[list[Outputs]] = []
    for batch in batches:
        if runs and (form := _form(batch)) is not None and form == _form(runs[-1][0]):
            runs[-1].append(batch)
        else:
            runs.append([batch])
    return [run[0] if len(run) == 1 else _join(run) for run in runs]


def _form(batch: Outputs) -> Hashable:
    """Return what batches share whose rows may be joined: plain tensors of one kind, or texts alone."""
    if batch.kind is not None:
        return batch.kind
    texts_alone = batch.records.keys() == {"predictions", "target"} and not (batch.given or batch.extras)
    return "texts" if texts_alone and batch.weight is None and batch.soft is None else None


def _join(batches: Sequence[Outputs]) -> Outputs:
    first = batches[0]
    if first.kind is not None:
        return first.of([torch.cat(parts) for parts in zip(*(one.tensors for one in batches), strict=True)])
    names = ("predictions", "target")
    return Outputs(
        first.feature, **{name: [x for one in batches for x in one.records[name]] for name in names}
    )


def _numpy(values: Tensor) -> Values:
    array: Values = values.detach().cpu().double().numpy()
    return array
