"""Margins: by how much the score of what was right exceeds that of what was not."""

from __future__ import annotations

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ...batch import Outputs
from ...features import BINARY, CATEGORY, LOGITS, SET
from ...metric import MeanMetric
from ...registry.register import register_metric


@register_metric("hinge", [BINARY, SET], aliases=["hinge_loss"])
class Hinge(MeanMetric):
    """Mean by which a logit falls short of 1 on the right side of 0; of a set the mean over all labels.

    Shape:
        preds: (N,) float of a binary output, (N, L) of a set: logits.
        target: (N,) int, (N, L) of a set.
    Value: float from 0, no unit, 0 is best, 1 is a model that says nothing; nan before the first row.
    Formula: mean of max(0, 1 - y * logit), with y = 1 for class 1 and -1 for class 0
    Deviates: torchmetrics takes the sigmoid of logits first, so that no model comes below the share of 0s.
    Source: Cortes & Vapnik 1995, Machine Learning 20; scikit-learn's hinge_loss.

    >>> metric = Hinge()
    >>> metric.update(torch.tensor([2.0, 0.5]), torch.tensor([1, 0]))
    >>> metric.compute().item()  # (0 + 1.5) / 2
    0.75
    """

    objective = MINIMIZE
    inputs = LOGITS

    def measure(self, batch: Outputs) -> Tensor:
        """Turn the logits to the side of the target."""
        logits = batch.logits.double()
        return (1 - torch.where(batch.outcome.bool(), logits, -logits)).clamp(min=0)


@register_metric("hinge", [CATEGORY], aliases=["hinge_loss"])
class CrammerSingerHinge(MeanMetric):
    """Mean by which the logit of the right class falls short of being 1 above every other.

    Shape:
        preds: (N, C) float, logits.
        target: (N,) int.
    Value: float from 0, no unit, 0 is best, 1 is a model that says nothing; nan before the first row.
    Formula: mean of max(0, 1 - (logit of the right class - largest other logit))
    Deviates: torchmetrics takes the softmax of logits first; torch's MultiMarginLoss sums over all classes.
    Source: Crammer & Singer 2001, Journal of Machine Learning Research 2; scikit-learn's hinge_loss.

    >>> metric = CrammerSingerHinge()
    >>> metric.update(torch.tensor([[2.0, 0.5, 0.0], [0.0, 0.5, 0.25]]), torch.tensor([0, 1]))
    >>> metric.compute().item()  # (0 + (1 - (0.5 - 0.25))) / 2
    0.375
    """

    objective = MINIMIZE
    inputs = LOGITS

    def measure(self, batch: Outputs) -> Tensor:
        """Compare with the best of the others."""
        index = batch.index.unsqueeze(1)
        logits = batch.logits
        others = logits.scatter(1, index, -torch.inf).amax(1)
        return (1 - (logits.gather(1, index).squeeze(1).double() - others)).clamp(min=0)
