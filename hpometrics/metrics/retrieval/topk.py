"""The best k of each row, equal to those of a stable full sort but without sorting wide rows.

On the CPU a narrow row is sorted by one integer key of score and position. A wide one takes two steps. The
first bounds its k-th score from below by the k-th largest of the maxima of disjoint groups of columns. The
few scores from the bound on contain the list and everything tied with its last position; the second step
sorts these alone, by the same key. Equal scores keep the order of their columns, whatever the batch and the
number of threads. On a device `torch.topk` is used.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host
from .interactions import flagged

_NARROW = 64  # columns up to which whole rows are sorted
_BLOCK = 1 << 16  # scores that are ranked at a time, so that they stay in the cache
_LONG = 8  # a row with more candidates than this multiple of k has its list selected before it is sorted
_CHUNK = 1 << 20  # keys among which lists are selected at a time
_LOWEST = np.finfo(np.float32).min
_LAST = (0x7F800000 << 32) | 0xFFFFFFFF  # the key of -inf in column -1, which comes after all others
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest scores of each row that are not -inf, in descending order.

    Args:
        scores: (rows, columns) float, without nan.
        k: the length of the lists, from 1; rows with fewer scores have shorter lists.

    Returns:
        Their values (rows, k), -inf after the end of a list, and columns (rows, k) int64, -1 there.
    """
    depth = min(k, scores.shape[1])
    if not on_host(scores):
        values, columns = _mark_ends(*scores.topk(depth, dim=1))
    elif scores.dtype is torch.float32:
        values, columns = _on_host(scores.contiguous(), depth)
    else:
        ordered = scores.sort(dim=1, descending=True, stable=True)
        values, columns = _mark_ends(*(part[:, :depth] for part in ordered))
    return _pad(values, columns, k)


def _mark_ends(values: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    return values, torch.where(values == -torch.inf, -1, columns)


def _pad(values: Tensor, columns: Tensor, k: int) -> tuple[Tensor, Tensor]:
    if (short := k - values.shape[1]) > 0:
        values = torch.nn.functional.pad(values, (0, short), value=-torch.inf)
        columns = torch.nn.functional.pad(columns, (0, short), value=-1)
    return values, columns


def _on_host(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    numbers: Floats = scores.numpy()
    if k == 1:
        return _best(numbers)
    width = numbers.shape[1]
    whole = width <= max(_NARROW, 3 * k)
    sort, block = (_by_whole_rows, _BLOCK) if whole else (_by_bounds, 4 * _BLOCK)  # bounds take more calls
    height = max(1, block // max(1, width))
    values, columns = (np.empty((len(numbers), k), dtype) for dtype in (np.float32, np.int64))
    for start in range(0, len(numbers), height):
        part = slice(start, start + height)
        values[part], columns[part] = sort(numbers[part], k)
    return torch.from_numpy(values), torch.from_numpy(columns)


def _best(numbers: Floats) -> tuple[Tensor, Tensor]:
    """Return the largest score of each row and its column, by one comparison of each score."""
    rows, width = numbers.shape
    columns = numbers.argmax(1) if rows else np.empty(0, np.int64)
    values = numbers.reshape(-1).take(np.arange(rows) * width + columns) + np.float32(0)  # -0 becomes 0
    columns[values == -np.inf] = -1
    return torch.from_numpy(values[:, None]), torch.from_numpy(columns[:, None])


def _by_whole_rows(numbers: Floats, k: int) -> tuple[Floats, Integers]:
    keys = _keys(numbers, np.arange(numbers.shape[1]))
    keys.sort(axis=1)
    values, columns = _decode(keys[:, :k])
    if (ends := values == -np.inf).any():
        columns[ends] = -1
    return values, columns


def _by_bounds(numbers: Floats, k: int) -> tuple[Floats, Integers]:
    rows, width = numbers.shape
    flat = _candidates(numbers, _bounds(numbers, k))
    first = np.arange(rows + 1) * width
    counts = np.diff(flat.searchsorted(first))
    candidates = numbers.reshape(-1).take(flat)
    values, columns = _decode(_smallest(_keys(candidates, flat), counts, k))
    columns -= first[:-1, None]
    return values, np.maximum(columns, -1, out=columns)


def _bounds(numbers: Floats, k: int) -> Floats:
    """Return a lower bound of the k-th score of each row, above -inf."""
    maxima = numbers
    while 2 * (half := maxima.shape[1] // 2) >= 3 * k:  # so that few columns remain above the bound
        pairs, maxima = maxima, np.maximum(maxima[:, :half], maxima[:, half : 2 * half])
        if pairs.shape[1] % 2:
            np.maximum(maxima[:, 0], pairs[:, -1], out=maxima[:, 0])
    return np.maximum(np.sort(maxima, axis=1)[:, -k], _LOWEST)


def _candidates(numbers: Floats, bounds: Floats) -> Integers:
    """Return the indices of the flattened scores that reach the bound of their row, ascending."""
    return flagged(numbers >= bounds[:, None])


def _keys(values: Floats, places: Integers) -> Integers:
    """Return integer keys that ascend as scores descend and, among equal scores, as places ascend."""
    keys = _ascending((0 - values).view(np.int32)).astype(np.int64)  # both zeros become 0.0
    keys <<= 32
    keys |= places
    return keys


def _decode(keys: Integers) -> tuple[Floats, Integers]:
    """Return the scores and places of keys; -inf and -1 for the last key."""
    values: Floats = 0 - _ascending((keys >> 32).astype(np.int32)).view(np.float32)
    return values, keys.astype(np.int32).astype(np.int64)


def _ascending(bits: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Convert the bits of scores to integers of the same order, or these back to bits."""
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))


def _smallest(keys: Integers, counts: Integers, k: int) -> Integers:
    """Return the k smallest keys of each row, ascending, where each row has `counts` of the keys."""
    few = counts <= _LONG * k
    if few.all():
        return _sorted_together(keys, counts, k)
    best = np.full((len(counts), k), _LAST)
    best[few] = _sorted_together(keys[np.repeat(few, counts)], counts[few], k)
    ends, many = counts.cumsum(), np.flatnonzero(~few)  # rows with many equal scores
    height = max(1, _CHUNK // int(counts.max()))
    for start in range(0, len(many), height):
        rows = many[start : start + height]
        own = np.concatenate([keys[ends[row] - counts[row] : ends[row]] for row in rows])
        best[rows] = np.sort(np.partition(_as_table(own, counts[rows], k), k - 1, axis=1)[:, :k], axis=1)
    return best


def _sorted_together(keys: Integers, counts: Integers, k: int) -> Integers:
    """Sort rows of few keys as one matrix."""
    table = _as_table(keys, counts, k)
    table.sort(axis=1)
    return table[:, :k]


def _as_table(keys: Integers, counts: Integers, k: int) -> Integers:
    """Return the keys of each row in a row of its own, of at least k columns, filled up with the last key."""
    table = np.full((len(counts), max(counts.max(initial=0), k)), _LAST)
    table[np.arange(table.shape[1]) < counts[:, None]] = keys
    return table
