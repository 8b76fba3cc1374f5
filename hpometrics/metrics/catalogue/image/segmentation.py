"""Segmentation metrics over the pixels of all images, or averaged over images."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import MASK, PREDICTIONS
from ...metric import MeanMetric
from ...registry.register import register_metric
from ...statistics.confusion import Counts
from ..classification._base import Average, ConfusionMetric, Ratio, averages

ImageAverage = Literal["micro", "macro"]
Weighting = Literal["square", "simple", "linear"]


class MaskRatio(Ratio):
    """Base class of ratios of the counts of all pixels, by class.

    Args:
        average: how the classes are averaged.
        class: the one class to measure.
        include_background: whether class 0 is one of the averaged classes.

    Shape:
        preds: (N, height, width) int, classes (or logits (N, C, height, width) by keyword).
        target: (N, height, width) int; pixels of `ignore_index` count for nothing.
    Value: float in [0, 1], no unit, 1 is best; nan for a class in neither target nor predictions, and when
        there is no class to average.
    """

    direction = MAXIMIZE
    needs = "class to average"

    def __init__(
        self, *, average: Average | None = None, class_: int | None = None, include_background: bool = True
    ) -> None:
        super().__init__(average=average, class_=class_)
        self.include_background = include_background

    @property
    def counts(self) -> Counts:
        """The counts of each averaged class; of all classes where one is selected."""
        counts = super().counts
        if self.include_background or self.class_ is not None:
            return counts
        return Counts(*(part[1:] for part in (counts.tp, counts.fp, counts.fn, counts.tn)))


@register_metric(
    "iou",
    [MASK],
    aliases={"jaccard": "iou", "jaccard_index": "iou", "jaccard_score": "iou", **averages("iou")},
)
class Iou(MaskRatio):
    """Intersection over union of the predicted and the right region of a class, over all pixels.

    `average=macro` is the mIoU of segmentation papers, `weighted` the frequency-weighted IoU, `class=1` that
    of the foreground of a mask of two classes. The mean of the values of the images is `image_iou`.

    Formula: tp / (tp + fp + fn)
    Deviates: torchmetrics' MeanIoU is a mean over images, as `image_iou` is.
    Source: Everingham et al. 2010, International Journal of Computer Vision 88(2).

    >>> import torch
    >>> metric = Iou(average="macro")
    >>> metric.update(torch.tensor([[[0, 1], [1, 1]]]), torch.tensor([[[0, 0], [1, 1]]]))
    >>> round(metric.compute().item(), 4)  # (1/2 + 2/3) / 2
    0.5833
    """

    word = "iou"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return intersection and union."""
        return counts.tp, counts.tp + counts.fp + counts.fn


@register_metric("dice", [MASK], aliases={"f1": "dice", **averages("dice")})
class Dice(MaskRatio):
    """Dice coefficient of the predicted and the right region of a class, over all pixels.

    The mean of the values of the images is `image_dice`.

    Formula: 2 tp / (2 tp + fp + fn)
    Deviates: torchmetrics' DiceScore averages over images without aggregation_level="global".
    Source: Dice 1945, Ecology 26(3).

    >>> import torch
    >>> metric = Dice(class_=1)
    >>> metric.update(torch.tensor([[[0, 1], [1, 1]]]), torch.tensor([[[0, 0], [1, 1]]]))
    >>> metric.compute().item()  # 2 * 2 / (3 + 2)
    0.8
    """

    word = "dice"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return twice the overlap and the sum of both sizes."""
        return 2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn


@register_metric("pixel_accuracy", [MASK], aliases=["accuracy"])
class PixelAccuracy(ConfusionMetric):
    """Share of all pixels that are predicted correctly.

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

    direction = MAXIMIZE

    def compute(self) -> Tensor:
        """Divide the diagonal by all pixels."""
        matrix = self.matrix
        pixels = matrix.sum()
        return matrix.diagonal().sum() / pixels if pixels > 0 else self.undefined("no pixels were counted")


