"""Random batches for the laws, for metrics that the usual draw of their feature does not fit.

They are here and not in `hpometrics.testing`, which draws the usual ones, because a metric brings its own
batches: a new metric touches one file, and `metrics` imports nothing from the layers above.

Rankings are drawn for the output that the laws use: 20 items, of which the first six are one group of items,
and each user has seen one of the first three; users of even and of odd number are the two groups of users.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..features import OutputFeature

Batch = dict[str, Any]
Recipe = Callable[[OutputFeature, int, float, torch.Generator], Batch]
"""Draws a number of rows of an output, with a share of wrong answers."""

_ITEMS, _FIRST, _SEEN, _USERS = 20, 6, 3, 1000


def shape_of(output: OutputFeature, rows: int) -> tuple[int, ...]:
    """Return the shape of a real target: (rows,) for a number, else (rows, columns)."""
    if output.type == "number":
        return (rows,)
    return (rows, getattr(output, "size", None) or getattr(output, "horizon", None) or 3)


def uniform(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Draw uniform numbers in [0, 1), float64."""
    return torch.rand(*shape, generator=random, dtype=torch.float64)


def normal(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Draw standard normal numbers, float64."""
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def draw_answers(
    classes: int, shape: tuple[int, ...], noise: float, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw right labels, and answers that for a share `noise` of them are random: int64 each."""
    target, guess = torch.randint(classes, (2, *shape), generator=random)
    return target, torch.where(uniform(shape, random) < noise, guess, target)


def confident_logits(answer: Tensor, classes: int, random: torch.Generator) -> Tensor:
    """Draw logits, with the classes last, of a model that is confident of its answers."""
    return 8 * torch.nn.functional.one_hot(answer, classes) + 0.5 * normal((*answer.shape, classes), random)


def draw_drifted(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw targets around 8; every prediction is too high, by one to two times the noise."""
    shape = shape_of(output, rows)
    target = 4 + 8 * uniform(shape, random)
    return {"predictions": target + noise * (1 + uniform(shape, random)), "target": target}


def draw_narrowed(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw rankings that recommend fewer and more similar items to everyone with more noise."""
    batch = _ranking(output, rows, random)
    items = batch["target"].shape[1]
    place = torch.empty(items, dtype=torch.int64)
    place[(torch.arange(items) % 7).argsort(stable=True)] = torch.arange(items)
    recommended = place < items * (1 - 0.85 * noise)
    return {**batch, "logits": batch["logits"] + recommended.double()}


def draw_shortened(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw rankings that have one candidate or none for a share of the users."""
    batch = _ranking(output, rows, random)
    short = uniform((rows, 1), random) < noise
    candidate = torch.randint(2 * batch["target"].shape[1], (rows, 1), generator=random)
    mask = short & (torch.arange(batch["target"].shape[1]) != candidate)
    return {**batch, "logits": batch["logits"].masked_fill(mask, -torch.inf)}


def draw_biased(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw right rankings that, for a share of the users, put the first half of the items in front."""
    batch = _ranking(output, rows, random)
    items = batch["target"].shape[1]
    head = (uniform((rows, 1), random) < noise) & (torch.arange(items) < items // 2)
    return {**batch, "logits": batch["logits"] + 2 * batch["target"] + 4 * head}


def _ranking(output: OutputFeature, rows: int, random: torch.Generator) -> Batch:
    """Draw three relevant items per user, and a random order of all items."""
    items, history = getattr(output, "num_items", None) or 20, getattr(output, "seen", None)
    orders = torch.stack([torch.randperm(items, generator=random) for _ in range(2 * rows)])
    target = torch.zeros(rows, items, dtype=torch.int64).scatter_(1, orders[:rows, :3], 1)
    users = torch.arange(rows) % (rows if history is None else len(history))
    return {"logits": orders[rows:].double() / 64, "target": target, "users": users}


def draw_pushed_items(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw users who like three items of any group; a wrong answer pushes the first group, liked or not."""
    liked = [torch.randperm(_ITEMS - _SEEN, generator=random)[:3] + _SEEN for _ in range(rows)]
    target = _grades(torch.stack(liked) if liked else torch.zeros(0, 3, dtype=torch.int64), random)
    push = 1.5 * (torch.arange(_ITEMS) < _FIRST) * _wrong(rows, noise, random)
    return _batch(target, target + _order(rows, random) + push)


def draw_pushed_users(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw right lists; a wrong answer scores all items of a user of odd number too high."""
    batch = draw_pushed_items(output, rows, 0.0, random)
    odd = (batch["users"] % 2 == 1).unsqueeze(1)
    return {**batch, "logits": batch["logits"] + 4.0 * (odd & _wrong(rows, noise, random))}


def draw_as_catalogue(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw lists of two with the groups in the catalog's proportion; a wrong answer pushes the first."""
    first, others = (
        low + (torch.randint(size, (rows, 1), generator=random) + torch.arange(2)) % size
        for low, size in ((_SEEN, _FIRST - _SEEN), (_FIRST, _ITEMS - _FIRST))
    )
    target = _grades(torch.where(uniform((rows, 2), random) < _FIRST / _ITEMS, first, others), random)
    push = 4.0 * (torch.arange(_ITEMS) < _FIRST) * _wrong(rows, noise, random)
    return _batch(target, target + _order(rows, random) + push)


def draw_as_training(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw lists of the first group, the only one that users have seen; a wrong answer pushes the other."""
    target = _grades(torch.arange(_SEEN, _FIRST).expand(rows, -1), random)
    push = 4.0 * (torch.arange(_ITEMS) >= _FIRST) * _wrong(rows, noise, random)
    return _batch(target, target + _order(rows, random) + push)


def _batch(target: Tensor, scores: Tensor) -> Batch:
    return {"logits": scores, "target": target, "users": torch.arange(len(target)) % _USERS}


def _grades(items: Tensor, random: torch.Generator) -> Tensor:
    """Draw grades 1 to 3 for some items of each row, 0 for all others."""
    grades = torch.randint(1, 4, items.shape, generator=random)
    return torch.zeros(len(items), _ITEMS, dtype=torch.int64).scatter_(1, items, grades)


def _order(rows: int, random: torch.Generator) -> Tensor:
    """Draw multiples of 1/64 below 1, which are exact in half precision, all different in a row."""
    return uniform((rows, _ITEMS), random).argsort(1) / 64


def _wrong(rows: int, noise: float, random: torch.Generator) -> Tensor:
    return uniform((rows, 1), random) < noise
