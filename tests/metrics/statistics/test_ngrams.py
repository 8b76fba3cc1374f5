"""N-gram matches: the sort gives what counters give, however long or wide the texts."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.statistics import ngrams
from hpometrics.metrics.statistics.ngrams import NgramMatches

Text = list[int]


def draw(
    seed: int, rows: int, vocabulary: int, longest: int, most: int
) -> tuple[list[Text], list[list[Text]]]:
    """Draw texts of numbers, some empty, and one to `most` references of each."""
    rng = random.Random(seed)

    def text() -> Text:
        return [rng.randrange(vocabulary) for _ in range(rng.randrange(longest))]

    return [text() for _ in range(rows)], [[text() for _ in range(rng.randint(1, most))] for _ in range(rows)]


def counted(text: Text, order: int) -> Counter:
    """The n-grams of a text."""
    return Counter(zip(*(text[i:] for i in range(order)), strict=False))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "shape", [(30, 3, 6, 1), (30, 4, 15, 3), (5, 50, 80, 2), (1, 2, 3, 4), (20, 1, 2, 2)]
)
def test_by_counters(seed, shape):
    """Against all references at once, and against each alone."""
    texts, references = draw(seed, *shape)
    together, apart = NgramMatches(texts, references), NgramMatches(texts, references, apart=True)
    for order in (1, 2, 3, 4):
        grams = [counted(text, order) for text in texts]
        have = [[counted(one, order) for one in row] for row in references]
        pairs = [(g & one).total() for g, row in zip(grams, have, strict=True) for one in row]
        most = [Counter() for _ in texts]
        for best, row in zip(most, have, strict=True):
            for one in row:
                best |= one
        assert apart.matched(order).tolist() == pairs
        assert together.matched(order).tolist() == [(g & m).total() for g, m in zip(grams, most, strict=True)]
        assert together.predicted(order).tolist() == [g.total() for g in grams]
    assert together.matched_up_to(4).tolist() == [together.matched(order).tolist() for order in (1, 2, 3, 4)]


@pytest.mark.parametrize("long", [0, 400])
def test_texts_of_uneven_length(long):
    """One long text among short ones, and none: all orders at once are what each is by counters."""
    texts, references = draw(1, 40, 5, 12, 1)
    texts[7] = [*texts[7], *range(1, long)]
    references[9] = [[*references[9][0], *[2, 3] * long]]
    expected = [
        [
            (counted(text, order) & counted(one, order)).total()
            for text, (one,) in zip(texts, references, strict=True)
        ]
        for order in (1, 2, 3, 4)
    ]
    assert NgramMatches(texts, references).matched_up_to(4).tolist() == expected


def test_rows_without_a_reference():
    """Beside rows with several: nothing matches, and apart the others keep their own prediction."""
    texts, references = ["ab", "cd", "ef"], [[], ["cd", "cx"], ["ef"]]
    assert NgramMatches(texts, references).matched_up_to(2).tolist() == [[0, 2, 2], [0, 1, 1]]
    assert NgramMatches(texts, references, apart=True).matched_up_to(2).tolist() == [[2, 1, 2], [1, 0, 1]]


def test_as_many_references_as_rows_but_not_one_each():
    """A prediction is compared with the references of its own row only."""
    texts, references = ["ab", "cd"], [[], ["ab", "cd"]]
    assert NgramMatches(texts, references).matched_up_to(1).tolist() == [[0, 2]]
    assert NgramMatches(texts, references, apart=True).matched_up_to(1).tolist() == [[0, 2]]


def test_long_ngrams_are_numbered_anew(monkeypatch):
    """Where the bits do not suffice, n-grams are numbered by those there are: the counts stay."""
    texts, references = draw(0, 20, 40, 30, 2)
    plain = NgramMatches(texts, references).matched_up_to(6)
    monkeypatch.setattr(ngrams, "_BITS", 34)
    tight = NgramMatches(texts, references)
    assert tight.matched_up_to(6).tolist() == plain.tolist()
    assert tight.matched_up_to(40)[:6].tolist() == plain.tolist()


def test_too_many_tokens(monkeypatch):
    """Where even that does not suffice, the batch is refused rather than miscounted."""
    monkeypatch.setattr(ngrams, "_BITS", 18)
    with pytest.raises(MetricInputError, match="tokens is too large to count"):
        NgramMatches(*draw(0, 20, 40, 30, 2)).matched_up_to(6)


def test_the_nearest_reference():
    """Of lengths as near the shorter one."""
    found = NgramMatches(["abcd", "a"], [["abc", "abcde", "abcdefgh"], ["abc"]])
    assert found.closest_lengths.tolist() == [3, 3]