@register_metric("mean_pixel_accuracy", [MASK], aliases=["balanced_accuracy"])
class MeanPixelAccuracy(ConfusionMetric):
    """Mean recall of pixels over the classes that occur in the target.

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

    direction = MAXIMIZE

    def compute(self) -> Tensor:
        """Average the recalls of the classes that occur in the target."""
        counts = self.counts
        occurs = counts.support > 0
        if not occurs.any():
            return self.undefined("no pixels were counted")
        return (counts.tp[occurs] / counts.support[occurs]).mean()


class ImageMetric(MeanMetric):
    """Base class of means over images; images without a pixel that counts are left out.

    Shape:
        preds: (N, height, width) int, classes (or logits (N, C, height, width) by keyword).
        target: (N, height, width) int; pixels of `ignore_index` count for nothing.
    """

    direction = MAXIMIZE
    inputs = PREDICTIONS


class ImageRatio(ImageMetric):
    """Base class of means over images of a ratio of the counts within each.

    Args:
        average: how the classes of an image are averaged.
        class: the one class to measure.
        include_background: whether class 0 is one of the averaged classes.

    Value: float in [0, 1], no unit, 1 is best; nan when no image shows a requested class.

    Raises:
        MetricNameError: average and class are both given, or neither.
    """

    one_of: ClassVar[tuple[str, ...]] = ("average", "class")
    word: ClassVar[str]

    def __init__(
        self,
        *,
        average: ImageAverage | None = None,
        class_: int | None = None,
        include_background: bool = True,
    ) -> None:
        super().__init__()
        if (average is None) == (class_ is None) or (class_ is not None and class_ < 0):
            raise MetricNameError(
                f"{self.word} needs exactly one of average= ({', '.join(get_args(ImageAverage))}) and "
                f"class= (from 0), got average={average} and class={class_}"
            )
        self.average, self.class_, self.include_background = average, class_, include_background

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return the ratio of each image, and which images have a denominator."""
        above, below = self.parts(self._selected(batch.block("image_counts", image_counts)))
        if self.average == "micro":
            above, below = above.sum(1, keepdim=True), below.sum(1, keepdim=True)
        defined = below > 0
        ratios = torch.where(defined, above / below, 0.0)
        return ratios.sum(1) / defined.sum(1).clamp(min=1), defined.any(1)

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return numerator and denominator, (N, C) each."""
        raise NotImplementedError(f"{type(self).__name__} needs parts(counts)")

    def _selected(self, counts: Counts) -> Counts:
        """Return the counts of the requested classes; a class that no image of the batch shows has none."""
        every = (counts.tp, counts.fp, counts.fn, counts.tn)
        if self.class_ is not None:
            return Counts(*(part[:, self.class_ : self.class_ + 1] for part in every))
        return counts if self.include_background else Counts(*(part[:, 1:] for part in every))


@register_metric("image_iou", [MASK])
class ImageIou(ImageRatio):
    """Mean over images of the intersection over union within each.

    `average=macro` averages the classes that an image shows in target or predictions, `micro` pools them,
    `class=1` selects one class, in the images that show it. Over all pixels at once it is `iou`.

    Formula: mean over images of the mean over classes of tp / (tp + fp + fn)
    Deviates: torchmetrics' MeanIoU gives every pair of image and class the same weight, so an image of many
        classes weighs more. Its values per class are those of class=0, class=1 ... here.
    Source: Csurka et al. 2013, BMVC.

    >>> metric = ImageIou(average="macro")
    >>> metric.update(torch.tensor([[[0, 1]], [[2, 2]]]), torch.tensor([[[0, 0]], [[2, 2]]]))
    >>> metric.compute().item()  # ((1/2 + 0) / 2 + 1) / 2
    0.625
    """

    word = "image_iou"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return intersection and union."""
        return counts.tp, counts.tp + counts.fp + counts.fn


