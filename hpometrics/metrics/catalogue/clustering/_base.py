"""Groupings: what every metric of two ways to group the same rows is a function of."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...features import CATEGORY, PREDICTIONS
from ...metric import Metric
from ...statistics.confusion import Confusion
from ...statistics.contingency import Contingency, Table, table_of_matrix
from ...statistics.statistic import Statistic


class GroupingMetric(Metric):
    """A metric that is a closed form of the contingency table of target and predictions.

    `measured` is given a table with at least one row in it; `chance_of_rows` says that it counts single rows
    (or pairs of them), which rows of a broken weight are not.

    Shape:
        preds, target: (N,) int, any numbers.
    """

    inputs = PREDICTIONS
    family: ClassVar[str] = "grouping"
    chance_of_rows: ClassVar[bool] = False

    def statistics(self) -> dict[str, Statistic]:
        """Need the contingency table; of a category it is the confusion matrix."""
        return {"contingency": Confusion() if self.output.type == CATEGORY else Contingency()}

    @property
    def table(self) -> Table:
        """The contingency table."""
        if self.output.type == CATEGORY:
            return self.statistic(Confusion).derived("table", lambda own: table_of_matrix(own.matrix))
        return self.statistic(Contingency).table

    def compute(self) -> Tensor:
        """Measure the table; nan with a reason where there is nothing to measure."""
        table = self.table
        if not table.total > 0:
            return self.undefined("no row counted")
        if self.chance_of_rows and not table.whole:
            return self.undefined(f"{self.name} counts single rows; their weights must be whole numbers")
        return self.measured(table)

    def measured(self, table: Table) -> Tensor:
        """The value of a table."""
        raise NotImplementedError(f"{type(self).__name__} needs measured(table)")


def entropy(sizes: Tensor) -> Tensor:
    """Entropy of a grouping, in nats, by the sizes of its groups."""
    shares = sizes / sizes.sum()
    nats: Tensor = torch.special.xlogy(shares, shares).sum().neg()
    return nats


def mutual_information(table: Table) -> Tensor:
    """Mutual information of both sides, in nats; never below 0."""
    expected = table.rows[table.row] * table.columns[table.column]
    shares = table.cells / table.total
    return (shares * (table.cells * table.total / expected).log()).sum().clamp(min=0)


def pairs(sizes: Tensor) -> Tensor:
    """How many pairs of rows lie in the same group or cell."""
    return (sizes * (sizes - 1)).sum() / 2


_AT_ONCE = 1 << 20  # terms held at a time
_FAR = 24  # a cell is sqrt(24 * size) off its mean with a probability below 2 exp(-48)


def expected_mutual_information(table: Table) -> Tensor:
    """Mean mutual information, in nats, over all ways to deal the rows out into groups of these sizes.

    A cell of a group of a rows and a cluster of b holds k of them with the hypergeometric probability. Sizes
    that occur several times are reckoned once: the work grows with the different sizes, not with the groups.
    Of a cell only what lies near its mean is looked at; the rest cannot be seen in float64.

    Source: Vinh, Epps & Bailey 2010, Journal of Machine Learning Research 11; tails by Hoeffding 1963,
        Journal of the American Statistical Association 58(301).
    """
    rows, row_times = torch.unique(table.rows, return_counts=True)
    columns, column_times = torch.unique(table.columns, return_counts=True)
    a, b = (part.flatten() for part in torch.meshgrid(rows, columns, indexing="ij"))
    times = (row_times.unsqueeze(1) * column_times).flatten().double()
    smaller, mean = torch.minimum(a, b), a * b / table.total
    reach = (_FAR * smaller).sqrt()
    least = torch.maximum(a + b - table.total, (mean - reach).ceil()).clamp(min=1)
    most = torch.minimum(smaller, (mean + reach).floor())
    terms = (most - least + 1).clamp(min=0).long()
    ends = terms.cumsum(0)
    expected = torch.zeros_like(table.total)
    for start in range(0, int(ends[-1]), _AT_ONCE):
        place = torch.arange(start, min(start + _AT_ONCE, int(ends[-1])), device=a.device)
        cell = torch.searchsorted(ends, place, right=True)
        held = least[cell] + (place - (ends - terms)[cell])
        expected += (times[cell] * _share(held, a[cell], b[cell], table.total)).sum()
    return expected


def _share(k: Tensor, a: Tensor, b: Tensor, total: Tensor) -> Tensor:
    """The information of a cell that holds k of `total` rows, times the probability that it does."""
    log_probability = _log_choices(a, k) + _log_choices(total - a, b - k) - _log_choices(total, b)
    return k / total * (total * k / (a * b)).log() * log_probability.exp()


def _log_choices(of: Tensor, some: Tensor) -> Tensor:
    """Natural logarithm of the number of ways to choose some of so many."""
    return torch.lgamma(of + 1) - torch.lgamma(some + 1) - torch.lgamma(of - some + 1)


Floats = NDArray[np.float64]
Places = NDArray[np.intp]


def best_assignment(profit: Floats) -> tuple[Places, Places]:
    """Choose cells of the largest sum, no two in a row or column, as many as the shorter side has.

    Source: shortest augmenting paths, Jonker & Volgenant 1987, Computing 38; cubic in the number of groups.

    >>> rows, columns = best_assignment(np.array([[5.0, 4.0], [4.0, 0.0]]))
    >>> rows.tolist(), columns.tolist()
    ([1, 0], [0, 1])
    """
    if profit.shape[0] > profit.shape[1]:
        columns, rows = best_assignment(profit.T)
        return rows, columns
    cost = profit.max() - profit
    taken_by = np.full(cost.shape[1], -1)
    row_price, column_price = np.zeros(cost.shape[0]), np.zeros(cost.shape[1])
    for row in range(len(cost)):
        _give_a_column(row, cost, row_price, column_price, taken_by)
    columns = np.flatnonzero(taken_by >= 0)
    return taken_by[columns], columns


def _give_a_column(row: int, cost: Floats, row_price: Floats, column_price: Floats, taken_by: Any) -> None:
    """Find the cheapest chain of swaps that frees a column for a row, and swap."""
    shortest = np.full(len(taken_by), np.inf)
    came_from = np.full(len(taken_by), -1)
    done = np.zeros(len(taken_by), dtype=bool)
    length, current = 0.0, row
    while True:
        paths = length + cost[current] - row_price[current] - column_price
        shorter = ~done & (paths < shortest)
        shortest[shorter], came_from[shorter] = paths[shorter], current
        column = int(np.where(done, np.inf, shortest).argmin())
        length = shortest[column]
        done[column] = True
        if taken_by[column] < 0:
            break
        current = int(taken_by[column])
    row_price[row] += length
    settled = done & (taken_by >= 0)
    row_price[taken_by[settled]] += length - shortest[settled]
    column_price[settled] -= length - shortest[settled]
    while True:
        current = int(came_from[column])
        freed = np.flatnonzero(taken_by == current)
        taken_by[column] = current
        if current == row:
            break
        column = int(freed[0])
