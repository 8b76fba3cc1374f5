"""Segmentation: overlap of predicted and right regions, over the pixels of all images at once."""

from __future__ import annotations

from torch import Tensor

from ....direction import MAXIMIZE
from ...features import MASK
from ...registry.register import register_metric
from ...statistics.confusion import Counts
from ..classification._base import Average, ConfusionMetric, Ratio, averages


class MaskRatio(Ratio):
    """A ratio of the counts of all pixels; with `include_background=false` without those of class 0.

    Args:
        average: how the classes become one value.
        class: the one class to be measured.
        include_background: whether class 0 is one of the classes that are averaged.

    Shape:
        preds: (N, height, width) int, classes (or logits (N, C, height, width) by keyword).
        target: (N, height, width) int; pixels of `ignore_index` count for nothing.
    Value: float in [0, 1], no unit, 1 is best; nan for a class in neither target nor predictions, and when
        there is no class to average.
    """

    needs = "class to average"

    def __init__(
        self, *, average: Average | None = None, class_: int | None = None, include_background: bool = True
    ) -> None:
        super().__init__(average=average, class_=class_)
        self.include_background = include_background

    @property
    def counts(self) -> Counts:
        """Counts per class that is to be averaged; of all classes where one is picked."""
        every = super().counts
        if self.include_background or self.class_ is not None:
            return every
        return Counts(*(part[1:] for part in (every.tp, every.fp, every.fn, every.tn)))


@register_metric(
    "iou",
    [MASK],
    aliases={"jaccard": "iou", "jaccard_index": "iou", "jaccard_score": "iou", **averages("iou")},
)
class Iou(MaskRatio):
    """Intersection over union of predicted and right region of a class, over all pixels of all images.

    `average=macro` is the mIoU of segmentation papers, `weighted` the frequency-weighted IoU, `class=1` that
    of the foreground of a mask of two classes. The mean over images of the value of each is `image_iou`.

    Formula: tp / (tp + fp + fn)
    Deviates: torchmetrics' MeanIoU is a mean over images, as `image_iou` is.
    Source: Everingham et al. 2010, International Journal of Computer Vision 88(2).

    >>> import torch
    >>> metric = Iou(average="macro")
    >>> metric.update(torch.tensor([[[0, 1], [1, 1]]]), torch.tensor([[[0, 0], [1, 1]]]))
    >>> round(metric.compute().item(), 4)  # (1/2 + 2/3) / 2
    0.5833
    """

    objective = MAXIMIZE
    word = "iou"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Intersection over union."""
        return counts.tp, counts.tp + counts.fp + counts.fn


@register_metric("dice", [MASK], aliases={"f1": "dice", **averages("dice")})
class Dice(MaskRatio):
    """Overlap of predicted and right region of a class, as a share of their mean size, over all pixels.

    The mean over images of the value of each is `image_dice`.

    Formula: 2 tp / (2 tp + fp + fn)
    Deviates: torchmetrics' DiceScore averages over images unless it is given aggregation_level="global".
    Source: Dice 1945, Ecology 26(3).

    >>> import torch
    >>> metric = Dice(class_=1)
    >>> metric.update(torch.tensor([[[0, 1], [1, 1]]]), torch.tensor([[[0, 0], [1, 1]]]))
    >>> metric.compute().item()  # 2 * 2 / (3 + 2)
    0.8
    """

    objective = MAXIMIZE
    word = "dice"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Twice the overlap over both sizes."""
        return 2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn


@register_metric("pixel_accuracy", [MASK], aliases=["accuracy"])
class PixelAccuracy(ConfusionMetric):
    """Share of all pixels that have the right class.

    Shape:
        preds: (N, height, width) int, classes (or logits (N, C, height, width) by keyword).
        target: (N, height, width) int; pixels of `ignore_index` count for nothing.
    Value: float in [0, 1], no unit, 1 is best; nan when no pixel counts.
    Formula: right pixels / pixels
    Source: Long, Shelhamer & Darrell 2015, CVPR.

    >>> import torch
    >>> metric = PixelAccuracy()
    >>> metric.update(torch.tensor([[[0, 1], [1, 1]]]), torch.tensor([[[0, 0], [1, 1]]]))
    >>> metric.compute().item()
    0.75
    """

    objective = MAXIMIZE

    def compute(self) -> Tensor:
        """Divide the diagonal by all pixels."""
        matrix = self.matrix
        pixels = matrix.sum()
        return matrix.diagonal().sum() / pixels if pixels > 0 else self.undefined("no pixel counted")


@register_metric("mean_pixel_accuracy", [MASK], aliases=["balanced_accuracy"])
class MeanPixelAccuracy(ConfusionMetric):
    """Mean, over the classes of the target, of the share of its pixels that are found.

    Shape:
        preds: (N, height, width) int, classes (or logits (N, C, height, width) by keyword).
        target: (N, height, width) int; pixels of `ignore_index` count for nothing.
    Value: float in [0, 1], no unit, 1 is best; nan when no pixel counts.
    Formula: mean over classes of tp / (tp + fn)
    Source: Long, Shelhamer & Darrell 2015, CVPR.

    >>> import torch
    >>> metric = MeanPixelAccuracy()
    >>> metric.update(torch.tensor([[[0, 1], [1, 1]]]), torch.tensor([[[0, 0], [1, 1]]]))
    >>> metric.compute().item()  # (1/2 + 1) / 2
    0.75
    """

    objective = MAXIMIZE

    def compute(self) -> Tensor:
        """Average over the classes that occur in the target."""
        counts = self.counts
        occurs = counts.support > 0
        if not occurs.any():
            return self.undefined("no pixel counted")
        return (counts.tp[occurs] / counts.support[occurs]).mean()
