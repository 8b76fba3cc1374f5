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

_GROUP = 12  # columns in a group; from 6 to 16 the time is the same
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
    row = flat // width if width else flat
    counts = np.bincount(row, minlength=rows)
    keys = _keys(numbers.reshape(-1)[flat], flat - row * width)
    best: Integers = np.full((rows, k), _LAST)
    long = counts > _LONG * k
    if long.any():
        _sort_each(best, keys, counts, np.flatnonzero(long))
        short = ~long[row]
        keys, row, counts = keys[short], row[short], np.where(long, 0, counts)
    _sort_together(best, keys, row, counts, np.flatnonzero(~long))
    columns = torch.from_numpy(np.where(best == _LAST, 0, best & 0xFFFFFFFF))
    values = scores.gather(1, columns)
    return values.masked_fill(torch.from_numpy(best == _LAST), -torch.inf), columns


def _bounds(scores: Tensor, k: int) -> Floats:
    """A lower bound of the k-th score of each row, above -inf."""
    rows, width = scores.shape
    groups = width // _GROUP
    if groups <= k:
        return np.full(rows, _LOWEST)
    whole = groups * _GROUP
    maxima = scores[:, :whole].view(rows, _GROUP, groups).amax(1)
    if (rest := width - whole) > 0:
        torch.maximum(maxima[:, :rest], scores[:, whole:], out=maxima[:, :rest])
    found: Floats = maxima.numpy()
    return np.maximum(np.partition(found, groups - k, axis=1)[:, groups - k], _LOWEST)


def _keys(values: Floats, columns: Integers) -> Integers:
    """Integers that rise as scores fall and, among equal scores, as columns rise."""
    bits = (values + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
    falling = ~(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))
    return (falling.astype(np.int64) << 32) | columns


def _sort_together(best: Integers, keys: Integers, row: Integers, counts: Integers, which: Integers) -> None:
    """Sort the candidates of rows that have few of them, as one matrix."""
    if not len(which) or not len(keys):
        return
    k = best.shape[1]
    width = max(int(counts.max()), k)
    table = np.full((len(counts), width), _LAST)
    start = np.cumsum(counts) - counts
    table[row, np.arange(len(keys)) - start[row]] = keys
    table.sort(axis=1)
    best[which] = table[which, :k]


def _sort_each(best: Integers, keys: Integers, counts: Integers, which: Integers) -> None:
    """Sort the candidates of rows with many equal scores, one row at a time."""
    start = np.cumsum(counts) - counts
    k = best.shape[1]
    for row in which:
        own = keys[start[row] : start[row] + counts[row]]
        best[row] = np.sort(np.partition(own, k - 1)[:k])
