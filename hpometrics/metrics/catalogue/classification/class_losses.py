"""Losses of a class per row or pixel by their names in torch and Ludwig: they read logits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ....direction import MINIMIZE
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import CATEGORY, LOGITS, MASK, OutputFeature
from ...metric import MeanMetric
from ...registry.register import register_metric
from .._data import Batch, normal, uniform


class ClassLoss(MeanMetric):
    """The mean over rows, or pixels, of a function of the logits and of the class that was right."""

    objective = MINIMIZE
    inputs = LOGITS
    regroups = True

    def measure(self, batch: Outputs) -> Tensor | tuple[Tensor, Tensor]:
        """Measure each row, in float64; of a mask each pixel, and which of them count."""
        logits = batch.logits.double()
        if batch.feature.type != MASK:
            return self.of(logits, batch.index)
        return self.of(logits, torch.where(batch.counted, batch.index, 0)), batch.counted

    def of(self, logits: Tensor, target: Tensor) -> Tensor:
        """Measure each row: logits (N, C), target (N,) int64; or each pixel, likewise."""
        raise NotImplementedError(f"{type(self).__name__} needs of(logits, target)")

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Logits of a sure model, for rows or for pixels, whose answers are random by the noise."""
        classes = getattr(output, "num_classes", None) or 4
        shape = (rows, 3, 3) if output.type == MASK else (rows,)
        target, guess = torch.randint(classes, (2, *shape), generator=random)
        answer = torch.where(uniform(shape, random) < noise, guess, target)
        logits = 8 * functional.one_hot(answer, classes) + 0.5 * normal((*shape, classes), random)
        return {"logits": logits.movedim(-1, 1).contiguous(), "target": target}


@register_metric("softmax_cross_entropy", [CATEGORY, MASK], aliases=["cross_entropy_loss", "nll_loss"])
class SoftmaxCrossEntropy(ClassLoss):
    """Mean of -log p of the right class, of which a share may be spread over all classes.

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
                f"softmax_cross_entropy: label_smoothing is a share in [0, 1], got {label_smoothing!r}"
            )
        self.label_smoothing = float(label_smoothing)

    def of(self, logits: Tensor, target: Tensor) -> Tensor:
        """Measure each row."""
        logs = logits.log_softmax(1)
        right = logs.gather(1, target.unsqueeze(1)).squeeze(1)
        if self.label_smoothing == 0:
            return -right
        return -(1 - self.label_smoothing) * right - self.label_smoothing * logs.mean(1)


@register_metric("focal", [CATEGORY, MASK], aliases=["softmax_focal", "focal_loss"])
class SoftmaxFocal(ClassLoss):
    """Cross entropy in which rows that are right by far count little.

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
            raise MetricNameError(f"focal: gamma is from 0, got {gamma!r}")
        self.gamma = float(gamma)

    def of(self, logits: Tensor, target: Tensor) -> Tensor:
        """Measure each row."""
        right = logits.log_softmax(1).gather(1, target.unsqueeze(1)).squeeze(1)
        wrong = -torch.expm1(right)
        return -(wrong.pow(self.gamma) * right)


@register_metric("multi_margin", [CATEGORY], aliases=["multi_margin_loss"])
class MultiMargin(ClassLoss):
    """How far the right class fails to stand `margin` above each of the others.

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
            raise MetricNameError(f"multi_margin: p is 1 or 2, got {p!r}")
        self.p = p
        self.margin = float(margin)

    def of(self, logits: Tensor, target: Tensor) -> Tensor:
        """Measure each row."""
        gaps = (self.margin - logits.gather(1, target.unsqueeze(1)) + logits).clamp(min=0).pow(self.p)
        others = torch.ones_like(gaps).scatter(1, target.unsqueeze(1), 0)
        return (gaps * others).sum(1) / logits.shape[1]


@register_metric("corn", [CATEGORY], aliases=["corn_loss"])
class CORN(MeanMetric):
    """Loss of ordered classes: each logit says whether a row goes beyond a class, given that it reached it.

    It is the binary cross entropy over all questions that are asked: whether a row whose class is k or more
    is more than k, for each k below the last class.

    Shape:
        preds: (N, C) logits, of which the last column is not read: C classes have C - 1 steps.
        target: (N,) int, in the order of the classes.
    Value: float from 0, in nats, 0 is best; nan before the first row.
    Formula: sum(-log(p[k] if target > k else 1 - p[k]) over rows with target >= k, k < C - 1) / how many
    Deviates: Ludwig registers it as a reader of predictions; it reads logits.
    Source: Shi, Cao & Raschka 2023, Pattern Analysis and Applications 26(3); coral-pytorch's corn_loss.

    >>> metric = CORN()
    >>> metric.update(torch.tensor([[0.0, 0.0, 9.0], [0.0, 2.0, 9.0]]), torch.tensor([0, 2]))
    >>> round(metric.compute().item(), 4)  # (log(2) + log(2) + log(1 + exp(-2))) / 3
    0.5044
    """

    objective = MINIMIZE
    inputs = LOGITS
    regroups = True

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Give the mean surprise of each row, weighing as much as it is asked questions."""
        logits, target = batch.logits.double()[:, :-1], batch.index.unsqueeze(1)
        steps = torch.arange(logits.shape[1], device=logits.device)
        asked = (target >= steps).double()
        surprise = functional.softplus(torch.where(target > steps, -logits, logits)) * asked
        questions = asked.sum(1)
        return surprise.sum(1) / questions.clamp(min=1), questions

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Logits that go beyond the classes below the answer."""
        classes = getattr(output, "num_classes", None) or 4
        target, guess = torch.randint(classes, (2, rows), generator=random)
        answer = torch.where(uniform((rows,), random) < noise, guess, target)
        beyond = (answer.unsqueeze(1) > torch.arange(classes)).double()
        return {"logits": 8 * beyond - 4 + 0.5 * normal((rows, classes), random), "target": target}
