from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm_classes
import torchmetrics.segmentation as tm

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Mask
from hpometrics.metrics.registry.register import get_metric

SHAPES = [(1, 1, 1), (3, 4, 5), (7, 9, 2), (2, 33, 17)]


def masks(shape, classes=4, seed=0):
    """Predictions that are right in about two thirds of all pixels."""
    random = np.random.default_rng([seed, *shape])
    target = random.integers(classes, size=shape)
    guess = random.integers(classes, size=shape)
    predictions = np.where(random.random(shape) < 0.5, guess, target)
    return torch.tensor(predictions), torch.tensor(target)


def measured(name, preds, target, **facts):
    """The value of a metric over one batch of masks of 4 classes."""
    metric = get_metric(name, Mask(num_classes=4, **facts))
    metric.update(preds, target)
    return metric.compute().item()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
def test_overlaps_over_all_pixels_are_those_of_scikit_learn(average, shape, seed):
    """Pixels are rows: IoU is the Jaccard score, Dice the F1 score."""
    preds, target = masks(shape, seed=seed)
    flat = (target.flatten().numpy(), preds.flatten().numpy())
    for name, reference in (("iou", sk.jaccard_score), ("dice", sk.f1_score)):
        expected = reference(*flat, average=average, zero_division=0)
        assert measured(f"{name}(average={average})", preds, target) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_iou_is_that_of_torchmetrics(seed):
    """Macro over classes and of one class; pixels of `ignore_index` count for nothing."""
    preds, target = masks((3, 12, 10), seed=seed)
    target[0, :3] = 255
    every = tm_classes.MulticlassJaccardIndex(4, average="none", ignore_index=255)(preds, target)
    for index, expected in enumerate(every.tolist()):
        assert measured(f"iou(class={index})", preds, target, ignore_index=255) == pytest.approx(expected)
    assert measured("iou_macro", preds, target, ignore_index=255) == pytest.approx(every.mean().item())


