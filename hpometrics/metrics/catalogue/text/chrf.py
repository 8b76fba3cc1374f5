"""chrF: the F-score of character n-grams over a corpus."""

from __future__ import annotations

import string
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import PREDICTIONS, TEXT, OutputFeature
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.ngrams import NgramMatches
from ...statistics.statistic import Statistic
from ...statistics.text_counts import words
from ...statistics.totals import RowTotals
from .bleu import Scale
from .words import draw_texts, per_row

Floats = NDArray[np.float64]

_EPS = 1e-16
_PUNCTUATION = frozenset(string.punctuation)


class ChrfCounts(RowTotals):
    """Per order the n-grams of predictions, of references, and those matched: [3 numbers an order]."""

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
        """Count each row, with the reference whose own score is the highest."""
        cased = " lower" if self.params["lowercase"] else ""
        kinds = [(f"chrF characters{cased}", self._characters, self.params["char_order"])]
        if self.params["word_order"]:
            kinds.append((f"chrF words{cased}", self._words, self.params["word_order"]))
        counts = []
        for name, tokenizer, orders in kinds:
            found = NgramMatches(*words(batch, name, tokenizer), apart=True)
            counts += [_counts(found, *row) for row in enumerate(found.matched_up_to(orders), 1)]
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


def _counts(found: NgramMatches, order: int, matched: NDArray[np.int64]) -> Floats:
    """N-grams of prediction (where the reference has any) and of reference, and those matched."""
    right = found.right(order)
    return np.stack([np.where(right > 0, found.predicted(order), 0), right, matched], 1)


def _without_punctuation(word: str) -> tuple[str, ...]:
    """Cut one punctuation mark off the end of a word, or else off its beginning."""
    if len(word) > 1 and word[-1] in _PUNCTUATION:
        return word[:-1], word[-1]
    return (word[0], word[1:]) if len(word) > 1 and word[0] in _PUNCTUATION else (word,)


def _first_best(scores: Floats, sizes: list[int]) -> NDArray[np.int64]:
    """Of each row's references the place of the first with the highest score."""
    ends = np.cumsum(sizes)
    return np.array(
        [end - size + scores[end - size : end].argmax() for end, size in zip(ends, sizes, strict=True)]
    )


def f_score(counts: Floats, beta: float) -> Floats:
    """F of the mean precision and mean recall over the orders that both sides have, row by row."""
    predicted, right, matched = (counts[:, start::3] for start in range(3))
    both = (predicted > 0) & (right > 0)
    orders = np.maximum(both.sum(1), 1)
    precision = (np.where(both, matched, 0) / np.where(both, predicted, 1)).sum(1) / orders
    recall = (np.where(both, matched, 0) / np.where(both, right, 1)).sum(1) / orders
    weighed = beta**2 * precision + recall
    scores: Floats = (1 + beta**2) * precision * recall / np.where(weighed > 0, weighed, 1)
    return scores


def mean_f_score(counts: Floats, beta: float) -> Floats:
    """Average the F of each order, row by row; a missing precision or recall counts as 1e-16."""
    predicted, right, matched = (counts[:, start::3] for start in range(3))
    precision = np.where(predicted > 0, matched / np.where(predicted > 0, predicted, 1), _EPS)
    recall = np.where(right > 0, matched / np.where(right > 0, right, 1), _EPS)
    weighed = beta**2 * precision + recall
    each = (1 + beta**2) * precision * recall / np.where(weighed > 0, weighed, 1)
    scores: Floats = np.where(weighed > 0, each, _EPS).mean(1)
    return scores


F_SCORES = {False: f_score, True: mean_f_score}
"""By whether the orders are smoothed."""


@register_metric("chrf", [TEXT], aliases={"chrf_plus_plus": "chrf(word_order=2)"})
class Chrf(Metric):
    """F-score of the character n-grams of a corpus, in percent; with words as well it is chrF++.

    White space does not count. Of several references the one with the highest score of its own counts.

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

    objective = MAXIMIZE
    inputs = PREDICTIONS
    extras: ClassVar[tuple[str, ...]] = ("texts", "references")

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
                f"chrf: char_order is from 1, word_order from 0, beta above 0; "
                f"got {char_order}, {word_order}, {beta}"
            )
        self.char_order, self.word_order, self.beta = char_order, word_order, float(beta)
        self.lowercase, self.eps_smoothing, self.scale = lowercase, eps_smoothing, scale

    def statistics(self) -> dict[str, Statistic]:
        """Need the n-gram counts."""
        orders = self.char_order, self.word_order
        return {"counts": ChrfCounts(*orders, self.beta, self.lowercase, self.eps_smoothing)}

    def compute(self) -> Tensor:
        """Pool, then take the F-score."""
        counts = self.statistic(ChrfCounts)
        if counts.counted_nothing:
            return self.undefined("no row counted")
        totals = counts.total.cpu().numpy()[None]
        share = float(F_SCORES[self.eps_smoothing](totals, self.beta)[0])
        return torch.tensor(share * (100 if self.scale == "percent" else 1), dtype=torch.float64)

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> dict[str, Any]:
        """Draw a batch for the laws."""
        return draw_texts(rows, noise, random)
