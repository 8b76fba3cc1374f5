"""Metrics at their best threshold, the best threshold itself, and the Gini and KS statistics."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ...features import BINARY, CATEGORY, SET
from ...registry.register import register_metric
from ...statistics.areas import curves_of, pooled_curve
from ...statistics.cuts import CRITERIA, Criterion, probability_between, scores_around_best
from ...statistics.scores import Scores
from ...statistics.sorted_scores import Cuts
from ._base import averages, check_beta
from .curves import ONE_CLASS, ColumnMetric, CurveAverage, CutMetric

BestCriterion = Literal["f1", "fbeta", "mcc", "youden", "accuracy", "balanced_accuracy", "jaccard"]

NO_PROBABILITY = "no probability lies between the two scores that the best threshold separates"


class MaximumOverThresholds(CutMetric):
    """Base class of the largest value of a criterion at any threshold; `average` is over a set's labels.

    The criterion is taken at every distinct score, and for predicting nothing at all.

    Shape:
        preds: (N,) float of a binary output, (N, L) of a set: probabilities (or logits by keyword).
        target: (N,) int, (N, L) of a set.
    """

    direction = MAXIMIZE
    criterion: Criterion
    beta: float = 1.0
    """How many times recall counts as much as precision, for the criterion `fbeta`."""

    def quality(self, cuts: Cuts) -> Tensor:
        """Return the criterion at each cut."""
        return CRITERIA[self.criterion](cuts, self.beta**2)


@register_metric("f1_max", [BINARY, SET], aliases={"max_f1": "f1_max", **averages("f1_max")})
class F1Max(MaximumOverThresholds):
    """F1 at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.
    Formula: max over thresholds t of 2 * tp(t) / (2 * tp(t) + fp(t) + fn(t))
    Source: Lipton, Elkan & Naryanaswamy 2014, ECML PKDD; Ludwig's F1Max, which looks at one score after the
        other.

    >>> import torch
    >>> metric = F1Max()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: 2 * 2 / (2 * 2 + 1)
    0.8
    """

    criterion = "f1"


@register_metric("fbeta_max", [BINARY, SET])
class FbetaMax(MaximumOverThresholds):
    """F-beta score at the threshold that makes it largest; recall counts `beta` times as much as precision.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.

    Raises:
        MetricNameError: beta is not above 0, no such class, or `class` beside `average`.
    Formula: max over thresholds t of (1 + beta^2) * tp(t) / ((1 + beta^2) * tp(t) + fp(t) + beta^2 * fn(t))
    Source: van Rijsbergen 1979, Information Retrieval, 2nd edition; Lipton et al. 2014, ECML PKDD.

    >>> import torch
    >>> metric = FbetaMax(beta=2.0)
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: 5 * 2 / (5 * 2 + 1)
    0.9091
    """

    criterion = "fbeta"

    def __init__(self, *, beta: float, average: CurveAverage = "macro", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)
        self.beta = check_beta("fbeta_max", beta)


@register_metric("accuracy_max", [BINARY, SET])
class AccuracyMax(MaximumOverThresholds):
    """Share of right decisions at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best, the share of the larger class is chance; nan when the target
        holds one class only.
    Formula: max over thresholds t of (tp(t) + tn(t)) / rows
    Source: Provost & Fawcett 2001, Machine Learning 42(3).

    >>> import torch
    >>> metric = AccuracyMax()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up, or 0.9 up: 3 of 4
    0.75
    """

    criterion = "accuracy"


@register_metric("balanced_accuracy_max", [BINARY, SET])
class BalancedAccuracyMax(MaximumOverThresholds):
    """Mean of sensitivity and specificity at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best, 0.5 is chance; nan when the target holds one class only.
    Formula: max over thresholds t of (tp(t) / positives + tn(t) / negatives) / 2
    Source: Youden 1950, Cancer 3(1), whose index is twice this, less 1; Brodersen et al. 2010, ICPR.

    >>> import torch
    >>> metric = BalancedAccuracyMax()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: (2/2 + 1/2) / 2
    0.75
    """

    criterion = "balanced_accuracy"


@register_metric("mcc_max", [BINARY, SET])
class MccMax(MaximumOverThresholds):
    """Matthews correlation at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best, 0 is chance; nan when the target holds one class only.
    Formula: max over thresholds t of (tp*tn - fp*fn) / sqrt((tp+fp) * (tp+fn) * (tn+fp) * (tn+fn))
    Source: Matthews 1975, Biochimica et Biophysica Acta 405(2).

    >>> import torch
    >>> metric = MccMax()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: (2 * 1 - 1 * 0) / sqrt(3 * 2 * 2 * 1)
    0.5774
    """

    criterion = "mcc"


@register_metric("jaccard_max", [BINARY, SET])
class JaccardMax(MaximumOverThresholds):
    """Intersection over union at the threshold that makes it largest.

    Value: float in [0, 1], no unit, 1 is best; nan when the target holds one class only.
    Formula: max over thresholds t of tp(t) / (tp(t) + fp(t) + fn(t))
    Source: Jaccard 1912, New Phytologist 11(2).

    >>> import torch
    >>> metric = JaccardMax()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7, 0.1]), torch.tensor([1, 0, 1, 0]))
    >>> round(metric.compute().item(), 4)  # from 0.7 up: 2 / (2 + 1)
    0.6667
    """

    criterion = "jaccard"


@register_metric("best_threshold", [BINARY])
class BestThreshold(ColumnMetric):
    """Probability above which to predict 1 so that a criterion is largest; measured, never optimized.

    Predicting 1 where the probability is greater than it (or the logit greater than its logit) gives exactly
    the largest value that the criterion takes at any threshold. It lies half way between the two scores that
    it separates, where the numbers allow; among several equally good ones the highest is taken.

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

    direction = None

    def __init__(self, *, criterion: BestCriterion, beta: float = 1.0) -> None:
        super().__init__()
        self.criterion: BestCriterion = criterion
        self.beta = check_beta("best_threshold", beta)

    def compute(self) -> Tensor:
        """Return a probability within the best cut; nan with a reason when there is none."""
        scores = self.statistic(Scores)
        threshold = _threshold(scores, 0, self.criterion, self.beta)
        if threshold is None:
            return self.undefined(ONE_CLASS)
        return self.undefined(NO_PROBABILITY) if threshold.isnan() else threshold