@pytest.mark.parametrize("shape", SHAPES)
def test_pixel_accuracies_are_those_of_scikit_learn(shape):
    """Right pixels over pixels, and the mean recall of the classes of the target."""
    preds, target = masks(shape)
    flat = (target.flatten().numpy(), preds.flatten().numpy())
    assert measured("pixel_accuracy", preds, target) == pytest.approx(sk.accuracy_score(*flat))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of classes that are predicted only
        expected = sk.balanced_accuracy_score(*flat)
    assert measured("mean_pixel_accuracy", preds, target) == pytest.approx(expected)


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("background", [True, False])
def test_dice_by_image_is_that_of_torchmetrics(average, background):
    """The mean over images of the mean over the classes that each shows."""
    preds, target = masks((6, 3, 2), seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics announces a change of its default
        reference = tm.DiceScore(4, include_background=background, average=average, input_format="index")
    name = f"image_dice(average={average}, include_background={str(background).lower()})"
    assert measured(name, preds, target) == pytest.approx(reference(preds, target).item(), rel=1e-6)


def test_iou_by_image_is_that_of_torchmetrics_per_class():
    """A class is averaged over the images that show it."""
    preds, target = masks((6, 3, 2), seed=6)
    reference = tm.MeanIoU(4, per_class=True, input_format="index")(preds, target)
    for index, expected in enumerate(reference.tolist()):
        assert measured(f"image_iou(class={index})", preds, target) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("weighting", ["square", "simple", "linear"])
@pytest.mark.parametrize("background", [True, False])
def test_generalized_dice_is_that_of_torchmetrics(weighting, background):
    """Where every image shows every class."""
    preds, target = masks((5, 12, 11), seed=7)
    reference = tm.GeneralizedDiceScore(
        4, include_background=background, weight_type=weighting, input_format="index"
    )
    name = f"generalized_dice(weighting={weighting}, include_background={str(background).lower()})"
    assert measured(name, preds, target) == pytest.approx(reference(preds, target).item(), rel=1e-6)


def test_generalized_dice_does_not_depend_on_batches():
    """A class that an image lacks weighs as the heaviest of that image, whatever lies beside it."""
    preds, target = masks((6, 3, 2), seed=8)
    alone = [measured("generalized_dice", preds[i : i + 1], target[i : i + 1]) for i in range(6)]
    assert measured("generalized_dice", preds, target) == pytest.approx(np.mean(alone))


def test_pooled_and_by_image_are_different_numbers_under_different_names():
    """A small image weighs by its pixels in `iou`, and as much as any other in `image_iou`."""
    target = torch.tensor([[[0, 0, 0, 0]], [[1, 0, 0, 0]]])
    preds = torch.tensor([[[0, 0, 0, 0]], [[0, 0, 0, 1]]])
    assert measured("iou(class=0)", preds, target) == pytest.approx(6 / 8)
    assert measured("image_iou(class=0)", preds, target) == pytest.approx((1 + 2 / 4) / 2)
    assert measured("image_iou(class=1)", preds, target) == 0.0  # in the one image that shows it


def test_background_may_be_left_out():
    """Class 0 is then none of the classes that are averaged, pooled or by image."""
    preds, target = torch.tensor([[[0, 1, 2]]]), torch.tensor([[[0, 0, 2]]])
    assert measured("iou(average=macro)", preds, target) == pytest.approx((1 / 2 + 0 + 1) / 3)
    assert measured("iou(average=macro, include_background=false)", preds, target) == pytest.approx(1 / 2)
    assert measured("iou(average=micro, include_background=false)", preds, target) == pytest.approx(1 / 2)
    assert measured("image_iou(average=macro, include_background=false)", preds, target) == 0.5


def test_ignored_pixels_do_not_count_by_image():
    """What is predicted where the target is `ignore_index` is neither right nor wrong."""
    preds, target = torch.tensor([[[0, 1, 1]], [[2, 2, 2]]]), torch.tensor([[[0, 9, 1]], [[9, 9, 9]]])
    assert measured("image_iou(average=macro)", preds, target, ignore_index=9) == 1.0
    assert measured("iou(average=macro)", preds, target, ignore_index=9) == 1.0
    assert measured("generalized_dice", preds, target, ignore_index=9) == 1.0


def test_logits_have_classes_in_the_second_dimension():
    """(N, C, H, W) logits give the values of their largest class; one counting serves all metrics."""
    preds, target = masks((3, 4, 5))
    names = ["iou(average=macro)", "dice(average=macro)", "pixel_accuracy", "image_iou(average=macro)"]
    panel = MetricCollection(names, Mask())
    panel.update(logits=5.0 * torch.nn.functional.one_hot(preds, 4).movedim(-1, 1), target=target)
    for name, value in panel.compute().items():
        assert value.item() == pytest.approx(measured(name, preds, target))
    assert len(panel.statistics) == 2


def test_weights_are_of_images():
    """An image of weight 2 counts as two such images, in pixels as in means."""
    preds, target = masks((3, 4, 5))
    repeated = torch.tensor([0, 0, 2])
    for name in ("iou(average=macro)", "image_dice(average=micro)", "pixel_accuracy", "generalized_dice"):
        metric = get_metric(name, Mask(num_classes=4))
        metric.update(preds, target, sample_weight=torch.tensor([2.0, 0.0, 1.0]))
        expected = measured(name, preds[repeated], target[repeated])
        assert metric.compute().item() == pytest.approx(expected)


def test_what_nothing_shows_is_undefined():
    """A class in neither target nor predictions, and images of ignored pixels only, are nan with a reason."""
    metric = get_metric("image_iou(class=3)", Mask())
    metric.update(torch.tensor([[[0, 1]]]), torch.tensor([[[0, 0]]]))
    assert metric.compute().isnan() and metric.undefined_reason == "no rows were counted"
    metric = get_metric("pixel_accuracy", Mask(ignore_index=5))
    metric.update(torch.tensor([[[0, 1]]]), torch.tensor([[[5, 5]]]))
    assert metric.compute().isnan() and metric.undefined_reason == "no pixels were counted"


def test_what_is_wrong_is_refused():
    """Both or neither of average and class; a mask beside images of another size."""
    for name in ("iou", "image_iou", "image_iou(average=macro, class=1)", "image_dice(class=-1)"):
        with pytest.raises(MetricNameError, match=r"one of|needs"):
            get_metric(name, Mask())
    with pytest.raises(MetricInputError, match="have shape"):
        get_metric("pixel_accuracy", Mask()).update(torch.zeros(2, 3, 3).long(), torch.zeros(2, 3, 4).long())
