"""Correctly ordered pairs of a relevant and another item in each row, and the ranks of items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host
from .interactions import Interactions

_COUNTED = 2  # items a row up to which their ranks take less time to count than to sort
_BYTE = 255  # flags that a byte can count
_SHORT_ROW = 1 << 12  # flags up to which a row is counted faster in bytes
_COMPARED = 1 << 22  # scores compared at once, where items are tied
_WIDE = 1 << 13  # columns from which rows are read one after the other
_FEW = 24  # relevant items of such a row with which all its scores are compared in less time than a sort
_IN_CACHE = 1 << 16  # scores that are compared with all of these before the next scores are read
Floats = npt.NDArray[np.floating]
Integers = npt.NDArray[np.int64]
Areas = tuple[Tensor, Tensor, Tensor]


class _Positions(NamedTuple):
    """The positions of the entries of some rows among all scores of their rows.

    Attributes:
        own: (entries,) the score of each entry.
        twice: (entries,) int64, the number of scores below it plus the number of scores not above it.
        hidden: (rows,) int64, the number of scores of each row that are not ranked.
    """

    own: Tensor
    twice: Tensor
    hidden: Tensor


def is_wide(width: int, relevant: Interactions) -> bool:
    """Return whether `right_pairs` reads one row after the other, and overwrites none."""
    return width >= _WIDE and on_host(relevant.items)


def right_pairs(tiles: Iterable[tuple[int, Tensor]], relevant: Interactions, width: int) -> Areas:
    """Count correctly ordered pairs of a relevant and another item, a tie as half, by one sort a row at most.

    Args:
        tiles: the first row and the scores of each tile of rows, -inf where an item is not ranked; the
            scores are overwritten, unless `is_wide`.
        relevant: the relevant columns of each row; those that are not ranked are in no pair.
        width: the number of columns.

    Returns:
        For each row, float64: the correctly ordered pairs, the relevant items, the other items.
    """
    if not (width and len(relevant)):
        return (nothing := relevant.counts.double()), nothing, nothing
    sorts = _positions_on_host if on_host(relevant.items) else _positions_by_torch
    positions_of = _positions_row_by_row if is_wide(width, relevant) else sorts
    own, twice, hidden = map(torch.cat, zip(*(positions_of(*tile, relevant) for tile in tiles), strict=True))
    ranked = own > -torch.inf
    positives = _sum_per_row(ranked, relevant).double()
    among_all = _sum_per_row(twice * ranked, relevant) / 2
    others = width - hidden - positives
    return among_all - hidden * positives - positives.square() / 2, positives, others


def _positions_on_host(start: int, scores: Tensor, relevant: Interactions) -> _Positions:
    """Sort a tile, and look up its relevant scores and the first ranked score of each row."""
    (rows, width), flat = scores.shape, scores.numpy().reshape(-1)
    offsets, begins = relevant.offsets.numpy()[start : start + rows + 1], np.arange(rows) * width
    entries = begins.repeat(offsets[1:] - offsets[:-1])
    own = flat.take(entries + relevant.items.numpy()[offsets[0] : offsets[-1]])
    flat.reshape(rows, width).sort(axis=1)
    lowest = np.full(rows, np.finfo(own.dtype).min, own.dtype)
    below, upto = _bounds(flat, np.concatenate([entries, begins]), width, np.concatenate([own, lowest]))
    fields = own, (below + upto)[: len(own)], below[len(own) :]
    return _Positions(*map(torch.from_numpy, fields))


def _positions_row_by_row(start: int, scores: Tensor, relevant: Interactions) -> _Positions:
    """Return the same positions of wide rows, of which those with few entries are compared with each of them.

    A comparison with all scores takes a few percent of a sort, and overwrites nothing.
    """
    rows, numbers = len(scores), scores.numpy()
    offsets = relevant.offsets.numpy()[start : start + rows + 1]
    columns, first = relevant.items.numpy()[offsets[0] : offsets[-1]], offsets - offsets[0]
    own = numbers[np.arange(rows).repeat(np.diff(first)), columns]
    twice, hidden, room = np.zeros(len(own), np.int64), np.zeros(rows, np.int64), np.empty_like(numbers[0])
    for row, (values, begin, end) in enumerate(zip(numbers, first, first[1:], strict=False)):
        if end - begin > _FEW:
            room[:] = values
            room.sort()
            hidden[row] = np.searchsorted(room, -np.inf, "right")
            twice[begin:end] = sum(np.searchsorted(room, own[begin:end], side) for side in ("left", "right"))
        else:
            hidden[row], twice[begin:end] = _count_around(values, own[begin:end])
    return _Positions(*map(torch.from_numpy, (own, twice, hidden)))


def _count_around(values: Floats, own: Floats) -> tuple[int, list[int]]:
    """Count the scores of -inf and, for each of some, the scores below it plus those not above it."""
    hidden, twice, flags = 0, [0] * len(own), np.empty(_IN_CACHE, np.bool_)
    for begin in range(0, len(values), _IN_CACHE):
        some = values[begin : begin + _IN_CACHE]
        flag = flags[: len(some)]
        hidden += int(np.count_nonzero(np.equal(some, -np.inf, out=flag)))
        for place, score in enumerate(own):
            below = int(np.count_nonzero(np.less(some, score, out=flag)))
            twice[place] += below + int(np.count_nonzero(np.less_equal(some, score, out=flag)))
    return hidden, twice


def _positions_by_torch(start: int, scores: Tensor, relevant: Interactions) -> _Positions:
    """Return the same positions by searches in a table of relevant scores."""
    part = relevant.part(start, start + len(scores))
    own = scores_of(scores, part)
    ordered, table = scores.sort(dim=1).values, part.side_by_side(own, -torch.inf)
    below, upto = (torch.searchsorted(ordered, table, side=side).view(-1) for side in ("left", "right"))
    lowest = ordered.new_full((len(ordered), 1), torch.finfo(ordered.dtype).min)
    return _Positions(own, below + upto, torch.searchsorted(ordered, lowest).squeeze(1))


def ranks_of(scores: Tensor, entries: Interactions, within: float = torch.inf) -> Tensor:
    """Return the rank from 1 of single items, equal scores in the order of their columns, with one sort.

    Of few items the scores above each are counted.

    Args:
        scores: (rows, columns), -inf where an item is not ranked.
        entries: columns of each row.
        within: the largest rank that is read; an item behind it may have any other rank behind it.

    Returns:
        (entries,) float64, inf where an item is not ranked.
    """
    if not on_host(scores):
        return _ranks_by_sorting(scores, entries)
    if are_few(len(entries.items), len(entries)):
        return torch.from_numpy(_ranks_by_counting(scores.numpy(), entries, within))
    ordered, width = scores.numpy().copy(), scores.shape[1]
    ordered.sort(axis=1)
    row, own = entries.row_of, scores_of(scores, entries)
    bounds = _bounds(ordered.reshape(-1), row.numpy() * width, width, own.numpy())
    below, upto = map(torch.from_numpy, bounds)
    rank = width - upto + 1
    tied = ((upto - below > 1) & (own > -torch.inf)).nonzero().squeeze(1)
    if len(tied):
        rank[tied] += _tied_before(scores, row[tied], entries.items[tied], own[tied])
    return rank.double().masked_fill(own == -torch.inf, torch.inf)


def are_few(items: int, rows: int) -> bool:
    """Return whether the ranks of so many items in so many rows take less time to count than to sort."""
    return items <= _COUNTED * rows


def _ranks_by_counting(numbers: Floats, entries: Interactions, within: float) -> npt.NDArray[np.float64]:
    """Return 1 + the number of scores above each item and of equal ones in columns before its own."""
    row, column = entries.row_of.numpy(), entries.items.numpy()
    own = numbers[row, column]
    others = numbers if np.array_equal(row, np.arange(len(numbers))) else numbers.take(row, axis=0)
    above = count_flags(others > own[:, None])
    near = np.flatnonzero(above < within)
    equal = others[near] == own[near, None]
    if np.count_nonzero(equal) > len(near):
        above[near] += count_flags(equal & (np.arange(numbers.shape[1]) < column[near, None]))
    return np.where(own == -np.inf, np.inf, above + 1.0)


def count_flags(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Count the flags of each row as `np.count_nonzero(flags, axis=1)` does, in bytes if that is faster."""
    counts: npt.NDArray[np.int64]
    if flags.shape[1] > _SHORT_ROW:
        counts = np.count_nonzero(flags, axis=1)
        return counts
    words = flags.shape[1] // 4
    if flags.flags.c_contiguous and flags.shape[1] % 4 == 0 and 0 < words <= _BYTE:  # four counts in a word
        fours = np.einsum("ij->i", flags.view(np.uint32))
        pairs = (fours & 0xFF00FF) + (fours >> 8 & 0xFF00FF)
        counts = ((pairs & 0xFFFF) + (pairs >> 16)).astype(np.int64)
        return counts
    numbers = flags.view(np.uint8)
    parts = [numbers[:, first : first + _BYTE] for first in range(0, max(1, numbers.shape[1]), _BYTE)]
    counts = np.add.reduce(parts[0], axis=1, dtype=np.uint8).astype(np.int64)
    for part in parts[1:]:
        counts += np.add.reduce(part, axis=1, dtype=np.uint8)
    return counts