@register_metric("best_threshold", [SET])
class BestThresholds(ColumnMetric):
    """Probability of each label above which to predict it so that a criterion is largest.

    It is measured, never optimized. There is a threshold per label (`average` none): a mean of them would be
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

    direction = None

    def __init__(self, *, criterion: BestCriterion, average: Literal["none"], beta: float = 1.0) -> None:
        super().__init__(average=average)
        self.criterion: BestCriterion = criterion
        self.beta = check_beta("best_threshold", beta)

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Return the best threshold of each label, with equal weights."""
        scores = self.statistic(Scores)
        nan = torch.tensor(torch.nan, dtype=torch.float64)
        cuts = [_threshold(scores, index, self.criterion, self.beta) for index in range(scores.classes)]
        thresholds = torch.stack([nan if cut is None else cut for cut in cuts])
        return thresholds, torch.ones_like(thresholds)


def _threshold(scores: Scores, index: int, criterion: BestCriterion, beta: float) -> Tensor | None:
    """Return the best threshold of a column as a probability, nan if none fits; None with one class only."""
    around = scores_around_best(scores, index, lambda cuts: CRITERIA[criterion](cuts, beta**2))
    return None if around is None else probability_between(*around, logits=scores.are_logits)


@register_metric("gini", [CATEGORY, BINARY, SET], aliases=["gini_coefficient", "somers_d", "accuracy_ratio"])
class Gini(ColumnMetric):
    """Gini coefficient: the area under the ROC curve, rescaled so that chance is 0.

    Value: float in [-1, 1], no unit, 1 is best, 0 is chance; nan when the target holds one class only.
    Formula: 2 * roc_auc - 1
    Source: Somers 1962, American Sociological Review 27(6); Hand & Till 2001, Machine Learning 45.

    >>> import torch
    >>> from hpometrics.metrics.features import Binary
    >>> metric = Gini()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.8, 0.7, 0.2]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().item()
    1.0
    """

    direction = MAXIMIZE

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Rescale the areas that all curve metrics share."""
        curves = curves_of(self.statistic(Scores))
        return 2 * curves.roc_auc - 1, curves.positives

    def of_pooled(self) -> Tensor:
        """Rescale the area of all columns pooled."""
        return 2 * pooled_curve(self.statistic(Scores)).roc_auc - 1


@register_metric("ks", [CATEGORY, BINARY, SET], aliases=["kolmogorov_smirnov", "ks_statistic"])
class KolmogorovSmirnov(CutMetric):
    """Kolmogorov-Smirnov statistic: the largest gap between the score distributions of a class and the rest.

    The gap has no sign: scores that are all the wrong way round lie as far apart as right ones. Where that
    matters, `balanced_accuracy_max` reads the same curve on one side only.

    Value: float in [0, 1], no unit, 1 is best, 0 is chance; nan when the target holds one class only.
    Formula: max over the thresholds of abs(true positive rate - false positive rate)
    Source: Smirnov 1939; scipy's ks_2samp of the scores of both classes.

    >>> import torch
    >>> from hpometrics.metrics.features import Binary
    >>> metric = KolmogorovSmirnov()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.8, 0.7, 0.75]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().item()  # above 0.75 lie half of the ones and none of the zeros
    0.5
    """

    direction = MAXIMIZE

    def quality(self, cuts: Cuts) -> Tensor:
        """Return the gap of the rates at each cut."""
        return (cuts.tp / cuts.positives - cuts.fp / cuts.negatives).abs()
