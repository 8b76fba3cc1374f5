"""Arguments of user-defined `update` and `compute_scores` functions, arranged by their signatures."""

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
class _Signature:
    """The parameters of a function after `self`."""

    by_place: tuple[str, ...]
    by_name: frozenset[str]
    needed: frozenset[str]
    any_place: bool
    any_name: bool

    def takes(self, place: int, keywords: Mapping[str, Any]) -> bool:
        """Return whether the parameter at a place is positional and its name is not one of `keywords`."""
        return self.by_place[place] not in keywords if place < len(self.by_place) else self.any_place


def users_and_items(tile: Tile) -> dict[str, Tensor | None]:
    """Return the users and items of a tile, None where unknown, under our names and those of WarpRec."""
    batch = tile.batch
    users = None if batch.users is None else batch.users[tile.rows]
    items = None if batch.items is None else batch.items[tile.rows]
    return {"users": users, "user_indices": users, "items": items, "item_indices": items}


def arrange_arguments(
    update: Callable[..., Any], tile: Tile, arguments: Mapping[str, Any], reader: str
) -> Arguments:
    """Arrange scores, grades and other arguments of a tile for an `update`.

    Scores come first. Grades come second, unless the name of the second parameter is one of `arguments`: then
    they are passed by name, like all the others: those in the signature, or all if it accepts any keyword.
    Grades are named `target`, or `ground` as in WarpRec.

    Raises:
        MetricInputError: the function requires `user_indices`, and the users are unknown.
    """
    signature = _signature(update)
    if "user_indices" in signature.needed and arguments["user_indices"] is None:
        raise MetricInputError(
            f"{reader}: its update asks for user_indices; pass users=, the number of the user of each row"
        )
    keywords: dict[str, Any] = {**arguments, "ground": tile.target}
    if tile.batch.weight is not None:
        keywords["sample_weight"] = tile.batch.weight[tile.rows]
    args: list[Any] = []
    for place, (name, value) in enumerate((("preds", tile.preds), ("target", tile.target))):
        if signature.takes(place, keywords):
            args.append(value)
        else:
            keywords[name] = value
    return args, select_arguments(update, keywords)


def select_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments in the signature of a function, or all if it accepts any keyword."""
    signature = _signature(function)
    return (
        dict(arguments)
        if signature.any_name
        else {name: arguments[name] for name in signature.by_name & arguments.keys()}
    )


def own_value(values: Mapping[str, Any], name: str) -> Any:
    """Return a metric's own value from the values by name that a `compute` in WarpRec's form returns.

    A value per user is averaged over the users who have one.

    Raises:
        MetricInputError: there are several values, none under the name of the metric.
    """
    if name not in values and len(values) != 1:
        raise MetricInputError(
            f"{name}: compute gives one value, or values by name with its own among them; "
            f"got {', '.join(map(repr, values)) or 'none'}"
        )
    value = values.get(name, next(iter(values.values())))
    return value.double().nanmean() if isinstance(value, Tensor) and value.ndim else torch.as_tensor(value)


@cache
def _signature(function: Callable[..., Any]) -> _Signature:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keyword = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    kinds = {p.kind for p in parameters}
    return _Signature(
        by_place=tuple(p.name for p in placed),
        by_name=frozenset(p.name for p in keyword),
        needed=frozenset(p.name for p in keyword if p.default is p.empty),
        any_place=inspect.Parameter.VAR_POSITIONAL in kinds,
        any_name=inspect.Parameter.VAR_KEYWORD in kinds,
    )