def _ranks_by_sorting(scores: Tensor, entries: Interactions) -> Tensor:
    """Return the ranks by one stable sort, without a check for ties that would synchronize."""
    order = scores.argsort(dim=1, descending=True, stable=True)
    ranks = torch.arange(1, scores.shape[1] + 1, device=scores.device).expand(order.shape)
    places = entries.places(scores.shape[1])
    at_entries = torch.empty_like(order).scatter_(1, order, ranks).view(-1)[places].double()
    unranked = scores.reshape(-1)[places] == -torch.inf
    return entries.real(at_entries.masked_fill(unranked, torch.inf), torch.inf)


def count_others(scores: Tensor, relevant: Interactions) -> Tensor:
    """Return the number of items of each row that are ranked and not relevant, (rows,) float64."""
    ranked = scores_of(scores, relevant) > -torch.inf
    return ((scores > -torch.inf).sum(1) - _sum_per_row(ranked, relevant)).double()


def _tied_before(scores: Tensor, row: Tensor, column: Tensor, own: Tensor) -> Tensor:
    """Return the number of items with the same score in a column before that of each item."""
    width = scores.shape[1]
    step = max(1, _COMPARED // width)
    places = torch.arange(width, device=scores.device)
    counts = []
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        same = scores[row[part]] == own[part].unsqueeze(1)
        counts.append((same & (places < column[part].unsqueeze(1))).sum(1))
    return torch.cat(counts)


def scores_of(scores: Tensor, entries: Interactions) -> Tensor:
    """Return the score of each entry, (entries,), -inf for padding."""
    return entries.real(scores.reshape(-1).index_select(0, entries.places(scores.shape[1])), -torch.inf)


def _sum_per_row(counts: Tensor, entries: Interactions) -> Tensor:
    """Add up the counts of the entries of each row, (rows,) int64."""
    upto = torch.cat([entries.offsets.new_zeros(1), counts.cumsum(0)])
    return upto[entries.offsets].diff()


def _bounds(flat: Floats, first: Integers, width: int, values: Floats) -> tuple[Integers, Integers]:
    """Return the number of scores of its row below each value, and the number not above it.

    Args:
        flat: rows of ascending scores, concatenated.
        first: the index at which the row of each value begins.
        width: the length of a row.
        values: the searched values; each counts as not above itself.
    """
    below = _count_preceding(flat, first, width, values, np.less)
    upto = below + 1
    tied = np.flatnonzero(flat.take(first + upto, mode="clip") == values)  # or the next row begins with it
    if len(tied):
        upto[tied] = _count_preceding(flat, first[tied], width, values[tied], np.less_equal)
    return below, upto


def _count_preceding(
    flat: Floats, first: Integers, width: int, values: Floats, precedes: np.ufunc
) -> Integers:
    """Search all values at once, each in its own row, by bisection, in half the time of `torch.searchsorted`.

    Args:
        flat: rows of ascending scores, concatenated.
        first: the index at which the row of each value begins.
        width: the length of a row.
        values: the searched values.
        precedes: whether a score is counted for a value.

    Returns:
        The number of scores of its row that precede each value.
    """
    low, size = first, width
    while size > 1:
        half = size // 2
        low = low + half * precedes(flat[half - 1 :].take(low), values)
        size -= half
    counts: Integers = low - first + precedes(flat.take(low), values)
    return counts
