"""Losses of binary, category and set outputs under their names in torch and Ludwig."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ....direction import MINIMIZE
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import BINARY, CATEGORY, LOGITS, MASK, PROBABILITIES, SET, OutputFeature
from ...metric import MeanMetric
from ...registry.register import register_metric
from .._batches import Batch, confident_logits, draw_answers, normal

_LOG_MIN = -100.0  # what torch takes for the logarithm of a probability of 0
_BCE_ALIASES = [
    "bce", "bce_loss", "bce_with_logits", "binary_cross_entropy_with_logits", "soft_margin",
    "soft_margin_loss",
]  # fmt: skip


class LogitLoss(MeanMetric):
    """Base class of mean losses of logits."""

    direction = MINIMIZE
    inputs = LOGITS


@register_metric("hinge", [BINARY, SET], aliases=["hinge_loss"])
class Hinge(LogitLoss):
    """Mean hinge loss: how far a logit falls short of 1 on the right side of 0, for a set over all labels.

    Shape:
        preds: (N,) float of a binary output, (N, L) of a set: logits.
        target: (N,) int, (N, L) of a set.
    Value: float from 0, no unit, 0 is best, 1 is a model whose logits are 0; nan before the first row.
    Formula: mean of max(0, 1 - y * logit), with y = 1 for class 1 and -1 for class 0
    Deviates: torchmetrics takes the sigmoid of logits first, so that no model comes below the share of 0s.
    Source: Cortes & Vapnik 1995, Machine Learning 20; scikit-learn's hinge_loss.

    >>> metric = Hinge()
    >>> metric.update(torch.tensor([2.0, 0.5]), torch.tensor([1, 0]))
    >>> metric.compute().item()  # (0 + 1.5) / 2
    0.75
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return the hinge loss of each row, or of each label of each row."""
        logits = batch.logits.double()
        return (1 - torch.where(batch.outcome.bool(), logits, -logits)).clamp(min=0)


@register_metric("hinge", [CATEGORY], aliases=["hinge_loss"])
class CrammerSingerHinge(LogitLoss):
    """Mean multiclass hinge loss: how far the right logit falls short of being 1 above every other.

    Shape:
        preds: (N, C) float, logits.
        target: (N,) int.
    Value: float from 0, no unit, 0 is best, 1 is a model whose logits are 0; nan before the first row.
    Formula: mean of max(0, 1 - (logit of the right class - largest other logit))
    Deviates: torchmetrics takes the softmax of logits first; torch's MultiMarginLoss sums over all classes.
    Source: Crammer & Singer 2001, Journal of Machine Learning Research 2; scikit-learn's hinge_loss.

    >>> metric = CrammerSingerHinge()
    >>> metric.update(torch.tensor([[2.0, 0.5, 0.0], [0.0, 0.5, 0.25]]), torch.tensor([0, 1]))
    >>> metric.compute().item()  # (0 + (1 - (0.5 - 0.25))) / 2
    0.375
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Compare the logit of the right class with the largest other logit."""
        index = batch.index.unsqueeze(1)
        logits = batch.logits
        others = logits.scatter(1, index, -torch.inf).amax(1)
        return (1 - (logits.gather(1, index).squeeze(1).double() - others)).clamp(min=0)


class ClassLoss(LogitLoss):
    """Base class of losses of a category or mask: a mean over the logits and the right class."""

    regroups = True

    def measure(self, batch: Outputs) -> Tensor | tuple[Tensor, Tensor]:
        """Return the loss of each row, in float64; for a mask of each pixel, and which pixels count."""
        logits = batch.logits.double()
        if batch.feature.type != MASK:
            return self.of(logits, batch.index)
        return self.of(logits, torch.where(batch.counted, batch.index, 0)), batch.counted

    def of(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row: logits (N, C), target (N,) int64; or of each pixel, likewise."""
        raise NotImplementedError(f"{type(self).__name__} needs of(logits, target)")

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return logits of a confident model, for rows or pixels, whose answers are random by the noise."""
        classes = getattr(output, "num_classes", None) or 4
        shape = (rows, 3, 3) if output.type == MASK else (rows,)
        target, answer = draw_answers(classes, shape, noise, random)
        logits = confident_logits(answer, classes, random)
        return {"logits": logits.movedim(-1, 1).contiguous(), "target": target}


@register_metric("softmax_cross_entropy", [CATEGORY, MASK], aliases=["cross_entropy_loss", "nll_loss"])
class SoftmaxCrossEntropy(ClassLoss):
    """Mean cross entropy of the right class, in nats, with optional label smoothing.

    Shape:
        preds: (N, C) logits; of a mask (N, C, height, width).
        target: (N,) int; (N, height, width), where pixels of `ignore_index` count for nothing.
    Value: float from 0, in nats, small is best, log(classes) is chance; nan before the first row.
    Formula: mean(-(1 - label_smoothing) * log(p[target]) - label_smoothing * mean(log(p)))
    Deviates: rows are weighed by `sample_weight=`; torch's and Ludwig's weights of classes are not read.
    Source: torch's cross_entropy; Ludwig's softmax_cross_entropy; Szegedy et al. 2016 (smoothing).

    >>> metric = SoftmaxCrossEntropy()
    >>> metric.update(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    >>> round(metric.compute().item(), 4)  # log(2)
    0.6931
    """

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        super().__init__()
        if not 0 <= label_smoothing <= 1:
            raise MetricNameError(
                f"softmax_cross_entropy: label_smoothing must be a share in [0, 1], got {label_smoothing!r}"
            )
        self.label_smoothing = float(label_smoothing)

    def of(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row."""
        logs = logits.log_softmax(1)
        right = logs.gather(1, target.unsqueeze(1)).squeeze(1)
        if self.label_smoothing == 0:
            return -right
        return -(1 - self.label_smoothing) * right - self.label_smoothing * logs.mean(1)


@register_metric("focal", [CATEGORY, MASK], aliases=["softmax_focal", "focal_loss"])
class SoftmaxFocal(ClassLoss):
    """Focal loss: cross entropy in which well-classified rows count little.

    Shape:
        preds: (N, C) logits; of a mask (N, C, height, width).
        target: (N,) int; (N, height, width), where pixels of `ignore_index` count for nothing.
    Value: float from 0, 0 is best; nan before the first row.
    Formula: mean((1 - p[target]) ** gamma * -log(p[target]))
    Source: Lin, Goyal, Girshick, He & Dollar 2017, ICCV, with a softmax and without weights of classes.

    >>> from hpometrics.metrics.features import Category
    >>> metric = SoftmaxFocal(gamma=2.0)
    >>> metric.output = Category(2)
    >>> metric.update(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    >>> round(metric.compute().item(), 4)  # 0.5 ** 2 * log(2)
    0.1733
    """

    def __init__(self, *, gamma: float = 2.0) -> None:
        super().__init__()
        if gamma < 0:
            raise MetricNameError(f"focal: gamma must be at least 0, got {gamma!r}")
        self.gamma = float(gamma)

    def of(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row."""
        right = logits.log_softmax(1).gather(1, target.unsqueeze(1)).squeeze(1)
        wrong = -torch.expm1(right)
        return -(wrong.pow(self.gamma) * right)


@register_metric("multi_margin", [CATEGORY], aliases=["multi_margin_loss"])
class MultiMargin(ClassLoss):
    """Multiclass margin loss: how far the right class falls short of being `margin` above each other class.

    Shape:
        preds: (N, C) logits.
        target: (N,) int.
    Value: float from 0, 0 is best; nan before the first row.
    Formula: mean over rows of sum(max(0, margin - x[target] + x[other]) ** p for others) / C
    Source: Weston & Watkins 1999, ESANN; torch's multi_margin_loss.

    >>> metric = MultiMargin()
    >>> metric.update(torch.tensor([[0.5, 0.0, 1.0]]), torch.tensor([0]))
    >>> metric.compute().item()  # (0.5 + 1.5) / 3
    0.6666666666666666
    """

    def __init__(self, *, p: int = 1, margin: float = 1.0) -> None:
        super().__init__()
        if p not in (1, 2):
            raise MetricNameError(f"multi_margin: p must be 1 or 2, got {p!r}")
        self.p = p
        self.margin = float(margin)

    def of(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row."""
        gaps = (self.margin - logits.gather(1, target.unsqueeze(1)) + logits).clamp(min=0).pow(self.p)
        others = torch.ones_like(gaps).scatter(1, target.unsqueeze(1), 0)
        return (gaps * others).sum(1) / logits.shape[1]


@register_metric("corn", [CATEGORY], aliases=["corn_loss"])
class CORN(LogitLoss):
    """CORN loss of ordered classes: each logit predicts whether a row that reached a class goes beyond it.

    It is the binary cross entropy over all questions whether a row whose class is at least k is above k, for
    each k below the last class.

    Shape:
        preds: (N, C) logits, of which the last column is not read: C classes have C - 1 steps.
        target: (N,) int, in the order of the classes.
    Value: float from 0, in nats, 0 is best; nan before the first row.
    Formula: sum(-log(p[k] if target > k else 1 - p[k]) over rows with target >= k, k < C - 1) / how many
    Deviates: Ludwig registers it as reading predictions; it reads logits.
    Source: Shi, Cao & Raschka 2023, Pattern Analysis and Applications 26(3); coral-pytorch's corn_loss.

    >>> metric = CORN()
    >>> metric.update(torch.tensor([[0.0, 0.0, 9.0], [0.0, 2.0, 9.0]]), torch.tensor([0, 2]))
    >>> round(metric.compute().item(), 4)  # (log(2) + log(2) + log(1 + exp(-2))) / 3
    0.5044
    """

    regroups = True

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return the mean loss of each row, and as its weight the number of its questions."""
        logits, target = batch.logits.double()[:, :-1], batch.index.unsqueeze(1)
        steps = torch.arange(logits.shape[1], device=logits.device)
        reached = (target >= steps).double()
        loss = functional.softplus(torch.where(target > steps, -logits, logits)) * reached
        questions = reached.sum(1)
        return loss.sum(1) / questions.clamp(min=1), questions

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return logits that go beyond the classes below the answer."""
        classes = getattr(output, "num_classes", None) or 4
        target, answer = draw_answers(classes, (rows,), noise, random)
        beyond = (answer.unsqueeze(1) > torch.arange(classes)).double()
        return {"logits": 8 * beyond - 4 + 0.5 * normal((rows, classes), random), "target": target}


class LabelLoss(LogitLoss):
    """Base class of losses of a binary output or set: a mean over the logit and the target."""

    regroups = True

    def measure(self, batch: Outputs) -> Tensor:
        """Return the loss of every label of every row, in float64."""
        return self.of(batch.logits.double(), batch.outcome.bool())

    def of(self, logits: Tensor, yes: Tensor) -> Tensor:
        """Return the loss of each row, or of each label of each row."""
        raise NotImplementedError(f"{type(self).__name__} needs of(logits, yes)")


@register_metric("binary_cross_entropy", [BINARY], aliases=_BCE_ALIASES)
@register_metric(
    "binary_cross_entropy", [SET],
    aliases=[*_BCE_ALIASES, "sigmoid_cross_entropy", "multilabel_soft_margin", "multilabel_soft_margin_loss"],
)  # fmt: skip
class BinaryCrossEntropy(MeanMetric):
    """Mean binary cross entropy per row or label, as torch computes it.

    It is `log_loss` with torch's treatment of a probability of 0: its logarithm counts as -100. From logits
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

    direction = MINIMIZE
    inputs = PROBABILITIES
    regroups = True

    def measure(self, batch: Outputs) -> Tensor:
        """Return the loss of every label of every row, in float64."""
        yes = batch.outcome.bool()
        if LOGITS in batch.given:
            return _log_loss(batch.logits.double(), yes)
        p = batch.probabilities.double()
        return -torch.where(yes, p.log(), torch.log1p(-p)).clamp(min=_LOG_MIN)


@register_metric("binary_weighted_cross_entropy", [BINARY])
class BinaryWeightedCrossEntropy(LabelLoss):
    """Binary cross entropy with weighted positive rows, a robust loss and a confidence penalty.

    `robust_lambda` moves the loss that far towards 1/2; `confidence_penalty` is multiplied by how much surer
    than a coin the prediction is, 0 for a probability of a half and 1 for one of 0 or 1, and added.

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
                "binary_weighted_cross_entropy: positive_class_weight and confidence_penalty must be at "
                f"least 0, and robust_lambda must be in [0, 1]; got {positive_class_weight:g}, "
                f"{confidence_penalty:g} and {robust_lambda:g}"
            )
        self.positive_class_weight = float(positive_class_weight)
        self.robust_lambda = float(robust_lambda)
        self.confidence_penalty = float(confidence_penalty)

    def of(self, logits: Tensor, yes: Tensor) -> Tensor:
        """Return the loss of each row."""
        loss = _log_loss(logits, yes)
        loss = torch.where(yes, self.positive_class_weight * loss, loss)
        loss = (1 - self.robust_lambda) * loss + self.robust_lambda / 2
        of_yes, of_no = functional.softplus(-logits), functional.softplus(logits)
        entropy = of_yes.neg().exp() * of_yes + of_no.neg().exp() * of_no
        return loss + self.confidence_penalty * (1 - entropy / math.log(2)).clamp(min=0)


@register_metric("focal", [BINARY, SET], aliases=["sigmoid_focal", "sigmoid_focal_loss", "focal_loss"])
class SigmoidFocal(LabelLoss):
    """Focal loss: cross entropy in which well-classified rows count little.

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
                f"focal: alpha must be at most 1 and gamma at least 0, got alpha={alpha:g}, gamma={gamma:g}"
            )
        self.alpha = float(alpha)
        self.gamma = float(gamma)

    def of(self, logits: Tensor, yes: Tensor) -> Tensor:
        """Return the loss of each row, or of each label of each row."""
        cross_entropy = _log_loss(logits, yes)
        miss = -torch.expm1(-cross_entropy)  # 1 - p_t
        loss = miss.pow(self.gamma) * cross_entropy
        return loss if self.alpha < 0 else torch.where(yes, self.alpha * loss, (1 - self.alpha) * loss)


@register_metric("multilabel_margin", [SET], aliases=["multilabel_margin_loss"])
class MultilabelMargin(LogitLoss):
    """Multilabel margin loss: how far right labels fall short of being 1 above wrong ones, over all pairs.

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

    regroups = True

    def measure(self, batch: Outputs) -> Tensor:
        """Compare every right label of each row with every wrong one, in float64."""
        logits, yes = batch.logits.double(), batch.outcome.bool()
        no = ~yes if batch.known is None else ~yes & batch.known
        gaps = (1 - logits.unsqueeze(2) + logits.unsqueeze(1)).clamp(min=0)
        labels = logits.shape[1] if batch.known is None else batch.known.sum(1)
        return (gaps * (yes.unsqueeze(2) & no.unsqueeze(1))).sum((1, 2)) / labels


def _log_loss(logits: Tensor, yes: Tensor) -> Tensor:
    """Return -log p of the target."""
    return functional.softplus(torch.where(yes, -logits, logits))
