"""Areas of one column: ROC AUC and average precision of scores against yes or no, exact, with ties."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

Areas = tuple[float, float, float]
"""Positives (or what they weigh), ROC AUC, average precision; nan where they are not defined."""

_AT_ONCE = 1 << 14  # positives that are looked up at a time
_NAN = float("nan")


class Places(NamedTuple):
    """Of each positive: how many rows score less, how many at most as much, how many positives less."""

    below: Tensor
    up_to: Tensor
    positives_below: Tensor


def counted_areas(every: Tensor, positive: Tensor) -> Areas:
    """The areas of all scores and the positive ones, both ascending.

    The rank sum counts a tie as a half; the positives' pairs among themselves are taken off again. Average
    precision is the mean, over positives, of the precision at their own score (ties share a threshold).
    """
    n, n_pos = len(every), len(positive)
    if n_pos in (0, n):
        return float(n_pos), _NAN, _NAN if n_pos == 0 else 1.0
    ranks, precision = 0.0, 0.0
    for start in range(0, n_pos, _AT_ONCE):
        below, up_to, positives_below = _places(every, positive, start)
        ranks += (below.sum() + up_to.sum()).item() / 2
        precision += ((n_pos - positives_below).double() / (n - below)).sum().item()
    return float(n_pos), (ranks - n_pos * n_pos / 2) / (n_pos * (n - n_pos)), precision / n_pos


def weighted_areas(scores: Tensor, positive: Tensor, weight: Tensor | None) -> Areas:
    """The same of unsorted scores, with running sums of weights in the place of ranks."""
    weight = torch.ones_like(scores, dtype=torch.float64) if weight is None else weight
    order = scores.argsort(stable=True)
    scores, weight, won = scores[order], weight[order], (weight * positive)[order]
    left, right = (torch.searchsorted(scores, scores, side=side) for side in ("left", "right"))
    nothing = weight.new_zeros(1)
    sums = {True: torch.cat([nothing, won.cumsum(0)]), False: torch.cat([nothing, weight.cumsum(0)])}
    n_pos, n = sums[True][-1], sums[False][-1]
    if n_pos == 0 or n_pos == n:
        return float(n_pos), _NAN, _NAN if n_pos == 0 else 1.0
    lost = sums[False] - sums[True]
    wins = (won * (lost[left] + lost[right])).sum() / 2
    precision = (n_pos - sums[True][left]) / (n - sums[False][left]).clamp(min=torch.finfo(n.dtype).tiny)
    return float(n_pos), float(wins / (n_pos * (n - n_pos))), float((won * precision).sum() / n_pos)


def ascending(values: Tensor) -> Tensor:
    """Sort the last dimension; on the CPU in place, by NumPy, whose vectorised sort is many times faster."""
    if values.device.type != "cpu":
        return values.sort(-1).values
    values.numpy().sort(-1)
    return values


def _places(every: Tensor, positive: Tensor, start: int) -> Places:
    """The places of some positives, from the `start`-th on."""
    some = positive[start : start + _AT_ONCE]
    if every.device.type != "cpu":
        left, right = (torch.searchsorted(every, some, side=side) for side in ("left", "right"))
        return Places(left, right, torch.searchsorted(positive, some))
    column, needles = every.numpy(), some.numpy()
    below = np.searchsorted(column, needles)  # which profits from needles that ascend as well
    up_to = below + 1
    tied = np.flatnonzero(column[np.minimum(up_to, len(column) - 1)] == needles)  # few need a second search
    up_to[tied] = np.searchsorted(column, needles[tied], side="right")
    own = np.arange(start, start + len(needles))
    own[1:][needles[1:] == needles[:-1]] = 0
    own[0] = np.searchsorted(positive.numpy(), needles[0])
    return Places(*map(torch.from_numpy, (below, up_to, np.maximum.accumulate(own))))
