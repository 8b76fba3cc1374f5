"""Numbered: texts as small whole numbers, a number per distinct token, from words or straight from bytes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..batch import Outputs
from .totals import RowTotals

Ints = NDArray[np.int64]
Texts = Sequence[Sequence[Hashable]]

FIRST = 2
"""The smallest number of a token: two smaller ones are left to whoever marks where a text ends."""

_SPACE = ord(" ")
_WIDTH = 8  # bytes of a word that an int64 holds
_BYTES = f"V{_WIDTH}"  # which may lie anywhere in a text, as numbers do not
_TABLE_BITS = 14
_DENSE = 1 << 13  # tokens from which the place of one takes too many bits
_SPREADS = (0x1E3779B97F4A7C15, 0x2545F4914F6CDD1D, 0x27BB2EE687B0B0FD)  # odd, with bits all over
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WIDTH)] + [-1])


class Numbered(NamedTuple):
    """Texts as numbers from `FIRST`, one after the other: numbers of so many bits, and the texts' lengths."""

    ids: Ints
    bits: int
    lengths: Ints

    def filled(self) -> Numbered:
        """The same with one number in each empty text: that of no token."""
        empty = self.lengths == 0
        if not empty.any():
            return self
        places = (np.cumsum(self.lengths) - self.lengths)[empty]
        blank = (1 << self.bits) - 1
        return Numbered(np.insert(self.ids, places, blank), self.bits, np.maximum(self.lengths, 1))

    def repeated(self, rows: Ints) -> Numbered:
        """Of predictions, then references: the prediction of each reference's row, then the references."""
        ends = np.cumsum(self.lengths)
        order = np.concatenate([rows, np.arange(len(self.lengths) - len(rows), len(self.lengths))])
        lengths = self.lengths[order]
        shift = np.repeat((ends - self.lengths)[order] - np.cumsum(lengths) + lengths, lengths)
        return Numbered(self.ids[shift + np.arange(len(shift))], self.bits, lengths)


