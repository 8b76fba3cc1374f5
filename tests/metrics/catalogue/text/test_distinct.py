"""Distinct n-grams: ParlAI's formulae, pooled or by text, at a cost that grows with the texts."""

from __future__ import annotations

import io
from statistics import mean

import pytest
import torch
from drawn_texts import SHAPES, draw_texts, value

from hpometrics.metrics.features import Text
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.statistics.text_counts import normalized_words


def ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    """The n-grams of a normalized text."""
    words = normalized_words(text)
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 2])
def test_by_sets(shape, n):
    """Within each text, and over the corpus."""
    texts, _ = draw_texts(*shape)
    found = [ngrams(text, n) for text in texts]
    pooled = [ngram for text in found for ngram in text]
    within = mean(max(len(set(text)), 1e-12) / max(len(text), 1e-5) for text in found)
    assert value(f"intradistinct_{n}", texts, texts) == pytest.approx(within, rel=1e-12)
    assert value(f"interdistinct_{n}", texts, texts) == pytest.approx(
        len(set(pooled)) / len(pooled), rel=1e-12
    )


def test_values_of_parlai():
    """A text that is shorter than the n-grams scores 1e-7; a corpus of such is undefined here."""
    assert value("intradistinct_2", ["word"], ["..."]) == pytest.approx(1e-7)
    assert torch.tensor(value("interdistinct_2", ["word"], ["..."])).isnan()


def test_a_saved_state_goes_on():
    """The n-grams survive `torch.load(weights_only=True)`, other scripts and broken surrogates too."""
    first, second = get_metric("interdistinct_2", Text()), get_metric("interdistinct_2", Text())
    first.update(["naïve Ünï \udce4x", "x\u2028y z"], ["", ""])
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    for metric in (first, second):
        metric.update(["naïve Ünï", "new words"], ["", ""])
    assert second.compute() == first.compute() == pytest.approx(5 / 6)


def test_weights():
    """A row of weight 0 adds no n-gram, one of weight 2 counts twice without being more varied."""
    metric = get_metric("interdistinct_1", Text())
    metric.update(["x y", "z"], ["", ""], sample_weight=torch.tensor([2.0, 0.0]))
    assert metric.compute() == 0.5


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((1, 1), 3 / 5), ((0.5, 0.5), 1.0), ((1, 0.5), 3 / 3.5), ((2, 0.25), 2.5 / 4.75), ((1e-3, 1e-3), 1.0)],
)
def test_a_word_of_light_texts_counts_as_much_as_they_weigh(weights, expected):
    """By hand: x is in both texts, y in the first, z twice in the second; a word counts 1 at most."""
    texts, weight = ["x y", "x z z"], torch.tensor(weights, dtype=torch.float64)
    whole, first, second, restored = (get_metric("interdistinct_1", Text()) for _ in range(4))
    whole.update(texts, ["", ""], sample_weight=weight)
    for metric, part in ((first, slice(0, 1)), (second, slice(1, 2))):
        metric.update(texts[part], [""], sample_weight=weight[part])
    restored.load_state_dict(first.state_dict())
    first.merge(second)
    restored.update(texts[1:], [""], sample_weight=weight[1:])
    for metric in (whole, first, restored):
        assert metric.compute().item() == pytest.approx(expected, rel=1e-12)
