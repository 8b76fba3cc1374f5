"""Groupings: what every metric of two ways to group the same rows is a function of."""

from __future__ import annotations

from typing import ClassVar

import torch
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
