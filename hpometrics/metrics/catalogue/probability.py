"""Probabilities good and bad: ranking quality, likelihood and calibration of a classifier's scores."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ...objective import MAXIMIZE, MINIMIZE
from ..features import BINARY, CATEGORY, LOGITS, PROBABILITIES, SET
from ..metric import MeanMetric, Metric
from ..outputs import Outputs
from ..registry import register_metric
from ..statistics.scores import Curves, Scores
from ..statistics.statistic import Statistic

CurveAverage = Literal["macro", "weighted", "none"]


class CurveMetric(Metric):
    """An area under a curve, one class against the rest; `average` says how classes become one value.

    Classes without a positive or without a negative row have no curve and are left out.
    """

    def __init__(self, *, average: CurveAverage = "macro") -> None:
        super().__init__()
        self.average = average

    def statistics(self) -> dict[str, Statistic]:
        """Need every row's scores."""
        return {"scores": Scores()}

    def areas(self, curves: Curves) -> Tensor:
        """The areas per class."""
        raise NotImplementedError(f"{type(self).__name__} needs areas(curves)")

    def compute(self) -> Tensor:
        """Average the areas; nan with a reason when no class has a curve."""
        curves = self.statistic(Scores).curves
        areas = self.areas(curves)
        if self.average == "none":
            return areas
        defined = ~areas.isnan()
        if not defined.any():
            return self.undefined("the target holds one class only")
        weight = curves.positives if self.average == "weighted" else torch.ones_like(areas)
        return (areas[defined] * weight[defined]).sum() / weight[defined].sum()


@register_metric(
    "roc_auc",
    [CATEGORY, BINARY, SET],
    aliases={
        "auroc": "roc_auc",
        "auc": "roc_auc",
        "roc_auc_ovr": "roc_auc",
        "roc_auc_ovr_weighted": "roc_auc(average=weighted)",
    },
)
class RocAuc(CurveMetric):
    """Probability that a row of the class scores above one that is not of it (a tie counts a half); exact.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category, (N, L) of a set: probabilities (or
            logits by keyword).
        target: (N,) int, (N, L) of a set.
    Value: float in [0, 1], no unit, 1 is best, 0.5 is chance; nan when the target holds one class only.
    Source: Hanley & McNeil 1982, Radiology 143(1); several classes one against the rest, Provost & Domingos
        2000.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = RocAuc()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.8, 0.7, 0.2]), torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().item()
    1.0
    """

    objective = MAXIMIZE
    inputs = PROBABILITIES

    def areas(self, curves: Curves) -> Tensor:
        """Take the areas under the ROC curves."""
        return curves.roc_auc


@register_metric("average_precision", [CATEGORY, BINARY, SET], aliases=["pr_auc"])
class AveragePrecision(CurveMetric):
    """Mean precision over the rows of the class, each taken at its own score; exact, without interpolation.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category, (N, L) of a set: probabilities (or
            logits by keyword).
        target: (N,) int, (N, L) of a set.
    Value: float in [0, 1], no unit, 1 is best, the share of positives is chance; nan when there is no
        positive row.
    Source: Zhu 2004, University of Waterloo report; scikit-learn's average_precision_score.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = AveragePrecision()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([1, 0, 1]))
    >>> round(metric.compute().item(), 4)  # (1/1 + 2/3) / 2
    0.8333
    """

    objective = MAXIMIZE
    inputs = PROBABILITIES

    def areas(self, curves: Curves) -> Tensor:
        """Take the average precisions."""
        return curves.average_precision


@register_metric("log_loss", [CATEGORY, BINARY, SET], aliases=["neg_log_loss", "cross_entropy", "logloss"])
class LogLoss(MeanMetric):
    """Mean of -log p of what was right, in nats.

    From logits it is computed in log space and exact; from probabilities, one below the machine epsilon of
    its dtype is taken as epsilon, as scikit-learn does. Of a set it is the mean over all labels.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category, (N, L) of a set: probabilities (or
            logits by keyword).
        target: (N,) int, (N, L) of a set.
    Value: float from 0, in nats, 0 is best, log(classes) is chance; nan before the first row.
    Source: Good 1952, Journal of the Royal Statistical Society B 14(1).

    >>> from hpometrics.metrics.features import Binary
    >>> metric = LogLoss()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.9]), torch.tensor([0, 1]))
    >>> round(metric.compute().item(), 5)  # -log(0.9)
    0.10536
    """

    objective = MINIMIZE
    inputs = PROBABILITIES

    def measure(self, batch: Outputs) -> Tensor:
        """Give -log p of each row's (or label's) target."""
        return -batch.block("log_likelihood", _log_likelihood)


def _log_likelihood(batch: Outputs) -> Tensor:
    if batch.feature.type == CATEGORY:
        return batch.log_probabilities.gather(1, batch.index.unsqueeze(1)).squeeze(1)
    if LOGITS in batch.given:
        signed = torch.where(batch.target.bool(), batch.logits, -batch.logits)
        likelihood: Tensor = torch.nn.functional.logsigmoid(signed)
        return likelihood
    probabilities = batch.probabilities
    true = torch.where(batch.target.bool(), probabilities, 1 - probabilities)
    return torch.log(true.clamp(min=torch.finfo(true.dtype).eps))
