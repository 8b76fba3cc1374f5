"""Rankings for the laws of fairness: a wrong answer treats one group of items or users unlike the others.

They are drawn for the output that the laws measure rankings of: 20 items, of which the first six are a group
and each user has seen one of the first three; users of even and of odd number are the two others.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..features import OutputFeature
from ._data import Batch, uniform

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
