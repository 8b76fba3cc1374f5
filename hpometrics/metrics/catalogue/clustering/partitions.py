"""Agreement of two groupings of the same rows, by pairs of rows or by matching."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....direction import MAXIMIZE
from ...features import CATEGORY, CLUSTERS, PREDICTIONS
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.confusion import Confusion, Contingency, Table, table_of_matrix
from ...statistics.statistic import Statistic

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


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
            return self.undefined("no rows were counted")
        if self.chance_of_rows and not table.whole:
            return self.undefined(f"{self.name} counts single rows; their weights must be whole numbers")
        return self.of_table(table)

    def of_table(self, table: Table) -> Tensor:
        """Return the value of a table."""
        raise NotImplementedError(f"{type(self).__name__} needs of_table(table)")


class ClusteringMetric(GroupingMetric):
    """Base class of agreement of predicted clusters with known groups."""

    family: ClassVar[str] = "external_clustering"


@register_metric("rand", [CLUSTERS], aliases=["rand_score", "rand_index"])
class Rand(ClusteringMetric):
    """Rand index: the share of pairs of rows on which both groupings agree, together or apart.

    Value: float in [0, 1], no unit, 1 is best; nan for fewer than two rows, and for weights that are not
        whole numbers.
    Formula: (pairs together in both + pairs apart in both) / pairs
    Deviates: scikit-learn gives 1 for a single row.
    Source: Rand 1971, Journal of the American Statistical Association 66(336).

    >>> metric = Rand()
    >>> metric.update(torch.tensor([5, 5, 9]), torch.tensor([0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # one pair of three
    0.3333
    """

    direction = MAXIMIZE
    chance_of_rows = True

    def of_table(self, table: Table) -> Tensor:
        """Return the share of pairs from the cells and margins."""
        every = pairs(table.total)
        if not every > 0:
            return self.undefined("there are no pairs of rows")
        return 1 + (2 * pairs(table.cells) - pairs(table.rows) - pairs(table.columns)) / every


@register_metric("adjusted_rand", [CLUSTERS], aliases=["adjusted_rand_score", "adjusted_rand_index"])
class AdjustedRand(ClusteringMetric):
    """Rand index adjusted for the agreement that clusters of these sizes reach by chance.

    Value: float in [-1, 1], no unit, 1 is best, 0 is chance, -0.5 at worst; 1 where both sides group the
        rows alike; nan for fewer than two rows, and for weights that are not whole numbers.
    Formula: (together - expected) / ((pairs in target + pairs in predictions) / 2 - expected)
    Deviates: scikit-learn gives 1 for a single row.
    Source: Hubert & Arabie 1985, Journal of Classification 2(1).

    >>> metric = AdjustedRand()
    >>> metric.update(torch.tensor([1, 1, 0, 0]), torch.tensor([0, 0, 1, 1]))
    >>> metric.compute().item()
    1.0
    """

    direction = MAXIMIZE
    chance_of_rows = True

    def of_table(self, table: Table) -> Tensor:
        """Subtract the expected pairs from the pairs that are together and from their maximum."""
        every = pairs(table.total)
        if not every > 0:
            return self.undefined("there are no pairs of rows")
        rows, columns = pairs(table.rows), pairs(table.columns)
        expected = rows * columns / every
        most = (rows + columns) / 2
        return torch.ones_like(every) if table.same else (pairs(table.cells) - expected) / (most - expected)


@register_metric("fowlkes_mallows", [CLUSTERS], aliases=["fowlkes_mallows_score", "fowlkes_mallows_index"])
class FowlkesMallows(ClusteringMetric):
    """Geometric mean of precision and recall over the pairs of rows that are put together.

    Value: float in [0, 1], no unit, 1 is best; nan where one side puts no two rows together, and for weights
        that are not whole numbers.
    Formula: together / sqrt(pairs in target * pairs in predictions)
    Deviates: scikit-learn gives 0 where one side puts no two rows together.
    Source: Fowlkes & Mallows 1983, Journal of the American Statistical Association 78(383).

    >>> metric = FowlkesMallows()
    >>> metric.update(torch.tensor([1, 1, 1]), torch.tensor([0, 0, 4]))
    >>> round(metric.compute().item(), 4)  # 1 / sqrt(1 * 3)
    0.5774
    """

    direction = MAXIMIZE
    chance_of_rows = True

    def of_table(self, table: Table) -> Tensor:
        """Divide the common pairs by the geometric mean of the pairs of both sides."""
        rows, columns = pairs(table.rows), pairs(table.columns)
        if not rows * columns > 0:
            return self.undefined("one side never groups two rows")
        return pairs(table.cells) / rows.sqrt() / columns.sqrt()


@register_metric("purity", [CLUSTERS])
class Purity(ClusteringMetric):
    """Share of rows that belong to the largest group of their cluster.

    With a cluster per row it is 1.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: sum over clusters of the largest cell / rows
    Source: Zhao & Karypis 2001, University of Minnesota report 01-40.

    >>> metric = Purity()
    >>> metric.update(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1]))
    >>> metric.compute().item()  # (2 + 1) / 4
    0.75
    """

    direction = MAXIMIZE

    def of_table(self, table: Table) -> Tensor:
        """Sum the largest cells of the columns."""
        largest = torch.zeros_like(table.columns).scatter_reduce(0, table.column, table.cells, "amax")
        return largest.sum() / table.total


@register_metric("cluster_accuracy", [CLUSTERS])
class ClusterAccuracy(ClusteringMetric):
    """Accuracy of clusters under the best one-to-one assignment to groups.

    Clusters beyond the number of groups have no group and are wrong. The best assignment is found exactly, in
    a dense table of groups by clusters.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: max over one-to-one namings of the rows in named cells / rows
    Source: Kuhn 1955, Naval Research Logistics Quarterly 2; as in Xie, Girshick & Farhadi 2016, ICML.

    >>> metric = ClusterAccuracy()
    >>> metric.update(torch.tensor([1, 1, 0, 2]), torch.tensor([0, 0, 1, 1]))
    >>> metric.compute().item()  # 1 is 0; 0 or 2 is 1
    0.75
    """

    direction = MAXIMIZE

    def of_table(self, table: Table) -> Tensor:
        """Assign clusters to groups and return the share of right rows."""
        dense = torch.zeros(len(table.rows), len(table.columns), dtype=torch.float64)
        dense[table.row.cpu(), table.column.cpu()] = table.cells.cpu()
        row, column = best_assignment(dense.numpy())
        return dense[row, column].sum().to(table.cells.device) / table.total


def pairs(sizes: Tensor) -> Tensor:
    """Return the number of pairs of rows in the same group or cell."""
    return (sizes * (sizes - 1)).sum() / 2


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
