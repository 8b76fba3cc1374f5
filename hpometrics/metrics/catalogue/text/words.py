"""Exact match and word overlap of texts, with ParlAI's and SQuAD's normalization."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....direction import MAXIMIZE
from ..._device import send_to
from ...batch import Outputs
from ...features import PREDICTIONS, TEXT, OutputFeature
from ...metric import MeanMetric, Metric
from ...registry.register import register_metric
from ...statistics.ngrams import NgramMatches
from ...statistics.statistic import block
from ...statistics.text_counts import (
    ARTICLES,
    END,
    Tokenizer,
    closed_predictions,
    closed_references,
    is_plain,
    normalized_words,
    running_words,
    squad_words,
    words,
)
from ...statistics.token_ids import TokenIds, number_bytes, number_running_words

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Overlap(NamedTuple):
    """Precision, recall and F1 of words, each with its own best reference per row."""

    precision: Floats
    recall: Floats
    f1: Floats


def draw_texts(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> dict[str, Any]:
    """Draw a batch for the laws: texts of 2 to 9 words, of which a share `noise` is replaced at random."""
    texts: list[str] = []
    references: list[list[str]] = []
    for _ in range(rows):
        length = int(torch.randint(2, 10, (), generator=random))
        right, other, guess = torch.randint(40, (3, length), generator=random)
        answer = torch.where(torch.rand(length, generator=random) < noise, guess, right)
        texts.append(_text(answer))
        references.append([_text(right), _text(other)][: 1 + length % 2])
    return {"predictions": texts, "target": references}


def _text(numbers: Tensor) -> str:
    return " ".join(f"w{number}" for number in numbers.tolist())


class ReferenceMetric(Metric):
    """Base class of metrics of predicted texts and their references.

    The texts are the predictions and the target, or the extras `texts` and `references` beside token ids.

    Shape:
        predictions: N texts.
        target: N texts, or N lists of one or more references.

    Raises:
        MetricInputError: token ids instead of texts, or a row without a reference.
    """

    inputs = PREDICTIONS
    extras: ClassVar[tuple[str, ...]] = ("texts", "references")
    draw_batch = staticmethod(draw_texts)


class TextMetric(ReferenceMetric, MeanMetric):
    """Base class of means over texts, each measured on its own."""


def per_row(values: NDArray[Any], batch: Outputs) -> Tensor:
    """Return values of rows as a tensor on the device of the batch's target."""
    return send_to(torch.from_numpy(values.astype(np.float64)), batch.target.device)


def ngram_matches(batch: Outputs, name: str, tokenizer: Tokenizer) -> NgramMatches:
    """Return the block of n-gram matches of each prediction with each of its references separately."""

    def make(batch: Outputs) -> NgramMatches:
        if tokenizer is normalized_words:
            return NgramMatches.of_numbers(numbers(batch), reference_counts(batch), apart=True)
        return NgramMatches(*words(batch, name, tokenizer), apart=True)

    return batch.block(f"n-grams {name}", make)


@block
def numbers(batch: Outputs) -> TokenIds:
    """Return the block of the normalized words of all predictions, then of all references, as numbers."""
    text = closed_predictions(batch) + closed_references(batch)
    if is_plain(text):
        return number_bytes(text, END, ARTICLES)
    return number_running_words(running_words(text), END, ARTICLES)


def reference_counts(batch: Outputs) -> Ints:
    """Return the number of references of each row."""
    if batch.single_references is not None:
        return np.ones(len(batch), np.int64)
    return np.fromiter(map(len, batch.references), np.int64, len(batch.references))


def overlap(batch: Outputs, name: str, tokenizer: Tokenizer) -> Overlap:
    """Return the block of overlaps of words; texts without words overlap with nothing."""
    return batch.block(f"overlap {name}", lambda batch: _overlap(ngram_matches(batch, name, tokenizer)))


def _overlap(matches: NgramMatches) -> Overlap:
    hits = matches.matched(1)
    predicted, right = matches.predicted_lengths, matches.reference_lengths
    ratios = (
        hits / np.maximum(predicted, 1),
        hits / np.maximum(right, 1),
        2 * hits / np.maximum(predicted + right, 1),
    )
    return Overlap(*map(matches.best, ratios))


def _any_equal(batch: Outputs, name: str, tokenizer: Tokenizer) -> Tensor:
    """Return 1 for each row whose prediction has the words of one of its references, else 0."""
    texts = words(batch, name, tokenizer)
    hits = [text in right for text, right in zip(texts.predictions, texts.references, strict=True)]
    return per_row(np.array(hits), batch)


