"""Areas: of each row, the pairs of a relevant and another item in the right order; the ranks of items."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .host import on_host
from .interactions import Interactions

_COMPARED = 1 << 22  # scores compared at once, where items are tied
Floats = npt.NDArray[np.floating]
Integers = npt.NDArray[np.int64]


def right_pairs(scores: Tensor, relevant: Interactions) -> tuple[Tensor, Tensor, Tensor]:
    """Count pairs of a relevant item and another one, a tie as half, with one sort of each row.

    Args:
        scores: (rows, columns), -inf where an item is not ranked; written into.
        relevant: the relevant columns of each row; those not ranked are in no pair.

    Returns:
        For each row, float64: the pairs in the right order, the relevant items, the others.
    """
    rows, row = len(scores), relevant.row_of
    own = _scores_of(scores, relevant, row)
    ranked = own > -torch.inf
    ordered = _sorted(scores)
    lowest = ordered.new_full((rows, 1), torch.finfo(ordered.dtype).min)
    hidden = torch.searchsorted(ordered, lowest).squeeze(1).double()
    below, upto = _places(ordered, own, relevant, row)
    positives = _per_row(ranked.double(), row, rows)
    among_all = _per_row(torch.where(ranked, (below + upto).double() / 2, 0.0), row, rows)
    others = ordered.shape[1] - hidden - positives
    return among_all - hidden * positives - positives.square() / 2, positives, others


def ranks_of(scores: Tensor, entries: Interactions) -> Tensor:
    """Find the rank from 1 of single items, equal scores in the order of their columns, with one sort.

    Args:
        scores: (rows, columns), -inf where an item is not ranked.
        entries: columns of each row.

    Returns:
        (entries,) float64, inf where an item is not ranked.
    """
    if not on_host(scores):
        return _ranks_by_sorting(scores, entries)
    row = entries.row_of
    own = _scores_of(scores, entries, row)
    below, upto = _places(_sorted(scores.clone()), own, entries, row)
    rank = scores.shape[1] - upto + 1
    tied = ((upto - below > 1) & (own > -torch.inf)).nonzero().squeeze(1)
    if len(tied):
        rank[tied] += _tied_before(scores, row[tied], entries.items[tied], own[tied])
    return rank.double().masked_fill(own == -torch.inf, torch.inf)


def _ranks_by_sorting(scores: Tensor, entries: Interactions) -> Tensor:
    """The same by one sort that keeps the order of columns, so that nobody asks whether scores are tied."""
    order = scores.argsort(dim=1, descending=True, stable=True)
    ranks = torch.arange(1, scores.shape[1] + 1, device=scores.device).expand(order.shape)
    places = entries.places(scores.shape[1])
    found = torch.empty_like(order).scatter_(1, order, ranks).view(-1)[places].double()
    unranked = scores.reshape(-1)[places] == -torch.inf
    return entries.real(found.masked_fill(unranked, torch.inf), torch.inf)


def count_others(scores: Tensor, relevant: Interactions) -> Tensor:
    """How many items of each row are ranked and not relevant, (rows,) float64."""
    row = relevant.row_of
    ranked = (_scores_of(scores, relevant, row) > -torch.inf).double()
    return (scores > -torch.inf).sum(1).double() - _per_row(ranked, row, len(scores))


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


def _scores_of(scores: Tensor, entries: Interactions, row: Tensor) -> Tensor:
    """The score of each entry, (entries,), -inf for one that only fills up."""
    found = scores.reshape(-1).index_select(0, row * scores.shape[1] + entries.items)
    return entries.real(found, -torch.inf)


def _per_row(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Add up what the entries of each row have, (rows,)."""
    return values.new_zeros(rows).index_add_(0, row, values)


def _sorted(scores: Tensor) -> Tensor:
    if on_host(scores):
        scores.numpy().sort(axis=1)
        return scores
    return scores.sort(dim=1).values


def _places(ordered: Tensor, own: Tensor, entries: Interactions, row: Tensor) -> tuple[Tensor, Tensor]:
    """How many scores of its row lie below each entry's, and how many do not lie above it."""
    if not on_host(ordered):
        table = entries.side_by_side(own, -torch.inf)
        left, right = (torch.searchsorted(ordered, table, side=side) for side in ("left", "right"))
        return left.view(-1), right.view(-1)
    flat, width = ordered.numpy().reshape(-1), ordered.shape[1]
    first, values = row.numpy() * width, own.numpy()
    below = _found(flat, first, width, values, np.less)
    upto = below + 1
    tied = np.flatnonzero(flat.take(first + upto, mode="clip") == values)  # or the next row begins with it
    upto[tied] = _found(flat, first[tied], width, values[tied], np.less_equal)
    return torch.from_numpy(below), torch.from_numpy(upto)


def _found(flat: Floats, first: Integers, width: int, values: Floats, precedes: np.ufunc) -> Integers:
    """Search all values at once, each in its own row, by halving; in half the time of `torch.searchsorted`.

    Args:
        flat: rows of rising scores, one behind the other.
        first: where the row of each value begins.
        width: the length of a row.
        values: what is searched for.
        precedes: says of a score and a value whether the score is counted.

    Returns:
        How many scores of its row precede each value.
    """
    low, left = first, width
    while left > 1:
        half = left // 2
        low = low + half * precedes(flat[low + (half - 1)], values)
        left -= half
    found: Integers = low - first + precedes(flat[low], values)
    return found
