"""Batches for the laws: what `draw_batch` gives where the usual draw of a feature does not fit a metric.

They are here and not in `hpometrics.testing`, which draws the usual ones: a metric brings its own batches, so
that a new one touches one file, and nothing in `metrics` imports from the floor above it.

They are drawn for the output that the laws measure rankings of: 20 items, of which the first six are a group
and each user has seen one of the first three; users of even and of odd number are the two others.
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


_ITEMS, _FIRST, _SEEN, _USERS = 20, 6, 3, 1000


def pushed_items(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Users like three items of any group; a wrong answer pushes the first group, liked or not."""
    liked = [torch.randperm(_ITEMS - _SEEN, generator=random)[:3] + _SEEN for _ in range(rows)]
    target = _grades(torch.stack(liked) if liked else torch.zeros(0, 3, dtype=torch.int64), random)
    push = 1.5 * (torch.arange(_ITEMS) < _FIRST) * _wrong(rows, noise, random)
    return _batch(target, target + _order(rows, random) + push)


def pushed_users(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Every list is right; a wrong answer scores all items of a user of odd number too high."""
    batch = pushed_items(output, rows, 0.0, random)
    odd = (batch["users"] % 2 == 1).unsqueeze(1)
    return {**batch, "logits": batch["logits"] + 4.0 * (odd & _wrong(rows, noise, random))}


def as_catalogue(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Lists of two show the groups as often as the catalogue has them; a wrong answer pushes the first."""
    first, others = (
        low + (torch.randint(size, (rows, 1), generator=random) + torch.arange(2)) % size
        for low, size in ((_SEEN, _FIRST - _SEEN), (_FIRST, _ITEMS - _FIRST))
    )
    target = _grades(torch.where(uniform((rows, 2), random) < _FIRST / _ITEMS, first, others), random)
    push = 4.0 * (torch.arange(_ITEMS) < _FIRST) * _wrong(rows, noise, random)
    return _batch(target, target + _order(rows, random) + push)


def as_training(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Lists show the first group alone, all that users have seen; a wrong answer pushes the other."""
    target = _grades(torch.arange(_SEEN, _FIRST).expand(rows, -1), random)
    push = 4.0 * (torch.arange(_ITEMS) >= _FIRST) * _wrong(rows, noise, random)
    return _batch(target, target + _order(rows, random) + push)


def _batch(target: Tensor, scores: Tensor) -> Batch:
    return {"logits": scores, "target": target, "users": torch.arange(len(target)) % _USERS}


def _grades(items: Tensor, random: torch.Generator) -> Tensor:
    """Grades 1 to 3 of some items of each row, 0 of all others."""
    grades = torch.randint(1, 4, items.shape, generator=random)
    return torch.zeros(len(items), _ITEMS, dtype=torch.int64).scatter_(1, items, grades)


def _order(rows: int, random: torch.Generator) -> Tensor:
    """Multiples of 1/64 below 1, which half precision holds, all different in a row."""
    return uniform((rows, _ITEMS), random).argsort(1) / 64


def _wrong(rows: int, noise: float, random: torch.Generator) -> Tensor:
    return uniform((rows, 1), random) < noise
