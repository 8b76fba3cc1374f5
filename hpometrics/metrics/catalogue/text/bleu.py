"""BLEU per text and over a corpus, and chrF."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricNameError
from ..._device import on_host
from ...batch import Outputs
from ...features import TEXT
from ...registry.register import register_metric
from ...statistics.ngrams import NgramMatches
from ...statistics.statistic import Statistic
from ...statistics.text_counts import TOKENIZERS, Tokenize, normalized_words, words
from ...statistics.totals import RowTotals, Sums
from .words import ReferenceMetric, TextMetric, ngram_matches, numbers, per_row, reference_counts

Floats = NDArray[np.float64]
Smooth = Literal["exp", "none", "floor"]
Scale = Literal["percent", "share"]

ORDERS = 4
_ORDERS = np.arange(1, ORDERS + 1)[:, None]
EPSILON = 1e-12  # what an order without a match counts as, in ParlAI's use of NLTK's first method
_FLOOR = 0.1  # what an order without a match counts as, with `smooth=floor`

_CHRF_EPSILON = 1e-16
_PUNCTUATION = frozenset(string.punctuation)


def sentence_bleus(batch: Outputs) -> Floats:
    """Return the block of BLEU-1 to BLEU-4 of each text, shape (N, 4)."""
    return batch.block("sentence bleus", lambda batch: bleus_of(_matches(batch)))


def _matches(batch: Outputs) -> NgramMatches:
    """Return the matches with all references at once; a text that normalizes to nothing is one empty word."""
    matches = ngram_matches(batch, "normalized", normalized_words)
    if matches.one_pair_each and numbers(batch).lengths.all():
        return matches
    return NgramMatches.of_numbers(numbers(batch).filled(), reference_counts(batch))


def bleus_of(matches: NgramMatches) -> Floats:
    """Return BLEU-1 to BLEU-4 of each row, shape (N, 4)."""
    matched, length = matches.matched_up_to(ORDERS), matches.predicted_lengths
    bleus: Floats = np.maximum(matched, EPSILON)
    bleus /= np.maximum(length - (_ORDERS - 1), 1)
    np.log(bleus, out=bleus).cumsum(0, out=bleus)
    bleus /= _ORDERS
    bleus += np.minimum(0, 1 - matches.closest_lengths / length)  # brevity penalty
    np.exp(bleus, out=bleus)
    bleus *= matched[0] > 0
    return bleus.T


class SentenceBleu(TextMetric):
    """Base class of means over texts of their BLEU up to n-grams of one order, as in ParlAI.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    """

    direction = MAXIMIZE
    order: ClassVar[int]

    def measure(self, batch: Outputs) -> Tensor:
        """Return the BLEU of each text."""
        return per_row(sentence_bleus(batch)[:, self.order - 1], batch)

    def contribution(self, batch: Outputs) -> Sums:
        """Return the sum and the number of rows, as plain numbers where rows have no weights."""
        if batch.weight is not None or not on_host(batch.target):
            return super().contribution(batch)
        return float(sentence_bleus(batch)[:, self.order - 1].sum()), float(len(batch))


@register_metric("bleu_1", [TEXT], aliases=["bleu-1", "bleu1"])
class Bleu1(SentenceBleu):
    """Mean over texts of their BLEU of single words, with a penalty for texts that are too short.

    Texts are normalized as for `accuracy`. A text that shares no word with a reference scores 0.

    Formula: mean over rows of min(1, exp(1 - r / c)) * p1, lengths c and of the nearest reference r
    Deviates: the mean of sentence scores is not the BLEU of the corpus, which is `bleu`.
    Source: Papineni et al. 2002, ACL; by sentence as in ParlAI, which uses NLTK's sentence_bleu.

    >>> metric = Bleu1()
    >>> metric.update(["w x y z"], ["w x q z"])
    >>> metric.compute().item()
    0.75
    """

    order = 1


@register_metric("bleu_2", [TEXT], aliases=["bleu-2", "bleu2"])
class Bleu2(SentenceBleu):
    """Mean over texts of their BLEU of words and pairs of words.

    Texts are normalized as for `accuracy`. An order without a match counts as 1e-12 matches; a text that
    shares no word with a reference scores 0.

    Formula: mean over rows of min(1, exp(1 - r / c)) * (p1 * p2)^(1/2)
    Deviates: the mean of sentence scores is not the BLEU of the corpus, which is `bleu(order=2)`.
    Source: Papineni et al. 2002, ACL; by sentence as in ParlAI, which uses NLTK's sentence_bleu.

    >>> metric = Bleu2()
    >>> metric.update(["w x y z"], ["w x q z"])
    >>> round(metric.compute().item(), 4)  # sqrt(3/4 * 1/3)
    0.5
    """

    order = 2


@register_metric("bleu_3", [TEXT], aliases=["bleu-3", "bleu3"])
class Bleu3(SentenceBleu):
    """Mean over texts of their BLEU of up to three words.

    Texts are normalized as for `accuracy`. An order without a match counts as 1e-12 matches; a text that
    shares no word with a reference scores 0.

    Formula: mean over rows of min(1, exp(1 - r / c)) * (p1 * p2 * p3)^(1/3)
    Deviates: the mean of sentence scores is not the BLEU of the corpus, which is `bleu(order=3)`.
    Source: Papineni et al. 2002, ACL; by sentence as in ParlAI, which uses NLTK's sentence_bleu.

    >>> metric = Bleu3()
    >>> metric.update(["hi there"], ["hi there"])
    >>> round(metric.compute().item(), 9)  # too short for three words: (1 * 1 * 1e-12)^(1/3)
    0.0001
    """

    order = 3


@register_metric("bleu_4", [TEXT], aliases=["bleu-4", "bleu4", "nlg_bleu"])
class Bleu4(SentenceBleu):
    """Mean over texts of their BLEU of up to four words.

    Texts are normalized as for `accuracy`. An order without a match counts as 1e-12 matches; a text that
    shares no word with a reference scores 0.

    Formula: mean over rows of min(1, exp(1 - r / c)) * (p1 * p2 * p3 * p4)^(1/4)
    Deviates: the mean of sentence scores is not the BLEU of the corpus, which is `bleu`.
    Source: Papineni et al. 2002, ACL; by sentence as in ParlAI, which uses NLTK's sentence_bleu.

    >>> metric = Bleu4()
    >>> metric.update(["so it is said", "the end is near"], ["so it is said", "now all is lost"])
    >>> round(metric.compute().item(), 4)  # (1 + 1e-9 or so) / 2
    0.5
    """

    order = 4


class BleuCounts(RowTotals):
    """Lengths, matches and possible matches of a corpus: [predicted, nearest reference, 4 + 4 orders]."""

    def __init__(self, tokenize: Tokenize, lowercase: bool) -> None:
        super().__init__(tokenize=tokenize, lowercase=lowercase)

    def columns(self, batch: Outputs) -> Tensor:
        """Return the counts of each row."""
        tokenizer, lowercase = TOKENIZERS[self.params["tokenize"]], self.params["lowercase"]

        def tokens_of(text: str) -> list[str]:
            return tokenizer(text.lower() if lowercase else text)

        name = f"{self.params['tokenize']}{' lower' if lowercase else ''}"
        matches = NgramMatches(*words(batch, name, tokens_of))
        counts = [
            matches.predicted_lengths,
            matches.closest_lengths,
            *matches.matched_up_to(ORDERS),
            *(matches.predicted(order) for order in range(1, ORDERS + 1)),
        ]
        return per_row(np.stack(counts, 1), batch)


@register_metric("bleu", [TEXT], aliases=["corpus_bleu", "sacrebleu"])
class CorpusBleu(ReferenceMetric):
    """BLEU of the corpus, in percent: matches of all texts are pooled before any ratio.

    Args:
        tokenize: `13a` (WMT's), `char`, or `none` for texts that are tokens between spaces already.
        lowercase: whether case is ignored.
        order: the longest n-grams, 1 to 4.
        smooth: `exp`, the k-th order without a match counts as 1/2^k matches; `none`, BLEU is then 0;
            or `floor`: such an order counts as a tenth of a match.
        add_k: number added to the n-grams and matches of each order but the first, as by sacrebleu's `add-k`.
        scale: `percent`, as in papers and sacrebleu; or `share`, as in torchmetrics.

    Shape:
        predictions: N texts.
        target: N texts, or N lists of one or more references.
    Value: float in [0, 100], in percent (in [0, 1] with `scale=share`), highest is best; nan before the
        first row.

    Raises:
        MetricInputError: token ids instead of texts, or a row without a reference.
        MetricNameError: an order outside 1 to 4, or an add_k below 0.
    Formula: 100 * min(1, exp(1 - r / c)) * (p1 * ... * p4)^(1/4), all counts over the corpus
    Deviates: `bleu_4` is the mean over sentences. torchmetrics' bleu_score takes, of two references equally
        near in length, the first one and not the shorter; it smooths only on request, and then
        as `add_k=1`.
    Source: Papineni et al. 2002, ACL; Post 2018, WMT (sacrebleu, whose defaults these are).

    >>> metric = CorpusBleu()
    >>> metric.update(["the cat sat on the mat"], ["the cat sat on a mat"])
    >>> round(metric.compute().item(), 2)  # (5/6 * 3/5 * 2/4 * 1/3)^(1/4)
    53.73
    """

    direction = MAXIMIZE

    def __init__(
        self,
        *,
        tokenize: Tokenize = "13a",
        lowercase: bool = False,
        order: int = ORDERS,
        smooth: Smooth = "exp",
        add_k: float = 0.0,
        scale: Scale = "percent",
    ) -> None:
        super().__init__()
        if order not in range(1, ORDERS + 1):
            raise MetricNameError(f"bleu: order must be from 1 to {ORDERS}, got {order}")
        if not 0 <= add_k < math.inf:
            raise MetricNameError(f"bleu: add_k must be a number of at least 0, got {add_k}")
        self.tokenize, self.lowercase, self.order = tokenize, lowercase, order
        self.smooth, self.add_k, self.scale = smooth, float(add_k), scale

    def statistics(self) -> dict[str, Statistic]:
        """Return the corpus counts under the tokenizer."""
        return {"counts": BleuCounts(self.tokenize, self.lowercase)}

    def compute(self) -> Tensor:
        """Return the BLEU of the pooled counts; nan with a reason when no row has a weight."""
        pooled = self.statistic(BleuCounts)
        if pooled.counted_nothing:
            return self.undefined("no rows were counted")
        predicted, nearest, *counts = pooled.total.tolist()
        matched, possible = counts[: self.order], counts[ORDERS : ORDERS + self.order]
        if self.add_k and any(matched):
            matched, possible = (
                [first, *(count + self.add_k for count in longer)] for first, *longer in (matched, possible)
            )
        bleu = brevity(predicted, nearest) * _geometric_mean(matched, possible, self.smooth)
        return torch.tensor(bleu * (100 if self.scale == "percent" else 1), dtype=torch.float64)


def brevity(predicted: float, right: float) -> float:
    """Return the brevity penalty, below 1 for predictions that are shorter than the references."""
    if predicted >= right:
        return 1.0
    return math.exp(1 - right / predicted) if predicted else 0.0


def _geometric_mean(matched: Sequence[float], possible: Sequence[float], smooth: Smooth) -> float:
    """Return the geometric mean of the precisions; 0 if nothing matches or an order has no n-gram."""
    halved, logs = 1.0, 0.0
    if not any(matched) or not all(possible):
        return 0.0
    for hits, whole in zip(matched, possible, strict=True):
        if not hits and smooth == "none":
            return 0.0
        if not hits:
            halved /= 2
        substitute = _FLOOR if smooth == "floor" else halved
        logs += math.log((hits or substitute) / whole)
    return math.exp(logs / len(matched))


class ChrfCounts(RowTotals):
    """Counts of the n-grams of predictions, of references, and of matches: 3 numbers per order."""

    def __init__(
        self, char_order: int, word_order: int, beta: float, lowercase: bool, eps_smoothing: bool
    ) -> None:
        super().__init__(
            char_order=char_order,
            word_order=word_order,
            beta=beta,
            lowercase=lowercase,
            eps_smoothing=eps_smoothing,
        )

    def columns(self, batch: Outputs) -> Tensor:
        """Return the counts of each row, with the reference of the highest score."""
        cased = " lower" if self.params["lowercase"] else ""
        kinds = [(f"chrF characters{cased}", self._characters, self.params["char_order"])]
        if self.params["word_order"]:
            kinds.append((f"chrF words{cased}", self._words, self.params["word_order"]))
        counts = []
        for name, tokenizer, orders in kinds:
            matches = NgramMatches(*words(batch, name, tokenizer), apart=True)
            counts += [_counts(matches, *row) for row in enumerate(matches.matched_up_to(orders), 1)]
        pairs = np.concatenate(counts, 1)
        scores = F_SCORES[self.params["eps_smoothing"]](pairs, self.params["beta"])
        best = _first_best(scores, list(map(len, batch.references)))
        return per_row(pairs[best], batch)

    def _characters(self, text: str) -> list[str]:
        return list("".join(self._cased(text).split()))

    def _words(self, text: str) -> list[str]:
        return [part for word in self._cased(text).split() for part in _without_punctuation(word)]

    def _cased(self, text: str) -> str:
        return text.lower() if self.params["lowercase"] else text


def _counts(matches: NgramMatches, order: int, matched: NDArray[np.int64]) -> Floats:
    """Return n-grams of the prediction (where the reference has any), of the reference, and matches."""
    right = matches.right(order)
    return np.stack([np.where(right > 0, matches.predicted(order), 0), right, matched], 1)


def _without_punctuation(word: str) -> tuple[str, ...]:
    """Cut one punctuation mark off the end of a word, or else off its beginning."""
    if len(word) > 1 and word[-1] in _PUNCTUATION:
        return word[:-1], word[-1]
    return (word[0], word[1:]) if len(word) > 1 and word[0] in _PUNCTUATION else (word,)


def _first_best(scores: Floats, sizes: list[int]) -> NDArray[np.int64]:
    """Return, for each row, the position of the first reference with the highest score."""
    ends = np.cumsum(sizes)
    return np.array(
        [end - size + scores[end - size : end].argmax() for end, size in zip(ends, sizes, strict=True)]
    )


def f_score(counts: Floats, beta: float) -> Floats:
    """Return, per row, the F-score of the mean precision and mean recall over the orders of both sides."""
    predicted, right, matched = (counts[:, start::3] for start in range(3))
    both = (predicted > 0) & (right > 0)
    orders = np.maximum(both.sum(1), 1)
    precision = (np.where(both, matched, 0) / np.where(both, predicted, 1)).sum(1) / orders
    recall = (np.where(both, matched, 0) / np.where(both, right, 1)).sum(1) / orders
    weighed = beta**2 * precision + recall
    scores: Floats = (1 + beta**2) * precision * recall / np.where(weighed > 0, weighed, 1)
    return scores


def mean_f_score(counts: Floats, beta: float) -> Floats:
    """Return, per row, the mean F-score over orders; a missing precision or recall counts as 1e-16."""
    predicted, right, matched = (counts[:, start::3] for start in range(3))
    precision = np.where(predicted > 0, matched / np.where(predicted > 0, predicted, 1), _CHRF_EPSILON)
    recall = np.where(right > 0, matched / np.where(right > 0, right, 1), _CHRF_EPSILON)
    weighed = beta**2 * precision + recall
    f_scores = (1 + beta**2) * precision * recall / np.where(weighed > 0, weighed, 1)
    scores: Floats = np.where(weighed > 0, f_scores, _CHRF_EPSILON).mean(1)
    return scores


F_SCORES = {False: f_score, True: mean_f_score}
"""The F-score of the counts, by whether orders are smoothed."""


@register_metric("chrf", [TEXT], aliases={"chrf_plus_plus": "chrf(word_order=2)"})
class Chrf(ReferenceMetric):
    """F-score of the character n-grams of a corpus, in percent; with word n-grams it is chrF++.

    White space does not count. Among several references the one with the highest score of its own counts.

    Args:
        char_order: the longest character n-grams.
        word_order: the longest word n-grams; 0 for chrF, 2 for chrF++.
        beta: how many times recall weighs as much as precision.
        lowercase: whether case is ignored.
        eps_smoothing: whether the F-scores of the orders are averaged, as in chrF++.py, and not their
            precisions and recalls.
        scale: `percent`, as in papers and sacrebleu; or `share`, as in torchmetrics.

    Shape:
        predictions: N texts.
        target: N texts, or N lists of one or more references.
    Value: float in [0, 100], in percent (in [0, 1] with `scale=share`), highest is best; nan before the
        first row.

    Raises:
        MetricInputError: token ids instead of texts, or a row without a reference.
        MetricNameError: an order below 1 (0 for words), or a beta not above 0.
    Formula: 100 * (1 + beta^2) * P * R / (beta^2 * P + R), means over orders of pooled counts
    Deviates: torchmetrics, NLTK and chrF++.py average the F-scores of the orders, which is
        `eps_smoothing=true`; torchmetrics' default is chrF++ in [0, 1].
    Source: Popović 2015, WMT; Popović 2017, WMT for chrF++; sacrebleu, whose defaults these are.

    >>> metric = Chrf(char_order=2)
    >>> metric.update(["abc"], ["abd"])
    >>> round(metric.compute().item(), 2)  # (2/3 + 1/2) / 2
    58.33
    """

    direction = MAXIMIZE

    def __init__(
        self,
        *,
        char_order: int = 6,
        word_order: int = 0,
        beta: float = 2.0,
        lowercase: bool = False,
        eps_smoothing: bool = False,
        scale: Scale = "percent",
    ) -> None:
        super().__init__()
        if char_order < 1 or word_order < 0 or not beta > 0:
            raise MetricNameError(
                "chrf: char_order must be at least 1, word_order at least 0 and beta above 0; got "
                f"{char_order}, {word_order}, {beta}"
            )
        self.char_order, self.word_order, self.beta = char_order, word_order, float(beta)
        self.lowercase, self.eps_smoothing, self.scale = lowercase, eps_smoothing, scale

    def statistics(self) -> dict[str, Statistic]:
        """Return the n-gram counts."""
        orders = self.char_order, self.word_order
        return {"counts": ChrfCounts(*orders, self.beta, self.lowercase, self.eps_smoothing)}

    def compute(self) -> Tensor:
        """Return the F-score of the pooled counts."""
        counts = self.statistic(ChrfCounts)
        if counts.counted_nothing:
            return self.undefined("no rows were counted")
        totals = counts.total.cpu().numpy()[None]
        share = float(F_SCORES[self.eps_smoothing](totals, self.beta)[0])
        return torch.tensor(share * (100 if self.scale == "percent" else 1), dtype=torch.float64)
