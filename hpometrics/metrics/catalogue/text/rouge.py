"""ROUGE: overlap of predicted texts with references in words, pairs of words and subsequences."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ....direction import MAXIMIZE
from ...batch import Outputs
from ...features import TEXT
from ...registry.register import register_metric
from ...statistics.edits import common_length
from ...statistics.text_counts import Tokenizer, alphanumeric_words, stemmed_words, summary_hits, words
from .words import TextMetric, ngram_matches, per_row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Measure = Literal["f", "p", "r"]


class PairCounts(NamedTuple):
    """Counts of pairs of prediction and reference: the common part, and the size of each side."""

    hits: Ints
    predicted: Ints
    right: Ints

    def score(self, measure: Measure) -> Floats:
        """Return precision, recall or F1 of each pair; 0 where the common part is empty."""
        whole = {"p": self.predicted, "r": self.right, "f": (self.predicted + self.right) / 2}[measure]
        scores: Floats = self.hits / np.maximum(whole, 1e-9)
        return scores


def _tokenizer(stem: bool) -> tuple[str, Tokenizer]:
    return ("stemmed", stemmed_words) if stem else ("alphanumeric", alphanumeric_words)


class Rouge(TextMetric):
    """Base class of means over texts of the overlap with their best reference.

    Args:
        measure: `r`, recall, which ParlAI's names `rouge_1`, `rouge_2` and `rouge_L` mean; `p`, precision;
            `f`, their F1 (rouge-score's). Each uses the reference that is best for it.
        stem: whether words of more than three letters are cut to their Porter stem; needs NLTK.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    """

    direction = MAXIMIZE

    def __init__(self, *, measure_: Measure, stem: bool = False) -> None:
        super().__init__()
        self.measure_: Measure = measure_
        self.stem = stem

    def pair_counts(self, batch: Outputs) -> PairCounts:
        """Return the counts of each pair of prediction and reference."""
        raise NotImplementedError(f"{type(self).__name__} needs pair_counts(batch)")

    def measure(self, batch: Outputs) -> Tensor:
        """Return the score of each text."""
        counts = batch.block(f"{type(self).__name__} {self.stem}", self.pair_counts)
        matches = ngram_matches(batch, *_tokenizer(self.stem))
        return per_row(matches.best(counts.score(self.measure_)), batch)


class RougeN(Rouge):
    """Base class of ROUGE over n-grams."""

    n: ClassVar[int]

    def pair_counts(self, batch: Outputs) -> PairCounts:
        """Return the counts of n-grams."""
        matches = ngram_matches(batch, *_tokenizer(self.stem))
        return PairCounts(matches.matched(self.n), matches.predicted(self.n), matches.right(self.n))


def _aliases(name: str, key: str, parlai: str) -> dict[str, str]:
    """Return the names of rouge-score and Hugging Face (F1), torchmetrics, and ParlAI (recall)."""
    return {
        key: f"{name}(measure=f)",
        f"{key}_fmeasure": f"{name}(measure=f)",
        f"{key}_precision": f"{name}(measure=p)",
        f"{key}_recall": f"{name}(measure=r)",
        parlai: f"{name}(measure=r)",
    }


@register_metric(
    "rouge_1", [TEXT], aliases=_aliases("rouge_1", "rouge1", "rouge-1") | {"rouge_1": "rouge_1(measure=r)"}
)
class Rouge1(RougeN):
    """Mean overlap in words with the best reference, as recall, precision or F1.

    Words are lower-case runs of ASCII letters and digits: a text in another script has none.

    Formula: mean over rows of the best shared words / words of the reference (of the prediction for p)
    Deviates: rouge-score's score_multi and torchmetrics report precision and recall of the reference with the
        best F1. ParlAI's py-rouge also cuts texts at 665 bytes and maps words by WordNet.
    Source: Lin 2004, ACL workshop Text Summarization Branches Out; numbers of rouge-score.

    >>> metric = Rouge1(measure_="r")
    >>> metric.update(["The cat sat."], ["the cat was there"])
    >>> metric.compute().item()  # 2 of 4
    0.5
    """

    n = 1


@register_metric(
    "rouge_2", [TEXT], aliases=_aliases("rouge_2", "rouge2", "rouge-2") | {"rouge_2": "rouge_2(measure=r)"}
)
class Rouge2(RougeN):
    """Mean overlap in pairs of words with the best reference, as recall, precision or F1.

    Words are those of `rouge_1`.

    Formula: mean over rows of the best shared pairs / pairs of the reference (of the prediction for p)
    Deviates: rouge-score's score_multi and torchmetrics report precision and recall of the reference with the
        best F1. ParlAI's py-rouge also cuts texts at 665 bytes and maps words by WordNet.
    Source: Lin 2004, ACL workshop Text Summarization Branches Out; numbers of rouge-score.

    >>> metric = Rouge2(measure_="p")
    >>> metric.update(["The cat sat."], ["the cat was there"])
    >>> metric.compute().item()  # "the cat" of 2 pairs
    0.5
    """

    n = 2


@register_metric(
    "rouge_l",
    [TEXT],
    aliases=_aliases("rouge_l", "rougeL", "rouge_L")
    | dict.fromkeys(["rouge-L", "rouge_l"], "rouge_l(measure=r)"),
)
class RougeL(Rouge):
    """Mean longest common subsequence with the best reference, as recall, precision or F1.

    Words are those of `rouge_1`; the text is one sentence.

    Formula: mean over rows of the best length of the subsequence / words of the reference (prediction for p)
    Deviates: rouge-score's score_multi and torchmetrics report precision and recall of the reference with the
        best F1. ParlAI's py-rouge also cuts texts at 665 bytes and maps words by WordNet.
    Source: Lin 2004, ACL workshop Text Summarization Branches Out; numbers of rouge-score.

    >>> metric = RougeL(measure_="f")
    >>> metric.update(["police kill the gunman"], ["police killed the gunman"])
    >>> metric.compute().item()  # "police the gunman" of 4 words each
    0.75
    """

    def pair_counts(self, batch: Outputs) -> PairCounts:
        """Return the lengths of the longest common subsequences."""
        texts = words(batch, *_tokenizer(self.stem))
        pairs = zip(texts.predictions, texts.references, strict=True)
        hits = [common_length(text, other) for text, right in pairs for other in right]
        matches = ngram_matches(batch, *_tokenizer(self.stem))
        return PairCounts(np.array(hits), matches.predicted(1), matches.right(1))


@register_metric("rouge_lsum", [TEXT], aliases=_aliases("rouge_lsum", "rougeLsum", "rouge_Lsum"))
class RougeLsum(Rouge):
    r"""Mean longest common subsequence of the lines of a summary with those of the best reference.

    Lines are the sentences, words are those of `rouge_1`. The subsequences that a line of the reference has
    in common with the predicted lines are united.

    Args:
        measure: `r`, recall; `p`, precision; `f`, their F1 (rouge-score's). Libraries disagree, so it
            must be stated. Each uses the reference that is best for it.
        stem: whether words of more than three letters are cut to their Porter stem; needs NLTK.

    Formula: mean over rows of the best united length / words of the reference (of the prediction for p)
    Deviates: rouge-score's score_multi and torchmetrics report precision and recall of the reference with the
        best F1. torchmetrics cuts sentences by NLTK's punkt, not at line ends.
    Source: Lin 2004, ACL workshop Text Summarization Branches Out, 3.2; numbers of rouge-score.

    >>> metric = RougeLsum(measure_="r")
    >>> metric.update(["a b f\na c e"], ["a b c d e"])
    >>> metric.compute().item()  # a, b, c, e
    0.8
    """

    def pair_counts(self, batch: Outputs) -> PairCounts:
        """Return the lengths of the united subsequences."""
        tokens_of = _tokenizer(self.stem)[1]
        hits = []
        for text, references in zip(batch.texts, batch.references, strict=True):
            predicted = [tokens_of(line) for line in text.split("\n")]
            hits += [
                summary_hits(predicted, [tokens_of(line) for line in other.split("\n")])
                for other in references
            ]
        matches = ngram_matches(batch, *_tokenizer(self.stem))
        return PairCounts(np.array(hits), matches.predicted(1), matches.right(1))
