"""Numbered: texts as small whole numbers, a number per distinct token, from words or straight from bytes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Texts = Sequence[Sequence[Hashable]]

_SPACE = ord(" ")
_WIDTH = 8  # bytes of a word that an int64 holds
_TABLE_BITS = 14
_SPREAD = 0x1E3779B97F4A7C15  # an odd number with bits all over
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WIDTH)] + [-1])


class Numbered(NamedTuple):
    """Texts as numbers from 1, one text after the other: numbers of so many bits, and the texts' lengths."""

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
    kept = ids > 1 + len(left_out)
    lengths = np.diff(np.cumsum(kept)[ids == 1], prepend=0)
    return Numbered(ids[kept], bits, lengths)


def _numbers(tokens: Iterable[Hashable], count: int, first: Sequence[Hashable]) -> tuple[Ints, int]:
    """The numbers of tokens, from 1, those of `first` first; one more number fits in the bits."""
    numbers: defaultdict[Hashable, int] = defaultdict(itertools.count(1).__next__)
    for token in first:
        numbers[token]
    ids = np.fromiter(map(numbers.__getitem__, tokens), np.int64, count)
    return ids, bits_of(len(numbers) + 1)


def numbered_bytes(text: bytes, end: str, left_out: Sequence[str]) -> Numbered:
    """Do the same with an ASCII text whose words end at spaces; its words are never made.

    A word of up to eight letters is a number by its bytes, a longer one by a table.

    >>> numbered_bytes(b"x a y . . x .", ".", ["a"]).lengths.tolist()
    [2, 0, 1]
    """
    text = b" " + text + b" " * _WIDTH
    space = np.frombuffer(text, np.uint8) == _SPACE
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    spelt = np.ndarray(len(text) - _WIDTH + 1, "<i8", text, strides=(1,)).take(starts)
    sizes = ends - starts
    spelt &= _MASKS.take(sizes, mode="clip")
    long = np.flatnonzero(sizes > _WIDTH)
    words = (text[i:j] for i, j in zip(starts[long].tolist(), ends[long].tolist(), strict=True))
    table: defaultdict[bytes, int] = defaultdict(itertools.count(-1, -1).__next__)  # ASCII is never negative
    spelt[long] = np.fromiter(map(table.__getitem__, words), np.int64, len(long))
    ended, kept = spelt == _spelt(end), np.ones(len(spelt), np.bool_)
    for word in (end, *left_out):
        kept &= spelt != _spelt(word)
    ids, bits = _ranks(spelt.compress(kept))
    closing = np.flatnonzero(ended)  # each text has one word at least, its end, which is not kept
    opening = np.append(0, closing[:-1] + 1)[: len(closing)]
    lengths = np.add.reduceat(kept, opening, dtype=np.int64)
    return Numbered(ids, bits, lengths)


def _ranks(values: Ints) -> tuple[Ints, int]:
    """Number values other than 0 from 1, most by a table; those whose place another one has, by a sort."""
    places = ((values * _SPREAD).view(np.uint64) >> np.uint64(64 - _TABLE_BITS)).view(np.int64)
    table = np.zeros(1 << _TABLE_BITS, np.int64)
    table[places] = values
    taken = np.flatnonzero(table != 0)
    numbers = np.empty_like(table)
    numbers[taken] = np.arange(1, len(taken) + 1)
    ids = numbers.take(places)
    crowded = np.flatnonzero(table.take(places) != values)
    distinct, inverse = np.unique(values.take(crowded), return_inverse=True)
    ids[crowded] = len(taken) + 1 + inverse
    return ids, bits_of(len(taken) + len(distinct) + 1)


def _spelt(word: str) -> int:
    return int.from_bytes(word.encode(), "little")


def bits_of(largest: int) -> int:
    """How many bits hold numbers up to the largest."""
    return max(1, largest.bit_length())
