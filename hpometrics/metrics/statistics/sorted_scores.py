"""Ascending: columns of stored scores, each sorted once for every area and threshold that is read from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._device import on_host
from .apart import FEW
from .scores import UNKNOWN, Scores, Stored

_AT_ONCE = 16  # columns sorted at a time, of fewer than 128 an eighth: bounds what is held beside the store
_LITTLE = 1 << 18  # so many scores are kept sorted: as many as the store has room for from the start


class Counted(NamedTuple):
    """A column whose rows count alike: all scores, and those of the positive rows, both ascending."""

    every: Tensor
    positive: Tensor


class Weighed(NamedTuple):
    """A column whose rows have weights: all scores, ascending, and what each weighs.

    `won` is the weight of the positive rows, 0 of the others. Rows of weight 0 are left out.
    """

    every: Tensor
    weight: Tensor
    won: Tensor


Ascending = Counted | Weighed


def ascending(values: Tensor, positive: Tensor, weight: Tensor | None = None) -> Ascending:
    """Sort a column.

    Args:
        values: (N,) scores.
        positive: (N,) bool.
        weight: (N,) float64 from 0; rows of weight 0 are as if absent.
    """
    if weight is None:
        return Counted(sort(values.clone()), sort(values[positive]))
    counts = weight > 0
    values, positive, weight = values[counts], positive[counts], weight[counts]
    order = places_in_order(values)
    return Weighed(values[order], weight[order], (weight * positive)[order])


def ascending_columns(scores: Scores) -> Iterable[Ascending]:
    """Each class against the rest; kept until the next update, unless that would outgrow the store."""
    return scores.derived("ascending", _all_columns) if _are_kept(scores) else _columns(scores)


def is_sorted(scores: Scores) -> bool:
    """Whether its sorted columns are at hand, or so little that they are kept for whoever asks next."""
    return _is_little(scores) or scores.has("ascending")


def ascending_column(scores: Scores, index: int) -> Ascending:
    """One class against the rest."""
    if _are_kept(scores):
        return scores.derived("ascending", _all_columns)[index]
    return ascending(*scores.column(index))


def ascending_pooled(scores: Scores) -> Ascending:
    """All columns as one: each class of each row is a yes-or-no question of its own."""
    if scores.classes == 1:
        return ascending_column(scores, 0)
    if _are_kept(scores):
        return scores.derived("ascending pooled", lambda own: ascending(*_pooled(own)))
    return ascending(*_pooled(scores))


def sort(values: Tensor) -> Tensor:
    """Sort the last dimension; on the CPU in place, by NumPy, whose vectorised sort is many times faster."""
    if not on_host(values):
        return values.sort(-1).values
    values.numpy().sort(-1)
    return values


def places_in_order(values: Tensor) -> Tensor:
    """The places of the values from the least to the largest."""
    if not on_host(values):
        return values.argsort()
    return torch.from_numpy(np.argsort(values.numpy()))


def _are_kept(scores: Scores) -> bool:
    """The one column of a binary output is, whose copy is needed to sort it at all, and what is little."""
    return scores.classes == 1 or _is_little(scores)


def _is_little(scores: Scores) -> bool:
    return scores.rows * scores.classes <= _LITTLE


def _all_columns(own: Scores) -> tuple[Ascending, ...]:
    return tuple(_columns(own))


def _columns(own: Scores) -> Iterator[Ascending]:
    """Sort a few columns at a time, so that little is held beside the store."""
    if own.weight is not None or own.has_gaps:
        yield from (ascending(*own.column(index)) for index in range(own.classes))
        return
    positive_of = _positive_of(own)
    at_once = min(_AT_ONCE, max(1, own.classes // 8))
    for first in range(0, own.classes, at_once):
        columns = torch.cat([scores[:, first : first + at_once].t() for scores, _, _ in own.filled], dim=1)
        positive = [sort(positive_of(first + i, column)) for i, column in enumerate(columns)]
        yield from map(Counted, sort(columns), positive)


def _pooled(scores: Scores) -> Stored:
    """Scores, positives and weight of all columns, one after the other."""
    values, target, weight = scores.pooled()
    classes = values.shape[1]
    positive = target == 1 if target.ndim == 2 else torch.nn.functional.one_hot(target, classes).bool()
    spread = None if weight is None else weight.unsqueeze(1).expand(values.shape)
    if scores.has_gaps:
        known = target != UNKNOWN
        return values[known], positive[known], None if spread is None else spread[known]
    return values.reshape(-1), positive.reshape(-1), None if spread is None else spread.reshape(-1)


def _positive_of(own: Scores) -> Callable[[int, Tensor], Tensor]:
    """What takes, for each class, the scores of its positive rows out of its column."""
    labels = [target for _, target, _ in own.filled]
    if labels[0].ndim == 2:
        return lambda index, column: _flagged(column, [label[:, index] for label in labels])
    if own.classes == 1:
        return lambda _, column: _flagged(column, labels)
    if own.classes <= FEW:
        return lambda index, column: _flagged(column, [label == index for label in labels])
    joined = torch.cat(labels)
    rows = torch.split(_stable_order(joined), torch.bincount(joined, minlength=own.classes).tolist())
    return lambda index, column: column[rows[index]]


def _flagged(column: Tensor, flags: list[Tensor]) -> Tensor:
    """The scores whose flag is 1; chunk by chunk, or the places of all would be held beside them."""
    parts = torch.split(column, [len(part) for part in flags])
    if not on_host(column):
        return torch.cat([part[flag.bool()] for part, flag in zip(parts, flags, strict=True)])
    own = [flag.view(torch.bool).numpy() for flag in flags]
    ends = np.cumsum([np.count_nonzero(flag) for flag in own])
    found = np.empty(ends[-1], column.numpy().dtype)
    for part, flag, room in zip(parts, own, np.split(found, ends[:-1]), strict=True):
        part.numpy().compress(flag, out=room)
    return torch.from_numpy(found)


def _stable_order(labels: Tensor) -> Tensor:
    if not on_host(labels):
        return labels.argsort(stable=True)
    return torch.from_numpy(labels.numpy().argsort(kind="stable"))  # a radix sort of 16-bit labels
