"""Separation: how far apart the scores of a class and of the others lie."""

from __future__ import annotations

from torch import Tensor

from ....direction import MAXIMIZE
from ...features import BINARY, CATEGORY, SET
from ...registry.register import register_metric
from ...statistics.areas import curves_of, pooled_curve
from ...statistics.ranked import Ranked
from ...statistics.scores import Scores
from .columns import ColumnMetric


@register_metric("gini", [CATEGORY, BINARY, SET], aliases=["gini_coefficient", "somers_d", "accuracy_ratio"])
class Gini(ColumnMetric):
    """How much better than chance the scores rank: the ROC area stretched so that chance is 0.

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

    objective = MAXIMIZE

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Stretch the areas that all curve metrics share."""
        curves = curves_of(self.statistic(Scores))
        return 2 * curves.roc_auc - 1, curves.positives

    def of_pooled(self) -> Tensor:
        """Stretch the area of all columns as one."""
        return 2 * pooled_curve(self.statistic(Scores)).roc_auc - 1


@register_metric("ks", [CATEGORY, BINARY, SET], aliases=["kolmogorov_smirnov", "ks_statistic"])
class KolmogorovSmirnov(ColumnMetric):
    """Largest gap between the score distributions of the rows of the class and of the others.

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

    objective = MAXIMIZE

    def of_column(self, column: Ranked) -> Tensor:
        """Look at every cut."""
        fpr, tpr = column.rates
        return (tpr - fpr).abs().amax()
