"""User values: the value of each user, kept beside the sums that user means are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import ClassVar, Self

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host
from ..aggregation import RowValues
from ..batch import Outputs
from ..features import OutputFeature, Ranking
from ..retrieval.ranking_batch import RankingBatch
from .cutoffs import FormulaMeans, rankings_in
from .statistic import Kept, Reduction, Statistic, Taken

Measure = Callable[[RankingBatch, tuple[int, ...]], Tensor | tuple[Tensor, Tensor]]


class Measured:
    """What a formula gave the rows of a batch, and what each value weighs.

    Args:
        values: (rows, columns) float64, nan where there is none.
        own: (rows, columns) the weights that the formula gave, or None.
        weight: (rows,) float64 what each row counts, or None.
    """

    def __init__(self, values: Tensor, own: Tensor | None, weight: Tensor | None) -> None:
        self.values, self._own, self._weight = values, own, weight

    @cached_property
    def weights(self) -> Tensor:
        """What each value weighs, (rows, columns) float64, 0 where there is none."""
        weights = (~self.values.isnan()).double()
        weights = weights if self._own is None else torch.where(weights > 0, self._own.double(), 0.0)
        return weights if self._weight is None else weights * self._weight.unsqueeze(1)

    @property
    def sums(self) -> dict[str, Tensor]:
        """The weighted sum of the values of each column, `total`, and what they weigh, `weight`."""
        if self._own is None and self._weight is None:
            total = self.values.sum(0)
            if on_host(total) and not any(map(math.isnan, total.tolist())):  # every row has a value
                return {"total": total, "weight": _of_every_row(*self.values.shape)}
        total = (torch.where(self.weights > 0, self.values, 0.0) * self.weights).sum(0)
        return {"total": total, "weight": self.weights.sum(0)}


@lru_cache(maxsize=8)
def _of_every_row(rows: int, columns: int) -> Tensor:
    """What each column weighs where every row has a value and counts 1; nobody writes into it."""
    return torch.full((columns,), rows, dtype=torch.float64, device="cpu")


class UserMeans(FormulaMeans[Measure]):
    """Sum and weight of the values of users, a column per cut-off; a user whose value is nan is left out.

    Metrics that differ in their cut-off alone share one: it measures all cut-offs at once.

    Args:
        owner: the name of the formula; the same owner means the same formula.
        measure: gives the values of a batch, (rows, cut-offs) float64, nan where there is none; or a pair of
            these and their weights.
        cutoffs: the lengths of lists to be measured; 0 is the whole ranking and comes first, none a
            formula without lists.
        of_lists: whether the formula reads lists and side data alone, and refuses nothing of them.
    """

    def __init__(
        self, owner: str, measure: Measure, cutoffs: tuple[int, ...] = (), *, of_lists: bool = False
    ) -> None:
        super().__init__(owner, measure, cutoffs)
        self._of_lists = of_lists

    def fresh(self) -> Self:
        """Return an empty one of the same formula and cut-offs."""
        made = super().fresh()
        made._of_lists = self._of_lists
        return made

    @property
    def joins(self) -> bool:
        """Whether the formula reads lists that end."""
        return self._of_lists and bool(self.cutoffs) and 0 not in self.cutoffs

    def check(self, batch: Outputs) -> None:
        """Measure the batch; nothing is added yet, so that the formula may refuse it."""
        self._measured(batch)

    def update(self, batch: Outputs) -> None:
        """Add what was measured."""
        self.add(**self._measured(batch).sums)

    def mean(self, cutoff: int | None = None) -> Tensor:
        """The mean over users at a cut-off, nan where no user has a value."""
        means = self.derived("means", lambda own: (own._state["total"] / own._state["weight"]).unbind())
        return means[self.place(cutoff)].clone()

    def of_rows(self, batch: Outputs, cutoff: int | None = None) -> RowValues:
        """Measure each row at a cut-off; one without a value weighs 0."""
        measured, column = self._measured(batch), self.place(cutoff)
        return RowValues(measured.values[:, column], measured.weights[:, column])

    def _measured(self, batch: Outputs) -> Measured:
        """Measure the batch once, however often it is asked for."""
        return batch.block(("users", self.params["owner"], self.cutoffs), self._weighed)

    def _weighed(self, batch: Outputs) -> Measured:
        ranked = rankings_in(batch)
        measured = self._measure(ranked, self.cutoffs)
        values, own = measured if isinstance(measured, tuple) else (measured, None)
        return Measured(values if values.dtype is torch.float64 else values.double(), own, batch.weight)


class GroupMeans(UserMeans):
    """Sum and weight of the values of users for each group of users, a column per cut-off.

    It is what `UserMeans` is, a row for each group; users of no known group count in none.
    """

    def check(self, batch: Outputs) -> None:
        """Measure the batch, and make sure that the groups of its users are known.

        Raises:
            MetricInputError: they are not.
        """
        super().check(batch)
        _ = rankings_in(batch).user_groups

    def update(self, batch: Outputs) -> None:
        """Add what was measured to the groups of the users."""
        ranked = rankings_in(batch)
        measured = self._measured(ranked)
        values, weights = measured.values, measured.weights
        groups, number = ranked.user_groups, ranked.side.num_user_groups
        known = (groups >= 0).unsqueeze(1)
        weights = torch.where(known, weights, 0.0)
        total = torch.where(weights > 0, values, 0.0) * weights
        none = weights.new_zeros(number, weights.shape[1])
        rows = groups.clamp(min=0)
        self.add(total=none.index_add(0, rows, total), weight=none.index_add(0, rows, weights))

    def means(self, cutoff: int) -> Tensor:
        """The mean over the users of each group at a cut-off, (groups,); nan where no user has a value."""
        column = self.cutoffs.index(cutoff)
        means: Tensor = self._state["total"][:, column] / self._state["weight"][:, column]
        return means


class UserFacts(Kept):
    """A number of each row in float32, nan where there is none, beside its user, whatever rows weigh."""

    weighted = True

    def by_user(self) -> tuple[Tensor, Tensor]:
        """Users (n,) int64, rising, and the mean of the numbers of their rows (n,) float32, on the host."""
        rows = {name: value.cpu() for name, value in self.tensors.items()}
        users, place = torch.unique(rows["users"], return_inverse=True)
        known = ~rows["facts"].isnan()
        none = torch.zeros(len(users), dtype=torch.float64)
        total = none.index_add(0, place[known], rows["facts"][known].double())
        return users, (total / none.index_add(0, place, known.double())).float()


def popularity_of_users(output: OutputFeature) -> dict[str, UserFacts]:
    """What tells users apart by how popular what they like is: nothing, if that is not known of items."""
    if not isinstance(output, Ranking) or not output.per_user:
        return {}
    if output.item_popularity is None and output.seen is None:
        return {}
    return {"popularity": UserFacts("popularity of what is relevant to users", _popularity)}


def _popularity(batch: Outputs) -> Taken:
    ranked = rankings_in(batch)
    means = torch.full((len(ranked),), torch.nan, device=ranked.target.device)
    if ranked.numbered:
        means = ranked.relevant_items.means(ranked.side.item_popularity).float()
    users = ranked.users.clone()  # type: ignore[union-attr]  # checked where values are kept
    return {"users": users, "facts": means}


_ROWS = ("users", "values", "weights")


class UserValues(UserMeans):
    """What `UserMeans` keeps, and the value of each row in float32 beside the number of its user.

    The mean is that of `UserMeans`, over rows; a user who was measured more than once has one value, the mean
    of those rows.
    """

    grows: ClassVar[bool] = True
    reductions: ClassVar[Mapping[str, Reduction]] = {**UserMeans.reductions, **dict.fromkeys(_ROWS, "own")}

    def __init__(self, owner: str, measure: Measure, cutoffs: tuple[int, ...] = ()) -> None:
        self._rows = Kept(f"values of {owner} by user", self._taken)
        super().__init__(owner, measure, cutoffs)

    def check(self, batch: Outputs) -> None:
        """Measure the batch, whose users must be named.

        Raises:
            MetricInputError: they are not, or the formula refuses the batch.
        """
        if rankings_in(batch).users is None:
            raise MetricInputError(
                f"{self.params['owner']}: values are kept by user; pass users=, the user of each row, or "
                "leave out per_user=True"
            )
        super().check(batch)

    def update(self, batch: Outputs) -> None:
        """Add what was measured, and keep it."""
        super().update(batch)
        self._rows.update(batch)

    def by_user(self, cutoff: int | None = None) -> tuple[Tensor, Tensor]:
        """Users (n,) int64, rising, and their values at a cut-off (n,) float32, nan where there is none."""
        users, values = self.derived("by user", lambda own: _averaged(own._rows.tensors))
        column = self.cutoffs.index(cutoff) if cutoff is not None else 0
        return users, values[:, column]

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._rows.reset()

    def state(self) -> Taken:
        """A copy of sums and rows by name."""
        return {**super().state(), **self._rows.state()}

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in what `state()` of another one gave."""
        self._check_state(state)
        if not state:
            return
        sums = {name: value for name, value in state.items() if name not in _ROWS}
        if self._state:
            self._check_shapes(sums)
            sums = {name: value.to(self._state[name].device) for name, value in sums.items()}
        self._rows.merge_state({name: state[name] for name in _ROWS})
        self.add(**sums)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Replace everything by a copy of a state."""
        self._check_state(state)
        self.reset()
        self.merge_state(state)

    def to(self, device: torch.device | str) -> None:
        """Move sums and rows to a device."""
        super().to(device)
        self._rows.to(device)

    def _taken(self, batch: Outputs) -> Taken:
        ranked = rankings_in(batch)
        measured = self._measured(ranked)
        return {
            "users": ranked.users.clone(),  # type: ignore[union-attr]  # checked
            "values": measured.values.masked_fill(measured.weights <= 0, torch.nan).float(),
            "weights": batch.weights.float(),
        }


def means_of_users(
    output: OutputFeature,
    owner: str,
    measure: Measure,
    cutoffs: tuple[int, ...] = (),
    *,
    of_lists: bool = False,
) -> dict[str, Statistic]:
    """Make the statistics of a formula over users: they keep their values too where the output says so."""
    if isinstance(output, Ranking) and output.per_user:
        return {"users": UserValues(owner, measure, cutoffs), **popularity_of_users(output)}
    return {"users": UserMeans(owner, measure, cutoffs, of_lists=of_lists), **popularity_of_users(output)}


def _averaged(rows: Taken) -> tuple[Tensor, Tensor]:
    """Each user once, with the mean of the values that its rows have."""
    users, place = torch.unique(rows["users"], return_inverse=True)
    values = rows["values"].double()
    weights = torch.where(values.isnan(), 0.0, rows["weights"].double().unsqueeze(1))
    none = values.new_zeros(len(users), values.shape[1])
    total = none.index_add(0, place, values.nan_to_num() * weights)
    return users, (total / none.index_add(0, place, weights)).float()
