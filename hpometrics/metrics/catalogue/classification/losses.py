"""Losses of yes-or-no outputs by their names in torch and Ludwig: a logit per row, or per label of a set."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ....direction import MINIMIZE
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import BINARY, LOGITS, PROBABILITIES, SET
from ...metric import MeanMetric
from ...registry.register import register_metric

_LEAST = -100.0  # what torch takes for the logarithm of a probability of 0

_NAMES = [
    "bce", "bce_loss", "bce_with_logits", "binary_cross_entropy_with_logits", "soft_margin",
    "soft_margin_loss",
]  # fmt: skip


class LabelLoss(MeanMetric):
    """The mean over rows and labels of a function of the logit and of whether the target is 1."""

    objective = MINIMIZE
    inputs = LOGITS
    regroups = True

    def measure(self, batch: Outputs) -> Tensor:
        """Measure every label of every row, in float64."""
        return self.of(batch.logits.double(), batch.outcome.bool())

    def of(self, logits: Tensor, yes: Tensor) -> Tensor:
        """Measure each row, or each label of each row."""
        raise NotImplementedError(f"{type(self).__name__} needs of(logits, yes)")


@register_metric("binary_cross_entropy", [BINARY], aliases=_NAMES)
@register_metric(
    "binary_cross_entropy", [SET],
    aliases=[*_NAMES, "sigmoid_cross_entropy", "multilabel_soft_margin", "multilabel_soft_margin_loss"],
)  # fmt: skip
class BinaryCrossEntropy(MeanMetric):
    """Mean of -log p of what was right, per row or label, in torch's terms.

    It is `log_loss` with torch's way of meeting a probability of 0: its logarithm counts as -100. From logits
    nothing is cut off. torch's soft margin losses are the same function.

    Shape:
        preds: (N,) or (N, L) probabilities (or logits by keyword).
        target: (N,) or (N, L) of 0 and 1.
    Value: float from 0, in nats, 0 is best; nan before the first row.
    Formula: mean(-target * log(p) - (1 - target) * log(1 - p))
    Source: torch's binary_cross_entropy, soft_margin_loss, multilabel_soft_margin_loss; Ludwig's
        sigmoid_cross_entropy.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = BinaryCrossEntropy()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.0]), torch.tensor([0, 1]))
    >>> round(metric.compute().item(), 5)  # (-log(0.9) + 100) / 2
    50.05268
    """

    objective = MINIMIZE
    inputs = PROBABILITIES
    regroups = True

    def measure(self, batch: Outputs) -> Tensor:
        """Measure every label of every row, in float64."""
        yes = batch.outcome.bool()
        if LOGITS in batch.given:
            return _surprise(batch.logits.double(), yes)
        p = batch.probabilities.double()
        return -torch.where(yes, p.log(), torch.log1p(-p)).clamp(min=_LEAST)


@register_metric("binary_weighted_cross_entropy", [BINARY])
class BinaryWeightedCrossEntropy(LabelLoss):
    """Cross entropy in which positive rows weigh more, softened, with a price on being sure.

    `robust_lambda` moves the loss that far towards 1/2; `confidence_penalty` adds as much as the prediction
    is surer than a coin, 0 for a probability of a half and 1 for one of 0 or 1.

    Shape:
        preds: (N,) logits.
        target: (N,) of 0 and 1.
    Value: float from 0, in nats, small is best; nan before the first row.
    Formula: mean((1 - robust_lambda) * wce + robust_lambda / 2 + confidence_penalty * (1 - H(p) / log(2)))
    Deviates: Ludwig's confidence penalty takes the largest value of -p * log(p) over each batch in the place
        of the entropy of each row, so that it depends on how the rows were cut into batches.
    Source: Ludwig's binary_weighted_cross_entropy; Pereyra, Tucker, Chorowski, Kaiser & Hinton 2017
        (penalty).

    >>> metric = BinaryWeightedCrossEntropy(positive_class_weight=3.0)
    >>> metric.update(torch.tensor([0.0, 0.0]), torch.tensor([1, 0]))
    >>> round(metric.compute().item(), 4)  # (3 * log(2) + log(2)) / 2
    1.3863
    """

    def __init__(
        self,
        *,
        positive_class_weight: float = 1.0,
        robust_lambda: float = 0.0,
        confidence_penalty: float = 0.0,
    ) -> None:
        super().__init__()
        if positive_class_weight < 0 or not 0 <= robust_lambda <= 1 or confidence_penalty < 0:
            raise MetricNameError(
                "binary_weighted_cross_entropy: positive_class_weight and confidence_penalty are from 0, "
                f"robust_lambda lies in [0, 1]; got {positive_class_weight:g}, {confidence_penalty:g} and "
                f"{robust_lambda:g}"
            )
        self.positive_class_weight = float(positive_class_weight)
        self.robust_lambda = float(robust_lambda)
        self.confidence_penalty = float(confidence_penalty)

    def of(self, logits: Tensor, yes: Tensor) -> Tensor:
        """Measure each row."""
        loss = _surprise(logits, yes)
        loss = torch.where(yes, self.positive_class_weight * loss, loss)
        loss = (1 - self.robust_lambda) * loss + self.robust_lambda / 2
        of_yes, of_no = functional.softplus(-logits), functional.softplus(logits)
        entropy = of_yes.neg().exp() * of_yes + of_no.neg().exp() * of_no
        return loss + self.confidence_penalty * (1 - entropy / math.log(2)).clamp(min=0)


@register_metric("focal", [BINARY, SET], aliases=["sigmoid_focal", "sigmoid_focal_loss", "focal_loss"])
class SigmoidFocal(LabelLoss):
    """Cross entropy in which rows that are right by far count little.

    `alpha` is the weight of positive rows, `1 - alpha` that of negative ones; below 0 all weigh 1.

    Shape:
        preds: (N,) or (N, L) logits.
        target: (N,) or (N, L) of 0 and 1.
    Value: float from 0, 0 is best; nan before the first row.
    Formula: mean(alpha_t * (1 - p_t) ** gamma * -log(p_t)), p_t the probability of what was right
    Source: Lin, Goyal, Girshick, He & Dollar 2017, ICCV; torchvision's sigmoid_focal_loss.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = SigmoidFocal(alpha=0.25, gamma=2.0)
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.0]), torch.tensor([1]))
    >>> round(metric.compute().item(), 4)  # 0.25 * 0.5 ** 2 * log(2)
    0.0433
    """

    def __init__(self, *, alpha: float = 0.25, gamma: float = 2.0) -> None:
        super().__init__()
        if alpha > 1 or gamma < 0:
            raise MetricNameError(
                f"focal: alpha is at most 1 and gamma from 0, got alpha={alpha:g}, gamma={gamma:g}"
            )
        self.alpha = float(alpha)
        self.gamma = float(gamma)

    def of(self, logits: Tensor, yes: Tensor) -> Tensor:
        """Measure each row, or each label of each row."""
        surprise = _surprise(logits, yes)
        missed = -torch.expm1(-surprise)  # 1 - p_t
        loss = missed.pow(self.gamma) * surprise
        return loss if self.alpha < 0 else torch.where(yes, self.alpha * loss, (1 - self.alpha) * loss)


@register_metric("multilabel_margin", [SET], aliases=["multilabel_margin_loss"])
class MultilabelMargin(MeanMetric):
    """How far right labels fail to stand 1 above wrong ones, over all pairs of them.

    Shape:
        preds: (N, L) logits.
        target: (N, L) of 0 and 1; torch's form of it lists the right labels.
    Value: float from 0, 0 is best; nan before the first row.
    Formula: mean over rows of sum(max(0, 1 - (x[right] - x[wrong])) for all pairs) / L
    Source: torch's multilabel_margin_loss.

    >>> from hpometrics.metrics.features import Set
    >>> metric = MultilabelMargin()
    >>> metric.output = Set(3)
    >>> metric.update(torch.tensor([[0.5, 0.0, 1.0]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute().item()  # (0.5 + 1.5) / 3
    0.6666666666666666
    """

    objective = MINIMIZE
    inputs = LOGITS
    regroups = True

    def measure(self, batch: Outputs) -> Tensor:
        """Compare every right label of a row with every wrong one, in float64."""
        logits, yes = batch.logits.double(), batch.outcome.bool()
        no = ~yes if batch.known is None else ~yes & batch.known
        gaps = (1 - logits.unsqueeze(2) + logits.unsqueeze(1)).clamp(min=0)
        labels = logits.shape[1] if batch.known is None else batch.known.sum(1)
        return (gaps * (yes.unsqueeze(2) & no.unsqueeze(1))).sum((1, 2)) / labels


def _surprise(logits: Tensor, yes: Tensor) -> Tensor:
    """-log p of what was right."""
    return functional.softplus(torch.where(yes, -logits, logits))
