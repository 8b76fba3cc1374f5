"""Distinct n-grams: the diversity of predicted texts, within each and over all."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ...batch import Outputs
from ...features import PREDICTIONS, TEXT, OutputFeature
from ...metric import MeanMetric, Metric
from ...registry.register import register_metric
from ...statistics.statistic import Statistic
from ...statistics.text_counts import DistinctNgrams, ngrams, predicted_words
from .words import per_row

NO_NGRAM = 1e-12 / 1e-5  # what ParlAI gives to a text that is shorter than the n-grams


def draw_varied(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> dict[str, Any]:
    """Draw a batch for the laws: different words, of which a share `noise` is replaced by the same one."""
    texts = []
    for _ in range(rows):
        numbers = torch.randperm(5000, generator=random)[:8]
        repeated = torch.rand(8, generator=random) < noise
        texts.append(" ".join(f"w{number}" for number in numbers.masked_fill(repeated, 0).tolist()))
    return {"predictions": texts, "target": texts}


class DistinctMetric(Metric):
    """Base class of shares of n-grams that are distinct.

    Shape:
        predictions: N texts; the target is not read.

    Raises:
        MetricInputError: token ids instead of texts.
    """

    direction = MAXIMIZE
    inputs = PREDICTIONS
    extras: ClassVar[tuple[str, ...]] = ("texts", "references")
    draw_batch = staticmethod(draw_varied)
    n: ClassVar[int]


class IntraDistinct(DistinctMetric, MeanMetric):
    """Base class of means over texts of the share of their n-grams that are distinct.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return the share of each text."""
        shares = []
        for text in predicted_words(batch):
            grams = ngrams(text, self.n)
            shares.append(len(set(grams)) / len(grams) if grams else NO_NGRAM)
        return per_row(np.array(shares), batch)


class InterDistinct(DistinctMetric):
    """Base class of shares of the n-grams of all texts that are distinct."""

    def statistics(self) -> dict[str, Statistic]:
        """Return the set of n-grams."""
        return {"ngrams": DistinctNgrams(self.n)}

    def compute(self) -> Tensor:
        """Divide the distinct n-grams by all n-grams."""
        grams = self.statistic(DistinctNgrams)
        if not grams.total:
            return self.undefined(f"no text has {'a word' if self.n == 1 else f'{self.n} words'}")
        return torch.tensor(grams.distinct / grams.total, dtype=torch.float64)


@register_metric("intradistinct_1", [TEXT], aliases=["intradistinct-1"])
class IntraDistinct1(IntraDistinct):
    """Mean over texts of the share of their words that are distinct, normalized as for `accuracy`.

    Formula: mean over rows of max(different words, 1e-12) / max(words, 1e-5)
    Source: Li et al. 2016, NAACL; by text as in ParlAI.

    >>> metric = IntraDistinct1()
    >>> metric.update(["to be or not to be"], ["..."])
    >>> round(metric.compute().item(), 4)  # 4 of 6
    0.6667
    """

    n = 1


@register_metric("intradistinct_2", [TEXT], aliases=["intradistinct-2"])
class IntraDistinct2(IntraDistinct):
    """Mean over texts of the share of their pairs of words that are distinct, normalized as for `accuracy`.

    A text of one word scores 1e-7, as in ParlAI.

    Formula: mean over rows of max(different pairs, 1e-12) / max(pairs, 1e-5)
    Source: Li et al. 2016, NAACL; by text as in ParlAI.

    >>> metric = IntraDistinct2()
    >>> metric.update(["to be or not to be"], ["..."])
    >>> metric.compute().item()  # 4 of 5
    0.8
    """

    n = 2


@register_metric("interdistinct_1", [TEXT], aliases=["interdistinct-1", "distinct_1"])
class InterDistinct1(InterDistinct):
    """Share of the words of all texts together that are distinct, normalized as for `accuracy`.

    A row of weight w adds w times as many words, and the same distinct ones; a word of rows that weigh less
    than 1 together is a part of a word.

    Value: float in [0, 1], no unit, 1 is best; nan if no text has a word.
    Formula: different words / words, over all texts
    Deviates: without any word ParlAI gives 1e-7.
    Source: Li et al. 2016, NAACL; ParlAI's interdistinct-1, whose cost is quadratic in the texts.

    >>> metric = InterDistinct1()
    >>> metric.update(["to be or", "not to be"], ["...", "..."])
    >>> round(metric.compute().item(), 4)  # 4 of 6
    0.6667
    """

    n = 1


@register_metric("interdistinct_2", [TEXT], aliases=["interdistinct-2", "distinct_2"])
class InterDistinct2(InterDistinct):
    """Share of the pairs of words of all texts together that are distinct, normalized as for `accuracy`.

    A row of weight w adds w times as many pairs, and the same distinct ones; a pair of rows that weigh less
    than 1 together is a part of a pair.

    Value: float in [0, 1], no unit, 1 is best; nan if no text has two words.
    Formula: different pairs / pairs, over all texts
    Deviates: without any pair ParlAI gives 1e-7.
    Source: Li et al. 2016, NAACL; ParlAI's interdistinct-2, whose cost is quadratic in the texts.

    >>> metric = InterDistinct2()
    >>> metric.update(["to be or", "not to be"], ["...", "..."])
    >>> metric.compute().item()  # "to be" twice, "be or", "not to"
    0.75
    """

    n = 2
