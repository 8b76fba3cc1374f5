"""Boxes: mean average precision beside faster-coco-eval by way of torchmetrics."""

from __future__ import annotations

import importlib

import torch
from torch import Tensor

from hpometrics import Boxes, get_metric

from .row import Measure, Size, row

Picture = dict[str, Tensor]


def draw(pictures: int) -> tuple[list[Picture], list[Picture]]:
    """Make pictures with ten true boxes, of which most are found, not quite in place."""
    generator = torch.Generator().manual_seed(7)
    found, right = [], []
    for _ in range(pictures):
        corner = torch.rand(10, 2, generator=generator) * 400
        extent = torch.rand(10, 2, generator=generator) * 100 + 10
        boxes, labels = (
            torch.cat([corner, corner + extent], dim=1),
            torch.randint(5, (10,), generator=generator),
        )
        moved = boxes + torch.randn(10, 4, generator=generator) * 4
        right.append({"boxes": boxes, "labels": labels})
        found.append({"boxes": moved, "labels": labels, "scores": torch.rand(10, generator=generator)})
    return found, right


@row(
    "map",
    "500 pictures of ten boxes",
    peer="faster-coco-eval",
    wanted=1.1,
    metrics="map",
    tolerance=1e-5,
    turns=3,
)
def average_precision(size: Size) -> tuple[Measure, Measure]:
    """The time of torchmetrics with the faster of its two backends."""
    from torchmetrics.detection import MeanAveragePrecision

    importlib.import_module("faster_coco_eval")  # without it the row is left out
    found, right = draw(size(500))

    def measure() -> float:
        metric = get_metric("map", Boxes())
        for first in range(0, len(found), 50):
            metric.update(found[first : first + 50], right[first : first + 50])
        return metric.compute().item()

    def theirs() -> float:
        metric = MeanAveragePrecision(backend="faster_coco_eval")
        for first in range(0, len(found), 50):
            metric.update(found[first : first + 50], right[first : first + 50])
        return float(metric.compute()["map"])

    return measure, theirs
