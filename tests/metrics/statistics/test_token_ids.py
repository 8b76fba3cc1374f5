"""Numbered texts: from bytes as from words, whatever the words' lengths and however full the table."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hpometrics.metrics.statistics import token_ids
from hpometrics.metrics.statistics.token_ids import FIRST, number_bytes, number_running_words


def first_places(ids: np.ndarray) -> list[int]:
    """Where each number occurs first: the same of two numberings of the same tokens."""
    return np.unique(ids, return_index=True, return_inverse=True)[1][
        np.unique(ids, return_inverse=True)[1]
    ].tolist()


@pytest.mark.parametrize(("bits", "dense"), [(2, 1000), (2, 10), (5, 1000), (14, 10), (14, 1000)])
@pytest.mark.parametrize("seed", range(4))
def test_bytes_give_what_words_give(seed, bits, dense, monkeypatch):
    """Equal words have equal numbers, other words others, those above eight letters too; some stay free."""
    monkeypatch.setattr(token_ids, "_TABLE_BITS", bits)
    monkeypatch.setattr(token_ids, "_DENSE", dense)
    rng = random.Random(seed)
    words = ["".join(rng.choices("xyz", k=rng.randint(1, 12))) for _ in range(60)] + [
        "a",
        "the",
        ".",
        "x" * 9,
    ]
    text = " ".join([*rng.choices(words, k=800), "."])
    short, long = number_bytes(text.encode(), ".", ["a"]), number_running_words(text.split(), ".", ["a"])
    assert first_places(short.ids) == first_places(long.ids)
    assert short.lengths.tolist() == long.lengths.tolist()
    assert short.ids.min() >= FIRST and short.ids.max() < (1 << short.bits) - 1
    assert dense > 10 or len(set(short.ids.tolist())) == short.ids.max() + 1 - FIRST


def test_empty_texts_are_filled():
    """With a number that no token has."""
    filled = number_running_words(["x", ".", "."], ".", []).filled()
    assert filled.lengths.tolist() == [1, 1]
    assert len(set(filled.ids.tolist())) == 2


@pytest.mark.parametrize("text", ["", ".", "a .", "a . . x ."])
def test_texts_without_words_have_no_length(text):
    """From bytes as from words: no text at all, or one of which nothing is saved."""
    found, wanted = number_bytes(text.encode(), ".", ["a"]), number_running_words(text.split(), ".", ["a"])
    assert found.lengths.tolist() == wanted.lengths.tolist()
    assert len(found.ids) == len(wanted.ids)