@register_metric("image_dice", [MASK])
class ImageDice(ImageRatio):
    """Mean over images of the Dice coefficient within each.

    `average=macro` averages the classes that an image shows in target or predictions, `micro` pools them,
    `class=1` selects one class, in the images that show it. Over all pixels at once it is `dice`.

    Formula: mean over images of the mean over classes of 2 tp / (2 tp + fp + fn)
    Source: Dice 1945, Ecology 26(3); torchmetrics' DiceScore by samples.

    >>> metric = ImageDice(class_=1)
    >>> metric.update(torch.tensor([[[0, 1, 1]], [[2, 2, 2]]]), torch.tensor([[[0, 0, 1]], [[2, 2, 2]]]))
    >>> round(metric.compute().item(), 4)  # 2 * 1 / (2 + 1), in the one image that shows it
    0.6667
    """

    word = "image_dice"

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return twice the overlap and the sum of both sizes."""
        return 2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn


@register_metric("generalized_dice", [MASK], aliases=["generalized_dice_score"])
class GeneralizedDice(ImageMetric):
    """Mean over images of one Dice coefficient of all classes, in which small regions weigh more.

    The weight of a class follows from the size of its region in the target of the image. A class that the
    target does not show has the largest weight of those that it shows.

    Args:
        weighting: 1 / size^2 (square), 1 / size (simple) or 1 (linear).
        include_background: whether class 0 is one of the classes.

    Value: float in [0, 1], no unit, 1 is best; nan when no image shows any of the classes in its target.
    Formula: mean over images of 2 sum(w tp) / sum(w (2 tp + fp + fn))
    Deviates: if an image lacks a class, torchmetrics takes its weight from other images of the batch. The
        value then depends on how the images were cut into batches.
    Source: Sudre et al. 2017, DLMIA.

    >>> metric = GeneralizedDice(weighting="simple")
    >>> metric.update(torch.tensor([[[0, 1, 1]]]), torch.tensor([[[0, 0, 1]]]))
    >>> round(metric.compute().item(), 4)  # 2 * (1/2 + 1) / ((1 + 2) / 2 + (2 + 1) / 1)
    0.6667
    """

    def __init__(self, *, weighting: Weighting = "square", include_background: bool = True) -> None:
        super().__init__()
        self.weighting = weighting
        self.include_background = include_background

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return the weighted coefficient of each image, and which images show a class in their target."""
        counts = batch.block("image_counts", image_counts)
        first = 0 if self.include_background else 1
        tp, size = counts.tp[:, first:], counts.support[:, first:]
        both = size + tp + counts.fp[:, first:]
        power = {"square": 2, "simple": 1, "linear": 0}[self.weighting]
        weight = torch.where(size > 0, size.clamp(min=1) ** -power, 0.0)
        weight = torch.where(size > 0, weight, weight.amax(1, keepdim=True))
        below = (weight * both).sum(1)
        return 2 * (weight * tp).sum(1) / torch.where(below > 0, below, 1.0), below > 0


def image_counts(batch: Outputs) -> Counts:
    """Return the counts per image and class, (N, C), of the pixels that count."""
    mask, predictions = batch.counted, batch.predictions.long()
    target = batch.index.where(mask, 0)
    classes = _classes(batch, target, predictions)
    first = torch.arange(len(target), device=target.device).view(-1, 1, 1) * classes
    actual = _sizes(first + target, mask, classes)
    predicted = _sizes(first + predictions, mask, classes)
    tp = _sizes(first + target, mask & (target == predictions), classes)
    fp, fn = predicted - tp, actual - tp
    return Counts(tp, fp, fn, actual.sum(1, keepdim=True) - tp - fp - fn)


def _classes(batch: Outputs, target: Tensor, predictions: Tensor) -> int:
    classes: int | None = batch.num_classes or getattr(batch.feature, "num_classes", None)
    return classes or int(torch.maximum(target.amax(), predictions.amax())) + 1


def _sizes(places: Tensor, mask: Tensor, classes: int) -> Tensor:
    """Count the pixels of the mask at each place, a row per image."""
    sums = torch.zeros(len(places) * classes, dtype=torch.float64, device=places.device)
    return sums.index_add_(0, places.flatten(), mask.double().flatten()).view(-1, classes)
