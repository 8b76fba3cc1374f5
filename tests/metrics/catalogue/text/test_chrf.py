"""chrF: sacrebleu's number with and without words, and the reference that counts."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from drawn_texts import SHAPES, draw_texts, value
from matrix import covering
from torchmetrics.text import CHRFScore

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.features import Text
from hpometrics.metrics.registry.register import get_metric

WORDS = "the cat sat on a mat, and then it slept there. dogs!".split()


@pytest.mark.parametrize(
    ("shape", "words", "beta"),
    covering(product(SHAPES, [0, 2], [1, 2, 3]), lambda case: [case[:2], *case[2:]], ids=str),
)
def test_agrees_with_sacrebleu(shape, words, beta):
    """With references of varying number: the one with the best score of its own."""
    sacrebleu = pytest.importorskip("sacrebleu.metrics")
    texts, references = draw_texts(*shape)
    width = max(map(len, references))
    streams = [[row[i] if i < len(row) else None for row in references] for i in range(width)]
    expected = sacrebleu.CHRF(word_order=words, beta=beta).corpus_score(texts, streams).score
    assert value(f"chrf(beta={beta}, word_order={words})", texts, references) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize(
    ("shape", "words", "beta"),
    covering(product(SHAPES, [0, 2], [1, 2, 3]), lambda case: [case[:2], *case[2:]], ids=str),
)
def test_the_mean_of_the_orders_is_that_of_sacrebleu(shape, words, beta):
    """`eps_smoothing` has its name and its number: that of chrF++.py, NLTK and Moses."""
    sacrebleu = pytest.importorskip("sacrebleu.metrics")
    texts, references = draw_texts(*shape)
    width = max(map(len, references))
    streams = [[row[i] if i < len(row) else None for row in references] for i in range(width)]
    theirs = sacrebleu.CHRF(word_order=words, beta=beta, eps_smoothing=True)
    name = f"chrf(beta={beta}, eps_smoothing=true, word_order={words})"
    expected = theirs.corpus_score(texts, streams).score
    assert value(name, texts, references) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("words", [0, 2])
def test_the_mean_of_the_orders_is_that_of_torchmetrics(words, seed):
    """Of references of six characters and more: it counts n-grams that no reference is long enough for."""
    random = Random(seed)
    texts, right = ([" ".join(random.choices(WORDS, k=7)) for _ in range(20)] for _ in range(2))
    references = [[one, text[: len(text) // 2] + one] for one, text in zip(right, texts, strict=True)]
    theirs = CHRFScore(n_word_order=words)
    theirs.update(texts, references)
    name = f"chrf(eps_smoothing=true, scale=share, word_order={words})"
    assert value(name, texts, references) == pytest.approx(theirs.compute().item(), rel=1e-6)
    assert value(name.replace("true", "false"), texts, references) != pytest.approx(
        theirs.compute().item(), rel=1e-6
    )


def test_case():
    """`lowercase` makes case count for nothing; `scale=share` gives a hundredth."""
    assert value("chrf", ["ABC"], ["abc"]) == 0
    assert value("chrf(lowercase=true, scale=share)", ["ABC"], ["abc"]) == pytest.approx(1)


def test_empty_texts():
    """Nothing said, or nothing right, is a score of 0."""
    assert value("chrf", [""], ["abc"]) == 0
    assert value("chrf", ["abc"], [""]) == 0


def test_orders_that_cannot_be_counted():
    """The error says what is possible and what came."""
    with pytest.raises(MetricNameError, match=r"char_order must be at least 1.*got 0, 0"):
        get_metric("chrf(char_order=0)", Text())
