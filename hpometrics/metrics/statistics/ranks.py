"""Ranks: of values, of pairs of rows in two orders, and of the true class among the scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._device import on_host
from ..batch import Outputs
from .statistic import Reduction, Statistic, refuse_other_width, tally

_BLOCK = 32
"""Rows whose pairs are compared one by one; from 16 to 64 the time is the same."""


def _codes(values: Tensor) -> Tensor:
    _, codes = torch.unique(values, return_inverse=True)
    return codes  # type: ignore[no-any-return]  # torch does not annotate what unique returns


def _inversions(codes: Tensor, weight: Tensor) -> float:
    """Sum the weights of the pairs whose earlier row has the higher code, one bit of the codes at a time.

    Rows that agree in all higher bits stand together, in their original order: a pair is inverted at the bit
    in which it differs first, if its earlier row has the 1. `first` is where the block of a code begins.
    """
    bits = max(1, int(codes.max()).bit_length())
    counts = torch.bincount(codes, minlength=1 << bits)
    first = counts.cumsum(0) - counts
    positions = torch.arange(len(codes), device=codes.device)
    total = torch.zeros((), dtype=torch.float64, device=codes.device)
    for bit in reversed(range(bits)):
        is_one = (codes >> bit) & 1 == 1
        start = first[codes >> (bit + 1) << (bit + 1)]
        ones, heavier = _before(is_one.long(), start), _before(torch.where(is_one, weight, 0.0), start)
        total += torch.where(is_one, 0.0, weight * heavier).sum()
        position = first[codes >> bit << bit] + torch.where(is_one, ones, positions - start - ones)
        codes = torch.empty_like(codes).scatter_(0, position, codes)
        weight = torch.empty_like(weight).scatter_(0, position, weight)
    return float(total)


def _before(values: Tensor, start: Tensor) -> Tensor:
    """Return the sum of values from each row's start up to the row itself, exclusive."""
    sums = values.cumsum(0) - values
    return sums - sums[start]


class Ranks(Statistic):
    """A histogram of the rank of the true class among the scores, 0, 1, 2, ...; (C,) int64.

    With weights it is float64. Of equal scores the class with the lower index comes first, as in argmax: rank
    0 is a correct prediction. One histogram serves every top-k.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"histogram": "sum"}
    weighted: ClassVar[bool] = True
    regroups = True

    @property
    def histogram(self) -> Tensor:
        """The number of rows by the rank of their true class, float64."""
        return self.derived("histogram", lambda own: own._state["histogram"].double())

    def check(self, batch: Outputs) -> None:
        """Refuse another number of classes than before.

        Raises:
            MetricInputError: the batch has another one.
        """
        refuse_other_width(batch, len(self._state["histogram"]) if self._state else None)

    def update(self, batch: Outputs) -> None:
        """Rank one batch."""
        ranks = batch.block("true_rank", _true_rank)
        self.add(histogram=tally(ranks, batch.weight, batch.scores.shape[1]))


class ClassHits(Statistic):
    """Per class, its rows whose true class is among the first k, and all its rows: (2, C) int64.

    With weights it is float64. Ranks are those of `Ranks`.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"hits": "sum"}
    weighted: ClassVar[bool] = True
    regroups = True

    def __init__(self, k: int) -> None:
        super().__init__(k=k)

    @property
    def recalls(self) -> Tensor:
        """The share of hits of each class that occurs in the target, float64."""
        hits, rows = self._state["hits"].double()
        occurs = rows > 0
        shares: Tensor = hits[occurs] / rows[occurs]
        return shares

    def check(self, batch: Outputs) -> None:
        """Refuse another number of classes than before.

        Raises:
            MetricInputError: the batch has another one.
        """
        refuse_other_width(batch, self._state["hits"].shape[1] if self._state else None)

    def update(self, batch: Outputs) -> None:
        """Rank one batch, and count hits and misses per class."""
        classes = batch.scores.shape[1]
        hit = batch.block("true_rank", _true_rank) < self.params["k"]
        missed, hits = tally(batch.index + classes * hit, batch.weight, 2 * classes).view(2, classes)
        self.add(hits=torch.stack([hits, hits + missed]))


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows in two orders; a pair weighs the product of the weights of its rows.

    Attributes:
        concordant: the weight of the pairs in the same order in both.
        discordant: the weight of the pairs in opposite orders.
        total: the squared weight of all rows.
        same_x, same_y: the squared weights of the groups of equal values, summed.
        groups: the number of distinct values on the side that has fewer.
    """

    concordant: float
    discordant: float
    total: float
    same_x: float
    same_y: float
    groups: int

    @classmethod
    def of(cls, x: Tensor, y: Tensor, weight: Tensor) -> Pairs:
        """Count the pairs of (N,) values x and y.

        >>> Pairs.of(torch.tensor([1, 2, 3]), torch.tensor([1, 3, 2]), torch.ones(3)).discordant
        1.0
        """
        if on_host(x) and bool((weight == 1).all()):
            return cls.of_rows(x.numpy(), y.numpy())
        x, y, weight = _codes(x), _codes(y), weight.double()
        width = int(y.max()) + 1
        both = x * width + y
        order = both.argsort()
        discordant = _inversions(y[order], weight[order])
        same_x, same_y, same = (
            float(torch.bincount(codes, weight).square().sum()) for codes in (x, y, _codes(both))
        )
        total = float(weight.sum().square())
        concordant = (total - same_x - same_y + same) / 2 - discordant
        return cls(concordant, discordant, total, same_x, same_y, min(int(x.max()) + 1, width))

    @classmethod
    def of_rows(cls, x: NDArray[Any], y: NDArray[Any]) -> Pairs:
        """Count the pairs of (N,) values without weights.

        >>> Pairs.of_rows(np.array([1, 2, 3]), np.array([1, 3, 2])).discordant
        1.0
        """
        order, is_new = _stable_order(y)
        same_y, codes = _pairs_of_equals(is_new), np.cumsum(is_new, dtype=np.int32)
        order, is_new_x = _stable_order(x[order])  # of equal x the lower y comes first
        codes = codes[order]
        same_x, same = _pairs_of_equals(is_new_x), _pairs_of_equals(is_new_x | _is_new(codes))
        total, discordant = float(len(x) ** 2), float(_count_inversions(codes))
        concordant = (total - same_x - same_y + same) / 2 - discordant
        groups = min(int(np.count_nonzero(is_new_x)), int(codes.max()))
        return cls(concordant, discordant, total, same_x, same_y, groups)


def _stable_order(values: NDArray[Any]) -> tuple[NDArray[np.integer[Any]], NDArray[np.bool_]]:
    """Return the indices that sort values, of equal values the earlier first, and which then are new.

    Where float32 holds all values, one integer key of value and index is sorted, several times as fast.
    """
    narrow = values
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float32) + 0.0  # both zeros become 0.0
    if values.dtype.kind != "f" or not np.array_equal(narrow, values):
        order = np.argsort(values, kind="stable")
        return order, _is_new(values[order])
    bits = narrow.view(np.int32)
    keys = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys <<= 32
    keys |= np.arange(len(keys))
    keys.sort()
    return keys.astype(np.uint32), _is_new(keys >> 32)


def _is_new(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values differ from the one before; the first does."""
    is_new = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_new[1:])
    return is_new


