"""Label ranking: whether the labels of a row score above the labels that it does not have."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ...batch import Outputs
from ...features import PROBABILITIES, SET
from ...metric import MeanMetric
from ...registry.register import register_metric
from ...statistics.statistic import block


@dataclass(frozen=True)
class LabelRanks:
    """The labels of each row by descending score; all (N, L), float64 except `relevant`.

    Attributes:
        relevant: which of them the row has, bool.
        labels: how many labels score at least as high.
        right: how many of those the row has.
        num_labels: how many labels of the row are known, (N,) int64 or one number; unknown ones come last.
    """

    relevant: Tensor
    labels: Tensor
    right: Tensor
    num_labels: Tensor | int

    @property
    def has_pairs(self) -> Tensor:
        """Whether each row has labels that are relevant and labels that are not, (N,) bool."""
        count = self.relevant.sum(1)
        return (count > 0) & (count < self.num_labels)


@block
def label_ranks(batch: Outputs) -> LabelRanks:
    """Sort the labels of every row, once for all metrics of this file."""
    mask = batch.known
    scores = batch.scores if mask is None else batch.scores.masked_fill(~mask, -torch.inf)
    scores, order = scores.sort(1, descending=True)
    relevant = batch.outcome.bool().gather(1, order)
    places = torch.arange(scores.shape[1], device=scores.device).expand(scores.shape)
    ends = torch.where(scores[:, :-1] != scores[:, 1:], places[:, :-1], scores.shape[1])
    ends = torch.cat([ends, places[:, -1:]], 1).flip(1).cummin(1).values.flip(1)  # the last label of each tie
    return LabelRanks(
        relevant=relevant,
        labels=(ends + 1).double(),
        right=relevant.cumsum(1).gather(1, ends).double(),
        num_labels=scores.shape[1] if mask is None else mask.sum(1),
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
        ranks = label_ranks(batch)
        return (ranks.labels * ranks.relevant).amax(1)


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
        ranks = label_ranks(batch)
        precision = (ranks.right / ranks.labels * ranks.relevant).sum(1) / ranks.relevant.sum(1)
        return torch.where(ranks.has_pairs, precision, 1.0)


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
        ranks = label_ranks(batch)
        wrong = ((ranks.labels - ranks.right) * ranks.relevant).sum(1)
        count = ranks.relevant.sum(1).double()
        return torch.where(ranks.has_pairs, wrong / (count * (ranks.num_labels - count)), 0.0)
