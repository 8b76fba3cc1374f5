"""Real outputs drawn at random and fed to a metric, for the tests of the regression families."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpometrics.metrics.features import Number, OutputFeature, Timeseries, Vector
from hpometrics.metrics.metric import Metric
from hpometrics.metrics.registry.register import get_metric

SHAPES = [(1000,), (37,), (2,), (300, 1), (41, 4)]
"""Many rows and few, one column and several."""


def output_of(target: Tensor, series: bool = False) -> OutputFeature:
    """The feature of a target of this shape."""
    if target.ndim == 1:
        return Number()
    return Timeseries() if series else Vector()


def draw(shape: tuple[int, ...], seed: int = 0, *, ties: bool = False) -> tuple[Tensor, Tensor]:
    """Positive targets and predictions near them, float64; with ties, of few different values."""
    random = np.random.default_rng(seed)
    target = random.gamma(2.0, 2.0, shape) + 0.1
    preds = target * random.uniform(0.5, 1.6, shape) + 0.05
    if ties:
        target, preds = np.ceil(target), np.ceil(preds)
    return torch.tensor(preds), torch.tensor(target)


def fed(name: str, output: OutputFeature | str, sizes: list[int] | None = None, **batch: Any) -> Metric:
    """A metric that has seen a batch, cut into parts of these sizes."""
    metric = get_metric(name, output)
    rows = len(batch["target"])
    start = 0
    for size in sizes or [rows]:
        metric.update(**{key: value[start : start + size] for key, value in batch.items()})
        start += size
    return metric


def value(name: str, preds: Tensor, target: Tensor, *, series: bool = False, **extras: Any) -> float:
    """The value over three uneven batches (where there are rows enough)."""
    rows = len(target)
    sizes = [1, rows // 2, rows - 1 - rows // 2] if rows > 2 else [rows]
    output = output_of(target, series)
    return float(fed(name, output, sizes, predictions=preds, target=target, **extras).compute())


def weights(rows: int, seed: int = 0) -> Tensor:
    """Weights from 0 to 3, some of them 0."""
    random = np.random.default_rng(seed + 100)
    return torch.tensor(np.where(random.random(rows) < 0.2, 0.0, random.uniform(0, 3, rows)))
