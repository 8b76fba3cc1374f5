"""Cuts: what a decision is worth at every threshold of a sorted column, and the threshold in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from .ranked import Ranked

Criterion = Literal["f1", "fbeta", "mcc", "youden", "accuracy", "balanced_accuracy", "jaccard"]


def _fbeta(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    fn = tp[-1] - tp
    return _ratio((1 + beta_squared) * tp, (1 + beta_squared) * tp + fp + beta_squared * fn)


def _jaccard(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    return _ratio(tp, tp[-1] + fp)


def _accuracy(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    return (tp + (fp[-1] - fp)) / (tp[-1] + fp[-1])


def _youden(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    return tp / tp[-1] - fp / fp[-1]


def _balanced_accuracy(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    return (tp / tp[-1] + (fp[-1] - fp) / fp[-1]) / 2


def _mcc(tp: Tensor, fp: Tensor, beta_squared: float) -> Tensor:
    fn, tn = tp[-1] - tp, fp[-1] - fp
    return _ratio(tp * tn - fp * fn, ((tp + fp) * (tp + fn)).sqrt() * ((tn + fp) * (tn + fn)).sqrt())


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide; a decision for one class only, which leaves nothing to divide by, is worth 0."""
    return torch.where(denominator > 0, numerator / denominator, 0.0)


CRITERIA: Mapping[Criterion, Callable[[Tensor, Tensor, float], Tensor]] = {
    "f1": _fbeta,
    "fbeta": _fbeta,
    "mcc": _mcc,
    "youden": _youden,
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "jaccard": _jaccard,
}
"""A criterion's value at each cut, from the true and false positives of all cuts (the last has every row)."""


def best_cut(column: Ranked, criterion: Criterion, beta_squared: float) -> tuple[Tensor, Tensor]:
    """The two scores that the best cut parts: the largest to be predicted 0, the least to be predicted 1.

    Either is infinite when all rows are to be predicted alike; of equal cuts the highest is taken.
    """
    place = int(CRITERIA[criterion](*column.cuts, beta_squared).argmax())
    ends = column.scores.new_tensor([math.inf, -math.inf])
    walls = torch.cat([ends[:1], column.scores, ends[1:]])
    return walls[place + 1], walls[place]


def probability_between(low: Tensor, high: Tensor, *, logits: bool) -> Tensor:
    """A probability t such that `score > t` holds from `high` up and not from `low` down; nan if none does.

    Args:
        low: 0-d, in the type of the scores, which is the type in which scores are compared.
        high: the same, above it.
        logits: whether they are logits, compared with the logit of t.
    """
    for t in _candidates(low, high, logits):
        cut = torch.tensor(t, dtype=torch.float64)
        wall = (torch.logit(cut) if logits else cut).to(low.dtype)
        if 0 <= t <= 1 and low <= wall < high:
            return cut
    return torch.tensor(torch.nan, dtype=torch.float64)


def _candidates(low: Tensor, high: Tensor, logits: bool) -> list[float]:
    """Half way between the two, as probabilities and as logits; their ends; the numbers next to all these."""
    bottom, top = low.double(), high.double()
    ends = [bottom.sigmoid(), top.sigmoid()] if logits else [bottom.clamp(min=0), top.clamp(max=1)]
    middles = [(ends[0] + ends[1]) / 2, ((bottom + top) / 2).sigmoid()]
    chosen = [x.item() for x in (*middles, *ends)]
    return [*chosen, *(math.nextafter(x, side) for x in chosen for side in (0.0, 1.0))]
