"""Batches for the laws: what `draw_batch` gives where the usual draw of a feature does not fit a metric.

They are here and not in `hpometrics.testing`, which draws the usual ones: a metric brings its own batches, so
that a new one touches one file, and nothing in `metrics` imports from the floor above it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..features import OutputFeature

Batch = dict[str, Tensor]


def shape_of(output: OutputFeature, rows: int) -> tuple[int, ...]:
    """The shape of a real target: (rows,) of a number, else (rows, columns)."""
    if output.type == "number":
        return (rows,)
    return (rows, getattr(output, "size", None) or getattr(output, "horizon", None) or 3)


def uniform(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Uniform numbers in [0, 1), float64."""
    return torch.rand(*shape, generator=random, dtype=torch.float64)


def normal(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Standard normal numbers, float64."""
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def drifted(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Targets around 8; every prediction is too high by its share of noise, and by some more."""
    shape = shape_of(output, rows)
    target = 4 + 8 * uniform(shape, random)
    return {"predictions": target + noise * (1 + uniform(shape, random)), "target": target}
