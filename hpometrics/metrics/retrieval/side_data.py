"""Side data of users and items, read once from the output feature, and item facts derived from them.

Each fact is (items,), as long as the catalog, and computed once for all batches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, TypeVar, TypeVarTuple

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host, send_to
from ..batch import as_tensor
from ..features import Ranking
from .interactions import Interactions, PaddedInteractions

_PER_ITEM = ("item_popularity", "item_groups", "item_features", "propensity")

G = TypeVar("G", Tensor, Interactions)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SideData:
    """The side data of a `Ranking`, each checked and converted when it is first read.

    Raises:
        MetricInputError: a missing one is read, or one whose size does not match the others; the message
            names the argument of `Ranking`.
    """

    def __init__(self, output: Ranking, device: torch.device | str = "cpu") -> None:
        self._output, self._device = output, torch.device(device)
        self._derived: dict[str, Any] = {}

    @classmethod
    def of(cls, output: Ranking, device: torch.device | str = "cpu") -> SideData:
        """Return the side data of an output on a device, the same object each time."""
        by_device: dict[str, SideData] = output.__dict__.setdefault("_side_data", {})
        return by_device.setdefault(str(device), cls(output, device))

    @cached_property
    def seen(self) -> Interactions:
        """The training interactions, users x items, which are never recommended again."""
        return self._read("seen", lambda data: read_interactions(data, self._output.num_items))

    def seen_by(self, users: Tensor) -> Interactions:
        """Return the seen items of some users; on a device as a table as wide as the longest row of all."""
        own = send_to(users, self._device)
        if on_host(own):
            return self.seen.rows(own)
        most = self.derived("most seen", lambda own: own.seen.most)
        rows = own.clamp(0, max(0, len(self.seen) - 1))  # others are flagged by `stray_ids`
        return PaddedInteractions.from_rows(self.seen, most, rows)

    @cached_property
    def num_items(self) -> int | None:
        """The number of items in the output, or else of the first side data with an entry per item."""
        values_of_items = (getattr(self._output, name) for name in _PER_ITEM)
        lengths = (_length(values) for values in values_of_items if values is not None)
        sizes = (length for length in lengths if length is not None)
        return self._output.num_items if self._output.num_items is not None else next(sizes, None)

    @cached_property
    def item_popularity(self) -> Tensor:
        """The number of interactions of each item, (items,) float64; counted from `seen` if missing."""
        if self._on_device:
            return send_to(self._host.item_popularity, self._device)
        if self._output.item_popularity is None and self._output.seen is not None:
            return torch.bincount(self.seen.items, minlength=self.num_items or 0).double()
        return self._read("item_popularity", lambda data: self._per_item(data, "item_popularity").double())

    @cached_property
    def item_groups(self) -> Tensor:
        """The group of each item from 0, -1 where it is unknown, (items,) int64."""
        return self._read(
            "item_groups", lambda data: _groups(self._per_item(data, "item_groups"), "item_groups")
        )

    @cached_property
    def user_groups(self) -> Tensor:
        """The group of each user from 0, -1 where it is unknown, (users,) int64."""
        return self._read("user_groups", lambda data: _groups(as_tensor(data, "user_groups"), "user_groups"))

    @cached_property
    def num_item_groups(self) -> int:
        """The number of groups of items, at least 1."""
        return _number_of(self._host.item_groups)

    @cached_property
    def num_user_groups(self) -> int:
        """The number of groups of users, at least 1."""
        return _number_of(self._host.user_groups)

    @cached_property
    def item_features(self) -> Tensor:
        """The features of each item, (items, features) float32."""
        return self._read("item_features", lambda data: self._per_item(data, "item_features", 2).float())

    @cached_property
    def propensity(self) -> Tensor:
        """The probability that a relevant item is observed, (items,) float64 above 0."""
        values = self._read("propensity", lambda data: self._per_item(data, "propensity").double())
        if not self._on_device and not bool(((values > 0) & (values <= 1)).all()):
            raise MetricInputError(
                f"propensity must be a probability above 0, got values from {float(values.min()):.3g} to "
                f"{float(values.max()):.3g}"
            )
        return values

    @cached_property
    def num_users(self) -> int:
        """The number of users in training."""
        if self._output.num_users is not None:
            return self._output.num_users
        if self._output.seen is None:
            raise MetricInputError(
                "the metric needs the number of users in training, which the output lacks; pass "
                "Ranking(num_users=...) or Ranking(seen=...)"
            )
        return len(self.seen)

    def derived(self, name: str, make: Callable[[SideData], T]) -> T:
        """Return a value computed from the side data, cached for all batches."""
        if name not in self._derived:
            self._derived[name] = (
                self._to_device(self._host.derived(name, make)) if self._on_device else make(self)
            )
        return self._derived[name]  # type: ignore[no-any-return]  # the type of `make`

    @property
    def _on_device(self) -> bool:
        return self._device.type != "cpu"

    @property
    def _host(self) -> SideData:
        """The side data on the host, where they are checked and counted."""
        return SideData.of(self._output) if self._on_device else self

    def _to_device(self, value: Any) -> Any:
        if isinstance(value, Interactions):
            return value.to(self._device)
        return send_to(value, self._device) if isinstance(value, Tensor) else value

    def _read(self, name: str, parse: Callable[[Any], G]) -> G:
        if self._on_device:
            moved: G = self._to_device(getattr(self._host, name))
            return moved
        data = getattr(self._output, name)
        if data is None:
            raise MetricInputError(
                f"the metric needs {name}, which the output lacks; pass Ranking({name}=...)"
            )
        return parse(data).to(self._device)

    def _per_item(self, data: Any, name: str, dims: int = 1) -> Tensor:
        values = as_tensor(data, name)
        items = self.num_items
        if values.ndim != dims or (items is not None and len(values) != items):
            shape = f"({items if items is not None else 'items'},{' features' if dims == 2 else ''})"
            raise MetricInputError(f"{name} must have shape {shape}, got {tuple(values.shape)}")
        if values.is_floating_point() and not bool(values.isfinite().all()):
            raise MetricInputError(f"{name} contains nan or infinite values")
        return values


def _length(values: Any) -> int | None:
    """Return the length of the first dimension; None if there is none."""
    if hasattr(values, "shape"):
        return values.shape[0] if values.shape else None
    return len(values) if hasattr(values, "__len__") else None


def read_interactions(data: object, num_items: int | None) -> Interactions:
    """Parse the seen items of users; entries that are 0, which a matrix may have, are dropped."""
    entries = Interactions.of(data, "seen", num_items)
    return entries if entries.grades is None else entries.where(entries.grades != 0)


def _groups(values: Tensor, name: str) -> Tensor:
    if values.ndim != 1 or values.is_floating_point() or (len(values) and int(values.min()) < -1):
        raise MetricInputError(
            f"{name} must be whole numbers from 0 in one dimension, with -1 for an unknown group; got "
            f"{values.dtype} of shape {tuple(values.shape)}"
        )
    return values.long()


def _number_of(groups: Tensor) -> int:
    return max(int(groups.max()), 0) + 1 if len(groups) else 1


def read_users(users: Any, rows: int) -> Tensor:
    """Return the number of the user of each row.

    Raises:
        MetricInputError: they are not one whole number per row.
    """
    ids = as_tensor(users, "users=")
    if tuple(ids.shape) != (rows,) or (rows and ids.is_floating_point()):
        raise MetricInputError(
            f"users must be whole numbers, one per row, shape ({rows},); got {ids.dtype} of "
            f"{tuple(ids.shape)}"
        )
    return ids.long()


def known_users(users: Tensor | None, number: int, name: str, why: str) -> Tensor:
    """Return the users after checking that side data has an entry for each of them.

    Raises:
        MetricInputError: users are missing or out of range.
    """
    if users is None:
        raise MetricInputError(f"{why} by user; pass users=, the user of each row")
    if on_host(users) and len(users):
        low, high = (int(x) for x in users.aminmax())
        if low < 0 or high >= number:
            raise MetricInputError(f"{name} has users 0..{number - 1}, got users from {low} to {high}")
    return users


_POWER, _LEAST = 0.5, 0.1
_ROUNDING = 1e-9  # of a product: 0.29 * 100 is less than 29


def _fact(compute: Callable[[SideData, *Ts], Tensor]) -> Callable[[SideData, *Ts], Tensor]:
    """Cache what a function computes from side data, by its further arguments, for all batches."""

    @wraps(compute)
    def cached(side: SideData, *args: *Ts) -> Tensor:
        return side.derived(f"{compute.__name__} of {args}", lambda own: compute(own, *args))

    return cached


@_fact
def popularity(side: SideData, num_items: int) -> Tensor:
    """Return the number of interactions of each item, float64.

    Raises:
        MetricInputError: it is missing, or has another number of items.
    """
    counts = side.item_popularity
    missing = num_items - len(counts)  # items without an interaction
    if missing < 0 or bool((counts < 0).any()):
        raise MetricInputError(
            f"item_popularity must be counts of at least 0 for {num_items} items; got {len(counts)} items, "
            f"the lowest is {float(counts.min()):.6g}"
        )
    return torch.nn.functional.pad(counts, (0, missing))


@_fact
def at_least_one(side: SideData, num_items: int) -> Tensor:
    """Return the number of interactions of each item, at least 1."""
    return popularity(side, num_items).clamp(min=1)


@_fact
def share_of_users(side: SideData, num_items: int) -> Tensor:
    """Return the share of the users who interacted with each item, at least one of them.

    Raises:
        MetricInputError: an item has more interactions than there are users.
    """
    shares = at_least_one(side, num_items) / side.num_users
    if bool((shares > 1).any()):
        raise MetricInputError(
            f"an item has {float(shares.max()) * side.num_users:.6g} interactions from {side.num_users} "
            "users; item_popularity must count each user once, and num_users must be the number of users "
            "in training"
        )
    return shares


@_fact
def long_tail(side: SideData, num_items: int, pop_ratio: float) -> Tensor:
    """Return which items are in the long tail, bool, outside of the head of most popular items.

    The head ends with the item that makes its share of all interactions exceed `pop_ratio`. Of equally
    popular items the first ones are head; with a ratio of 1 all items are.
    """
    counts, order = popularity(side, num_items).sort(descending=True, stable=True)
    before = counts.cumsum(0) - counts
    return torch.empty_like(before, dtype=torch.bool).scatter_(0, order, before > pop_ratio * counts.sum())


@_fact
def rarest(side: SideData, num_items: int, ratio: float) -> Tensor:
    """Return which items are the least popular share of all, bool: at least one, of equal ones the first."""
    counts = popularity(side, num_items)
    rare = torch.zeros_like(counts, dtype=torch.bool)
    number = int(num_items * ratio + _ROUNDING)
    rare[counts.argsort(stable=True)[: max(1, number)]] = True
    return rare


@_fact
def propensity(side: SideData, num_items: int) -> Tensor:
    """Return the probability that a relevant item is observed, float64, or an estimate from popularity.

    The estimate is the square root of the popularity over the largest one, at least 0.1.

    Raises:
        MetricInputError: neither propensity nor popularity is available, or for another number of items.
    """
    if side._output.propensity is not None:
        if len(side.propensity) != num_items:
            raise MetricInputError(
                f"propensity has {len(side.propensity)} items, but the catalog has {num_items}"
            )
        return side.propensity
    counts = popularity(side, num_items)
    return (counts / counts.max().clamp(min=1)).pow(_POWER).clamp(min=_LEAST)


@_fact
def expectedness(side: SideData, num_items: int) -> Tensor:
    """Return how expected a recommendation of each item is, by its popularity rank alone, float64 in [0, 1].

    It is 1 for the most popular item and falls by 1 / items per rank; items of the same popularity have the
    same rank, and an item without interactions has 0.
    """
    counts = popularity(side, num_items)
    levels: Tensor = torch.unique_consecutive(counts.sort().values)
    rank = (len(levels) - torch.searchsorted(levels, counts)).double()
    return torch.where(counts > 0, (num_items + 1 - rank) / num_items, 0.0)
