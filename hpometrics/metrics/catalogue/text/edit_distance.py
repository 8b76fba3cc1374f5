"""Edit distances of texts, and error rates over words and characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import TEXT
from ...registry.register import register_metric
from ...statistics.edits import align, edit_distance, edit_distances, extended_edits, shifted_edits
from ...statistics.statistic import Statistic
from ...statistics.text_counts import Words, words
from ...statistics.totals import RowTotals
from .words import ReferenceMetric, TextMetric, per_row

Unit = Literal["word", "character"]


def _tokens(batch: Outputs, unit: Unit) -> Words:
    """Return the words of the texts, or the texts themselves, whose elements are characters."""
    return words(batch, "raw words", str.split) if unit == "word" else Words(batch.texts, batch.references)


class Pairs(NamedTuple):
    """Each prediction beside each of its references, row after row."""

    left: Sequence[Sequence[str]]
    right: Sequence[Sequence[str]]
    starts: NDArray[np.int64] | None
    """The first pair of each row, (rows,); None if every row has one."""


def _pairs(batch: Outputs, unit: Unit) -> Pairs:
    if unit == "character" and batch.single_references is not None:
        return Pairs(batch.texts, batch.single_references, None)
    texts = _tokens(batch, unit)
    left, right = texts.predictions, list(chain.from_iterable(texts.references))
    if len(right) == len(left):
        return Pairs(left, right, None)
    counts = np.fromiter(map(len, texts.references), np.int64, len(left))
    return Pairs(list(chain.from_iterable(map(repeat, left, counts))), right, np.cumsum(counts) - counts)


def nearest(pairs: Pairs) -> NDArray[np.float64]:
    """Return the edits to the reference with the fewest edits per token, and its length, (rows, 2)."""
    counts = np.empty((len(pairs.right), 2))
    counts[:, 0] = edit_distances(pairs.left, pairs.right)
    counts[:, 1] = np.fromiter(map(len, pairs.right), np.float64, len(counts))
    if pairs.starts is None:
        return counts
    rows = np.searchsorted(pairs.starts, np.arange(len(counts)), side="right")
    order = np.lexsort((counts[:, 1], counts[:, 0] / np.maximum(counts[:, 1], 1), rows))
    return counts[order[pairs.starts]]


class EditCounts(RowTotals):
    """Counts of the edits and the length of the nearest reference, over words or characters."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit=unit)

    def columns(self, batch: Outputs) -> Tensor:
        """Return the counts of each row."""
        return per_row(nearest(_pairs(batch, self.params["unit"])), batch)


class AlignedCounts(RowTotals):
    """Counts of edits, hits and lengths of prediction and nearest reference, over words."""

    def columns(self, batch: Outputs) -> Tensor:
        """Return the counts of each row."""
        texts = _tokens(batch, "word")
        right = [_nearest_words(*row) for row in zip(texts.predictions, texts.references, strict=True)]
        numbers: dict[str, int] = {}
        first, first_lengths = _padded(texts.predictions, numbers)
        second, second_lengths = _padded(right, numbers)
        edits, hits = align(first, first_lengths, second, second_lengths)
        return per_row(torch.stack([edits, hits, first_lengths, second_lengths], 1).numpy(), batch)


class ShiftedCounts(RowTotals):
    """Counts of edits and shifts of words to the reference with the fewest, and the mean length of all."""

    def __init__(self, case_sensitive: bool) -> None:
        super().__init__(case_sensitive=case_sensitive)

    def columns(self, batch: Outputs) -> Tensor:
        """Return the counts of each row."""
        texts = _tokens(batch, "word") if self.params["case_sensitive"] else words(batch, "lower", _lower)
        counts = [
            (min(shifted_edits(text, right) for right in row), sum(map(len, row)) / len(row))
            for text, row in zip(texts.predictions, texts.references, strict=True)
        ]
        return per_row(np.array(counts).reshape(-1, 2), batch)


def _lower(text: str) -> list[str]:
    return text.lower().split()


