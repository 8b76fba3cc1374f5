"""Texts as small integers, one per distinct token, and BLEU counts of sequences of token ids."""

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
"""The smallest number of a token; the two smaller ones are reserved for marks at the ends of texts."""

_SPACE = ord(" ")
_WIDTH = 8  # bytes of a word that fit in an int64
_BYTES = f"V{_WIDTH}"  # may begin anywhere in a text, unlike an aligned integer
_TABLE_BITS = 14
_DENSE = 1 << 13  # the number of tokens from which an index takes too many bits
_SPREADS = (0x1E3779B97F4A7C15, 0x2545F4914F6CDD1D, 0x27BB2EE687B0B0FD)  # odd, with bits all over
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WIDTH)] + [-1])
_CELLS = 1 << 24  # cells of one table of positions by positions


class TokenIds(NamedTuple):
    """Texts as numbers from `FIRST` on, concatenated: the numbers, their bits, the lengths of the texts."""

    ids: Ints
    bits: int
    lengths: Ints

    def filled(self) -> TokenIds:
        """Return the texts with one number in each empty text that is the number of no token."""
        empty = self.lengths == 0
        if not empty.any():
            return self
        places = (np.cumsum(self.lengths) - self.lengths)[empty]
        blank = (1 << self.bits) - 1
        return TokenIds(np.insert(self.ids, places, blank), self.bits, np.maximum(self.lengths, 1))

    def repeated(self, rows: Ints) -> TokenIds:
        """Return the prediction of each reference's row, then the references."""
        ends = np.cumsum(self.lengths)
        order = np.concatenate([rows, np.arange(len(self.lengths) - len(rows), len(self.lengths))])
        lengths = self.lengths[order]
        shift = np.repeat((ends - self.lengths)[order] - np.cumsum(lengths) + lengths, lengths)
        return TokenIds(self.ids[shift + np.arange(len(shift))], self.bits, lengths)


