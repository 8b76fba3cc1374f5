"""Areas: of each row, the pairs of a relevant and another item that the scores put in the right order."""

from __future__ import annotations

import torch
from torch import Tensor

from .interactions import Interactions


def right_pairs(scores: Tensor, relevant: Interactions) -> tuple[Tensor, Tensor, Tensor]:
    """Count pairs of a relevant item and another one, a tie as half, with one sort of each row.

    Args:
        scores: (rows, columns), -inf where an item is not ranked; written into.
        relevant: the relevant columns of each row; those not ranked are in no pair.

    Returns:
        For each row, float64: the pairs in the right order, the relevant items, the others.
    """
    own = _side_by_side(scores, relevant)
    ranked = own > -torch.inf
    ordered = _sorted(scores)
    lowest = ordered.new_full((len(ordered), 1), torch.finfo(ordered.dtype).min)
    hidden = torch.searchsorted(ordered, lowest)
    below, upto = _places(ordered, own)
    positives = ranked.sum(1, dtype=torch.float64)
    among_all = torch.where(ranked, (below + upto).double() / 2 - hidden, 0.0).sum(1)
    others = ordered.shape[1] - hidden.squeeze(1).double() - positives
    return among_all - positives.square() / 2, positives, others


def _side_by_side(scores: Tensor, relevant: Interactions) -> Tensor:
    """The scores of each row's relevant items, (rows, most), -inf behind them."""
    counts = relevant.counts
    most = int(counts.max()) if len(counts) else 0
    filled = torch.arange(most, device=counts.device) < counts.unsqueeze(1)
    found = scores.reshape(-1).index_select(0, relevant.places(scores.shape[1]))
    return scores.new_full((len(scores), most), -torch.inf).masked_scatter_(filled, found)


def _sorted(scores: Tensor) -> Tensor:
    if scores.device.type == "cpu":
        scores.numpy().sort(axis=1)
        return scores
    return scores.sort(dim=1).values


def _places(ordered: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """How many scores of its row lie below each value, and how many do not lie above it."""
    below = torch.searchsorted(ordered, own)
    if ordered.device.type == "cpu" and not _tied(ordered, own, below):
        return below, below + 1
    return below, torch.searchsorted(ordered, own, side="right")


def _tied(ordered: Tensor, own: Tensor, below: Tensor) -> bool:
    """Whether any value that is ranked stands in its row twice."""
    last = ordered.shape[1] - 1
    next_to = ordered.gather(1, (below + 1).clamp(max=last))
    return bool(((next_to == own) & (below < last) & (own > -torch.inf)).any())
