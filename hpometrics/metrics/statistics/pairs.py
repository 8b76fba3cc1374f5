"""Pairs of classes: how well the scores of one class rank its rows above those of each other class."""

from __future__ import annotations

import torch
from torch import Tensor

from .ranked import places
from .scores import Scores


def areas_of_pairs(scores: Scores) -> tuple[Tensor, Tensor]:
    """Area under the ROC curve of each ordered pair of classes, and the weight of each class.

    Returns:
        (C, C) float64: at [a, b] how likely the score of class a is larger in a row of a than in one of b (a
        tie counts a half), nan on the diagonal and where a class has no rows; (C,) float64.
    """
    return scores.derived("areas of pairs", _areas)


def _areas(own: Scores) -> tuple[Tensor, Tensor]:
    """Each row of b is placed once among the sorted rows of a, for all b at the same time."""
    target, weight = own.target, own.weight
    weight = target.new_ones(len(target), dtype=torch.float64) if weight is None else weight
    rows = torch.zeros(own.classes, dtype=torch.float64, device=target.device).index_add_(0, target, weight)
    losses = torch.stack([
        torch.zeros_like(rows).index_add_(0, target, weight * _weight_below(*own.column(index)[:2], weight))
        for index in range(own.classes)
    ])  # fmt: skip
    areas = 1 - losses / (rows.unsqueeze(1) * rows.unsqueeze(0))
    areas = torch.where(rows.unsqueeze(1) * rows.unsqueeze(0) > 0, areas, torch.nan)
    return areas.fill_diagonal_(torch.nan), rows


def _weight_below(values: Tensor, positive: Tensor, weight: Tensor) -> Tensor:
    """For every row, the weight of the positive rows that score below it, ties by half."""
    order = values[positive].argsort()
    ordered = values[positive][order]
    sums = torch.cat([weight.new_zeros(1), weight[positive][order].cumsum(0)])
    low, high = (places(ordered, values, side) for side in ("left", "right"))
    return (sums[low] + sums[high]) / 2
