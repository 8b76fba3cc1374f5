"""Ranked: the distinct scores of one column; every curve and every threshold of it follows by sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .._device import on_host
from .scores import Scores
from .sorted_scores import Ascending, Counted, ascending_column, ascending_pooled

_KEPT = 64  # up to so many columns each is kept for all metrics; more would outgrow the store


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
    def positives(self) -> Tensor:
        """Weight of the positive rows, a 0-d tensor: an accelerator divides by a Python number inexactly."""
        return self.tp[-1] if len(self.tp) else self.tp.new_zeros(())

    @property
    def negatives(self) -> Tensor:
        """Weight of the negative rows, likewise."""
        return self.fp[-1] if len(self.fp) else self.fp.new_zeros(())

    @property
    def has_both(self) -> bool:
        """Whether there are positive and negative rows: with one kind only there is nothing to tell apart."""
        return bool((self.positives > 0) & (self.negatives > 0))

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


def ranked(column: Ascending) -> Ranked:
    """Take the distinct scores of a column, and sum up what lies above each."""
    starts = _starts(column.every)
    scores = column.every[starts].flip(0)
    if isinstance(column, Counted):
        tp = len(column.positive) - places(column.positive, column.every[starts], "left")
        fp = len(column.every) - starts - tp
        return Ranked(scores, tp.flip(0).double(), fp.flip(0).double())
    won, lost = (part.flip(0).cumsum(0).flip(0)[starts] for part in (column.won, column.weight - column.won))
    return Ranked(scores, won.flip(0), lost.flip(0))


def ranked_column(scores: Scores, index: int) -> Ranked:
    """The sorted column of a class, against all other classes."""

    def make(own: Scores) -> Ranked:
        return ranked(ascending_column(own, index))

    return scores.derived(f"ranked {index}", make) if scores.classes <= _KEPT else make(scores)


def ranked_pooled(scores: Scores) -> Ranked:
    """All columns as one: each class of each row is a yes-or-no question of its own."""
    if scores.classes == 1:
        return ranked_column(scores, 0)
    return scores.derived("ranked pooled", lambda own: ranked(ascending_pooled(own)))


def places(ordered: Tensor, values: Tensor, side: Literal["left", "right"]) -> Tensor:
    """Where values belong in ascending ones; NumPy profits from values that ascend as well."""
    if not on_host(ordered):
        return torch.searchsorted(ordered, values, side=side)
    return torch.from_numpy(np.searchsorted(ordered.numpy(), values.numpy(), side=side))


def _starts(ordered: Tensor) -> Tensor:
    """Where each run of equal values begins."""
    if not len(ordered):
        return torch.zeros(0, dtype=torch.int64, device=ordered.device)
    changes = (ordered[1:] != ordered[:-1]).nonzero().squeeze(1) + 1
    return torch.cat([changes.new_zeros(1), changes])
