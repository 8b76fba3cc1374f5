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


def narrowed(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Rankings that recommend fewer of the items, and more alike ones, to all the more noise there is."""
    batch = _ranking(output, rows, random)
    items = batch["target"].shape[1]
    place = torch.empty(items, dtype=torch.int64)
    place[(torch.arange(items) % 7).argsort(stable=True)] = torch.arange(items)
    shown = place < items * (1 - 0.85 * noise)
    return {**batch, "logits": batch["logits"] + shown.double()}


def shortened(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Rankings that have, for a share of the users, one candidate or none."""
    batch = _ranking(output, rows, random)
    short = uniform((rows, 1), random) < noise
    kept = torch.randint(2 * batch["target"].shape[1], (rows, 1), generator=random)
    gone = short & (torch.arange(batch["target"].shape[1]) != kept)
    return {**batch, "logits": batch["logits"].masked_fill(gone, -torch.inf)}


def biased(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Rankings that are right, but put for a share of the users the first half of the items in front."""
    batch = _ranking(output, rows, random)
    items = batch["target"].shape[1]
    head = (uniform((rows, 1), random) < noise) & (torch.arange(items) < items // 2)
    return {**batch, "logits": batch["logits"] + 2 * batch["target"] + 4 * head}


def _ranking(output: OutputFeature, rows: int, random: torch.Generator) -> Batch:
    """Three items relevant to each user, and a random order of all."""
    items, seen = getattr(output, "num_items", None) or 20, getattr(output, "seen", None)
    orders = torch.stack([torch.randperm(items, generator=random) for _ in range(2 * rows)])
    target = torch.zeros(rows, items, dtype=torch.int64).scatter_(1, orders[:rows, :3], 1)
    users = torch.arange(rows) % (rows if seen is None else len(seen))
    return {"logits": orders[rows:].double() / 64, "target": target, "users": users}
