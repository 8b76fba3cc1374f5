"""Side data: what is known of users and items beside the scores, read once from the output feature.

Each fact is (items,), as long as the catalogue, and made once for all batches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host, sent
from ..batch import as_tensor
from ..features import Ranking
from .interactions import Interactions, Padded

_PER_ITEM = ("item_popularity", "item_groups", "item_features", "propensity")

G = TypeVar("G", Tensor, Interactions)
T = TypeVar("T")


class SideData:
    """The side data of a `Ranking`, each checked and brought to its form the first time it is read.

    Raises:
        MetricInputError: reading one that was not given, naming the argument of `Ranking`, or one of another
            size than the rest.
    """

    def __init__(self, output: Ranking, device: torch.device | str = "cpu") -> None:
        self._output, self._device = output, torch.device(device)
        self._derived: dict[str, Any] = {}

    @classmethod
    def of(cls, output: Ranking, device: torch.device | str = "cpu") -> SideData:
        """Return the side data of an output on a device, the same object each time."""
        held: dict[str, SideData] = output.__dict__.setdefault("_side_data", {})
        return held.setdefault(str(device), cls(output, device))

    @cached_property
    def seen(self) -> Interactions:
        """The training interactions, users x items: never recommended again."""
        return self._given("seen", self._seen_in)

    def _seen_in(self, given: Any) -> Interactions:
        """Read what was seen; an entry that is 0, as a matrix may hold, was not."""
        found = Interactions.of(given, "seen", self._output.num_items)
        return found if found.grades is None else found.where(found.grades != 0)

    def seen_by(self, users: Tensor) -> Interactions:
        """The seen items of some users; on a device as many places for each as anyone needs."""
        own = sent(users, self._device)
        if on_host(own):
            return self.seen.rows(own)
        most = self.derived("most seen", lambda own: own.seen.most)
        known = own.clamp(0, max(0, len(self.seen) - 1))  # of others `stray_ids` tells
        return Padded.gathered(self.seen, most, known)

    @cached_property
    def num_items(self) -> int | None:
        """The number of items, where it was said or side data of items show it."""
        return self._stated_items

    @cached_property
    def _stated_items(self) -> int | None:
        """The number of items by the output, or by the first side data that have an entry for each."""
        given = (getattr(self._output, name) for name in _PER_ITEM)
        stated = (_length(values) for values in given if values is not None)
        known = (length for length in stated if length is not None)
        return self._output.num_items if self._output.num_items is not None else next(known, None)

    @cached_property
    def item_popularity(self) -> Tensor:
        """How often each item was interacted with, (items,) float64; counted from `seen` where not given."""
        if self._away:
            return sent(self._host.item_popularity, self._device)
        if self._output.item_popularity is None and self._output.seen is not None:
            return torch.bincount(self.seen.items, minlength=self.num_items or 0).double()
        return self._given("item_popularity", lambda given: self._per_item(given, "item_popularity").double())

    @cached_property
    def item_groups(self) -> Tensor:
        """The group of each item from 0, -1 where it is unknown, (items,) int64."""
        return self._given(
            "item_groups", lambda given: _groups(self._per_item(given, "item_groups"), "item_groups")
        )

    @cached_property
    def user_groups(self) -> Tensor:
        """The group of each user from 0, -1 where it is unknown, (users,) int64."""
        return self._given(
            "user_groups", lambda given: _groups(as_tensor(given, "user_groups"), "user_groups")
        )

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
        return self._given("item_features", lambda given: self._per_item(given, "item_features", 2).float())

    @cached_property
    def propensity(self) -> Tensor:
        """The chance that a relevant item is observed, (items,) float64 above 0."""
        found = self._given("propensity", lambda given: self._per_item(given, "propensity").double())
        if not self._away and not bool(((found > 0) & (found <= 1)).all()):
            raise MetricInputError(
                f"propensity is a chance above 0, got values from {float(found.min()):.3g} to "
                f"{float(found.max()):.3g}"
            )
        return found

    @cached_property
    def num_users(self) -> int:
        """The number of users in training."""
        if self._output.num_users is not None:
            return self._output.num_users
        if self._output.seen is None:
            raise MetricInputError(
                "the number of users in training is wanted and was not given; give it once, as "
                "Ranking(num_users=...), or give seen="
            )
        return len(self.seen)

    def gives(self, name: str) -> bool:
        """Whether a side data was given, under the name that it has in `Ranking`."""
        return getattr(self._output, name) is not None

    def derived(self, name: str, make: Callable[[SideData], T]) -> T:
        """Return what follows from the side data, made once for all batches."""
        if name not in self._derived:
            self._derived[name] = self._moved(self._host.derived(name, make)) if self._away else make(self)
        return self._derived[name]  # type: ignore[no-any-return]  # what make gave

    @property
    def _away(self) -> bool:
        return self._device.type != "cpu"

    @property
    def _host(self) -> SideData:
        """The same on the host, where it is checked and counted."""
        return SideData.of(self._output) if self._away else self

    def _moved(self, made: Any) -> Any:
        if isinstance(made, Interactions):
            return made.to(self._device)
        return sent(made, self._device) if isinstance(made, Tensor) else made

    def _given(self, name: str, read: Callable[[Any], G]) -> G:
        if self._away:
            found: G = self._moved(getattr(self._host, name))
            return found
        given = getattr(self._output, name)
        if given is None:
            raise MetricInputError(
                f"{name} is wanted and was not given; give it once, as Ranking({name}=...)"
            )
        return read(given).to(self._device)

    def _per_item(self, given: Any, name: str, dims: int = 1) -> Tensor:
        values = as_tensor(given, name)
        items = self._stated_items
        if values.ndim != dims or (items is not None and len(values) != items):
            wanted = f"({items if items is not None else 'items'},{' features' if dims == 2 else ''})"
            raise MetricInputError(f"{name} has shape {wanted}, got {tuple(values.shape)}")
        if values.is_floating_point() and not bool(values.isfinite().all()):
            raise MetricInputError(f"{name} holds nan or infinite values")
        return values


def _length(values: Any) -> int | None:
    """How many entries there are along the first dimension; None where there is none."""
    if hasattr(values, "shape"):
        return values.shape[0] if values.shape else None
    return len(values) if hasattr(values, "__len__") else None


def _groups(values: Tensor, name: str) -> Tensor:
    if values.ndim != 1 or values.is_floating_point() or (len(values) and int(values.min()) < -1):
        raise MetricInputError(
            f"{name} are whole numbers from 0 in one dimension, -1 where the group is unknown; got "
            f"{values.dtype} of shape {tuple(values.shape)}"
        )
    return values.long()


def _number_of(groups: Tensor) -> int:
    return max(int(groups.max()), 0) + 1 if len(groups) else 1


_POWER, _LEAST = 0.5, 0.1


def popularity(side: SideData, num_items: int) -> Tensor:
    """How often each item was interacted with, float64.

    Raises:
        MetricInputError: it was not given, or for another number of items.
    """
    return side.derived(f"popularity of {num_items}", lambda own: _counted(own, num_items))


def _counted(side: SideData, num_items: int) -> Tensor:
    counts = side.item_popularity
    missing = num_items - len(counts)  # items that nobody has seen
    if missing < 0 or bool((counts < 0).any()):
        raise MetricInputError(
            f"item_popularity counts from 0, for {num_items} items; got {len(counts)} items, "
            f"the lowest {float(counts.min()):.6g}"
        )
    return torch.nn.functional.pad(counts, (0, missing))


def at_least_one(side: SideData, num_items: int) -> Tensor:
    """The same, where an item that nobody interacted with counts as one interaction."""
    return side.derived(
        f"popularity of {num_items}, at least one", lambda own: popularity(own, num_items).clamp(min=1)
    )


def share_of_users(side: SideData, num_items: int) -> Tensor:
    """Which share of the users interacted with each item, at least one of them.

    Raises:
        MetricInputError: an item has more interactions than there are users.
    """
    return side.derived(f"share of users of {num_items}", lambda own: _shared(own, num_items))


def _shared(side: SideData, num_items: int) -> Tensor:
    shares = at_least_one(side, num_items) / side.num_users
    if bool((shares > 1).any()):
        raise MetricInputError(
            f"an item has {float(shares.max()) * side.num_users:.6g} interactions of {side.num_users} users; "
            "item_popularity counts each user once, num_users are all users in training"
        )
    return shares


def long_tail(side: SideData, num_items: int, pop_ratio: float) -> Tensor:
    """Which items are no head, bool: the head are the most popular up to the one that exceeds `pop_ratio`.

    That is a share of all interactions. Of equally popular items the first ones are head; with a ratio of 1
    all of them.
    """
    return side.derived(f"tail of {num_items} by {pop_ratio}", lambda own: _tail(own, num_items, pop_ratio))


def _tail(side: SideData, num_items: int, pop_ratio: float) -> Tensor:
    counts, order = popularity(side, num_items).sort(descending=True, stable=True)
    before = counts.cumsum(0) - counts
    return torch.empty_like(before, dtype=torch.bool).scatter_(0, order, before > pop_ratio * counts.sum())


def rarest(side: SideData, num_items: int, ratio: float) -> Tensor:
    """Which items are the least popular share of all, bool: one at least, of equal ones the first."""
    return side.derived(f"rarest of {num_items} by {ratio}", lambda own: _rarest(own, num_items, ratio))


def _rarest(side: SideData, num_items: int, ratio: float) -> Tensor:
    counts = popularity(side, num_items)
    rare = torch.zeros_like(counts, dtype=torch.bool)
    rare[counts.argsort(stable=True)[: max(1, int(num_items * ratio))]] = True
    return rare


def propensity(side: SideData, num_items: int) -> Tensor:
    """The chance that a relevant item is observed, float64, as given or else estimated from popularity.

    The estimate is the root of the popularity over the largest one, 0.1 at least.

    Raises:
        MetricInputError: neither propensity nor popularity is given, or for another number of items.
    """
    return side.derived(f"propensity of {num_items}", lambda own: _observed(own, num_items))


def _observed(side: SideData, num_items: int) -> Tensor:
    if side.gives("propensity"):
        if len(side.propensity) != num_items:
            raise MetricInputError(
                f"propensity has {len(side.propensity)} items, the catalogue has {num_items}"
            )
        return side.propensity
    counts = popularity(side, num_items)
    return (counts / counts.max().clamp(min=1)).pow(_POWER).clamp(min=_LEAST)


def expected(side: SideData, num_items: int) -> Tensor:
    """How surely each item is recommended to anyone, by its rank among popularities alone, float64.

    From 1 of the most popular down by 1 / items a rank; items of the same popularity have the same rank, and
    one that nobody interacted with is not expected at all.
    """
    return side.derived(f"expected of {num_items}", lambda own: _expected(own, num_items))


def _expected(side: SideData, num_items: int) -> Tensor:
    counts = popularity(side, num_items)
    levels: Tensor = torch.unique_consecutive(counts.sort().values)
    rank = (len(levels) - torch.searchsorted(levels, counts)).double()
    return torch.where(counts > 0, (num_items + 1 - rank) / num_items, 0.0)