def _nearest_words(text: Sequence[str], references: Sequence[Sequence[str]]) -> Sequence[str]:
    if len(references) == 1:
        return references[0]
    return min(references, key=lambda right: (edit_distance(text, right) / max(len(right), 1), len(right)))


def _padded(texts: Sequence[Sequence[str]], numbers: dict[str, int]) -> tuple[Tensor, Tensor]:
    """Return the numbers of the words, rows padded to one length, and the lengths of the rows."""
    rows = [torch.tensor([numbers.setdefault(word, len(numbers)) for word in text]).long() for text in texts]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
    return padded, torch.tensor([len(row) for row in rows])


class ErrorRate(ReferenceMetric):
    """Base class of ratios of pooled edit counts.

    Shape:
        predictions: N texts.
        target: N texts, or N lists of one or more references (the one with the fewest edits per word counts).
    """


class EditsPerToken(ErrorRate):
    """Base class of edits per token of the references, where a token is a `unit` of the texts."""

    direction = MINIMIZE
    unit: ClassVar[Unit]

    def statistics(self) -> dict[str, Statistic]:
        """Return the edits over words or characters."""
        return {"edits": EditCounts(self.unit)}

    def compute(self) -> Tensor:
        """Divide edits by tokens."""
        edits, length = self.statistic(EditCounts).total
        return edits / length if length else self.undefined(f"the references contain no {self.unit}")


class AlignmentRate(ErrorRate):
    """Base class of functions of the edits, the hits and both lengths of alignments."""

    def statistics(self) -> dict[str, Statistic]:
        """Return the counts of the alignments."""
        return {"alignments": AlignedCounts()}


@register_metric("wer", [TEXT], aliases=["word_error_rate"])
class WordErrorRate(EditsPerToken):
    """Word error rate: word edits that turn predictions into references, per word of the references.

    Words are separated by white space; nothing is normalized. Among several references the one with the
    fewest edits per word counts.

    Shape:
        predictions: N texts.
        target: N texts, or N lists of one or more references.
    Value: float from 0, edits per word, 0 is best; nan if the references hold no word.
    Formula: (substitutions + deletions + insertions) / words of the references, both pooled
    Deviates: Ludwig averages the rates of batches.
    Source: Levenshtein 1966, Soviet Physics Doklady 10(8); jiwer and torchmetrics agree.

    >>> metric = WordErrorRate()
    >>> metric.update(["the cat sat", "hello"], ["a cat sat", "hello"])
    >>> metric.compute().item()  # 1 of 4 words
    0.25
    """

    unit = "word"


@register_metric("cer", [TEXT], aliases=["char_error_rate"])
class CharacterErrorRate(EditsPerToken):
    """Character error rate: character edits that turn predictions into references, per character of them.

    Spaces are characters; nothing is normalized. Among several references the one with the fewest edits per
    character counts.

    Shape:
        predictions: N texts.
        target: N texts, or N lists of one or more references.
    Value: float from 0, edits per character, 0 is best; nan if the references hold no character.
    Formula: (substitutions + deletions + insertions) / characters of the references, both pooled
    Deviates: Ludwig averages the rates of batches.
    Source: Levenshtein 1966, Soviet Physics Doklady 10(8); jiwer and torchmetrics agree.

    >>> metric = CharacterErrorRate()
    >>> metric.update(["cart"], ["cat"])
    >>> round(metric.compute().item(), 4)  # 1 / 3
    0.3333
    """

    unit = "character"


@register_metric("edit_distance", [TEXT])
class EditDistance(TextMetric):
    """Mean number of character edits that turn a text into its nearest reference.

    Value: float from 0, in edits, 0 is best; nan before the first row.
    Formula: mean over rows of the fewest substitutions + deletions + insertions
    Deviates: torchmetrics looks at 25 places around the diagonal only and can miss the fewest edits.
    Source: Levenshtein 1966, Soviet Physics Doklady 10(8).

    >>> metric = EditDistance()
    >>> metric.update(["kitten", "cat"], ["sitting", ["dog", "cat"]])
    >>> metric.compute().item()
    1.5
    """

    direction = MINIMIZE

    def measure(self, batch: Outputs) -> Tensor:
        """Return the distance of each text."""
        left, right, starts = _pairs(batch, "character")
        edits = edit_distances(left, right)
        return per_row(edits if starts is None else np.minimum.reduceat(edits, starts), batch)


