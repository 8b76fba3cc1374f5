"""Told: what an `update` of one's own is given of some rows, arranged as its signature asks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .blocks import Tile

Arguments = tuple[list[Any], dict[str, Any]]


@dataclass(frozen=True)
class _Asked:
    """The parameters of a function after `self`."""

    by_place: tuple[str, ...]
    by_name: frozenset[str]
    needed: frozenset[str]
    any_place: bool
    any_name: bool

    def takes(self, place: int, named: Mapping[str, Any]) -> bool:
        """Whether what stands at a place is given by place: not where it is something that comes by name."""
        return self.by_place[place] not in named if place < len(self.by_place) else self.any_place


def whereabouts(tile: Tile) -> dict[str, Tensor | None]:
    """The users and items of a tile, None where they are not known: by our words and by WarpRec's."""
    batch = tile.batch
    users = None if batch.users is None else batch.users[tile.rows]
    items = None if batch.items is None else batch.items[tile.rows]
    return {"users": users, "user_indices": users, "items": items, "item_indices": items}


def arranged(update: Callable[..., Any], tile: Tile, told: Mapping[str, Any], reader: str) -> Arguments:
    """Arrange scores, grades and what else is told of a tile for an `update`.

    Scores come first. What comes second are the grades, unless its name is one of `told`: then they come by
    name, as all the rest does: what the signature names, or everything where it takes any keyword. Grades
    are called `target`, or `ground` as in WarpRec.

    Raises:
        MetricInputError: it cannot do without `user_indices`, and nobody said who the users are.
    """
    asked = _asked(update)
    if "user_indices" in asked.needed and told["user_indices"] is None:
        raise MetricInputError(
            f"{reader}: its update asks for user_indices; pass users=, the number of the user of each row"
        )
    named: dict[str, Any] = {**told, "ground": tile.target}
    if tile.batch.weight is not None:
        named["sample_weight"] = tile.batch.weight[tile.rows]
    args: list[Any] = []
    for place, (name, given) in enumerate((("preds", tile.preds), ("target", tile.target))):
        if asked.takes(place, named):
            args.append(given)
        else:
            named[name] = given
    return args, taken(update, named)


def taken(function: Callable[..., Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the keyword arguments that the signature of a function names, or all where it takes any."""
    asked = _asked(function)
    return dict(named) if asked.any_name else {name: named[name] for name in asked.by_name & named.keys()}


def own_value(values: Mapping[str, Any], name: str) -> Any:
    """Take a metric's own value of those that a `compute` in WarpRec's form gives by name.

    Of one value per user it is the mean over those who have one.

    Raises:
        MetricInputError: it gives several values, none under its own name.
    """
    if name not in values and len(values) != 1:
        raise MetricInputError(
            f"{name}: compute gives one value, or values by name with its own among them; "
            f"got {', '.join(map(repr, values)) or 'none'}"
        )
    value = values.get(name, next(iter(values.values())))
    return value.double().nanmean() if isinstance(value, Tensor) and value.ndim else torch.as_tensor(value)


@cache
def _asked(function: Callable[..., Any]) -> _Asked:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    kinds = {p.kind for p in parameters}
    return _Asked(
        by_place=tuple(p.name for p in placed),
        by_name=frozenset(p.name for p in named),
        needed=frozenset(p.name for p in named if p.default is p.empty),
        any_place=inspect.Parameter.VAR_POSITIONAL in kinds,
        any_name=inspect.Parameter.VAR_KEYWORD in kinds,
    )
