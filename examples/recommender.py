"""The engine of `configs/recommender.yaml`: matrix factorization on implicit feedback, a ranking output.

The feedback is drawn or, where the environment variable `RATINGS` names one, read from a file of MovieLens.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hpometrics import Ranking, Run, engine

USERS, ITEMS, TASTES = 1000, 1500, 6
LEAST, MOST = 5, 300  # items of a user
BATCH = 1024
NAMES = ("userId", "movieId", "timestamp")  # of the columns that are read
WANTED = f"{', '.join(NAMES)} are whole numbers, in columns that the first line may name"

Packed = tuple[Tensor, Tensor]
"""Offsets (users + 1,) and items, those of one user behind those of the other."""


class Feedback(NamedTuple):
    """The items to train on, and the later items of each user, which a model should find."""

    seen: Packed
    held_out: Packed
    num_items: int


@cache
def feedback() -> Feedback:
    """Return the feedback; the last fifth of each user's items is held out, at least one of several."""
    path = os.environ.get("RATINGS")
    user, item = read(Path(path)) if path else draw()
    counts = torch.bincount(user)
    held = (counts // 5).clamp(min=1).where(counts > 1, 0)
    place = torch.arange(len(user)) - (counts.cumsum(0) - counts)[user]
    late = place >= (counts - held)[user]
    return Feedback(packed(item[~late], counts - held), packed(item[late], held), int(item.max()) + 1)


def packed(items: Tensor, counts: Tensor) -> Packed:
    """Return the offset at which each user begins in the list of items, and the items."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)]), items


def draw() -> Packed:
    """Draw users and their items, in the order of user and time.

    An item of rank r in popularity is drawn with a chance of 1 / (r + 10) times exp(2 u.v / sqrt(6)), where u
    and v are the tastes of user and item, 6 numbers each from N(0, 1). A user has 30 exp(0.8 N(0, 1)) items,
    at least 5 and at most 300, none twice, in an order that says nothing.
    """
    random = torch.Generator().manual_seed(0)
    tastes = torch.randn(USERS + ITEMS, TASTES, generator=random)
    rank = torch.randperm(ITEMS, generator=random)
    liking = 2 * tastes[:USERS] @ tastes[USERS:].T / TASTES**0.5 - (rank + 10).log()
    noise = -torch.empty(USERS, ITEMS).exponential_(generator=random).log()  # so that the best are a draw
    best = (liking + noise).topk(MOST).indices
    activity = (30 * torch.exp(0.8 * torch.randn(USERS, 1, generator=random))).long().clamp(LEAST, MOST)
    time = torch.rand(USERS, MOST, generator=random).masked_fill(torch.arange(MOST) >= activity, 2.0)
    when, order = time.sort()
    user, place = (when < 2).nonzero(as_tuple=True)
    return user, best.gather(1, order)[user, place]


def read(path: Path) -> Packed:
    """Read users and their items, in the order of user and time; each rating is an interaction.

    Raises:
        ValueError: the file holds no rating, or a line of it is none.
    """
    rows = np.fromiter(ratings(path), np.dtype((np.int64, 3)))
    if not len(rows):
        raise ValueError(f"{path}: holds no rating")
    user, item = (np.unique(ids, return_inverse=True)[1] for ids in rows.T[:2])
    order = np.lexsort((rows[:, 2], user))
    return torch.from_numpy(user[order]), torch.from_numpy(item[order])


def ratings(path: Path) -> Iterator[tuple[int, ...]]:
    """Return user, item and time of each line.

    A line has user, item, rating and time, as in `u.data` (tabs) and `ratings.dat` (`::`), or what the first
    line says, as in `ratings.csv` (commas).
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(line.replace("::", ",").replace("\t", ",") for line in file)
        head = next(lines, [])
        named = {*NAMES} <= {*head}
        places = [head.index(name) for name in NAMES] if named else [0, 1, 3]
        for line in filter(None, lines if named else chain([head], lines)):
            try:
                yield tuple(int(line[place]) for place in places)
            except (IndexError, ValueError):
                where, got = f"{path}:{lines.line_num}", ",".join(line)[:60]
                raise ValueError(f"{where}: {WANTED}; got {got!r}") from None


def output() -> Ranking:
    """Return the output, whose side data come from the feedback."""
    seen, _, num_items = feedback()
    popularity = torch.bincount(seen[1], minlength=num_items)
    return Ranking(num_items, per_user=True, seen=seen, item_popularity=popularity)


class Factors(nn.Module):
    """A score is the product of a user's and an item's factors, plus what all users like of the item."""

    def __init__(self, users: int, items: int, factors: int) -> None:
        super().__init__()
        self.users = nn.Parameter(0.1 * torch.randn(users, factors))
        self.items = nn.Parameter(0.1 * torch.randn(items, factors))
        self.liked = nn.Parameter(torch.zeros(items))

    def loss(self, user: Tensor, item: Tensor, other: Tensor, l2: float) -> Tensor:
        """Return the BPR loss of an item of the user against another one, plus the penalty."""
        u, i, j = self.users[user], self.items[item], self.items[other]
        ahead = (u * (i - j)).sum(1) + self.liked[item] - self.liked[other]
        sizes = u.square().sum(1) + i.square().sum(1) + j.square().sum(1)
        return (l2 * sizes - nn.functional.logsigmoid(ahead)).mean()

    def widened(self) -> dict[str, Any]:
        """Return the factors with `liked` as one more of them."""
        one = torch.ones(len(self.users), 1)
        return {
            "user_factors": torch.cat([self.users, one], 1),
            "item_factors": torch.cat([self.items, self.liked.unsqueeze(1)], 1),
        }


@engine(output=output)
def train(params: Mapping[str, Any], run: Run) -> None:
    """Train by pairs of an item and another, drawn by popularity to the power of `popular`."""
    (offsets, items), held_out, num_items = feedback()
    users = torch.arange(len(offsets) - 1)
    owner = users.repeat_interleave(offsets.diff())
    chance = torch.bincount(items, minlength=num_items).clamp(min=1) ** params["popular"]
    model = Factors(len(users), num_items, params["factors"])
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    run.restore(model=model, optimizer=optimizer)
    for _ in run.epochs():
        for rows in torch.randperm(len(items)).split(BATCH):
            others = torch.multinomial(chance, len(rows), replacement=True)
            loss = model.loss(owner[rows], items[rows], others, params["l2"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            run.update(**model.widened(), target=held_out, users=users)
        run.checkpoint(model=model, optimizer=optimizer)