@register_metric("mer", [TEXT])
class MatchErrorRate(AlignmentRate):
    """Match error rate: the share of the aligned words that are edits.

    Among the alignments with the fewest edits the one with the most matches counts. Words are separated by
    white space; nothing is normalized.

    Value: float in [0, 1], no unit, 0 is best; nan if no text holds a word.
    Formula: edits / (hits + edits), both pooled
    Deviates: torchmetrics divides by the longer of the two texts, which leaves insertions beside deletions
        out; jiwer takes whichever alignment it meets first.
    Source: Morris, Maier & Green 2004, Interspeech.

    >>> metric = MatchErrorRate()
    >>> metric.update(["a b"], ["b c"])
    >>> round(metric.compute().item(), 4)  # a deleted, b kept, c inserted
    0.6667
    """

    direction = MINIMIZE

    def compute(self) -> Tensor:
        """Divide edits by edits and hits."""
        edits, hits, _, _ = self.statistic(AlignedCounts).total
        return edits / (edits + hits) if edits + hits else self.undefined("no text contains a word")


class PreservedWords(AlignmentRate):
    """Base class of word information preserved or lost, a function of hits and both lengths."""

    def preserved_share(self) -> Tensor:
        """Return the product of the shares of predicted and of right words that are hits."""
        _, hits, predicted, right = self.statistic(AlignedCounts).total
        if not predicted and not right:
            return self.undefined("no text contains a word")
        shares: Tensor = hits / torch.stack([predicted, right])
        return shares.nan_to_num(nan=0.0).prod()  # without words there is no hit


@register_metric("wip", [TEXT])
class WordInformationPreserved(PreservedWords):
    """Word information preserved: the share of hits among predicted words, times that among right words.

    Alignments are those of `mer`.

    Value: float in [0, 1], no unit, 1 is best; nan if no text holds a word.
    Formula: hits / predicted words * hits / words of the references, all pooled
    Deviates: torchmetrics counts an insertion beside a deletion against the hits, and says lower is better.
    Source: Morris, Maier & Green 2004, Interspeech.

    >>> metric = WordInformationPreserved()
    >>> metric.update(["a b"], ["b c"])
    >>> metric.compute().item()  # 1/2 * 1/2
    0.25
    """

    direction = MAXIMIZE

    def compute(self) -> Tensor:
        """Multiply the two shares."""
        return self.preserved_share()


@register_metric("wil", [TEXT])
class WordInformationLost(PreservedWords):
    """Word information lost: 1 minus the word information preserved, `wip`.

    Value: float in [0, 1], no unit, 0 is best; nan if no text holds a word.
    Formula: 1 - hits / predicted words * hits / words of the references, all pooled
    Deviates: torchmetrics counts an insertion beside a deletion against the hits.
    Source: Morris, Maier & Green 2004, Interspeech.

    >>> metric = WordInformationLost()
    >>> metric.update(["a b"], ["b c"])
    >>> metric.compute().item()
    0.75
    """

    direction = MINIMIZE

    def compute(self) -> Tensor:
        """Subtract the preserved share from 1."""
        return 1 - self.preserved_share()


