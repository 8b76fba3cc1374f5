"""Likelihood ratios: how much a yes or a no of the model changes the odds of class 1."""

from __future__ import annotations

from torch import Tensor

from ....direction import MINIMIZE
from ...features import BINARY
from ...registry.register import register_metric
from ._base import ConfusionMetric


class _Likelihood(ConfusionMetric):
    """A quotient of two shares of rows predicted 1 or 0."""

    def quotient(self, numerator: Tensor, denominator: Tensor, needs: str) -> Tensor:
        """Divide, for class 1."""
        if not denominator[1] > 0:
            return self.undefined(f"there is no {needs}")
        return numerator[1] / denominator[1]


@register_metric("positive_likelihood_ratio", [BINARY], aliases=["lr_plus"])
class PositiveLikelihoodRatio(_Likelihood):
    """How many times likelier a prediction of 1 is when the target is 1 than when it is 0.

    It has no objective: more is better, but the best model of all, without a false positive, has no value.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float from 0, no unit, more is better, 1 is chance; nan when no target is 1 or nothing is
        wrongly predicted 1.
    Formula: (tp / (tp + fn)) / (fp / (fp + tn))
    Source: Altman & Bland 1994, BMJ 309(6947); scikit-learn's class_likelihood_ratios.

    >>> import torch
    >>> metric = PositiveLikelihoodRatio()
    >>> metric.update(torch.tensor([1, 0, 1, 0, 0, 0]), torch.tensor([1, 1, 0, 0, 0, 0]))
    >>> metric.compute().item()  # (1/2) / (1/4)
    2.0
    """

    objective = None

    def compute(self) -> Tensor:
        """Divide recall by the false positive rate."""
        counts = self.counts
        return self.quotient(
            counts.tp * (counts.fp + counts.tn),
            counts.fp * counts.support,
            "row whose target is 1, or none wrongly predicted 1",
        )


@register_metric("negative_likelihood_ratio", [BINARY], aliases=["lr_minus", "neg_negative_likelihood_ratio"])
class NegativeLikelihoodRatio(_Likelihood):
    """How many times likelier a prediction of 0 is when the target is 1 than when it is 0.

    Shape:
        preds, target: (N,) of 0 and 1.
    Value: float from 0, no unit, 0 is best, 1 is chance; nan when no target is 1 or no 0 is predicted 0.
    Formula: (fn / (tp + fn)) / (tn / (fp + tn))
    Deviates: scikit-learn's scorer neg_negative_likelihood_ratio has the sign flipped.
    Source: Altman & Bland 1994, BMJ 309(6947); scikit-learn's class_likelihood_ratios.

    >>> import torch
    >>> metric = NegativeLikelihoodRatio()
    >>> metric.update(torch.tensor([1, 0, 1, 0, 0, 0]), torch.tensor([1, 1, 0, 0, 0, 0]))
    >>> round(metric.compute().item(), 4)  # (1/2) / (3/4)
    0.6667
    """

    objective = MINIMIZE

    def compute(self) -> Tensor:
        """Divide the false negative rate by the specificity."""
        counts = self.counts
        return self.quotient(
            counts.fn * (counts.fp + counts.tn),
            counts.tn * counts.support,
            "row whose target is 1, or none rightly predicted 0",
        )