def numbered(texts: Texts) -> Numbered:
    """Number the distinct tokens of texts."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ids, bits = _numbers(itertools.chain.from_iterable(texts), int(lengths.sum()), ())
    return Numbered(ids, bits, lengths)


def numbered_running(tokens: Sequence[str], end: str, left_out: Sequence[str]) -> Numbered:
    """Number running tokens, in which `end` closes each text, without those left out.

    >>> numbered_running(["x", "a", "y", ".", ".", "x", "."], ".", ["a"]).lengths.tolist()
    [2, 0, 1]
    """
    ids, bits = _numbers(tokens, len(tokens), (end, *left_out))
    kept = ids > FIRST + len(left_out)
    lengths = np.diff(np.cumsum(kept)[ids == FIRST], prepend=0)
    return Numbered(ids[kept], bits, lengths)


def _numbers(tokens: Iterable[Hashable], count: int, first: Sequence[Hashable]) -> tuple[Ints, int]:
    """The numbers of tokens, those of `first` first; one more number fits in the bits."""
    numbers: defaultdict[Hashable, int] = defaultdict(itertools.count(FIRST).__next__)
    for token in first:
        numbers[token]
    ids = np.fromiter(map(numbers.__getitem__, tokens), np.int64, count)
    return ids, bits_of(FIRST + len(numbers))


def numbered_bytes(text: bytes, end: str, left_out: Sequence[str]) -> Numbered:
    """Do the same with an ASCII text whose words end at spaces; its words are never made.

    A word of up to eight letters is a number by its bytes, a longer one by a table.

    >>> numbered_bytes(b"x a y . . x .", ".", ["a"]).lengths.tolist()
    [2, 0, 1]
    """
    text = b" " + text + b" " * _WIDTH
    space = np.frombuffer(text, np.uint8) == _SPACE
    edges = (space[1:] != space[:-1]).nonzero()[0]  # each is one before where a word starts or has ended
    starts, ends = edges[::2], edges[1::2]
    spelt = np.ndarray(len(text) - _WIDTH, _BYTES, text, 1, strides=(1,)).take(starts).view("<i8")
    sizes = ends - starts
    spelt &= _MASKS.take(sizes, mode="clip")
    long = (sizes > _WIDTH).nonzero()[0]
    words = (text[i + 1 : j + 1] for i, j in zip(starts[long].tolist(), ends[long].tolist(), strict=True))
    table: defaultdict[bytes, int] = defaultdict(itertools.count(-1, -1).__next__)  # ASCII is never negative
    spelt[long] = np.fromiter(map(table.__getitem__, words), np.int64, len(long))
    ended = spelt == _spelt(end)
    kept = ~ended
    for word in left_out:
        kept &= spelt != _spelt(word)
    ids, bits = _numbers_of(spelt.compress(kept))
    closing = ended.nonzero()[0]  # each text has one word at least, its end, which is not kept
    opening = np.zeros_like(closing)
    opening[1:] = closing[:-1] + 1
    lengths = np.add.reduceat(kept, opening, dtype=np.int64)
    return Numbered(ids, bits, lengths)


def _numbers_of(values: Ints) -> tuple[Ints, int]:
    """Number values by a place of each."""
    places = _places_of(values, _SPREADS)
    count = len(places)
    if count > _DENSE:
        places, count = _dense(places)
    places += FIRST
    return places, bits_of(FIRST + count)


def _places_of(values: Ints, spreads: Sequence[int]) -> Ints:
    """Of each value the same place of it, by a table; of those whose entry another has taken by a next one.

    Values that crowd every table are sorted.
    """
    if not spreads:
        _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        return first.take(inverse)
    entries = ((values * spreads[0]).view(np.uint64) >> np.uint64(64 - _TABLE_BITS)).view(np.int64)
    table = np.empty(1 << _TABLE_BITS, np.int64)
    table[entries] = np.arange(len(values))
    places = table.take(entries)
    crowded = (values.take(places) != values).nonzero()[0]
    if len(crowded):
        places[crowded] = crowded.take(_places_of(values.take(crowded), spreads[1:]))
    return places


def _dense(places: Ints) -> tuple[Ints, int]:
    """The same places counted from 0 without gaps, and how many there are."""
    used = np.zeros(len(places), np.bool_)
    used[places] = True
    upto = np.cumsum(used)
    return upto.take(places) - 1, int(upto[-1])


@cache
def _spelt(word: str) -> int:
    return int.from_bytes(word.encode(), "little")


def bits_of(largest: int) -> int:
    """How many bits hold numbers up to the largest."""
    return max(1, largest.bit_length())


_CELLS = 1 << 24  # of one table of positions by positions


class Decoded(NamedTuple):
    """Token ids (N, T) of predictions and target, and how many of each row, from the left, count."""

    preds: Tensor
    preds_lengths: Tensor
    target: Tensor
    target_lengths: Tensor


def decoded(batch: Outputs, end: int | None) -> Decoded:
    """The block of sequences as they would be read.

    Without an `end` token, prediction and target are read at the positions that count. With one, each ends
    before its first: the prediction may then be longer or shorter than the target.
    """
    return batch.block(f"decoded {end}", lambda batch: _decoded(batch, end))


def _decoded(batch: Outputs, end: int | None) -> Decoded:
    counted, preds = batch.counted, batch.predictions.long()
    to_the_left = (~counted).long().argsort(dim=1, stable=True)
    target, length = batch.index.gather(1, to_the_left), counted.sum(1)
    if end is None:
        return Decoded(preds.gather(1, to_the_left), length, target, length)
    return Decoded(preds, _before(preds, end), target, torch.minimum(length, _before(target, end)))


def _before(ids: Tensor, end: int) -> Tensor:
    """How many tokens stand before the first `end` of each row."""
    return ((ids == end).cumsum(1) == 0).sum(1)


class SequenceBleuCounts(RowTotals):
    """Lengths, matches and possible matches of n-grams of ids: [predicted, target, orders + orders]."""

    def __init__(self, orders: int, end: int | None, unk: int | None) -> None:
        super().__init__(orders=orders, end=end, unk=unk)

    def columns(self, batch: Outputs) -> Tensor:
        """Count each row; some rows at a time, so that no table of positions becomes large."""
        found = decoded(batch, self.params["end"])
        rows = max(1, _CELLS // max(1, found.preds.shape[1]) ** 2)
        parts = zip(*(torch.split(tensor, rows) for tensor in found), strict=True)
        return torch.cat([self._counts(Decoded(*part)) for part in parts])

    def _counts(self, found: Decoded) -> Tensor:
        places = torch.arange(found.preds.shape[1], device=found.preds.device)
        said = places < found.preds_lengths.unsqueeze(1)
        right = places < found.target_lengths.unsqueeze(1)
        if self.params["unk"] is not None:
            right &= found.target != self.params["unk"]
        shared = _pairs(found.preds, found.target) & said.unsqueeze(2) & right.unsqueeze(1)
        again = _pairs(found.preds, found.preds) & said.unsqueeze(2) & said.unsqueeze(1)
        matched, possible, same, repeated = [], [], shared, again
        for order in range(1, self.params["orders"] + 1):
            if order > 1:
                same, repeated = _longer(same, shared, order), _longer(repeated, again, order)
            earlier = repeated.tril(-1).sum(2)  # how often the n-gram came before in the prediction
            matched.append((earlier < same.sum(2)).sum(1))
            possible.append((found.preds_lengths - order + 1).clamp(min=0))
        return torch.stack([found.preds_lengths, found.target_lengths, *matched, *possible], 1).double()


def _pairs(first: Tensor, second: Tensor) -> Tensor:
    return first.unsqueeze(2) == second.unsqueeze(1)


def _longer(same: Tensor, tokens: Tensor, order: int) -> Tensor:
    """Where n-grams of one order more are the same: those of before, and the tokens behind them."""
    longer = torch.zeros_like(same)
    step = order - 1
    longer[:, :-step, :-step] = same[:, :-step, :-step] & tokens[:, step:, step:]
    return longer
