"""Chance: what two groupings of given sizes have in common when rows fall into them at random."""

from __future__ import annotations

import torch
from torch import Tensor

from ...statistics.contingency import Table

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
