"""Row values of metrics that are not a mean over rows: placements, and the jackknife of cells and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...exceptions import MetricInputError
from .._state import disable_sync
from ..batch import Outputs
from ..metric import Metric
from ..statistics.confusion import Confusion
from ..statistics.statistic import Statistic

Values = NDArray[np.float64]

GROUPS = 100
"""The most groups of rows of which one is deleted in turn, where the state has a fixed size."""
GROUPS_OF_STORED_ROWS = 50
"""The same where every row is stored, so that each deletion costs as much as the metric itself."""
_MOST_CELLS = 1 << 10


def placements(scores: Values, positive: NDArray[np.bool_]) -> Values:
    """Return the row values of the area under the ROC curve, whose mean is the area.

    The placement of a positive row is the share of negative rows below it. The placement of a negative row is
    the share of positive rows above it. A tie counts a half. With m of n rows positive, a positive row with
    placement v has the value `area + (v - area) * n / m`, a negative one `area + (v - area) * n / (n - m)`.

    Args:
        scores: (n,) the score of each row.
        positive: (n,) whether it is of the class.

    Source: DeLong, DeLong & Clarke-Pearson 1988, Biometrics 44(3); by ranks, Sun & Xu 2014, IEEE Signal
        Processing Letters 21(11).

    >>> values = placements(np.array([0.9, 0.2, 0.7, 0.4]), np.array([True, False, False, True]))
    >>> [float(value) for value in values], float(values.mean())
    ([1.25, 1.25, 0.25, 0.25], 0.75)
    """
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    if not len(above) or not len(below):
        return np.full(len(scores), np.nan)
    under = _share_below(below, scores[positive])
    over = 1 - _share_below(above, scores[~positive])
    area = under.mean()
    values = np.empty(len(scores))
    values[positive] = area + (under - area) * (len(scores) / len(above))
    values[~positive] = area + (over - area) * (len(scores) / len(below))
    return values


def spread_evenly(values: Values, mean: float, groups: int) -> Values:
    """Return the row values of groups of rows: their mean and the variance of it are those of the rows.

    Args:
        values: (n,) the row values.
        mean: their mean.
        groups: how many groups; row 5 belongs to group `group_of(...)[5]`.
    """
    group = group_of(0, len(values), groups)
    sums: Values = np.bincount(group, values - mean, groups).astype(np.float64)
    return mean + sums * (groups / len(values))


def group_of(first: int, rows: int, groups: int) -> NDArray[np.int64]:
    """Return the group of each row, by its number: the rows of every stretch of `groups` rows go each to one.

    The first stretch is in order, so that each of few rows is its own group. The others are shuffled, as rows
    may come in a regular order. Groups differ by one row at most.

    Args:
        first: the number of the first row.
        rows: how many rows.
        groups: how many groups.
    """
    last = first + rows
    stretches = [_order(at, groups) for at in range(first // groups, -(-last // groups))]
    offset = first % groups
    joined = np.concatenate(stretches) if stretches else np.empty(0, dtype=np.int64)
    return joined[offset : offset + rows]


class CellJackknife:
    """Row values of a function of a confusion matrix: rows of one cell have the same.

    If there are very many cells, it deletes groups of rows instead.
    """

    method = "cells"

    def __init__(self, metric: Metric) -> None:
        self._metric, self._statistic = metric, metric.statistic(Confusion)
        self._cells: list[NDArray[np.int64]] = []

    @classmethod
    def of(cls, metric: Metric, batch: Outputs) -> Self | None:
        """Return the jackknife of a metric; None unless a confusion matrix of rows is its only state."""
        only = list(metric.kept.values())
        is_matrix = len(only) == 1 and isinstance(only[0], Confusion)
        return cls(metric) if is_matrix and batch.weight is None and batch.target.ndim == 1 else None

    def add(self, batch: Outputs) -> None:
        """Add the cells of the rows of a batch.

        Raises:
            MetricInputError: its rows have weights, and those of earlier batches had none.
        """
        target, predictions, weight = batch.decided
        if weight is not None:
            raise MetricInputError("only some batches have a sample_weight")
        self._cells.append((target << 32 | predictions).cpu().numpy())

    def add_matrix(self, matrix: NDArray[np.int64]) -> None:
        """Add the rows that a matrix counts, in a drawn order: it does not tell theirs."""
        target, predictions = np.nonzero(matrix)
        cells = np.repeat(target << 32 | predictions, matrix[target, predictions])
        self._cells.append(np.random.default_rng(0).permutation(cells))

    def state(self) -> list[NDArray[np.int64]]:
        """Return the cells of the rows."""
        return self._cells

    def merge_state(self, state: list[NDArray[np.int64]]) -> None:
        """Add the cells of further rows."""
        self._cells += state

    def values(self, value: float) -> Values:
        """Return the row values, whose mean is `value`."""
        cells, cell = np.unique(np.concatenate(self._cells), return_inverse=True)
        unit, units = cell, len(cells)
        if units > _MOST_CELLS:
            unit, units = group_of(0, len(cell), GROUPS), GROUPS
        size = int(max(cells.max() >> 32, (cells & 0xFFFFFFFF).max())) + 1
        places = (cells >> 32) * size + (cells & 0xFFFFFFFF)
        total = np.bincount(places[cell], minlength=size * size)
        if unit is cell:
            without = np.array([self._without(total, np.array([at]), size) for at in places])
            influence = (len(cell) - 1) * (value - without)[cell]
            return _centered(value, influence)
        by_unit = [places[cell[unit == one]] for one in range(units)]
        without = np.array([self._without(total, deleted, size) for deleted in by_unit])
        return _of_groups(value, without, np.bincount(unit, minlength=units))

    def _without(self, total: NDArray[np.int64], deleted: NDArray[np.int64], size: int) -> float:
        """Return the value of the metric without some rows, given by their cells."""
        counts = total - np.bincount(deleted, minlength=len(total))
        self._statistic.load_state({"matrix": torch.from_numpy(counts.reshape(size, size))})
        self._metric.count_updates()
        return _number(self._metric)


class GroupJackknife:
    """Row values of any metric whose states merge: it is measured without one group of rows after the other.

    Args:
        metric: the metric, reset.
    """

    method = "groups"

    def __init__(self, metric: Metric) -> None:
        stores = not metric.kept or any(statistic.grows for statistic in metric.kept.values())
        self._empty: _SomeRows = (
            _StatisticRows(metric.alone(), metric.kept) if metric.kept else _OwnRows(metric)
        )
        self._groups: list[_SomeRows | None] = [None] * (GROUPS_OF_STORED_ROWS if stores else GROUPS)
        self._sizes = np.zeros(len(self._groups), dtype=np.int64)

    def add(self, batch: Outputs) -> None:
        """Add the rows of a batch, each to its group."""
        group = group_of(int(self._sizes.sum()), len(batch), len(self._groups))
        for one in np.unique(group).tolist():
            member = self._groups[one] = self._groups[one] or self._empty.fresh()
            member.add(batch.rows(torch.from_numpy(group == one).to(batch.target.device)))
        self._sizes += np.bincount(group, minlength=len(self._groups))

    def values(self, value: float) -> Values:
        """Return the row values, whose mean is `value`."""
        members = [member for member in self._groups if member is not None]
        if len(members) < 2:
            return np.full(len(members), np.nan)
        without = np.array([some.value() for some in self._leaving_one_out(members)])
        return _of_groups(value, without, self._sizes[self._sizes > 0])

    def state(self) -> tuple[NDArray[np.int64], list[Any]]:
        """Return the number of rows of each group, and their states."""
        return self._sizes, [None if member is None else member.state() for member in self._groups]

    def merge_state(self, state: tuple[NDArray[np.int64], list[Any]]) -> None:
        """Add further rows, each to its group."""
        sizes, groups = state
        for one, rows in enumerate(groups):
            if rows is not None:
                member = self._groups[one] = self._groups[one] or self._empty.fresh()
                member.merge_state(rows)
        self._sizes += sizes

    def _leaving_one_out(self, members: list[_SomeRows]) -> Iterator[_SomeRows]:
        """Yield all groups but the first, then all but the second, and so on."""
        after = [self._empty.fresh()]
        for member in reversed(members[1:]):
            after.append(self._empty.fresh().joined(after[-1], member))
        before = self._empty.fresh()
        for member, rest in zip(members, reversed(after), strict=True):
            yield self._empty.fresh().joined(before, rest)
            before.joined(member)


class _SomeRows(Protocol):
    """The state of a metric over some rows."""

    def fresh(self) -> _SomeRows:
        """Return one without rows."""

    def add(self, batch: Outputs) -> None:
        """Add the rows of a batch."""

    def joined(self, *others: Any) -> _SomeRows:
        """Add the rows of others, which are of its own class; return itself."""

    def value(self) -> float:
        """Return the value of the metric over these rows."""

    def state(self) -> Any:
        """Return the state of these rows as tensors on the CPU."""

    def merge_state(self, state: Any) -> None:
        """Add the state of further rows."""


class _StatisticRows:
    """Rows in statistics of their own, which the metric uses in turn: to copy it takes longer than most."""

    def __init__(self, metric: Metric, statistics: Mapping[str, Statistic]) -> None:
        self._metric = metric
        self._statistics = {name: statistic.fresh() for name, statistic in statistics.items()}

    def fresh(self) -> _StatisticRows:
        return _StatisticRows(self._metric, self._statistics)

    def add(self, batch: Outputs) -> None:
        self._metric.prepare(batch)
        for statistic in self._statistics.values():
            statistic.prepare(batch)
            statistic.check(batch)
        for statistic in self._statistics.values():
            statistic.update(batch)

    def joined(self, *others: Any) -> _StatisticRows:
        for other in others:
            for name, statistic in self._statistics.items():
                statistic.merge(other._statistics[name])
        return self

    def state(self) -> dict[str, dict[str, Tensor]]:
        return {name: _on_cpu(statistic.state()) for name, statistic in self._statistics.items()}

    def merge_state(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        for name, own in state.items():
            self._statistics[name].merge_state(own)

    def value(self) -> float:
        self._metric.share(self._statistics)
        self._metric.count_updates()
        return _number(self._metric)


class _OwnRows:
    """Rows in the states of a metric that has an `update` of its own."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric.alone()
        disable_sync(self._metric)

    def fresh(self) -> _OwnRows:
        return _OwnRows(self._metric)

    def add(self, batch: Outputs) -> None:
        self._metric.prepare(batch)
        self._metric.observe(batch)
        self._metric.count_updates()

    def joined(self, *others: Any) -> _OwnRows:
        for other in others:
            if other._metric.update_count:
                self._metric.merge(other._metric)
        return self

    def state(self) -> tuple[dict[str, Any], int]:
        return _on_cpu(self._metric.own_state()), self._metric.update_count

    def merge_state(self, state: tuple[dict[str, Any], int]) -> None:
        self._metric.merge_own(*state)

    def value(self) -> float:
        return _number(self._metric)