@register_metric("ter", [TEXT])
class TranslationEditRate(ErrorRate):
    """Translation edit rate: edits and shifts of words that turn predictions into references, per word.

    Words are separated by white space; nothing else is normalized. Shifts are found as by Tercom. Among
    several references the one with the fewest edits counts, beside the mean number of words of all.

    Args:
        case_sensitive: whether words that differ in upper and lower case differ.

    Shape:
        predictions: N texts.
        target: N texts, or N lists of one or more references.
    Value: float from 0, edits per word, 0 is best, 1 if only texts have words; nan before the first row.
    Formula: (substitutions + deletions + insertions + shifts) / words of the references, both pooled
    Deviates: torchmetrics shifts words of the references, and counts no edit of an empty prediction.
        sacrebleu gives percent: 100 times this value.
    Source: Snover et al. 2006, AMTA; sacrebleu.

    >>> metric = TranslationEditRate()
    >>> metric.update(["c a b"], ["a b c"])
    >>> round(metric.compute().item(), 4)  # one shift of three words
    0.3333
    """

    direction = MINIMIZE

    def __init__(self, *, case_sensitive: bool = False) -> None:
        super().__init__()
        self.case_sensitive = case_sensitive

    def statistics(self) -> dict[str, Statistic]:
        """Return the edits and lengths over words."""
        return {"edits": ShiftedCounts(self.case_sensitive)}

    def compute(self) -> Tensor:
        """Divide edits by words."""
        counts = self.statistic(ShiftedCounts)
        if counts.counted_nothing:
            return self.undefined("no rows were counted")
        edits, length = counts.total
        rate: Tensor = edits / length if length else edits.clamp(max=1)
        return rate


@register_metric("eed", [TEXT], aliases=["extended_edit_distance"])
class ExtendedEditDistance(TextMetric):
    """Extended edit distance: character edits to the best reference, with jumps at the start of a word.

    Punctuation is separated and English abbreviations are kept together, as by its authors' program.

    Args:
        alpha: the cost of a jump.
        rho: the cost of each character that is visited again or never.
        deletion: the cost of leaving a character out.
        insertion: the cost of a missing character.

    Value: float in [0, 1], no unit, 0 is best; nan before the first row.
    Formula: mean over rows of the least (edits + alpha jumps + rho visits) / (characters + rho visits)
    Source: Stanchev, Wang & Ney 2019, WMT; torchmetrics' extended_edit_distance.

    >>> metric = ExtendedEditDistance()
    >>> metric.update(["this is the prediction"], ["this is the reference"])
    >>> round(metric.compute().item(), 4)
    0.3835
    """

    direction = MINIMIZE

    def __init__(
        self, *, alpha: float = 2.0, rho: float = 0.3, deletion: float = 0.2, insertion: float = 1.0
    ) -> None:
        super().__init__()
        self.alpha, self.rho = alpha, rho
        self.deletion, self.insertion = deletion, insertion
        for name in ("alpha", "rho", "deletion", "insertion"):
            if not getattr(self, name) >= 0:
                raise MetricNameError(
                    f"eed: {name} must be a number of at least 0, got {getattr(self, name)!r}"
                )

    def measure(self, batch: Outputs) -> Tensor:
        """Return the distance of each text from its best reference."""
        rows = zip(batch.texts, batch.references, strict=True)
        return per_row(np.array([min(self._distances(text, right)) for text, right in rows]), batch)

    def _distances(self, text: str, references: Iterable[str]) -> Iterator[float]:
        costs = {"alpha": self.alpha, "rho": self.rho, "deletion": self.deletion, "insertion": self.insertion}
        predicted = _separate_marks(text)
        for right in references:
            yield extended_edits(predicted, _separate_marks(right), **costs)


_MARK, _BLANKS = re.compile(r"[.!?,]"), re.compile(r"\s+")
_IN_A_NUMBER, _TITLE = re.compile(r"(\d) ([.,]) (\d)"), re.compile(r"(Dr|Jr|Prof|Rev|Gen|Mr|Mt|Mrs|Ms) .")
_ABBREVIATIONS = ("e.g.", "i.e.", "U.S.")


def _separate_marks(text: str) -> str:
    """Insert a blank before each mark outside of numbers and abbreviations, and around the text."""
    spaced = _BLANKS.sub(" ", _MARK.sub(r" \g<0>", text.rstrip()))
    joined = _TITLE.sub(r"\1.", _IN_A_NUMBER.sub(r"\1\2\3", spaced))
    for word in _ABBREVIATIONS:
        joined = joined.replace(" ".join(word), word)
    return f" {joined} "
