"""Agreement of clusters with known groups by their mutual information."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ...features import CLUSTERS
from ...registry.register import register_metric
from ...statistics.confusion import Table
from .partitions import ClusteringMetric

AverageMethod = Literal["arithmetic", "geometric", "min", "max"]

_CHUNK = 1 << 20  # terms in memory at a time
_FAR = 24  # a cell is sqrt(24 * size) off its mean with a probability below 2 exp(-48)


@register_metric("mutual_information", [CLUSTERS], aliases=["mutual_info_score"])
class MutualInformation(ClusteringMetric):
    """Mutual information of clusters and groups; its maximum grows with the number of groups.

    Value: float from 0, in nats, the entropy of the target is best; nan before the first row.
    Formula: sum over cells of p(t, k) log(p(t, k) / (p(t) p(k)))
    Source: Shannon 1948, Bell System Technical Journal 27.

    >>> metric = MutualInformation()
    >>> metric.update(torch.tensor([1, 1, 0, 0]), torch.tensor([0, 0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # log(2)
    0.6931
    """

    direction = MAXIMIZE

    def of_table(self, table: Table) -> Tensor:
        """Return the sum over the cells."""
        return mutual_information(table)


@register_metric("normalized_mutual_information", [CLUSTERS], aliases=["normalized_mutual_info_score", "nmi"])
class NormalizedMutualInformation(ClusteringMetric):
    """Mutual information as a share of the entropies of both sides.

    Args:
        average_method: the mean of the two entropies that it is divided by.

    Value: float in [0, 1], no unit, 1 is best; 1 where both sides are one group; nan where that mean is 0
        otherwise.
    Formula: mutual information / mean(entropy of target, entropy of predictions)
    Deviates: with min or geometric, scikit-learn gives 0 where one side alone is one group.
    Source: Strehl & Ghosh 2002, Journal of Machine Learning Research 3; means as in Vinh, Epps & Bailey 2010.

    >>> metric = NormalizedMutualInformation()
    >>> metric.update(torch.tensor([3, 3, 0, 0]), torch.tensor([0, 0, 1, 1]))
    >>> metric.compute().item()
    1.0
    """

    direction = MAXIMIZE

    def __init__(self, *, average_method: AverageMethod = "arithmetic") -> None:
        super().__init__()
        self.average_method = average_method

    def of_table(self, table: Table) -> Tensor:
        """Divide the mutual information by the mean entropy."""
        mean = _mean_entropy(table, self.average_method)
        if table.same:
            return torch.ones_like(mean)
        if not mean > 0:
            return self.undefined(f"one side is a single group, so its {self.average_method} entropy is 0")
        return (mutual_information(table) / mean).clamp(max=1)


@register_metric("adjusted_mutual_information", [CLUSTERS], aliases=["adjusted_mutual_info_score", "ami"])
class AdjustedMutualInformation(ClusteringMetric):
    """Mutual information adjusted for what clusters of these sizes reach by chance.

    Args:
        average_method: the mean of the two entropies that serves as the maximum.

    Value: float in [-1, 1], no unit, 1 is best, 0 is chance; 1 where both sides group the rows alike; nan
        where the mean entropy is that of chance, and for weights that are not whole numbers.
    Formula: (mutual information - expected) / (mean(entropies) - expected)
    Deviates: scikit-learn gives a number from rounding where the mean entropy is that of chance.
    Source: Vinh, Epps & Bailey 2010, Journal of Machine Learning Research 11.

    >>> metric = AdjustedMutualInformation()
    >>> metric.update(torch.tensor([1, 1, 0, 0]), torch.tensor([0, 0, 1, 1]))
    >>> metric.compute().item()
    1.0
    """

    direction = MAXIMIZE
    chance_of_rows = True

    def __init__(self, *, average_method: AverageMethod = "arithmetic") -> None:
        super().__init__()
        self.average_method = average_method

    def of_table(self, table: Table) -> Tensor:
        """Subtract the expected information from the information and from its maximum."""
        expected = expected_mutual_information(table)
        most = _mean_entropy(table, self.average_method)
        if table.same:
            return torch.ones_like(most)
        if (most - expected).abs() <= 1e-12 * most.clamp(min=1):
            return self.undefined("chance alone reaches the maximum for clusters of these sizes")
        return (mutual_information(table) - expected) / (most - expected)


@register_metric("homogeneity", [CLUSTERS], aliases=["homogeneity_score"])
class Homogeneity(ClusteringMetric):
    """Share of the groups' entropy that the clusters explain, 1 if each cluster holds one group only.

    Value: float in [0, 1], no unit, 1 is best; 1 where there is one group; nan before the first row.
    Formula: mutual information / entropy of target
    Source: Rosenberg & Hirschberg 2007, EMNLP-CoNLL.

    >>> metric = Homogeneity()
    >>> metric.update(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 0, 1, 1]))
    >>> round(metric.compute().item(), 4)
    1.0
    """

    direction = MAXIMIZE

    def of_table(self, table: Table) -> Tensor:
        """Divide the mutual information by the entropy of the target."""
        return _explained_share(table, table.rows)


@register_metric("completeness", [CLUSTERS], aliases=["completeness_score"])
class Completeness(ClusteringMetric):
    """Share of the clusters' entropy that the groups explain, 1 if each group lies in one cluster only.

    Value: float in [0, 1], no unit, 1 is best; 1 where there is one cluster; nan before the first row.
    Formula: mutual information / entropy of predictions
    Source: Rosenberg & Hirschberg 2007, EMNLP-CoNLL.

    >>> metric = Completeness()
    >>> metric.update(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # log(2) / (1.5 * log(2))
    0.6667
    """

    direction = MAXIMIZE

    def of_table(self, table: Table) -> Tensor:
        """Divide the mutual information by the entropy of the predictions."""
        return _explained_share(table, table.columns)


@register_metric("v_measure", [CLUSTERS], aliases=["v_measure_score"])
class VMeasure(ClusteringMetric):
    """Weighted harmonic mean of homogeneity and completeness.

    Args:
        beta: the weight of completeness against homogeneity.

    Value: float in [0, 1], no unit, 1 is best; 0 where both parts are 0; nan before the first row.

    Raises:
        MetricNameError: beta is not above 0.
    Formula: (1 + beta) homogeneity completeness / (beta homogeneity + completeness)
    Source: Rosenberg & Hirschberg 2007, EMNLP-CoNLL.

    >>> metric = VMeasure()
    >>> metric.update(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # 2 * 1 * 2/3 / (1 + 2/3)
    0.8
    """

    direction = MAXIMIZE

    def __init__(self, *, beta: float = 1.0) -> None:
        super().__init__()
        if not beta > 0:
            raise MetricNameError(f"v_measure needs a beta above 0, got beta={beta}")
        self.beta = beta

    def of_table(self, table: Table) -> Tensor:
        """Return the harmonic mean of both parts."""
        homogeneity, completeness = (
            _explained_share(table, table.rows),
            _explained_share(table, table.columns),
        )
        below = self.beta * homogeneity + completeness
        joined = (1 + self.beta) * homogeneity * completeness / below
        return torch.where(below > 0, joined, 0.0)


@register_metric("variation_of_information", [CLUSTERS])
class VariationOfInformation(ClusteringMetric):
    """Distance between groupings: the information of each that the other does not determine.

    Value: float from 0, in nats, 0 is best; nan before the first row.
    Formula: entropy of target + entropy of predictions - 2 mutual information
    Source: Meila 2003, COLT.

    >>> metric = VariationOfInformation()
    >>> metric.update(torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 1, 1]))
    >>> round(metric.compute().item(), 4)  # log(2)
    0.6931
    """

    direction = MINIMIZE

    def of_table(self, table: Table) -> Tensor:
        """Subtract the mutual information from both entropies."""
        distance = entropy(table.rows) + entropy(table.columns) - 2 * mutual_information(table)
        return torch.zeros_like(distance) if table.same else distance.clamp(min=0)


def _mean_entropy(table: Table, method: AverageMethod) -> Tensor:
    both = torch.stack([entropy(table.rows), entropy(table.columns)])
    if method == "arithmetic":
        return both.mean()
    if method == "geometric":
        return both.prod().sqrt()
    return both.amin() if method == "min" else both.amax()


def _explained_share(table: Table, sizes: Tensor) -> Tensor:
    """Return mutual information over the entropy of one side; 1 where that side is a single group."""
    if len(sizes) == 1:
        return torch.ones_like(table.total)
    return (mutual_information(table) / entropy(sizes)).clamp(max=1)


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
