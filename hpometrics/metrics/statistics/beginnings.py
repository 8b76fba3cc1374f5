"""Beginnings: the n-grams that the two texts of each row share, of every order by one sort of the longest.

What begins at each token is sorted row by row as the number of its tokens, so that equal n-grams lie together
for every n. A run of them with p of one text and r of the other holds min(p, r) = (p + r - |p - r|) / 2
matches. Behind its end each text goes on with a mark that the other one never has: what its end cuts off, and
the marks themselves, match nothing, so that nothing has to be left out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from .token_ids import FIRST, Ints

_BITS = 63  # of a number that is not negative
_BLOCK = 1 << 14  # tokens that are counted at once, so that their keys stay in the cache
_ROOM = 3  # a table of rows of unequal length may be so many times as large as what it holds


class Pairs(NamedTuple):
    """Two texts of each row: their tokens as numbers, all first texts before all second ones; lengths."""

    ids: Ints
    first: Ints
    second: Ints

    @property
    def widths(self) -> tuple[int, int]:
        """The lengths of the longest first and of the longest second text."""
        return int(np.maximum.reduce(self.first)), int(np.maximum.reduce(self.second))

    def rows(self, order: Ints) -> Self:
        """Some of the rows, in this order."""
        lengths = np.concatenate([self.first, self.second])
        texts = np.concatenate([order, order + len(self.first)])
        kept = lengths[texts]
        shift = (lengths.cumsum() - lengths)[texts] - kept.cumsum() + kept
        places = shift.repeat(kept) + np.arange(kept.sum())
        return type(self)(self.ids.take(places), self.first[order], self.second[order])


def fits(longest: int, bits: int) -> bool:
    """Whether what begins at a token, and of which text it is, is a number."""
    return longest * bits < _BITS


def shared_up_to(longest: int, bits: int, pairs: Pairs) -> Ints:
    """Count the n-grams of each order up to the longest that are in both texts of each row.

    Args:
        longest: the highest order, of as many tokens as fit in a number.
        bits: how many bits a token has.
        pairs: the texts.

    Returns:
        Shape (longest, rows); an n-gram counts as often as it is in the text that has fewer of it.
    """
    if not len(pairs.ids):
        return np.zeros((longest, len(pairs.first)), np.int64)
    widths = pairs.widths
    if len(pairs.ids) <= _BLOCK and len(pairs.first) * sum(widths) <= _ROOM * len(pairs.ids):
        return _shared(longest, bits, pairs, widths)
    shared = np.empty((longest, len(pairs.first)), np.int64)
    for rows in _alike(pairs.first + pairs.second):
        part = pairs.rows(rows)
        shared[:, rows] = _shared(longest, bits, part, part.widths)
    return shared


def _alike(lengths: Ints) -> list[Ints]:
    """Rows in as few parts as have few enough tokens and a table that they fill; cut by powers of two."""
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
    return _matches(longest, bits, *_repeated(ordered.ravel(), starts, (longest - 1) * bits + 1))


def _sorted_keys(longest: int, bits: int, pairs: Pairs, widths: tuple[int, int]) -> Ints:
    """What begins at each place of a table, and last of which text it is; each of its rows is sorted."""
    gap = max(1, longest - 1)
    key = _beginning(_table(gap, pairs, widths), longest, bits)
    key <<= 1
    table = key.reshape(len(pairs.first), -1)
    table[:, widths[0] + gap :] |= 1
    table.sort(axis=1)
    return table


def _beginning(tokens: Ints, count: int, bits: int) -> Ints:
    """So many tokens from each place on as one number, made of two of half as many."""
    if count == 1:
        return tokens.copy()
    half = count // 2
    first = _beginning(tokens, half, bits)
    key = first << half * bits
    key[:-half] |= first[half:]
    if count % 2:
        key <<= bits
        key[: 1 - count] |= tokens[count - 1 :]
    return key


def _table(gap: int, pairs: Pairs, widths: tuple[int, int]) -> Ints:
    """The tokens row by row, in the room behind each text its mark."""
    ids, first, second = pairs
    width = widths[0] + gap
    tokens = np.zeros((len(first), width + widths[1] + gap), np.int64)
    tokens[:, width:] = 1  # 0 and 1 are the marks
    lengths = np.concatenate([first, second])
    begins = np.arange(0, tokens.size, tokens.shape[1])
    shift = np.concatenate([begins, begins + width]) - lengths.cumsum() + lengths
    places = shift.repeat(lengths)
    places += np.arange(len(places))
    flat = tokens.reshape(-1)
    flat[places] = ids
    return flat


def _repeated(ordered: Ints, starts: Ints, rest: int) -> tuple[Ints, Ints]:
    """Leave out marks and what a row has only once, which match nothing; also where the rows then start.

    Args:
        ordered: the sorted keys of each row.
        starts: where each row starts, and where the last one ends.
        rest: the bits of a key behind its first token.
    """
    same = np.zeros(len(ordered) + 1, np.bool_)  # as the one before
    np.less(ordered[1:] ^ ordered[:-1], 1 << rest, out=same[1:-1])
    same[starts] = False
    several = same[1:] | same[:-1]
    several &= ordered >= FIRST << rest
    kept = several.nonzero()[0]
    return ordered.take(kept), kept.searchsorted(starts)


def _matches(longest: int, bits: int, ordered: Ints, starts: Ints) -> Ints:
    """The matches of each order in each row of sorted keys."""
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
    apart = over[1:] - over[:-1]
    np.cumsum(np.abs(apart, out=apart), out=upto[1:])
    at = upto.take(runs.searchsorted(np.arange(longest)[:, None] * size + starts))
    matches: Ints = (starts[1:] - starts[:-1] - at[:, 1:] + at[:, :-1]) >> 1
    return matches
