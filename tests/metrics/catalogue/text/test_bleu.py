"""BLEU: NLTK's number of every sentence, sacrebleu's of every corpus."""

from __future__ import annotations

from itertools import product
from statistics import mean

import pytest
from drawn_texts import SHAPES, draw_texts, value
from matrix import covering, pairs
from torchmetrics.text import SacreBLEUScore

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Text
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.statistics.text_counts import normalized


@pytest.mark.parametrize(
    ("shape", "order"), covering(product(SHAPES, [1, 2, 3, 4]), lambda case: case, ids=str)
)
def test_sentences_agree_with_nltk(shape, order):
    """Weights 1/k, smoothing method 1 with 1e-12, on normalized texts split at single spaces."""
    nltk = pytest.importorskip("nltk.translate.bleu_score")
    texts, references = draw_texts(*shape)
    smoothing = nltk.SmoothingFunction(epsilon=1e-12).method1

    def of_nltk(text: str, right: list[str]) -> float:
        cut = [normalized(one).split(" ") for one in right]
        return nltk.sentence_bleu(cut, normalized(text).split(" "), [1 / order] * order, smoothing)

    expected = mean(of_nltk(*row) for row in zip(texts, references, strict=True))
    assert value(f"bleu_{order}", texts, references) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("shape", "lowercase", "smooth", "tokenize"),
    covering(
        product(SHAPES, [False, True], ["exp", "none", "floor"], ["13a", "char", "none"]),
        lambda case: pairs(*case),
        ids=str,
    ),
)
def test_a_corpus_agrees_with_sacrebleu(shape, tokenize, smooth, lowercase):
    """With references of varying number."""
    sacrebleu = pytest.importorskip("sacrebleu.metrics")
    texts, references = draw_texts(*shape)
    width = max(map(len, references))
    streams = [[row[i] if i < len(row) else None for row in references] for i in range(width)]
    other = sacrebleu.BLEU(tokenize=tokenize, smooth_method=smooth, lowercase=lowercase, force=True)
    name = f'bleu(lowercase={str(lowercase).lower()}, smooth={smooth}, tokenize="{tokenize}")'
    assert value(name, texts, references) == pytest.approx(
        other.corpus_score(texts, streams).score, rel=1e-12
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("told", "written"), [(False, "smooth=none"), (True, "add_k=1")])
def test_torchmetrics_smooths_by_adding_one(told, written, seed):
    """SacreBLEUScore, in its single precision; of one reference a text."""
    texts, references = draw_texts(seed, 6, 9, 1)
    theirs = SacreBLEUScore(smooth=told)
    theirs.update(texts, references)
    assert value(f"bleu(scale=share, {written})", texts, references) == pytest.approx(
        theirs.compute().item(), rel=1e-5
    )


@pytest.mark.parametrize("add_k", [1, 0.5, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_added_is_that_of_sacrebleu(shape, add_k):
    """Its smooth_method add-k, with any smooth_value."""
    sacrebleu = pytest.importorskip("sacrebleu.metrics")
    texts, references = draw_texts(*shape)
    width = max(map(len, references))
    streams = [[row[i] if i < len(row) else None for row in references] for i in range(width)]
    other = sacrebleu.BLEU(smooth_method="add-k", smooth_value=add_k, force=True)
    expected = other.corpus_score(texts, streams).score
    assert value(f"bleu(add_k={add_k})", texts, references) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(MetricNameError, match="add_k must be a number of at least 0, got -1"):
        get_metric("bleu(add_k=-1)", Text())


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_shorter_orders_agree_with_sacrebleu(order):
    """`order` is sacrebleu's max_ngram_order; `scale=share` a hundredth."""
    sacrebleu = pytest.importorskip("sacrebleu.metrics")
    texts, references = draw_texts(5, 30, 9, 1)
    expected = (
        sacrebleu.BLEU(max_ngram_order=order).corpus_score(texts, [[row[0] for row in references]]).score
    )
    assert value(f"bleu(order={order})", texts, references) == pytest.approx(expected, rel=1e-12)
    assert value(f"bleu(order={order}, scale=share)", texts, references) == pytest.approx(expected / 100)


@pytest.mark.parametrize(
    "order, text, right, expected",
    [
        (2, "hi there", "hi there", 1),
        (3, "hi there", "hi there", 1e-4),
        (4, "hi there", "hi there", 1e-6),
        (3, "w x y z", "w x q z", 5e-5),
        (4, "w x y z", "w x q z", 5.946e-7),
        (1, "", "x", 0),
        (1, "The", "a", 1),
        (4, "The", "a", 1e-9),
        (4, "u v w x", "a b c d", 0),
    ],
)
def test_values_of_parlai(order, text, right, expected):
    """Short texts, no word in common, texts that normalize to nothing."""
    assert value(f"bleu_{order}", [text], [right]) == pytest.approx(expected, rel=1e-3, abs=1e-300)


def test_nothing_matches():
    """A corpus without a common word has a BLEU of 0, as has one of empty texts."""
    assert value("bleu", ["a b c d e"], ["v w x y z"]) == 0
    assert value("bleu", [""], ["v w x y z"]) == 0


def test_an_order_that_is_not_counted():
    """The error names the range."""
    with pytest.raises(MetricNameError, match="order must be from 1 to 4, got 5"):
        get_metric("bleu(order=5)", Text())


def test_orders_share_their_counts():
    """Two BLEUs of one tokenizer read one statistic."""
    panel = MetricCollection(["bleu", "bleu(order=2)", "bleu(smooth=none)"], output=Text())
    assert len(panel.statistics) == 1
