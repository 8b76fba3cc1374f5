"""TER: sacrebleu's number, whatever text is empty."""

from __future__ import annotations

import random
from itertools import product

import pytest
from drawn_texts import value
from matrix import covering


def draw(seed: int, streams: int, empty: float) -> tuple[list[str], list[list[str]]]:
    """Draw short texts of five words, so that shifts pay, some of them empty."""
    rng = random.Random(seed)

    def text() -> str:
        return "" if rng.random() < empty else " ".join(rng.choices("abCd.", k=rng.randint(1, 8)))

    return [text() for _ in range(30)], [[text() for _ in range(streams)] for _ in range(30)]


@pytest.mark.parametrize(
    ("seed", "streams", "empty"),
    covering(product(range(5), [1, 2, 3], [0.0, 0.3, 0.9]), lambda case: [case[1:]]),
)
def test_agrees_with_sacrebleu(seed, streams, empty):
    """Of any corpus, with empty predictions and empty references too."""
    sacrebleu = pytest.importorskip("sacrebleu")
    texts, references = draw(seed, streams, empty)
    expected = sacrebleu.corpus_ter(texts, [list(stream) for stream in zip(*references, strict=True)]).score
    assert 100 * value("ter", texts, references) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "texts, references, expected",
    [
        (["", ""], ["a b c", "d e"], 1.0),
        (["", "d x"], ["a b c", "d e"], 0.8),
        (["a b", "x"], ["", "x"], 2.0),
        (["a b", ""], ["", ""], 1.0),
        (["", ""], ["", ""], 0.0),
        ([""], [["a b", "a b c d"]], 2 / 3),
        (["c a b"], ["a b c"], 1 / 3),
    ],
)
def test_by_hand(texts, references, expected):
    """Edits over words: every word of the other side where one is empty; 1 where the references have none."""
    assert value("ter", texts, references) == pytest.approx(expected)