class WordMetric(TextMetric):
    """Base class of means over texts of the words that they share with their best reference."""

    direction = MAXIMIZE


@register_metric("accuracy", [TEXT], aliases=["exact_match", "em"])
class TextAccuracy(WordMetric):
    """Share of texts that equal one of their references, after normalization.

    Normalization is ParlAI's: lower case; ASCII punctuation, "a", "an", "the" become single spaces.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: rows whose normalized prediction is a normalized reference / rows
    Source: ParlAI's accuracy (ExactMatchMetric).

    >>> metric = TextAccuracy()
    >>> metric.update(["The cat!", "a dog"], ["cat", ["cat", "frog"]])
    >>> metric.compute().item()
    0.5
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return 1 for each text that equals a reference, else 0."""
        return _any_equal(batch, "normalized", normalized_words)


@register_metric("f1", [TEXT], aliases=["f1_unigram", "unigram_f1", "nlg_f1"])
class TextF1(WordMetric):
    """Mean F1 of the words of a text and of its best reference, after normalization.

    Words are counted as often as they occur. Normalization is ParlAI's, see `accuracy`; a text that
    normalizes to nothing scores 0. With several references, this F1, `precision` and `recall` each use the
    reference that is best for it.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: mean over rows of the best 2 shared words / (predicted words + words of the reference)
    Source: ParlAI's f1 (F1Metric).

    >>> metric = TextF1()
    >>> metric.update(["x x x"], ["x"])
    >>> metric.compute().item()  # precision 1/3, recall 1
    0.5
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return the F1 of each text."""
        return per_row(overlap(batch, "normalized", normalized_words).f1, batch)


@register_metric("precision", [TEXT], aliases=["unigram_precision"])
class TextPrecision(WordMetric):
    """Mean share of the words of a text that its best reference has, after normalization.

    Words are counted as often as they occur. Normalization is ParlAI's, see `accuracy`; a text that
    normalizes to nothing scores 0.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: mean over rows of the best shared words / predicted words
    Source: ParlAI's precision.

    >>> metric = TextPrecision()
    >>> metric.update(["hello there world"], ["hello world"])
    >>> round(metric.compute().item(), 4)
    0.6667
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return the precision of each text."""
        return per_row(overlap(batch, "normalized", normalized_words).precision, batch)


@register_metric("recall", [TEXT], aliases=["unigram_recall"])
class TextRecall(WordMetric):
    """Mean share of the words of the best reference that a text has, after normalization.

    Words are counted as often as they occur. Normalization is ParlAI's, see `accuracy`; a reference that
    normalizes to nothing scores 0.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: mean over rows of the best shared words / words of the reference
    Source: ParlAI's recall.

    >>> metric = TextRecall()
    >>> metric.update(["x y"], [["x", "x y z w"]])
    >>> metric.compute().item()  # all of "x"
    1.0
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return the recall of each text."""
        return per_row(overlap(batch, "normalized", normalized_words).recall, batch)


@register_metric("squad_em", [TEXT], aliases=["squad_exact_match"])
class SquadExactMatch(WordMetric):
    """Share of answers that equal one of the right ones, after SQuAD's normalization.

    Unlike in `accuracy`, punctuation is deleted and not replaced by a space: "don't" is one word.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: rows whose normalized prediction is a normalized reference / rows
    Deviates: SQuAD's script and torchmetrics print percent.
    Source: Rajpurkar et al. 2016, EMNLP.

    >>> metric = SquadExactMatch()
    >>> metric.update(["The U.S.", "France"], [["US"], ["in France"]])
    >>> metric.compute().item()
    0.5
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return 1 for each answer that equals a right one, else 0."""
        return _any_equal(batch, "squad", squad_words)


@register_metric("squad_f1", [TEXT])
class SquadF1(WordMetric):
    """Mean F1 of the words of an answer and of the best right answer, after SQuAD's normalization.

    An answer and a reference that both normalize to nothing agree: F1 is 1 for them, as for the unanswerable
    questions of SQuAD 2.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: mean over rows of the best 2 shared words / (predicted words + words of the reference)
    Deviates: SQuAD's script and torchmetrics print percent.
    Source: Rajpurkar et al. 2016, EMNLP; Rajpurkar et al. 2018, ACL.

    >>> metric = SquadF1()
    >>> metric.update(["the big cat"], [["cat", "big dog"]])
    >>> round(metric.compute().item(), 4)  # 2 * 1 / (2 + 1)
    0.6667
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return the F1 of each answer."""
        both_empty = _any_equal(batch, "squad", squad_words)
        return torch.maximum(both_empty, per_row(overlap(batch, "squad", squad_words).f1, batch))
