"""The best k of each row: the list of a stable full sort, found without one.

On the CPU in two steps: the k-th largest of the maxima of disjoint groups of columns bounds the k-th score
from below, so that the few scores from that bound on hold the list and everything tied with its last place;
these alone are sorted, by one integer key of score and column. Equal scores keep the order of their
columns, whatever the batch and the number of threads. On a device `torch.topk` decides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_GROUP = 16  # columns in a group at least; from 6 to 16 the time is the same
_LONG = 8  # a row with more candidates than so many times k is sorted on its own
_LOWEST = np.finfo(np.float32).min
_LAST = np.iinfo(np.int64).max
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the k largest scores of each row that are not -inf, the largest first.

    Args:
        scores: (rows, columns) float, without nan.
        k: the length of the lists, from 1; rows with fewer scores give shorter lists.

    Returns:
        Their values (rows, k), -inf behind the end of a list, and columns (rows, k) int64, -1 there.
    """
    if scores.device.type != "cpu":
        values, columns = _by_torch(scores, min(k, scores.shape[1]))
    elif scores.dtype is torch.float32:
        values, columns = _in_two_steps(scores.contiguous(), min(k, scores.shape[1]))
    else:
        values, columns = _by_sorting(scores, min(k, scores.shape[1]))
    return _filled(values, columns, k)


def _by_torch(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, columns = scores.topk(k, dim=1)
    return values, columns


def _by_sorting(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, columns = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :k], columns[:, :k]


def _filled(values: Tensor, columns: Tensor, k: int) -> tuple[Tensor, Tensor]:
    columns = torch.where(values == -torch.inf, -1, columns)
    if (short := k - values.shape[1]) > 0:
        values = torch.nn.functional.pad(values, (0, short), value=-torch.inf)
        columns = torch.nn.functional.pad(columns, (0, short), value=-1)
    return values, columns


def _in_two_steps(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    numbers: Floats = scores.numpy()
    rows, width = numbers.shape
    flat = np.flatnonzero(numbers >= _bounds(scores, k)[:, None])
    first = np.arange(rows + 1) * width
    counts = np.diff(np.searchsorted(flat, first))
    keys = _keys(numbers.reshape(-1)[flat], flat - np.repeat(first[:-1], counts))
    best = torch.from_numpy(_smallest(keys, counts, k))
    columns = torch.where(best == _LAST, 0, best & 0xFFFFFFFF)
    return scores.gather(1, columns).masked_fill_(best == _LAST, -torch.inf), columns


def _bounds(scores: Tensor, k: int) -> Floats:
    """A lower bound of the k-th score of each row, above -inf."""
    rows, width = scores.shape
    groups = width // _GROUP
    if groups <= k:
        return np.full(rows, _LOWEST)
    height = width // groups  # so that fewer columns remain than there are groups
    whole = groups * height
    maxima = scores[:, :whole].view(rows, height, groups).amax(1)
    if (rest := width - whole) > 0:
        torch.maximum(maxima[:, :rest], scores[:, whole:], out=maxima[:, :rest])
    found: Floats = maxima.numpy()
    return np.maximum(np.partition(found, groups - k, axis=1)[:, groups - k], _LOWEST)


def _keys(values: Floats, columns: Integers) -> Integers:
    """Integers that rise as scores fall and, among equal scores, as columns rise."""
    bits = (values + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
    falling = ~(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))
    return (falling.astype(np.int64) << 32) | columns


def _smallest(keys: Integers, counts: Integers, k: int) -> Integers:
    """The k smallest keys of each row, rising; rows have so many of the keys, one behind the other."""
    few = counts <= _LONG * k
    if few.all():
        return _sorted_together(keys, counts, k)
    best = np.full((len(counts), k), _LAST)
    best[few] = _sorted_together(keys[np.repeat(few, counts)], counts[few], k)
    ends = counts.cumsum()
    for row in np.flatnonzero(~few):  # many scores are equal
        own = keys[ends[row] - counts[row] : ends[row]]
        best[row] = np.sort(np.partition(own, k - 1)[:k])
    return best


def _sorted_together(keys: Integers, counts: Integers, k: int) -> Integers:
    """Sort rows of few keys as one matrix."""
    table = np.full((len(counts), max(counts.max(initial=0), k)), _LAST)
    table[np.arange(table.shape[1]) < counts[:, None]] = keys
    table.sort(axis=1)
    return table[:, :k]
