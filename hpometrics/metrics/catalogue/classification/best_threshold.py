"""Best thresholds: the probability above which to predict 1, so that a criterion is largest."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ...features import BINARY, SET
from ...registry.register import register_metric
from ...statistics.cuts import best_cut, probability_between
from ...statistics.ranked import ranked_column
from ...statistics.scores import Scores
from ...statistics.statistic import Statistic
from .columns import ONE_CLASS, AveragedColumns, ColumnMetric
from .thresholds import checked_beta

BestCriterion = Literal["f1", "fbeta", "mcc", "youden", "accuracy", "balanced_accuracy", "jaccard"]


@register_metric("best_threshold", [BINARY])
class BestThreshold(ColumnMetric):
    """The probability above which to predict 1, so that a criterion is largest; measured, never optimised.

    Predicting 1 where the probability is greater than it (or the logit greater than its logit) gives exactly
    the largest value that the criterion takes at any threshold. It lies half way between the two scores that
    it parts, where the numbers allow; of several that are as good the highest is taken.

    Shape:
        preds: (N,) float, probabilities (or logits by keyword).
        target: (N,) int.
    Value: float in [0, 1], a probability, without a best; nan when the target holds one class only, or when
        no probability lies between the two scores (logits above 36, a probability of 0 to be predicted 1).

    Raises:
        MetricNameError: beta is not above 0.
    Formula: argmax over thresholds t of criterion(t)
    Source: Youden 1950, Cancer 3(1); Lipton, Elkan & Naryanaswamy 2014, ECML PKDD.

    >>> metric = BestThreshold(criterion="f1")
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # half way between 0.1 and 0.7
    0.4
    """

    objective = None

    def __init__(self, *, criterion: BestCriterion, beta: float = 1.0) -> None:
        super().__init__()
        self.criterion: BestCriterion = criterion
        self.beta = checked_beta("best_threshold", beta)

    def compute(self) -> Tensor:
        """Find the cut and a probability in it; nan with a reason when there is none."""
        scores = self.statistic(Scores)
        threshold = _threshold(scores, 0, self.criterion, self.beta)
        if threshold is None:
            return self.undefined(ONE_CLASS)
        return self.undefined(NO_PROBABILITY) if threshold.isnan() else threshold


@register_metric("best_threshold", [SET])
class BestThresholds(AveragedColumns):
    """The probability of each label above which to predict it, so that a criterion is largest.

    It is measured, never optimised. There is a threshold per label (`average` none): a mean of them would be
    the threshold of no label.

    Shape:
        preds: (N, L) float, probabilities (or logits by keyword).
        target: (N, L) int.
    Value: L floats in [0, 1], probabilities, without a best; nan for a label that is always or never there,
        or where no probability lies between the two scores.

    Raises:
        MetricNameError: beta is not above 0.
    Formula: argmax over thresholds t of criterion(t), for each label
    Source: Lipton, Elkan & Naryanaswamy 2014, ECML PKDD.

    >>> metric = BestThresholds(criterion="f1", average="none")
    >>> metric.update(torch.tensor([[0.9, 0.2], [0.3, 0.6]]), torch.tensor([[1, 0], [0, 1]]))
    >>> [round(value, 4) for value in metric.compute().tolist()]
    [0.6, 0.4]
    """

    objective = None

    def __init__(self, *, criterion: BestCriterion, average: Literal["none"], beta: float = 1.0) -> None:
        super().__init__(average=average)
        self.criterion: BestCriterion = criterion
        self.beta = checked_beta("best_threshold", beta)

    def statistics(self) -> dict[str, Statistic]:
        """Need every row's scores."""
        return {"scores": Scores()}

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Search label by label."""
        scores = self.statistic(Scores)
        nan = torch.tensor(torch.nan, dtype=torch.float64)
        found = [_threshold(scores, index, self.criterion, self.beta) for index in range(scores.classes)]
        thresholds = torch.stack([nan if one is None else one for one in found])
        return thresholds, torch.ones_like(thresholds)


NO_PROBABILITY = "no probability lies between the two scores that the best threshold parts"


def _threshold(scores: Scores, index: int, criterion: BestCriterion, beta: float) -> Tensor | None:
    """The best threshold of a column as a probability, nan if none fits; None with one class only."""
    column = ranked_column(scores, index)
    if not column.has_both:
        return None
    return probability_between(*best_cut(column, criterion, beta**2), logits=scores.are_logits)
