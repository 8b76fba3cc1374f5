"""chrF: sacrebleu's number with and without words, and the reference that counts."""

from __future__ import annotations

from itertools import product

import pytest
from drawn_texts import SHAPES, draw_texts, value
from matrix import covering

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.features import Text
from hpometrics.metrics.registry import get_metric


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
    with pytest.raises(MetricNameError, match=r"char_order is from 1.*got 0, 0"):
        get_metric("chrf(char_order=0)", Text())
