"""Label ranking: whether the labels of a row score above the labels that it does not have."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ..._device import on_host
from ...batch import Outputs
from ...features import PROBABILITIES, SET
from ...metric import MeanMetric
from ...registry.register import register_metric
from ...statistics.statistic import block

_SORTED, _SORTED_ON_DEVICE = 1 << 18, 1 << 26
"""Scores that are sorted at a time, of which fifty bytes each are made."""


class LabelRanks(NamedTuple):
    """The values of the order of the labels of each row, (N,) float64 each.

    Attributes:
        reach: how many labels score at least as high as the row's lowest-scoring own label.
        precision: the mean share of own labels among those that score at least as high as an own one.
        wrong: the share of the pairs of an own and another label that are in the wrong order.
    """

    reach: Tensor
    precision: Tensor
    wrong: Tensor


@block
def label_ranks(batch: Outputs) -> LabelRanks:
    """Sort the labels of every row, a few rows at a time, once for all metrics of this file."""
    mask = batch.known
    scores = batch.scores if mask is None else batch.scores.masked_fill(~mask, -torch.inf)
    labels = scores.shape[1]
    rows = max(1, (_SORTED if on_host(scores) else _SORTED_ON_DEVICE) // max(1, labels))
    known = torch.full((len(scores),), labels, device=scores.device) if mask is None else mask.sum(1)
    parts = zip(*(torch.split(part, rows) for part in (scores, batch.outcome.bool(), known)), strict=True)
    return LabelRanks(*map(torch.cat, zip(*(_ranks_of(*part) for part in parts), strict=True)))


def _ranks_of(scores: Tensor, own: Tensor, known: Tensor) -> LabelRanks:
    """Measure some rows.

    Args:
        scores: (N, L), of which unknown labels come last.
        own: which labels the row has, (N, L) bool.
        known: how many labels of the row are known, (N,) int64.
    """
    scores, order = scores.sort(1, descending=True)
    own = own.gather(1, order)
    places = torch.arange(scores.shape[1], device=scores.device).expand(scores.shape)
    ends = torch.where(scores[:, :-1] != scores[:, 1:], places[:, :-1], scores.shape[1])
    ends = torch.cat([ends, places[:, -1:]], 1).flip(1).cummin(1).values.flip(1)  # the last label of each tie
    right, up_to = own.cumsum(1).gather(1, ends).double(), (ends + 1).double()
    count = own.sum(1).double()
    has_pairs = (count > 0) & (count < known)
    wrong = ((up_to - right) * own).sum(1) / (count * (known - count))
    return LabelRanks(
        reach=(up_to * own).amax(1),
        precision=torch.where(has_pairs, (right / up_to * own).sum(1) / count, 1.0),
        wrong=torch.where(has_pairs, wrong, 0.0),
    )


@register_metric("coverage_error", [SET])
class CoverageError(MeanMetric):
    """Mean number of top-scoring labels that must be taken to include all labels of a row.

    A tie is taken as a whole; a row without labels counts 0.

    Shape:
        preds: (N, L) float, probabilities (or logits by keyword).
        target: (N, L) int.
    Value: float from 0, in labels, the mean number of labels per row is best; nan before the first row.
    Formula: mean over rows of max over the row's labels of the number of labels that score at least as high
    Deviates: torchmetrics counts a label that its `ignore_index` leaves out as one that the row has.
    Source: Tsoumakas, Katakis & Vlahavas 2010; scikit-learn's coverage_error.

    >>> metric = CoverageError()
    >>> metric.update(torch.tensor([[0.9, 0.2, 0.6], [0.1, 0.8, 0.3]]), torch.tensor([[1, 1, 0], [0, 1, 0]]))
    >>> metric.compute().item()  # (3 + 1) / 2
    2.0
    """

    direction = MINIMIZE
    inputs = PROBABILITIES

    def measure(self, batch: Outputs) -> Tensor:
        """Return the place of the row's lowest-scoring label."""
        return label_ranks(batch).reach


@register_metric("label_ranking_average_precision", [SET], aliases=["lrap"])
class LabelRankingAveragePrecision(MeanMetric):
    """Mean over rows of the mean precision at each label of the row, by descending score.

    A row with no label or with all of them cannot be ranked wrongly and counts 1.

    Shape:
        preds: (N, L) float, probabilities (or logits by keyword).
        target: (N, L) int.
    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: mean over rows of mean over the row's labels of (right labels / labels) from this score up
    Source: Schapire & Singer 2000, Machine Learning 39; scikit-learn's label_ranking_average_precision_score.

    >>> metric = LabelRankingAveragePrecision()
    >>> metric.update(torch.tensor([[0.9, 0.2, 0.6], [0.1, 0.8, 0.3]]), torch.tensor([[1, 1, 0], [0, 1, 0]]))
    >>> round(metric.compute().item(), 4)  # ((1/1 + 2/3) / 2 + 1/1) / 2
    0.9167
    """

    direction = MAXIMIZE
    inputs = PROBABILITIES

    def measure(self, batch: Outputs) -> Tensor:
        """Return the mean precision of each row."""
        return label_ranks(batch).precision


@register_metric("label_ranking_loss", [SET], aliases=["ranking_loss"])
class LabelRankingLoss(MeanMetric):
    """Mean share of wrongly ordered pairs of a label that the row has and one that it does not have.

    A tie is a wrong order. A row with no label or with all of them has no pair and counts 0.

    Shape:
        preds: (N, L) float, probabilities (or logits by keyword).
        target: (N, L) int.
    Value: float in [0, 1], no unit, 0 is best, 0.5 is chance; nan before the first row.
    Formula: mean over rows of wrong pairs / (labels that are there * labels that are not)
    Deviates: torchmetrics leaves ties to the sort; here, as in scikit-learn, they are wrong. It divides by
        the pairs with labels that its `ignore_index` leaves out, too.
    Source: Tsoumakas, Katakis & Vlahavas 2010; scikit-learn's label_ranking_loss.

    >>> metric = LabelRankingLoss()
    >>> metric.update(torch.tensor([[0.9, 0.2, 0.6], [0.1, 0.8, 0.3]]), torch.tensor([[1, 1, 0], [0, 1, 0]]))
    >>> metric.compute().item()  # in the first row one of two pairs, in the second none of two
    0.25
    """

    direction = MINIMIZE
    inputs = PROBABILITIES

    def measure(self, batch: Outputs) -> Tensor:
        """Return the share of wrongly ordered pairs of each row."""
        return label_ranks(batch).wrong
