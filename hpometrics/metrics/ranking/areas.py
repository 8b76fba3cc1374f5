"""Areas: of each row, the pairs of a relevant and another item in the right order; the ranks of items."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .interactions import Interactions

_COMPARED = 1 << 22  # scores compared at once, where items are tied


def right_pairs(scores: Tensor, relevant: Interactions) -> tuple[Tensor, Tensor, Tensor]:
    """Count pairs of a relevant item and another one, a tie as half, with one sort of each row.

    Args:
        scores: (rows, columns), -inf where an item is not ranked.
        relevant: the relevant columns of each row; those not ranked are in no pair.

    Returns:
        For each row, float64: the pairs in the right order, the relevant items, the others.
    """
    row, column = relevant.row_of, relevant.items
    own = scores[row, column]
    ranked = own > -torch.inf
    row, own = row[ranked], own[ranked]
    ordered = _sorted(scores)
    width = ordered.shape[1]
    hidden = torch.searchsorted(ordered, ordered.new_full((len(ordered), 1), torch.finfo(ordered.dtype).min))
    below, upto = _places(ordered, row, own)
    positives = _sums(torch.ones_like(own, dtype=torch.float64), row, len(scores))
    others = width - hidden.squeeze(1).double() - positives
    among_all = _sums((below + upto).double() / 2 - hidden.squeeze(1)[row], row, len(scores))
    return among_all - positives.square() / 2, positives, others


def ranks_of(scores: Tensor, entries: Interactions) -> Tensor:
    """Find the rank from 1 of single items, equal scores in the order of their columns, with one sort.

    Args:
        scores: (rows, columns), -inf where an item is not ranked.
        entries: columns of each row.

    Returns:
        (entries,) float64, inf where an item is not ranked.
    """
    row, column = entries.row_of, entries.items
    own = scores[row, column]
    below, upto = _places(_sorted(scores), row, own)
    rank = scores.shape[1] - upto + 1
    tied = ((upto - below > 1) & (own > -torch.inf)).nonzero().squeeze(1)
    if len(tied):
        rank[tied] += _tied_before(scores, row[tied], column[tied], own[tied])
    return rank.double().masked_fill(own == -torch.inf, torch.inf)


def count_others(scores: Tensor, relevant: Interactions) -> Tensor:
    """How many items of each row are ranked and not relevant, (rows,) float64."""
    row = relevant.row_of
    ranked = (scores[row, relevant.items] > -torch.inf).double()
    return (scores > -torch.inf).sum(1).double() - _sums(ranked, row, len(scores))


def _tied_before(scores: Tensor, row: Tensor, column: Tensor, own: Tensor) -> Tensor:
    """How many items of the same score stand in a column before each item's."""
    width = scores.shape[1]
    step = max(1, _COMPARED // width)
    places = torch.arange(width, device=scores.device)
    counts = []
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        same = scores[row[part]] == own[part].unsqueeze(1)
        counts.append((same & (places < column[part].unsqueeze(1))).sum(1))
    return torch.cat(counts)


def _sorted(scores: Tensor) -> Tensor:
    if scores.device.type == "cpu":
        return torch.from_numpy(np.sort(scores.numpy(), axis=1))
    return scores.sort(dim=1).values


def _places(ordered: Tensor, row: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """How many scores of its row lie below each value, and how many do not lie above it."""
    if ordered.device.type != "cpu":
        return _searched(ordered, row, own, "left"), _searched(ordered, row, own, "right")
    below = _searched(ordered, row, own, "left")
    after = (below + 1).clamp(max=ordered.shape[1] - 1)
    tied = (ordered[row, after] == own) & (after > below)
    upto = below + 1
    if bool(tied.any()):
        upto[tied] = _searched(ordered, row[tied], own[tied], "right")
    return below, upto


def _searched(ordered: Tensor, row: Tensor, own: Tensor, side: str) -> Tensor:
    """Search each value in its row: rows are asked side by side, filled up to the longest."""
    counts = torch.zeros(len(ordered), dtype=torch.int64, device=row.device).index_add_(
        0, row, torch.ones_like(row)
    )
    start = counts.cumsum(0) - counts
    place = torch.arange(len(row), device=row.device) - start[row]
    width = int(counts.max()) if len(row) else 0
    table = ordered.new_zeros(len(ordered), width)
    table[row, place] = own
    return torch.searchsorted(ordered, table, side=side)[row, place]


def _sums(values: Tensor, row: Tensor, rows: int) -> Tensor:
    return torch.zeros(rows, dtype=torch.float64, device=values.device).index_add_(0, row, values)
