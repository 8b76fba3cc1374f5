"""Rows of detection and segmentation metrics: boxes, masks and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ...features import BOXES, IMAGE, MASK
from ._row import MetricInputs, Row, row_by_row

_BOXES: dict[str, Any] = {"keeps": "rows", "requires": "detection"}
_SIZES = ("small", "medium", "large")
_COMPONENTS = (
    "map", "map_50", "map_75", *(f"map_{size}" for size in _SIZES),
    "mar_1", "mar_10", "mar_100", *(f"mar_{size}" for size in _SIZES),
)  # fmt: skip
_SEGMENTS = (
    "preds: (N, height, width) int, categories (or logits (N, C, height, width) by keyword). target, "
    "`instances=`, `target_instances=`: (N, height, width) int."
)
_SHARE = "float in [0, 1], no unit, 1 is best"


def with_instances(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the category and the instance of each pixel."""
    inner.update(
        torch.stack([inputs.preds.long(), torch.as_tensor(inputs.extras["instances"]).long()], -1),
        torch.stack([inputs.target.long(), torch.as_tensor(inputs.extras["target_instances"]).long()], -1),
    )


def construct_panoptic(cls: type, arguments: dict[str, Any]) -> torchmetrics.Metric:
    """Call the constructor with the numbers of the things, which come first, and of the stuffs."""
    things, stuffs = arguments.pop("things"), arguments.pop("stuffs")
    metric: torchmetrics.Metric = cls(set(range(things)), set(range(things, things + stuffs)), **arguments)
    return metric


def construct_coco(cls: type, arguments: dict[str, Any]) -> torchmetrics.Metric:
    """Call the constructor with faster-coco-eval, or with pycocotools where only that is installed."""
    faster = find_spec("faster_coco_eval") is not None
    metric: torchmetrics.Metric = cls(backend="faster_coco_eval" if faster else "pycocotools", **arguments)
    return metric


