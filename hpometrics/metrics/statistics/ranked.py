"""Ranked: one column of scores, sorted once; every curve and every threshold of it follows by sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .scores import Scores, Stored

_KEPT = 64  # up to so many columns each is kept sorted for all metrics; more would outgrow the store


@dataclass(frozen=True)
class Ranked:
    """The distinct scores of a column, descending, and what lies at or above each.

    Attributes:
        scores: (D,), in the type in which they were given.
        tp: (D,) float64, weight of the positive rows whose score is at least this one.
        fp: (D,) float64, the same of the negative rows.
    """

    scores: Tensor
    tp: Tensor
    fp: Tensor

    @property
    def positives(self) -> float:
        """Weight of the positive rows."""
        return self.tp[-1].item() if len(self.tp) else 0.0

    @property
    def negatives(self) -> float:
        """Weight of the negative rows."""
        return self.fp[-1].item() if len(self.fp) else 0.0

    @property
    def has_both(self) -> bool:
        """Whether there are positive and negative rows: with one kind only there is nothing to tell apart."""
        return self.positives > 0 and self.negatives > 0

    @property
    def cuts(self) -> tuple[Tensor, Tensor]:
        """`tp` and `fp` of every cut: above all scores first (nothing is predicted), then at each score."""
        zero = self.tp.new_zeros(1)
        return torch.cat([zero, self.tp]), torch.cat([zero, self.fp])

    @property
    def rates(self) -> tuple[Tensor, Tensor]:
        """False and true positive rate of every cut, both ascending."""
        tp, fp = self.cuts
        return fp / self.negatives, tp / self.positives


def ranked(values: Tensor, positive: Tensor, weight: Tensor | None = None) -> Ranked:
    """Sort a column.

    Args:
        values: (N,) scores.
        positive: (N,) bool.
        weight: (N,) float64 from 0; rows of weight 0 are as if absent.
    """
    if weight is not None:
        return _weighed(values, positive, weight)
    ordered = ascending(values)
    starts = _starts(ordered)
    scores, right = ordered[starts], ascending(values[positive])
    above = len(ordered) - starts
    tp = len(right) - places(right, scores, "left")
    return Ranked(scores.flip(0), tp.flip(0).double(), (above - tp).flip(0).double())


def ranked_column(scores: Scores, index: int) -> Ranked:
    """The sorted column of a class, against all other classes."""

    def make(own: Scores) -> Ranked:
        return ranked(*own.column(index))

    return scores.derived(f"ranked {index}", make) if scores.classes <= _KEPT else make(scores)


def ranked_pooled(scores: Scores) -> Ranked:
    """All columns as one: each class of each row is a yes-or-no question of its own."""
    if scores.classes == 1:
        return ranked_column(scores, 0)
    return scores.derived("ranked pooled", lambda own: ranked(*pooled(own)))


def pooled(scores: Scores) -> Stored:
    """Scores, positives and weight of all columns, one after the other."""
    if scores.classes == 1:
        return scores.column(0)
    values, target, weight = scores.pooled()
    classes = values.shape[1]
    positive = target.bool() if target.ndim == 2 else torch.nn.functional.one_hot(target, classes).bool()
    spread = None if weight is None else weight.unsqueeze(1).expand(values.shape).reshape(-1)
    return values.reshape(-1), positive.reshape(-1), spread


def ascending(values: Tensor) -> Tensor:
    """Sort; on the CPU by NumPy, whose vectorised sort is many times faster."""
    if values.device.type != "cpu":
        return values.sort().values
    return torch.from_numpy(np.sort(values.numpy()))


def places(ordered: Tensor, values: Tensor, side: Literal["left", "right"]) -> Tensor:
    """Where values belong in ascending ones; NumPy profits from values that ascend as well."""
    if ordered.device.type != "cpu":
        return torch.searchsorted(ordered, values, side=side)
    return torch.from_numpy(np.searchsorted(ordered.numpy(), values.numpy(), side=side))


def _starts(ordered: Tensor) -> Tensor:
    """Where each run of equal values begins."""
    if not len(ordered):
        return torch.zeros(0, dtype=torch.int64, device=ordered.device)
    changes = (ordered[1:] != ordered[:-1]).nonzero().squeeze(1) + 1
    return torch.cat([changes.new_zeros(1), changes])


def _weighed(values: Tensor, positive: Tensor, weight: Tensor) -> Ranked:
    counts = weight > 0
    values, positive, weight = values[counts], positive[counts], weight[counts]
    order = _order(values)
    ordered, right, weight = values[order], positive[order], weight[order]
    starts = _starts(ordered)
    tp, fp = ((weight * part).flip(0).cumsum(0).flip(0)[starts] for part in (right, ~right))
    return Ranked(ordered[starts].flip(0), tp.flip(0), fp.flip(0))


def _order(values: Tensor) -> Tensor:
    if values.device.type != "cpu":
        return values.argsort()
    return torch.from_numpy(np.argsort(values.numpy()))


def pooled_areas(scores: Scores) -> tuple[Tensor, Tensor]:
    """Area under the ROC curve and average precision of all columns as one, 0-d float64; nan if undefined."""
    values, positive, weight = pooled(scores)
    if weight is not None:
        counted = weight > 0
        values, positive, weight = values[counted], positive[counted], weight[counted]
    right = values[positive]
    if not 0 < len(right) < len(values):
        nan = torch.tensor(torch.nan, dtype=torch.float64)
        return nan, torch.ones_like(nan) if len(right) else nan
    if weight is None:
        return _counted_areas(ascending(values), ascending(right))
    column = _weighed(values, positive, weight)
    fpr, tpr = column.rates
    return torch.trapezoid(tpr, fpr), (tpr.diff() * column.tp / (column.tp + column.fp)).sum()


def _counted_areas(every: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """From all scores and the positive ones, ascending: what there is more than a sort is of their number."""
    below, up_to = (places(every, right, side) for side in ("left", "right"))
    own = places(right, right, "left")
    negatives = len(every) - len(right)
    wins = (below + up_to).sum().double() / 2 - len(right) ** 2 / 2
    precision = (len(right) - own).double() / (len(every) - below)
    return wins / (len(right) * negatives), precision.mean()