def _pairs_of_equals(is_new: NDArray[np.bool_]) -> float:
    """Sum the squared lengths of the runs that begin where values are new."""
    lengths = np.diff(np.flatnonzero(is_new), append=len(is_new))
    return float((lengths * lengths).sum())


def _count_inversions(codes: NDArray[np.int32]) -> int:
    """Count the pairs whose earlier row has the higher code, by merging sorted blocks of doubled length.

    In a merged pair of blocks of B codes the j-th code of the right block has p - j codes of the left one
    before it, if it is at place p; the other B - p + j are higher.
    """
    block = _BLOCK
    blocks = 1 << max(0, -(-len(codes) // block) - 1).bit_length()
    table = np.full((blocks, block), np.iinfo(np.int32).max, np.int32)
    table.reshape(-1)[: len(codes)] = codes
    total = sum(
        int(np.count_nonzero(table[:, i : i + 1] > table[:, i + 1 :]))
        for i in range(min(block, len(codes)) - 1)
    )
    table.sort(axis=1)
    while len(table) > 1:
        table = table.reshape(-1, 2 * block)
        places = np.flatnonzero(table.argsort(axis=1, kind="stable") >= block) & (2 * block - 1)
        total += len(table) * (block * block + block * (block - 1) // 2) - int(places.sum())
        block *= 2
        if len(table) > 1:
            table.sort(axis=1, kind="stable")
    return total


def mean_ranks(values: Tensor, weight: Tensor) -> Tensor:
    """Rank (N,) values by the weight below them; equal values share the middle of their positions.

    >>> mean_ranks(torch.tensor([5.0, 1.0, 5.0]), torch.ones(3)).tolist()  # positions 2 and 3 are shared
    [2.0, 0.5, 2.0]
    """
    group = _codes(values)
    weights = torch.bincount(group, weight.double())
    return (weights.cumsum(0) - weights / 2)[group]


def _true_rank(batch: Outputs) -> Tensor:
    scores, index = batch.scores, batch.index.unsqueeze(1)
    true = scores.gather(1, index)
    above = _count_classes(torch.gt, scores, true)
    if on_host(scores) and _count_classes(torch.eq, scores, true).amax() == 1:
        return above.long()
    before = torch.arange(scores.shape[1], device=scores.device) < index
    return above.long() + (scores == true).logical_and_(before).sum(1)  # of equals the lower index is first


def _count_classes(compare: Callable[..., Tensor], scores: Tensor, true: Tensor) -> Tensor:
    """Count the classes whose score compares so to the true one's; floats add up faster than bools."""
    return compare(scores, true, out=torch.empty_like(scores)).sum(1)
