"""Rank of the right text among the candidates that a model chose from."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...._redaction import excerpt
from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricInputError, MetricNameError
from ...batch import Outputs
from ...features import PREDICTIONS, TEXT, OutputFeature
from ...metric import MeanMetric
from ...registry.register import register_metric
from ...statistics.statistic import block
from ...statistics.text_counts import normalized
from .words import draw_texts, per_row


@block
def ranks(batch: Outputs) -> NDArray[np.int64]:
    """Return the block of ranks of the right text, from 1; 0 where no candidate is right."""
    form = cache(normalized)
    places = []
    for row, references in zip(candidates_of(batch), batch.references, strict=True):
        right = set(map(form, references))
        places.append(next((place for place, text in enumerate(row, 1) if form(text) in right), 0))
    return np.array(places)


def candidates_of(batch: Outputs) -> list[tuple[str, ...]]:
    """Return the candidates of each row, best first.

    Raises:
        MetricInputError: they are missing, or not a list of texts for each row.
    """
    rows = batch.extras.get("candidates")
    if rows is None:
        raise MetricInputError(
            "metrics of candidates need candidates=[...], a list of texts per row, best first; got none"
        )
    if len(rows) != len(batch):
        raise MetricInputError(f"candidates have {len(rows)} rows, but the batch has {len(batch)}")
    for number, row in enumerate(rows):
        if isinstance(row, str) or not all(isinstance(text, str) for text in row):
            raise MetricInputError(
                f"candidates must be a list of texts per row, got {excerpt(repr(row), 150)} in row {number}"
            )
    return [tuple(row) for row in rows]


class CandidateMetric(MeanMetric):
    """Base class of metrics of ranked candidates, `candidates=`: a list of texts per row, best first.

    The references are the target, or the extra `references` beside token ids.

    Shape:
        candidates: for each of N rows a list of texts, best first.
        target: N texts, or N lists of one or more references.

    Raises:
        MetricInputError: no candidates, or not a list of texts per row.
    """

    inputs = PREDICTIONS
    extras: ClassVar[tuple[str, ...]] = ("texts", "references", "candidates")

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> dict[str, Any]:
        """Draw a batch for the laws: eight candidates, the right one first apart from the noise."""
        batch = draw_texts(output, rows, 0.0, random)
        candidates = []
        for text in batch["predictions"]:
            others = [f"other {number}" for number in range(7)]
            noisy = float(torch.rand((), generator=random)) < noise
            place = int(torch.randint(8, (), generator=random)) if noisy else 0
            candidates.append([*others[:place], text, *others[place:]])
        return {**batch, "predictions": [row[0] for row in candidates], "candidates": candidates}


@register_metric("hits", [TEXT], aliases=["hits_at_k"])
class TextHits(CandidateMetric):
    """Share of rows with a right text among their first `k` candidates.

    Texts are compared after normalization, as for `accuracy`.

    Args:
        k: number of candidates that count, as in `hits@5`.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.

    Raises:
        MetricInputError: no candidates, or not a list of texts per row.
        MetricNameError: k below 1.
    Formula: rows whose right text has a rank of at most k / rows
    Source: ParlAI's hits@k.

    >>> metric = TextHits(k=2)
    >>> metric.update(["yes"], ["I do."], candidates=[["yes", "i do", "no"]])
    >>> metric.compute().item()
    1.0
    """

    direction = MAXIMIZE

    def __init__(self, *, k: int) -> None:
        super().__init__()
        if k < 1:
            raise MetricNameError(f"hits@{k}: k must be at least 1")
        self.k = k

    def measure(self, batch: Outputs) -> Tensor:
        """Return 1 for each row whose right text is among the first k, else 0."""
        places = ranks(batch)
        return per_row((places > 0) & (places <= self.k), batch)


@register_metric("rank", [TEXT], aliases=["mean_rank"])
class TextRank(CandidateMetric):
    """Mean rank of the right text among the candidates, from 1.

    Texts are compared after normalization, as for `accuracy`. Where no candidate is right, the rank is the
    number of candidates plus 1.

    Value: float from 1, in places, 1 is best; nan before the first row.
    Formula: mean over rows of the rank of the first right candidate, candidates + 1 if there is none
    Source: ParlAI's rank.

    >>> metric = TextRank()
    >>> metric.update(["yes"], ["I do."], candidates=[["yes", "i do", "no"]])
    >>> metric.compute().item()
    2.0
    """

    direction = MINIMIZE

    def measure(self, batch: Outputs) -> Tensor:
        """Return the rank of each row."""
        places = ranks(batch)
        behind = np.array([len(row) + 1 for row in candidates_of(batch)])
        return per_row(np.where(places > 0, places, behind), batch)


@register_metric("mrr", [TEXT], aliases=["mean_reciprocal_rank"])
class TextReciprocalRank(CandidateMetric):
    """Mean reciprocal rank of the right text among the candidates; 0 where no candidate is right.

    Texts are compared after normalization, as for `accuracy`.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: mean over rows of 1 / rank of the first right candidate
    Deviates: where no candidate is right ParlAI gives 1 / (candidates + 1).
    Source: Voorhees 1999, TREC-8.

    >>> metric = TextReciprocalRank()
    >>> metric.update(["yes"], ["I do."], candidates=[["yes", "i do", "no"]])
    >>> metric.compute().item()
    0.5
    """

    direction = MAXIMIZE

    def measure(self, batch: Outputs) -> Tensor:
        """Return the reciprocal rank of each row."""
        places = ranks(batch)
        return per_row(np.where(places > 0, 1 / np.maximum(places, 1), 0.0), batch)
