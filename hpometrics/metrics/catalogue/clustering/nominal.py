"""Association of predicted and right labels as nominal variables, whatever the labels are called.

A model that swaps classes, but always in the same way, scores as high as one that is right.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from ....direction import MAXIMIZE
from ...features import CATEGORY, CLUSTERS
from ...registry.register import register_metric
from ...statistics.confusion import Table
from .information import entropy, mutual_information
from .partitions import GroupingMetric

_ONE_VALUE = "one side has a single value, so it cannot vary with the other"


class NominalMetric(GroupingMetric):
    """Base class of associations of two nominal variables.

    Shape:
        preds, target: (N,) int.
    """

    direction = MAXIMIZE
    family: ClassVar[str] = "nominal"


class ChiSquareMetric(NominalMetric):
    """Base class of associations by Pearson's chi-square, optionally corrected for bias.

    Args:
        bias_correction: whether to subtract the association that chance adds.
        yates: whether the counts of a table of 2 x 2 are moved towards the expected ones by a half at most.

    Value: float in [0, 1], no unit, 1 is best; nan where one side has a single value.
    """

    def __init__(self, *, bias_correction: bool = False, yates: bool = False) -> None:
        super().__init__()
        self.bias_correction = bias_correction
        self.yates = yates

    def of_table(self, table: Table) -> Tensor:
        """Return the root of the mean square contingency relative to its maximum."""
        rows, columns = (float(len(sizes)) for sizes in (table.rows, table.columns))
        squared = mean_square_contingency(table)
        if min(rows, columns) < 2:
            return self.undefined(_ONE_VALUE)
        if self.yates and rows == columns == 2:
            squared = squared * _continuity(table, squared)
        if self.bias_correction:
            spare = float(table.total) - 1
            if spare <= 0:
                return self.undefined("the bias of a single row cannot be removed")
            squared = (squared - (rows - 1) * (columns - 1) / spare).clamp(min=0)
            rows, columns = (size - (size - 1) ** 2 / spare for size in (rows, columns))
        largest = self.largest(rows, columns)
        if largest <= 0:
            return self.undefined("the bias is as large as the largest possible association")
        return (squared / largest).clamp(max=1).sqrt()

    def largest(self, rows: float, columns: float) -> float:
        """Return the largest mean square contingency of a table of this size."""
        raise NotImplementedError(f"{type(self).__name__} needs largest(rows, columns)")


def mean_square_contingency(table: Table) -> Tensor:
    """Return Pearson's chi-square divided by the rows; never below 0."""
    expected = table.rows[table.row] * table.columns[table.column]
    return ((table.cells.square() / expected).sum() - 1).clamp(min=0)


def _continuity(table: Table, squared: Tensor) -> Tensor:
    """Return the factor of Yates' correction on the mean square contingency of a table of 2 x 2."""
    gap = (squared * table.rows.prod() * table.columns.prod()).sqrt() / table.total  # equal for every cell
    return (1 - 0.5 / gap).clamp(min=0).square() if gap > 0 else squared


@register_metric("cramers_v", [CATEGORY, CLUSTERS])
class CramersV(ChiSquareMetric):
    """Cramer's V: strength of association, 1 where one side determines the other.

    Formula: sqrt(chi2 / n / min(R - 1, C - 1))
    Deviates: torchmetrics and dython correct the bias by default, and with it tables of 2 x 2 by Yates'
        correction, which belongs to the test and not to the strength: `bias_correction=true,
        yates=true`. torchmetrics adds a half even to a count that is nearer to the expected one.
    Source: Cramer 1946, Mathematical Methods of Statistics; correction of Bergsma 2013, Journal of the Korean
        Statistical Society 42(3).

    >>> import torch
    >>> metric = CramersV()
    >>> metric.update(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1]))
    >>> round(metric.compute().item(), 4)  # sqrt(1 / 3)
    0.5774
    """

    def largest(self, rows: float, columns: float) -> float:
        """Return the shorter side less one."""
        return min(rows, columns) - 1


@register_metric("tschuprows_t", [CATEGORY, CLUSTERS])
class TschuprowsT(ChiSquareMetric):
    """Tschuprow's T: strength of association, 1 only where each side determines the other.

    Formula: sqrt(chi2 / n / sqrt((R - 1) (C - 1)))
    Deviates: torchmetrics corrects the bias by default, and with it tables of 2 x 2 by Yates'
        correction: `bias_correction=true, yates=true`. It adds a half even to a count that is nearer
        to the expected one.
    Source: Tschuprow 1925, Grundbegriffe und Grundprobleme der Korrelationstheorie; correction of Bergsma
        2013, Journal of the Korean Statistical Society 42(3).

    >>> import torch
    >>> metric = TschuprowsT()
    >>> metric.update(torch.tensor([0, 0, 1, 2]), torch.tensor([0, 0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # sqrt(1 / sqrt(2))
    0.8409
    """

    def largest(self, rows: float, columns: float) -> float:
        """Return the geometric mean of both sides less one."""
        return float((max(rows - 1, 0) * max(columns - 1, 0)) ** 0.5)


@register_metric("pearsons_contingency", [CATEGORY, CLUSTERS], aliases=["pearsons_contingency_coefficient"])
class PearsonsContingency(NominalMetric):
    """Pearson's contingency coefficient; K classes reach sqrt((K - 1) / K) at most.

    Value: float in [0, 1), no unit, higher is better; nan where one side has a single value.
    Formula: sqrt(chi2 / (n + chi2))
    Source: Pearson 1904, Drapers' Company Research Memoirs.

    >>> import torch
    >>> metric = PearsonsContingency()
    >>> metric.update(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # sqrt(1 / 2)
    0.7071
    """

    def of_table(self, table: Table) -> Tensor:
        """Map the mean square contingency to [0, 1)."""
        if min(len(table.rows), len(table.columns)) < 2:
            return self.undefined(_ONE_VALUE)
        squared = mean_square_contingency(table)
        return (squared / (1 + squared)).sqrt()


@register_metric("theils_u", [CATEGORY, CLUSTERS], aliases=["uncertainty_coefficient"])
class TheilsU(NominalMetric):
    """Theil's U: the share of one side's entropy that the other side explains.

    Args:
        explained: which side the other side explains.

    Value: float in [0, 1], no unit, 1 is best; nan where the side to be explained has a single value.
    Formula: mutual information / entropy of the explained side
    Deviates: torchmetrics' theils_u(preds, target) explains the predictions, as explained=predictions does
        here, and is 0 where they have a single value.
    Source: Theil 1970, American Journal of Sociology 76(1).

    >>> import torch
    >>> metric = TheilsU()
    >>> metric.update(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 0, 1, 1]))
    >>> round(metric.compute().item(), 4)
    1.0
    """

    def __init__(self, *, explained: Literal["target", "predictions"] = "target") -> None:
        super().__init__()
        self.explained = explained

    def of_table(self, table: Table) -> Tensor:
        """Divide the mutual information by the entropy of the explained side."""
        sizes = table.rows if self.explained == "target" else table.columns
        if len(sizes) < 2:
            return self.undefined(f"the {self.explained} has a single value, which needs no explanation")
        return (mutual_information(table) / entropy(sizes)).clamp(max=1)
