"""Beginnings: one sort gives what counters give of every order, whatever the rows are cut into."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from hpometrics.metrics.statistics import ngrams
from hpometrics.metrics.statistics.ngrams import Pairs, fits, shared_up_to
from hpometrics.metrics.statistics.token_ids import FIRST

Text = list[int]


def pairs_of(first: list[Text], second: list[Text]) -> Pairs:
    """Put the texts into arrays."""
    ids = np.array([token for text in first + second for token in text], np.int64)
    return Pairs(ids, *(np.array([len(text) for text in texts], np.int64) for texts in (first, second)))


def counted(one: Text, other: Text, order: int) -> int:
    """The shared n-grams, by counters."""
    grams = [Counter(zip(*(text[i:] for i in range(order)), strict=False)) for text in (one, other)]
    return (grams[0] & grams[1]).total()


def draw(rng: random.Random, bits: int, words: int) -> Text:
    """Draw a text, some of them empty and a few much longer than the others; its words take all the bits."""
    length = rng.choice([0, 1, 2, 5, 9, 9, 14, 15, 90])
    return [rng.choice([FIRST + rng.randrange(words), (1 << bits) - 1]) for _ in range(length)]


@pytest.mark.parametrize("block", [1, 40, 1 << 14])
@pytest.mark.parametrize(("longest", "bits", "words"), [(1, 62, 5), (2, 31, 3), (4, 15, 2), (6, 10, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_by_counters(seed, longest, bits, words, block, monkeypatch):
    """Also where the numbers take all the room there is, the rows are uneven, and counted in parts."""
    monkeypatch.setattr(ngrams, "_BLOCK", block)
    rng = random.Random(seed)
    first, second = ([draw(rng, bits, words) for _ in range(25)] for _ in range(2))
    wanted = [
        [counted(*texts, order) for texts in zip(first, second, strict=True)]
        for order in range(1, longest + 1)
    ]
    assert fits(longest, bits) and not fits(longest, bits + 62 // longest)
    assert shared_up_to(longest, bits, pairs_of(first, second)).tolist() == wanted


@pytest.mark.parametrize("rows", [0, 3])
def test_without_tokens_nothing_matches(rows):
    """No row at all, or rows of empty texts."""
    empty: list[Text] = [[] for _ in range(rows)]
    assert shared_up_to(2, 5, pairs_of(empty, empty)).tolist() == [[0] * rows] * 2
