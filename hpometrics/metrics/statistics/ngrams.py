"""N-gram matches between predictions and references, counted for a whole batch at once.

Tokens are small integers and n-grams the concatenated bits of several; one sort brings equal n-grams of a row
together, with a single reference those of every order at once (`shared_up_to`). The counts are exact: no
n-gram is replaced by a hash.

With a single reference the n-grams that begin at each token are sorted row by row by the numbers of their
tokens, so that equal n-grams are adjacent for every n. A run with p of one text and r of the other has
min(p, r) = (p + r - |p - r|) / 2 matches. Each text is padded with a mark that the other text never has, so
that n-grams beyond its end match nothing and need no removal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ...exceptions import MetricInputError
from .token_ids import FIRST, Ints, Texts, TokenIds, bits_of, number_texts

_INTEGER_BITS = 63  # of a non-negative int64
_BLOCK = 1 << 14  # tokens counted at once, so that their keys stay in the cache
_ROOM = 3  # the largest ratio of the size of a padded table to the tokens in it
_BITS = 62
_ORDER_BITS = 5  # bits of a key that distinguish the orders counted at once
_MANY = 1 << 14  # tokens above which the keys of all orders at once outgrow the processor's cache


class Grams(NamedTuple):
    """The n-gram at each token of a batch, even across the ends of texts, as numbers of so many bits."""

    numbers: Ints
    bits: int


class NgramMatches:
    """The n-grams of predictions and of their references.

    Args:
        predictions: the tokens of each prediction.
        references: the tokens of each reference of each row.
        apart: whether each reference is compared on its own (a pair per reference), or each row with all its
            references at once, where an n-gram counts as often as it occurs in the reference that has the
            most of it.

    >>> matches = NgramMatches([["a", "a", "b"]], [[["a", "b"], ["a", "a"]]])
    >>> matches.matched(1).tolist(), matches.matched(2).tolist()
    ([3], [2])
    >>> NgramMatches([["a", "a", "b"]], [[["a", "b"], ["a", "a"]]], apart=True).matched(1).tolist()
    [2, 2]
    """

    def __init__(self, predictions: Texts, references: Sequence[Texts], *, apart: bool = False) -> None:
        counts = np.fromiter(map(len, references), np.int64, len(references))
        self._compare(number_texts([*predictions, *itertools.chain.from_iterable(references)]), counts, apart)

    @classmethod
    def of_numbers(cls, texts: TokenIds, counts: Ints, *, apart: bool = False) -> Self:
        """Compare texts that are already numbers: predictions, then all references, `counts` for each row."""
        matches = cls.__new__(cls)
        matches._compare(texts, counts, apart)
        return matches

    def _compare(self, texts: TokenIds, counts: Ints, apart: bool) -> None:
        single = bool((counts == 1).all())
        if apart and not single:
            texts = texts.repeated(_rows_of(counts))
        self._of_row = counts
        self._counts = np.ones(int(counts.sum()), np.int64) if apart and not single else counts
        self.pairs = len(self._counts)
        self._ids, self._id_bits, self._lengths = texts
        self._single = apart or single  # whether each pair has one reference
        self._grams = [Grams(self._ids, self._id_bits)]

    @property
    def one_pair_each(self) -> bool:
        """Whether there is a pair per row."""
        return self.pairs == len(self._of_row)

    @cached_property
    def _first(self) -> Ints:
        """The index of the first reference of each row."""
        return np.cumsum(self._of_row) - self._of_row

    @cached_property
    def _owners(self) -> Ints:
        """The pair or row of each token."""
        return np.repeat(np.concatenate([np.arange(self.pairs), _rows_of(self._counts)]), self._lengths)

    @cached_property
    def _sources(self) -> Ints:
        """The text of its owner that each token is in: 0 the prediction, from 1 the references."""
        before = (np.cumsum(self._counts) - self._counts).repeat(self._counts)
        source = np.arange(1, len(before) + 1) - before
        return np.repeat(np.concatenate([np.zeros(self.pairs, np.int64), source]), self._lengths)

    @cached_property
    def _source_bits(self) -> int:
        return bits_of(int(self._sources.max(initial=0)))

    @cached_property
    def _remaining(self) -> Ints:
        """The number of tokens of its text from each token on."""
        return np.repeat(np.cumsum(self._lengths), self._lengths) - np.arange(len(self._ids))

    @property
    def predicted_lengths(self) -> Ints:
        """The number of tokens of each pair's (or row's) prediction."""
        return self._lengths[: self.pairs]

    @property
    def reference_lengths(self) -> Ints:
        """The number of tokens of each reference, row after row."""
        return self._lengths[self.pairs :]

    @property
    def closest_lengths(self) -> Ints:
        """For each row the reference length nearest to the prediction's; of two as near, the shorter."""
        if len(self.reference_lengths) == len(self._of_row):
            return self.reference_lengths
        own = np.repeat(self.predicted_lengths, self._of_row)
        gap = np.abs(self.reference_lengths - own)
        longest = int(self.reference_lengths.max(initial=0)) + 1
        return np.minimum.reduceat(gap * longest + self.reference_lengths, self._first) % longest

    def predicted(self, order: int) -> Ints:
        """Return the number of n-grams of this order in each prediction."""
        return np.maximum(self.predicted_lengths - order + 1, 0)

    def right(self, order: int) -> Ints:
        """Return the number of n-grams of this order in each reference, row after row."""
        return np.maximum(self.reference_lengths - order + 1, 0)

    def matched(self, order: int) -> Ints:
        """Count the matched n-grams, each at most as often as a reference has it."""
        matches: Ints = self._matched([order])[0]
        return matches

    def matched_up_to(self, order: int) -> Ints:
        """Count the matches of every order up to this one, at once: shape (order, pairs)."""
        if self._single and fits(order, self._id_bits):
            texts = Pairs(self._ids, self.predicted_lengths, self.reference_lengths)
            return shared_up_to(order, self._id_bits, texts)
        if order >= 1 << _ORDER_BITS or len(self._ids) > _MANY:
            return np.stack([self.matched(one) for one in range(1, order + 1)])
        return self._matched(range(1, order + 1))

    def _matched(self, orders: Sequence[int]) -> Ints:
        bits = max(self._of_order(order).bits for order in orders)
        key = np.concatenate([self._keys(order, place, bits) for place, order in enumerate(orders)])
        key.sort()
        starts = _starts(key)
        counts = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=counts[:-1])
        counts[-1:] = len(key) - starts[-1:]
        key = key[starts]
        shared = key >> self._source_bits
        if self._source_bits == 1:
            matches, indices = _matched_once(counts, shared)
        else:
            matches, indices = _matched_most(counts, shared, key & ((1 << self._source_bits) - 1))
        by_order = np.bincount(shared[indices] >> bits, matches, len(orders) * self.pairs)
        return by_order.astype(np.int64).reshape(len(orders), self.pairs)

    def _keys(self, order: int, index: int, bits: int) -> Ints:
        """Encode each n-gram of one order with the index of its order, its owner, and its source."""
        grams = self._of_order(order).numbers
        count = len(grams)
        key = (self._owners[:count] + index * self.pairs) << bits
        key |= grams
        key <<= self._source_bits
        key |= self._sources[:count]
        return key if order == 1 else key[self._remaining[:count] >= order]

    def best(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the largest value of each row from a value per pair, for references compared apart."""
        return values if self.one_pair_each else np.maximum.reduceat(values, self._first)

    def _of_order(self, order: int) -> Grams:
        while len(self._grams) < order:
            self._grams.append(self._longer(self._grams[-1], len(self._grams)))
        return self._grams[order - 1]

    def _longer(self, grams: Grams, order: int) -> Grams:
        numbers, bits = grams
        room = _BITS - self._id_bits - bits_of(self.pairs) - _ORDER_BITS - self._source_bits
        if bits > room:  # renumber them: there are fewer n-grams than their bits allow
            distinct, numbers = np.unique(numbers, return_inverse=True)
            bits = bits_of(len(distinct))
        if bits > room:
            raise MetricInputError(f"a batch of {len(self._ids)} tokens is too large to count; split it")
        return Grams((numbers[:-1] << self._id_bits) | self._ids[order:], bits + self._id_bits)


class Pairs(NamedTuple):
    """Two texts per row: their tokens as numbers, first texts before second ones, and their lengths."""

    ids: Ints
    first: Ints
    second: Ints

    @property
    def widths(self) -> tuple[int, int]:
        """The lengths of the longest first text and of the longest second text."""
        return int(np.maximum.reduce(self.first)), int(np.maximum.reduce(self.second))

    def rows(self, order: Ints) -> Self:
        """Return the rows with these indices, in this order."""
        lengths = np.concatenate([self.first, self.second])
        texts = np.concatenate([order, order + len(self.first)])
        sizes = lengths[texts]
        shift = (lengths.cumsum() - lengths)[texts] - sizes.cumsum() + sizes
        positions = shift.repeat(sizes) + np.arange(sizes.sum())
        return type(self)(self.ids.take(positions), self.first[order], self.second[order])


def fits(longest: int, bits: int) -> bool:
    """Return whether n-grams of the longest order, and the bit for their text, fit in an int64."""
    return longest * bits < _INTEGER_BITS


def shared_up_to(longest: int, bits: int, pairs: Pairs) -> Ints:
    """Count the n-grams of each order up to the longest that are in both texts of each row.

    Args:
        longest: the highest order, for which `fits` is true.
        bits: the number of bits of a token.
        pairs: the texts.

    Returns:
        Shape (longest, rows); an n-gram counts as often as it occurs in the text that has fewer of it.
    """
    if not len(pairs.ids):
        return np.zeros((longest, len(pairs.first)), np.int64)
    widths = pairs.widths
    if len(pairs.ids) <= _BLOCK and len(pairs.first) * sum(widths) <= _ROOM * len(pairs.ids):
        return _shared(longest, bits, pairs, widths)
    shared = np.empty((longest, len(pairs.first)), np.int64)
    for rows in _similar_rows(pairs.first + pairs.second):
        part = pairs.rows(rows)
        shared[:, rows] = _shared(longest, bits, part, part.widths)
    return shared


def _similar_rows(lengths: Ints) -> list[Ints]:
    """Split rows into parts of similar lengths, each with a bounded number of tokens and little padding."""
    order = lengths.argsort()
    sizes = lengths[order]
    upto = np.append(0, sizes.cumsum())
    class_of = np.frexp(sizes)[1] * (int(upto[-1]) // _BLOCK + 1) + upto[1:] // _BLOCK
    cuts = np.flatnonzero(class_of[1:] != class_of[:-1]) + 1
    parts, start = [], 0
    for begin, end in pairwise([0, *cuts.tolist(), len(order)]):
        tokens = upto[end] - upto[start]
        if begin > start and (tokens > _BLOCK or (end - start) * sizes[end - 1] > _ROOM * tokens):
            parts.append(order[start:begin])
            start = begin
    return [*parts, order[start:]]


def _shared(longest: int, bits: int, pairs: Pairs, widths: tuple[int, int]) -> Ints:
    ordered = _sorted_keys(longest, bits, pairs, widths)
    starts = np.arange(0, ordered.size + 1, ordered.shape[1])
    return _matches(longest, bits, *_drop_unique(ordered.ravel(), starts, (longest - 1) * bits + 1))


def _sorted_keys(longest: int, bits: int, pairs: Pairs, widths: tuple[int, int]) -> Ints:
    """Return a table with the n-gram at each position and, as last bit, its text; each row is sorted."""
    gap = max(1, longest - 1)
    key = _prefix_keys(_table(gap, pairs, widths), longest, bits)
    key <<= 1
    table = key.reshape(len(pairs.first), -1)
    table[:, widths[0] + gap :] |= 1
    table.sort(axis=1)
    return table


def _prefix_keys(tokens: Ints, count: int, bits: int) -> Ints:
    """Encode `count` tokens from each position on as one number, built from two halves."""
    if count == 1:
        return tokens.copy()
    half = count // 2
    first = _prefix_keys(tokens, half, bits)
    key = first << half * bits
    key[:-half] |= first[half:]
    if count % 2:
        key <<= bits
        key[: 1 - count] |= tokens[count - 1 :]
    return key


def _table(gap: int, pairs: Pairs, widths: tuple[int, int]) -> Ints:
    """Return the tokens row by row, each text padded with its mark."""
    ids, first, second = pairs
    width = widths[0] + gap
    tokens = np.zeros((len(first), width + widths[1] + gap), np.int64)
    tokens[:, width:] = 1  # 0 and 1 are the marks
    lengths = np.concatenate([first, second])
    begins = np.arange(0, tokens.size, tokens.shape[1])
    shift = np.concatenate([begins, begins + width]) - lengths.cumsum() + lengths
    positions = shift.repeat(lengths)
    positions += np.arange(len(positions))
    flat = tokens.reshape(-1)
    flat[positions] = ids
    return flat


def _drop_unique(ordered: Ints, starts: Ints, rest: int) -> tuple[Ints, Ints]:
    """Drop marks and n-grams that occur once in a row, which match nothing; return also the row starts.

    Args:
        ordered: the sorted keys of each row.
        starts: the index at which each row starts, and the end of the last one.
        rest: the bits of a key after its first token.
    """
    same = np.zeros(len(ordered) + 1, np.bool_)  # as the one before
    np.less(ordered[1:] ^ ordered[:-1], 1 << rest, out=same[1:-1])
    same[starts] = False
    several = same[1:] | same[:-1]
    several &= ordered >= FIRST << rest
    indices = several.nonzero()[0]
    return ordered.take(indices), indices.searchsorted(starts)


def _matches(longest: int, bits: int, ordered: Ints, starts: Ints) -> Ints:
    """Count the matches of each order in each row of sorted keys."""
    size = len(ordered) + 1
    balance = np.zeros(size, np.int64)  # of what comes before
    np.cumsum((ordered & 1) * 2 - 1, out=balance[1:])
    begins = np.ones((longest, size), np.bool_)
    rest = np.arange(longest - 1, -1, -1)[:, None] * bits + 1
    np.greater_equal(ordered[1:] ^ ordered[:-1], 1 << rest, out=begins[:, 1:-1])
    begins[:, starts] = True
    runs = begins.ravel().nonzero()[0]
    over = balance.take(runs, mode="wrap")
    upto = np.zeros(len(runs), np.int64)
    balances = over[1:] - over[:-1]
    np.cumsum(np.abs(balances, out=balances), out=upto[1:])
    at = upto.take(runs.searchsorted(np.arange(longest)[:, None] * size + starts))
    matches: Ints = (starts[1:] - starts[:-1] - at[:, 1:] + at[:, :-1]) >> 1
    return matches


def _rows_of(counts: Ints) -> Ints:
    """Return the row of each reference, where each row has `counts` references."""
    return np.repeat(np.arange(len(counts)), counts)


def _starts(ordered: Ints) -> Ints:
    """Return the index at which each run of equal values begins."""
    changes = np.empty(len(ordered), np.bool_)
    changes[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def _matched_once(counts: Ints, shared: Ints) -> tuple[Ints, Ints]:
    """Count the matches with one reference, whose run follows the run of the prediction."""
    starts = np.flatnonzero(shared[1:] == shared[:-1])
    return np.minimum(counts[starts], counts[starts + 1]), starts


def _matched_most(counts: Ints, shared: Ints, source: Ints) -> tuple[Ints, Ints]:
    """Count the matches with several references; the run of the prediction, if any, is the first."""
    starts = _starts(shared)
    if not len(starts):
        return starts, starts
    most = np.maximum.reduceat(np.where(source > 0, counts, 0), starts)
    return np.where(source[starts] == 0, np.minimum(counts[starts], most), 0), starts
