"""Base class of metrics of two groupings of the same rows, information measures and assignment."""

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

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

_CHUNK = 1 << 20  # terms in memory at a time
_FAR = 24  # a cell is sqrt(24 * size) off its mean with a probability below 2 exp(-48)


class GroupingMetric(Metric):
    """Base class of metrics that are computed from the contingency table of target and predictions.

    `of_table` receives a table with at least one row; `chance_of_rows` states that it counts single rows (or
    pairs of them), so that weights must be whole numbers.

    Shape:
        preds, target: (N,) int, any numbers.
    """

    inputs = PREDICTIONS
    family: ClassVar[str] = "grouping"
    chance_of_rows: ClassVar[bool] = False

    def statistics(self) -> dict[str, Statistic]:
        """Return the contingency table, which for a category is the confusion matrix."""
        return {"contingency": Confusion() if self.output.type == CATEGORY else Contingency()}

    @property
    def table(self) -> Table:
        """The contingency table."""
        if self.output.type == CATEGORY:
            return self.statistic(Confusion).derived("table", lambda own: table_of_matrix(own.matrix))
        return self.statistic(Contingency).table

    def compute(self) -> Tensor:
        """Return the value of the table; nan with a reason where it has no row."""
        table = self.table
        if not table.total > 0:
            return self.undefined("no row counted")
        if self.chance_of_rows and not table.whole:
            return self.undefined(f"{self.name} counts single rows; their weights must be whole numbers")
        return self.of_table(table)

    def of_table(self, table: Table) -> Tensor:
        """Return the value of a table."""
        raise NotImplementedError(f"{type(self).__name__} needs of_table(table)")


def entropy(sizes: Tensor) -> Tensor:
    """Return the entropy of a grouping, in nats, from the sizes of its groups."""
    shares = sizes / sizes.sum()
    nats: Tensor = torch.special.xlogy(shares, shares).sum().neg()
    return nats


def mutual_information(table: Table) -> Tensor:
    """Return the mutual information of both sides, in nats; never below 0."""
    expected = table.rows[table.row] * table.columns[table.column]
    shares = table.cells / table.total
    return (shares * (table.cells * table.total / expected).log()).sum().clamp(min=0)


def pairs(sizes: Tensor) -> Tensor:
    """Return the number of pairs of rows in the same group or cell."""
    return (sizes * (sizes - 1)).sum() / 2


def expected_mutual_information(table: Table) -> Tensor:
    """Return the mean mutual information, in nats, over all assignments of rows to groups of these sizes.

    The cell of a group of a rows and a cluster of b holds k rows with the hypergeometric probability. Sizes
    that occur several times are computed once: the work grows with the distinct sizes, not with the groups.
    Only counts near the mean of a cell are summed; the rest is below the precision of float64.

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
    for start in range(0, int(ends[-1]), _CHUNK):
        place = torch.arange(start, min(start + _CHUNK, int(ends[-1])), device=a.device)
        cell = torch.searchsorted(ends, place, right=True)
        count = least[cell] + (place - (ends - terms)[cell])
        expected += (times[cell] * _term(count, a[cell], b[cell], table.total)).sum()
    return expected


def _term(k: Tensor, a: Tensor, b: Tensor, total: Tensor) -> Tensor:
    """Return the information of a cell that holds k of `total` rows, times the probability that it does."""
    log_probability = _log_choices(a, k) + _log_choices(total - a, b - k) - _log_choices(total, b)
    return k / total * (total * k / (a * b)).log() * log_probability.exp()


def _log_choices(n: Tensor, k: Tensor) -> Tensor:
    """Return the natural logarithm of the number of ways to choose k of n."""
    return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)


def best_assignment(profit: Floats) -> tuple[Places, Places]:
    """Return the cells of the largest sum, no two in a row or column, as many as the shorter side has.

    Source: shortest augmenting paths, Jonker & Volgenant 1987, Computing 38; cubic in the number of groups.

    >>> rows, columns = best_assignment(np.array([[5.0, 4.0], [4.0, 0.0]]))
    >>> rows.tolist(), columns.tolist()
    ([1, 0], [0, 1])
    """
    if profit.shape[0] > profit.shape[1]:
        columns, rows = best_assignment(profit.T)
        return rows, columns
    cost = profit.max() - profit
    owner = np.full(cost.shape[1], -1)
    row_price, column_price = np.zeros(cost.shape[0]), np.zeros(cost.shape[1])
    for row in range(len(cost)):
        _assign_column(row, cost, row_price, column_price, owner)
    columns = np.flatnonzero(owner >= 0)
    return owner[columns], columns


def _assign_column(row: int, cost: Floats, row_price: Floats, column_price: Floats, owner: Any) -> None:
    """Find the cheapest chain of swaps that frees a column for a row, and apply it."""
    shortest = np.full(len(owner), np.inf)
    previous = np.full(len(owner), -1)
    visited = np.zeros(len(owner), dtype=bool)
    length, current = 0.0, row
    while True:
        paths = length + cost[current] - row_price[current] - column_price
        shorter = ~visited & (paths < shortest)
        shortest[shorter], previous[shorter] = paths[shorter], current
        column = int(np.where(visited, np.inf, shortest).argmin())
        length = shortest[column]
        visited[column] = True
        if owner[column] < 0:
            break
        current = int(owner[column])
    row_price[row] += length
    matched = visited & (owner >= 0)
    row_price[owner[matched]] += length - shortest[matched]
    column_price[matched] -= length - shortest[matched]
    while True:
        current = int(previous[column])
        freed = np.flatnonzero(owner == current)
        owner[column] = current
        if current == row:
            break
        column = int(freed[0])