def number_texts(texts: Texts) -> TokenIds:
    """Number the distinct tokens of texts."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ids, bits = _number_tokens(itertools.chain.from_iterable(texts), int(lengths.sum()), ())
    return TokenIds(ids, bits, lengths)


def number_running_words(tokens: Sequence[str], end: str, left_out: Sequence[str]) -> TokenIds:
    """Number the tokens of concatenated texts, each closed by `end`, without those in `left_out`.

    >>> number_running_words(["x", "a", "y", ".", ".", "x", "."], ".", ["a"]).lengths.tolist()
    [2, 0, 1]
    """
    ids, bits = _number_tokens(tokens, len(tokens), (end, *left_out))
    is_word = ids > FIRST + len(left_out)
    lengths = np.diff(np.cumsum(is_word)[ids == FIRST], prepend=0)
    return TokenIds(ids[is_word], bits, lengths)


def _number_tokens(tokens: Iterable[Hashable], count: int, first: Sequence[Hashable]) -> tuple[Ints, int]:
    """Number tokens, those of `first` first; one more number fits in the bits."""
    numbers: defaultdict[Hashable, int] = defaultdict(itertools.count(FIRST).__next__)
    for token in first:
        numbers[token]
    ids = np.fromiter(map(numbers.__getitem__, tokens), np.int64, count)
    return ids, bits_of(FIRST + len(numbers))


def number_bytes(text: bytes, end: str, left_out: Sequence[str]) -> TokenIds:
    """Number the words of an ASCII text, which end at spaces, without creating a string for each word.

    A word of up to eight letters is encoded by its bytes, a longer one by a table.

    >>> number_bytes(b"x a y . . x .", ".", ["a"]).lengths.tolist()
    [2, 0, 1]
    """
    text = b" " + text + b" " * _WIDTH
    space = np.frombuffer(text, np.uint8) == _SPACE
    edges = (space[1:] != space[:-1]).nonzero()[0]  # each is one before the start or the end of a word
    starts, ends = edges[::2], edges[1::2]
    codes = np.ndarray(len(text) - _WIDTH, _BYTES, text, 1, strides=(1,)).take(starts).view("<i8")
    sizes = ends - starts
    codes &= _MASKS.take(sizes, mode="clip")
    long = (sizes > _WIDTH).nonzero()[0]
    words = (text[i + 1 : j + 1] for i, j in zip(starts[long].tolist(), ends[long].tolist(), strict=True))
    table: defaultdict[bytes, int] = defaultdict(itertools.count(-1, -1).__next__)  # ASCII is never negative
    codes[long] = np.fromiter(map(table.__getitem__, words), np.int64, len(long))
    is_end = codes == _word_code(end)
    is_word = ~is_end
    for word in left_out:
        is_word &= codes != _word_code(word)
    ids, bits = _number_values(codes.compress(is_word))
    closing = is_end.nonzero()[0]  # each text has at least one word, its end, which is dropped
    opening = np.zeros_like(closing)
    opening[1:] = closing[:-1] + 1
    lengths = np.add.reduceat(is_word, opening, dtype=np.int64)
    return TokenIds(ids, bits, lengths)


def _number_values(values: Ints) -> tuple[Ints, int]:
    """Number values by the index of one occurrence of each."""
    places = _representatives(values, _SPREADS)
    count = len(places)
    if count > _DENSE:
        places, count = _compact(places)
    places += FIRST
    return places, bits_of(FIRST + count)


def _representatives(values: Ints, spreads: Sequence[int]) -> Ints:
    """Return for each value the index of one occurrence of it, the same for equal values.

    Indices come from a hash table; values whose entry is in use by another go to a next table, and those that
    collide in every table are sorted.
    """
    if not spreads:
        _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        return first.take(inverse)
    entries = ((values * spreads[0]).view(np.uint64) >> np.uint64(64 - _TABLE_BITS)).view(np.int64)
    table = np.empty(1 << _TABLE_BITS, np.int64)
    table[entries] = np.arange(len(values))
    places = table.take(entries)
    collisions = (values.take(places) != values).nonzero()[0]
    if len(collisions):
        places[collisions] = collisions.take(_representatives(values.take(collisions), spreads[1:]))
    return places


def _compact(places: Ints) -> tuple[Ints, int]:
    """Return the same indices renumbered from 0 without gaps, and how many there are."""
    used = np.zeros(len(places), np.bool_)
    used[places] = True
    upto = np.cumsum(used)
    return upto.take(places) - 1, int(upto[-1])


@cache
def _word_code(word: str) -> int:
    return int.from_bytes(word.encode(), "little")


def bits_of(largest: int) -> int:
    """Return the number of bits that hold numbers up to the largest."""
    return max(1, largest.bit_length())


class Sequences(NamedTuple):
    """Token ids (N, T) of predictions and target, and the lengths of the rows, which start at the left."""

    preds: Tensor
    preds_lengths: Tensor
    target: Tensor
    target_lengths: Tensor


def decode_sequences(batch: Outputs, end: int | None) -> Sequences:
    """Return the block of decoded sequences.

    Without an `end` token, prediction and target are read at the counted positions. With one, each stops
    before its first `end`: the prediction may then be longer or shorter than the target.
    """
    return batch.block(f"decoded {end}", lambda batch: _decode(batch, end))


def _decode(batch: Outputs, end: int | None) -> Sequences:
    is_counted, preds = batch.counted, batch.predictions.long()
    order = (~is_counted).long().argsort(dim=1, stable=True)
    target, length = batch.index.gather(1, order), is_counted.sum(1)
    if end is None:
        return Sequences(preds.gather(1, order), length, target, length)
    return Sequences(
        preds, _length_before(preds, end), target, torch.minimum(length, _length_before(target, end))
    )


def _length_before(ids: Tensor, end: int) -> Tensor:
    """Return the number of tokens before the first `end` of each row."""
    return ((ids == end).cumsum(1) == 0).sum(1)


class SequenceBleuCounts(RowTotals):
    """Lengths, matches and possible matches of n-grams of ids: [predicted, target, orders + orders]."""

    def __init__(self, orders: int, end: int | None, unk: int | None) -> None:
        super().__init__(orders=orders, end=end, unk=unk)

    def columns(self, batch: Outputs) -> Tensor:
        """Count each row, some rows at a time, to bound the size of the table of positions."""
        sequences = decode_sequences(batch, self.params["end"])
        rows = max(1, _CELLS // max(1, sequences.preds.shape[1]) ** 2)
        parts = zip(*(torch.split(tensor, rows) for tensor in sequences), strict=True)
        return torch.cat([self._counts(Sequences(*part)) for part in parts])

    def _counts(self, sequences: Sequences) -> Tensor:
        positions = torch.arange(sequences.preds.shape[1], device=sequences.preds.device)
        is_predicted = positions < sequences.preds_lengths.unsqueeze(1)
        is_target = positions < sequences.target_lengths.unsqueeze(1)
        if self.params["unk"] is not None:
            is_target &= sequences.target != self.params["unk"]
        shared = (
            _pairs(sequences.preds, sequences.target) & is_predicted.unsqueeze(2) & is_target.unsqueeze(1)
        )
        own_pairs = (
            _pairs(sequences.preds, sequences.preds) & is_predicted.unsqueeze(2) & is_predicted.unsqueeze(1)
        )
        matched, possible, same, own_same = [], [], shared, own_pairs
        for order in range(1, self.params["orders"] + 1):
            if order > 1:
                same, own_same = _longer(same, shared, order), _longer(own_same, own_pairs, order)
            earlier = own_same.tril(-1).sum(2)  # how often the n-gram came before in the prediction
            matched.append((earlier < same.sum(2)).sum(1))
            possible.append((sequences.preds_lengths - order + 1).clamp(min=0))
        return torch.stack(
            [sequences.preds_lengths, sequences.target_lengths, *matched, *possible], 1
        ).double()


def _pairs(first: Tensor, second: Tensor) -> Tensor:
    return first.unsqueeze(2) == second.unsqueeze(1)


def _longer(same: Tensor, tokens: Tensor, order: int) -> Tensor:
    """Return where n-grams of the next order are equal: where the shorter ones and the tokens after are."""
    longer = torch.zeros_like(same)
    step = order - 1
    longer[:, :-step, :-step] = same[:, :-step, :-step] & tokens[:, step:, step:]
    return longer