def square_masks(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update, per picture, with masks of the classes that it shows, padded to a square.

    torchmetrics is wrong for pictures of another form, and refuses a class that is in neither picture.
    """
    first = 0 if inner.include_background else 1
    for preds, target in zip(inputs.preds, inputs.target, strict=True):
        counts = torch.bincount(torch.cat([preds.flatten(), target.flatten()]).long())
        classes = [index for index, pixels in enumerate(counts.tolist()) if pixels and index >= first]
        if classes:
            inner.update(*(_masks(labels, [0] * first + classes)[None] for labels in (preds, target)))


def _masks(labels: Tensor, classes: Sequence[int]) -> Tensor:
    """Return a square mask for each class."""
    height, width = labels.shape
    side = max(height, width)
    masks = torch.stack([labels == index for index in classes]).long()
    return torch.nn.functional.pad(masks, (0, side - width, 0, side - height))


def _overlap(name: str, source: str, key: str, summary: str, value: str, formula: str, paper: str) -> Row:
    return Row(
        name=name, features=(BOXES,), source=f"detection.{source}", direction=MAXIMIZE, component=(key,),
        packages=("torchvision",), params={"box_format": "xyxy", "respect_labels": True},
        summary=f"{summary}, mean over all pairs of a found and a true box of a label in a picture.",
        value=value, formula=formula, paper=paper,
        deviates="every pair counts, not the best: with several boxes of a label, right ones are below 1.",
        **_BOXES,
    )  # fmt: skip


ROWS = [
    Row(
        name="map", features=(BOXES,), source="detection.MeanAveragePrecision", direction=MAXIMIZE,
        params={
            "component": _COMPONENTS, "box_format": "xyxy", "average": "macro",
        },
        aliases={
            "mean_average_precision": "map",
            **{name: f"map(component={name})" for name in _COMPONENTS if name != "map"},
        },
        packages=("torchvision", "faster_coco_eval|pycocotools"), make=construct_coco,
        sentinel=(-1.0, "there is no true box that it could find"),
        summary="Area under the precision-recall curve of boxes, mean over classes and overlaps from 0.5.",
        value=f"{_SHARE}; nan when there is no true box",
        formula="mean over classes and IoU 0.5, 0.55 .. 0.95 of the interpolated average precision",
        paper="Lin et al. 2014, ECCV (COCO).", **{**_BOXES, "keeps": "lists"},
    ),
    _overlap(
        "iou", "IntersectionOverUnion", "iou", "Intersection over union of boxes", _SHARE,
        "|A and B| / |A or B|", "Jaccard 1912, New Phytologist 11(2).",
    ),
    _overlap(
        "giou", "GeneralizedIntersectionOverUnion", "giou", "IoU minus the empty share of the enclosing box",
        "float in [-1, 1], no unit, 1 is best", "iou - |C less (A or B)| / |C|",
        "Rezatofighi et al. 2019, CVPR.",
    ),
    _overlap(
        "diou", "DistanceIntersectionOverUnion", "diou", "IoU minus the distance of the centers",
        "float in [-1, 1], no unit, 1 is best", "iou - d^2 / c^2", "Zheng et al. 2020, AAAI.",
    ),
    _overlap(
        "ciou", "CompleteIntersectionOverUnion", "ciou",
        "IoU minus the distance of centers and the difference of shape",
        "float in (-inf, 1], no unit, 1 is best", "diou - alpha v", "Zheng et al. 2020, AAAI.",
    ),
    Row(
        name="panoptic_quality", features=(MASK,), source="detection.PanopticQuality", direction=MAXIMIZE,
        aliases=("pq",), params={"things": int, "stuffs": int}, feed=with_instances, make=construct_panoptic,
        extras=("instances", "target_instances"),
        summary="Quality of segments: overlap of the matched ones, times the share that is matched.",
        shape=_SEGMENTS,
        value=_SHARE, formula="mean over categories of sum of IoU of matches / (tp + fp / 2 + fn / 2)",
        paper="Kirillov, He, Girshick, Rother & Dollar 2019, CVPR.",
        deviates="the first `things` categories are things, the next `stuffs` stuffs; instances are extras.",
    ),
    Row(
        name="modified_panoptic_quality", features=(MASK,), source="detection.ModifiedPanopticQuality",
        direction=MAXIMIZE, params={"things": int, "stuffs": int}, feed=with_instances,
        make=construct_panoptic, extras=("instances", "target_instances"),
        summary="Panoptic quality where stuffs are not matched but measured by their overlap.",
        shape=_SEGMENTS,
        value=_SHARE, formula="as panoptic_quality; of a stuff the sum of IoU / its pictures",
        paper="Porzi, Bulo, Colovic & Kontschieder 2019, CVPR.",
        deviates="the first `things` categories are things, the next `stuffs` stuffs; instances are extras.",
    ),
    Row(
        name="mean_iou", features=(MASK,), source="segmentation.MeanIoU", direction=MAXIMIZE, feed=row_by_row,
        params={"include_background": True}, fixed={"input_format": "index"},
        summary="Overlap over union of each class in a picture, mean over all pairs of picture and class.",
        value=_SHARE, formula="mean over pairs with a pixel in A or B of |A and B| / |A or B|",
        paper="Everingham et al. 2010, IJCV 88(2).",
    ),
    Row(
        name="dice_score", features=(MASK,), source="segmentation.DiceScore", direction=MAXIMIZE,
        params={"average": ("macro", "micro", "weighted"), "include_background": True},
        fixed={"input_format": "index", "aggregation_level": "samplewise"},
        summary="Overlap of each class over the mean of both areas, mean over classes, then pictures.",
        value=_SHARE, formula="mean over pictures of mean over classes of 2 |A and B| / (|A| + |B|)",
        paper="Dice 1945, Ecology 26(3).",
    ),
    Row(
        name="hausdorff", features=(MASK,), source="segmentation.HausdorffDistance", direction=MINIMIZE,
        aliases=("hausdorff_distance",), feed=square_masks,
        params={
            "distance_metric": ("euclidean", "chessboard", "taxicab"), "directed": False,
            "include_background": False,
        },
        fixed={"input_format": "one-hot"},
        summary="Largest distance from one mask's edge to the other's, mean over classes and pictures.",
        value="float from 0, in pixels, 0 is best; infinite when a class is in one of the two pictures only",
        formula="max(max min d(a, b), max min d(b, a))",
        paper="Huttenlocher, Klanderman & Rucklidge 1993, IEEE TPAMI 15(9).",
        deviates="pictures of any form, and classes that are in neither picture, are measured; torchmetrics "
        "refuses or mistakes them.",
    ),
    Row(
        name="procrustes", features=(IMAGE,), source="shape.ProcrustesDisparity", direction=MINIMIZE,
        aliases=("procrustes_disparity",),
        summary="Distance of two clouds of points (N, points, coordinates) after the best alignment.",
        shape="preds, target: (N, points, coordinates) float.",
        value="float in [0, 1], no unit, 0 is best",
        formula="squared distance after centring, scaling and turning, mean over rows",
        paper="Gower 1975, Psychometrika 40(1).",
    ),
]  # fmt: skip
