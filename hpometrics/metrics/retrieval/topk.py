"""The best k of each row: the list of a stable full sort, found without one.

On the CPU in two steps: the k-th largest of the maxima of disjoint groups of columns bounds the k-th score
from below, so that the few scores from that bound on hold the list and everything tied with its last place;
these alone are sorted, by one integer key of score and place. Equal scores keep the order of their
columns, whatever the batch and the number of threads. On a device `torch.topk` decides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._device import on_host

_GROUP = 16  # columns in a group at least; from 6 to 16 the time is the same
_LONG = 8  # a row with more candidates than so many times k is sorted on its own
_LOWEST = np.finfo(np.float32).min
_LAST = (0x7F800000 << 32) | 0xFFFFFFFF  # the key of -inf in place -1, which comes after all others
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
    depth = min(k, scores.shape[1])
    if not on_host(scores):
        values, columns = _ended(*_by_torch(scores, depth))
    elif scores.dtype is torch.float32:
        values, columns = _in_two_steps(scores.contiguous(), depth)
    else:
        values, columns = _ended(*_by_sorting(scores, depth))
    return _filled(values, columns, k)


def _by_torch(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, columns = scores.topk(k, dim=1)
    return values, columns


def _by_sorting(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, columns = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :k], columns[:, :k]


def _ended(values: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    return values, torch.where(values == -torch.inf, -1, columns)


def _filled(values: Tensor, columns: Tensor, k: int) -> tuple[Tensor, Tensor]:
    if (short := k - values.shape[1]) > 0:
        values = torch.nn.functional.pad(values, (0, short), value=-torch.inf)
        columns = torch.nn.functional.pad(columns, (0, short), value=-1)
    return values, columns


def _in_two_steps(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    numbers: Floats = scores.numpy()
    rows, width = numbers.shape
    flat = _candidates(numbers, _bounds(scores, k))
    first = np.arange(rows + 1) * width
    counts = np.diff(flat.searchsorted(first))
    found = numbers.reshape(-1).take(flat)
    values, places = _read(_smallest(_keys(found, flat), counts, k))
    places -= first[:-1, None]
    return torch.from_numpy(values), torch.from_numpy(np.maximum(places, -1, out=places))


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


def _candidates(numbers: Floats, bounds: Floats) -> Integers:
    """Where scores reach the bound of their row, of scores laid out flat, rising.

    Flags are read eight at a time first: one in seventy is set, and each costs a processor that guesses the
    next one several times what a word of eight without any costs.
    """
    size = numbers.size
    flags = np.empty(-(-size // 8) * 8, dtype=np.bool_)
    flags[size:] = False
    np.greater_equal(numbers, bounds[:, None], out=flags[:size].reshape(numbers.shape))
    words = flags.view(np.uint64)
    some = np.flatnonzero(words != 0)
    inside = np.flatnonzero(words.take(some).view(np.bool_))
    found: Integers = some.take(inside >> 3)
    found *= 8
    found += inside & 7
    return found


def _keys(values: Floats, places: Integers) -> Integers:
    """Integers that rise as scores fall and, among equal scores, as places rise."""
    keys = _rising((0 - values).view(np.int32)).astype(np.int64)  # both zeros become 0.0
    keys <<= 32
    keys |= places
    return keys


def _read(keys: Integers) -> tuple[Floats, Integers]:
    """Scores and places of keys; of the last key -inf and -1."""
    values: Floats = 0 - _rising((keys >> 32).astype(np.int32)).view(np.float32)
    return values, keys.astype(np.int32).astype(np.int64)


def _rising(bits: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The bits of scores as integers of the same order; and these as bits again."""
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))


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
