"""ROUGE: how much of the references' words, pairs of words and order the predicted texts have."""

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
from .words import TextMetric, compared, per_row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Measure = Literal["f", "p", "r"]


class Shared(NamedTuple):
    """What pairs of prediction and reference share, and how much each of them has."""

    hits: Ints
    predicted: Ints
    right: Ints

    def score(self, measure: Measure) -> Floats:
        """Precision, recall or F1 of each pair; 0 where nothing is shared."""
        whole = {"p": self.predicted, "r": self.right, "f": (self.predicted + self.right) / 2}[measure]
        scores: Floats = self.hits / np.maximum(whole, 1e-9)
        return scores


def _tokenizer(stem: bool) -> tuple[str, Tokenizer]:
    return ("stemmed", stemmed_words) if stem else ("alphanumeric", alphanumeric_words)


class Rouge(TextMetric):
    """Mean over texts of a measure of what they share with their best reference.

    Args:
        measure: `r`, recall, which ParlAI's names `rouge_1`, `rouge_2` and `rouge_L` mean; `p`, precision;
            `f`, their F1 (rouge-score's). Each takes the reference that is best for it.
        stem: whether words of more than three letters are cut to their Porter stem; needs NLTK.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    """

    objective = MAXIMIZE

    def __init__(self, *, measure_: Measure, stem: bool = False) -> None:
        super().__init__()
        self.measure_: Measure = measure_
        self.stem = stem

    def shared(self, batch: Outputs) -> Shared:
        """What each pair of prediction and reference shares."""
        raise NotImplementedError(f"{type(self).__name__} needs shared(batch)")

    def measure(self, batch: Outputs) -> Tensor:
        """Give each text's score."""
        shared = batch.block(f"{type(self).__name__} {self.stem}", self.shared)
        found = compared(batch, *_tokenizer(self.stem))
        return per_row(found.best(shared.score(self.measure_)), batch)


class RougeN(Rouge):
    """ROUGE of n-grams."""

    n: ClassVar[int]

    def shared(self, batch: Outputs) -> Shared:
        """Count n-grams."""
        found = compared(batch, *_tokenizer(self.stem))
        return Shared(found.matched(self.n), found.predicted(self.n), found.right(self.n))


def _aliases(name: str, key: str, parlai: str) -> dict[str, str]:
    """The names of rouge-score and Hugging Face (F1), torchmetrics, and ParlAI (recall)."""
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
    """Mean over texts of the words shared with the best reference, as recall, precision or F1.

    Words are lower-case runs of ASCII letters and digits: a text in another script has none.

    Formula: mean over rows of the best shared words / words of the reference (of the prediction for p)
    Deviates: ParlAI's py-rouge also cuts texts at 665 bytes and maps words by WordNet.
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
    """Mean over texts of the pairs of words shared with the best reference, as recall, precision or F1.

    Words are those of `rouge_1`.

    Formula: mean over rows of the best shared pairs / pairs of the reference (of the prediction for p)
    Deviates: ParlAI's py-rouge also cuts texts at 665 bytes and maps words by WordNet.
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
    """Mean over texts of the longest common subsequence with the best reference, as recall, precision or F1.

    Words are those of `rouge_1`; the text is one sentence.

    Formula: mean over rows of the best length of the subsequence / words of the reference (prediction for p)
    Deviates: ParlAI's py-rouge also cuts texts at 665 bytes and maps words by WordNet.
    Source: Lin 2004, ACL workshop Text Summarization Branches Out; numbers of rouge-score.

    >>> metric = RougeL(measure_="f")
    >>> metric.update(["police kill the gunman"], ["police killed the gunman"])
    >>> metric.compute().item()  # "police the gunman" of 4 words each
    0.75
    """

    def shared(self, batch: Outputs) -> Shared:
        """Measure subsequences."""
        texts = words(batch, *_tokenizer(self.stem))
        pairs = zip(texts.predictions, texts.references, strict=True)
        hits = [common_length(text, other) for text, right in pairs for other in right]
        found = compared(batch, *_tokenizer(self.stem))
        return Shared(np.array(hits), found.predicted(1), found.right(1))


@register_metric("rouge_lsum", [TEXT], aliases=_aliases("rouge_lsum", "rougeLsum", "rouge_Lsum"))
class RougeLsum(Rouge):
    r"""Mean over summaries of what each line of the best reference shares in order with any predicted line.

    Lines are the sentences, words are those of `rouge_1`. The subsequences that a line of the reference has
    in common with the predicted lines are united.

    Args:
        measure: `r`, recall; `p`, precision; `f`, their F1 (rouge-score's). The field disagrees, so it must
            be said. Each takes the reference that is best for it.
        stem: whether words of more than three letters are cut to their Porter stem; needs NLTK.

    Formula: mean over rows of the best united length / words of the reference (of the prediction for p)
    Deviates: torchmetrics cuts sentences by NLTK's punkt, not at line ends.
    Source: Lin 2004, ACL workshop Text Summarization Branches Out, 3.2; numbers of rouge-score.

    >>> metric = RougeLsum(measure_="r")
    >>> metric.update(["a b f\na c e"], ["a b c d e"])
    >>> metric.compute().item()  # a, b, c, e
    0.8
    """

    def shared(self, batch: Outputs) -> Shared:
        """Unite subsequences."""
        cut = _tokenizer(self.stem)[1]
        hits = []
        for text, references in zip(batch.texts, batch.references, strict=True):
            predicted = [cut(line) for line in text.split("\n")]
            hits += [
                summary_hits(predicted, [cut(line) for line in other.split("\n")]) for other in references
            ]
        found = compared(batch, *_tokenizer(self.stem))
        return Shared(np.array(hits), found.predicted(1), found.right(1))