def _of_groups(value: float, without: Values, sizes: NDArray[np.int64]) -> Values:
    """Return the row values of groups, from the value without each, for groups of several sizes."""
    influence: Values = len(sizes) * (1 - sizes / sizes.sum()) * (value - without)
    return _centered(value, influence)


def _centered(value: float, influence: Values) -> Values:
    """Return numbers around a value whose mean is that value: the jackknife moves it by its bias."""
    centered: Values = value + influence - influence.mean()
    return centered


def _share_below(ascending: Values, scores: Values) -> Values:
    """Return the share of numbers below each score, ties counting a half."""
    left = np.searchsorted(ascending, scores, side="left")
    right = np.searchsorted(ascending, scores, side="right")
    return (left + right) / (2 * len(ascending))


def _order(stretch: int, groups: int) -> NDArray[np.int64]:
    """Return the groups of the rows of a stretch."""
    return np.random.default_rng(stretch).permutation(groups) if stretch else np.arange(groups)


def _on_cpu(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return tensors, and lists of them, on the CPU."""
    return {
        name: [one.cpu() for one in value] if isinstance(value, list) else value.cpu()
        for name, value in state.items()
    }


def _number(metric: Metric) -> float:
    """Return the value of a metric; nan if it is more than one number."""
    result = torch.as_tensor(metric.compute())
    return float("nan") if result.ndim else float(result)
