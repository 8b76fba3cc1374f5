"""Areas: of each row, the pairs of a relevant and another item in the right order; the ranks of items."""

from __future__ import annotations

import torch
from torch import Tensor

from .host import on_host
from .interactions import Interactions

_COMPARED = 1 << 22  # scores compared at once, where items are tied


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
    own = _side_by_side(scores, entries)
    filled = torch.arange(own.shape[1]) < entries.counts.unsqueeze(1)
    below, upto = (places[filled] for places in _places(_sorted(scores.clone()), own))
    own = own[filled]
    rank = scores.shape[1] - upto + 1
    tied = ((upto - below > 1) & (own > -torch.inf)).nonzero().squeeze(1)
    if len(tied):
        rank[tied] += _tied_before(scores, entries.row_of[tied], entries.items[tied], own[tied])
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
    ranked = _side_by_side(scores, relevant) > -torch.inf
    return ((scores > -torch.inf).sum(1) - ranked.sum(1)).double()


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


def _side_by_side(scores: Tensor, relevant: Interactions) -> Tensor:
    """The scores of each row's relevant items, (rows, most), -inf behind them."""
    found = scores.reshape(-1).index_select(0, relevant.places(scores.shape[1]))
    return relevant.side_by_side(found, -torch.inf)


def _sorted(scores: Tensor) -> Tensor:
    if on_host(scores):
        scores.numpy().sort(axis=1)
        return scores
    return scores.sort(dim=1).values


def _places(ordered: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """How many scores of its row lie below each value, and how many do not lie above it."""
    below = torch.searchsorted(ordered, own)
    if on_host(ordered) and not _tied(ordered, own, below):
        return below, below + 1
    return below, torch.searchsorted(ordered, own, side="right")


def _tied(ordered: Tensor, own: Tensor, below: Tensor) -> bool:
    """Whether any value that is ranked stands in its row twice."""
    last = ordered.shape[1] - 1
    next_to = ordered.gather(1, (below + 1).clamp(max=last))
    return bool(((next_to == own) & (below < last) & (own > -torch.inf)).any())
