"""Statistics of ranked lists at cut-offs: means over users, and the stored value of each user."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host
from ..aggregation import RowValues
from ..batch import Outputs
from ..features import OutputFeature, Ranking
from ..retrieval.ranking_batch import RankingBatch, rankings_in
from .statistic import Kept, NamedTensors, Reduction, Statistic

Measure = Callable[[RankingBatch, tuple[int, ...]], Tensor | tuple[Tensor, Tensor]]
Formula = TypeVar("Formula", bound=Callable[..., Any])
Reads = Literal["batch", "lists", "hits"]
_ROWS = ("users", "values", "weights")


class AtCutoffs(Statistic):
    """Base class of statistics of lists of several lengths.

    Two of the same class and parameters join: the remaining one measures at the cut-offs of both.

    Args:
        cutoffs: the lengths of lists, ascending; 0 is the whole ranking, an empty tuple reads no lists.
        params: the parameters that distinguish it from others of its class.
    """

    def __init__(self, cutoffs: tuple[int, ...] = (), **params: Any) -> None:
        super().__init__(**params)
        self.cutoffs = cutoffs

    @property
    def label(self) -> str:
        """The label with the cut-offs, whose order is their order in the state."""
        return f"{super().label} at {', '.join(map(str, self.cutoffs)) or 'no cut-off'}"

    def join(self, other: Self) -> None:
        """Add the cut-offs of another statistic."""
        self.cutoffs = tuple(sorted({*self.cutoffs, *other.cutoffs}))

    def prepare(self, batch: Outputs) -> None:
        """Request lists of the largest cut-off."""
        rankings_in(batch).reach(max(self.cutoffs, default=0))

    def place(self, cutoff: int | None) -> int:
        """Return the index of a cut-off in the state; 0 where there are no lists."""
        return 0 if cutoff is None else self.cutoffs.index(cutoff)


class FormulaMeans(AtCutoffs, Generic[Formula]):
    """Base class of the sum and weight of the values of one formula at several cut-offs.

    Args:
        owner: the name of the formula; the same owner means the same formula.
        measure: returns its values.
        cutoffs: the lengths of lists.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum", "weight": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, owner: str, measure: Formula, cutoffs: tuple[int, ...] = ()) -> None:
        super().__init__(cutoffs, owner=owner)
        self._measure = measure

    def join(self, other: Self) -> None:
        """Add the cut-offs of another statistic of the formula.

        Raises:
            MetricInputError: it is the formula of another class.
        """
        first, second = (type(getattr(one._measure, "__self__", None)) for one in (self, other))
        if first is not second:
            raise MetricInputError(
                f"two formulas are named {self.params['owner']!r}, of {first.__name__} and "
                f"{second.__name__}; give one of the metrics another .name"
            )
        super().join(other)


class Measured:
    """The values of a formula for the rows of a batch, and their weights.

    Args:
        values: (rows, columns) float64, nan where there is none.
        own: (rows, columns) the weights that the formula returns, or None.
        weight: (rows,) float64 the weight of each row, or None.
    """

    def __init__(self, values: Tensor, own: Tensor | None, weight: Tensor | None) -> None:
        self.values, self._own, self._weight = values, own, weight

    @cached_property
    def weights(self) -> Tensor:
        """The weight of each value, (rows, columns) float64, 0 where there is none."""
        weights = (~self.values.isnan()).double()
        weights = weights if self._own is None else torch.where(weights > 0, self._own.double(), 0.0)
        return weights if self._weight is None else weights * self._weight.unsqueeze(1)

    @property
    def sums(self) -> dict[str, Tensor]:
        """The weighted sum of the values of each column, `total`, and the sum of their weights, `weight`."""
        if self._own is None and self._weight is None:
            total = self.values.sum(0)
            if on_host(total) and not any(map(math.isnan, total.tolist())):  # every row has a value
                return {"total": total, "weight": _row_count(*self.values.shape)}
        total = (torch.where(self.weights > 0, self.values, 0.0) * self.weights).sum(0)
        return {"total": total, "weight": self.weights.sum(0)}


@lru_cache(maxsize=8)
def _row_count(rows: int, columns: int) -> Tensor:
    """Return the weight of each column where every row has a value and weighs 1; it must not be changed."""
    return torch.full((columns,), rows, dtype=torch.float64, device="cpu")


class UserMeans(FormulaMeans[Measure]):
    """The sum and weight of the values of users, a column per cut-off; nan values are excluded.

    Metrics that differ only in their cut-off share one statistic, which measures all cut-offs at once.

    Args:
        owner: the name of the formula; the same owner means the same formula.
        measure: returns the values of a batch, (rows, cut-offs) float64, nan where there is none; or a pair
            of these and their weights.
        cutoffs: the lengths of lists to measure; 0 is the whole ranking and comes first, an empty tuple is a
            formula without lists.
        reads: what the formula reads, see `ListMetric.reads`.
    """

    def __init__(
        self, owner: str, measure: Measure, cutoffs: tuple[int, ...] = (), *, reads: Reads = "batch"
    ) -> None:
        super().__init__(owner, measure, cutoffs)
        self._reads = reads

    @property
    def joins(self) -> bool:
        """Whether the formula reads lists of limited length."""
        return self._reads != "batch" and bool(self.cutoffs) and 0 not in self.cutoffs

    def prepare(self, batch: Outputs) -> None:
        """Request lists of the largest cut-off, or only their hits."""
        rankings_in(batch).reach(max(self.cutoffs, default=0), only_hits=self._reads == "hits")

    def check(self, batch: Outputs) -> None:
        """Measure the batch without adding it, so that the formula may refuse it."""
        self._measured(batch)

    def update(self, batch: Outputs) -> None:
        """Add the measured batch."""
        self.add(**self._measured(batch).sums)

    def mean(self, cutoff: int | None = None) -> Tensor:
        """Return the mean over users at a cut-off, nan where no user has a value."""
        means = self.derived("means", lambda own: (own._state["total"] / own._state["weight"]).unbind())
        return means[self.place(cutoff)].clone()

    def of_rows(self, batch: Outputs, cutoff: int | None = None) -> RowValues:
        """Measure each row at a cut-off; one without a value weighs 0."""
        measured, column = self._measured(batch), self.place(cutoff)
        return RowValues(measured.values[:, column], measured.weights[:, column])

    def _measured(self, batch: Outputs) -> Measured:
        """Measure the batch once, however often it is requested."""
        return batch.block(("users", self.params["owner"], self.cutoffs), self._measure_batch)

    def _measure_batch(self, batch: Outputs) -> Measured:
        rankings = rankings_in(batch)
        result = self._measure(rankings, self.cutoffs)
        values, own = result if isinstance(result, tuple) else (result, None)
        return Measured(values if values.dtype is torch.float64 else values.double(), own, batch.weight)


class GroupMeans(UserMeans):
    """The sum and weight of the values of users for each group of users, a column per cut-off.

    The state has a row for each group; users of no known group are excluded.
    """

    def check(self, batch: Outputs) -> None:
        """Measure the batch, and check that the groups of its users are known.

        Raises:
            MetricInputError: they are not.
        """
        super().check(batch)
        _ = rankings_in(batch).user_groups

    def update(self, batch: Outputs) -> None:
        """Add the measured values to the groups of the users."""
        rankings = rankings_in(batch)
        measured = self._measured(rankings)
        values, weights = measured.values, measured.weights
        groups, number = rankings.user_groups, rankings.side.num_user_groups
        has_group = (groups >= 0).unsqueeze(1)
        weights = torch.where(has_group, weights, 0.0)
        total = torch.where(weights > 0, values, 0.0) * weights
        none = weights.new_zeros(number, weights.shape[1])
        rows = groups.clamp(min=0)
        self.add(total=none.index_add(0, rows, total), weight=none.index_add(0, rows, weights))

    def means(self, cutoff: int) -> Tensor:
        """Return the mean over the users of each group at a cut-off, (groups,); nan where there is none."""
        column = self.cutoffs.index(cutoff)
        means: Tensor = self._state["total"][:, column] / self._state["weight"][:, column]
        return means


class UserFacts(Kept):
    """A number per row in float32, nan where there is none, with the user of the row; weights are ignored."""

    weighted = True

    def by_user(self) -> tuple[Tensor, Tensor]:
        """Return users (n,) int64, ascending, and the mean number of their rows (n,) float32, on the CPU."""
        rows = {name: value.cpu() for name, value in self.tensors.items()}
        users, place = torch.unique(rows["users"], return_inverse=True)
        has_fact = ~rows["facts"].isnan()
        none = torch.zeros(len(users), dtype=torch.float64)
        total = none.index_add(0, place[has_fact], rows["facts"][has_fact].double())
        return users, (total / none.index_add(0, place, has_fact.double())).float()


def popularity_of_users(output: OutputFeature) -> dict[str, UserFacts]:
    """Return the statistic of how popular each user's relevant items are; {} if popularity is unknown."""
    if not isinstance(output, Ranking) or not output.per_user:
        return {}
    if output.item_popularity is None and output.seen is None:
        return {}
    return {"popularity": UserFacts("popularity of the items that are relevant to users", _popularity)}


def _popularity(batch: Outputs) -> NamedTensors:
    rankings = rankings_in(batch)
    means = torch.full((len(rankings),), torch.nan, device=rankings.target.device)
    if rankings.numbered:
        means = rankings.relevant_items.means(rankings.side.item_popularity).float()
    users = rankings.users.clone()  # type: ignore[union-attr]  # checked by `UserValues`
    return {"users": users, "facts": means}


class UserValues(UserMeans):
    """The sums of `UserMeans`, and the value of each row in float32 with the number of its user.

    The mean is that of `UserMeans`, over rows; a user with several rows has one value, the mean
    of those rows.
    """

    grows: ClassVar[bool] = True
    reductions: ClassVar[Mapping[str, Reduction]] = {**UserMeans.reductions, **dict.fromkeys(_ROWS, "own")}

    def check(self, batch: Outputs) -> None:
        """Measure the batch, which must have users.

        Raises:
            MetricInputError: users are missing, or the formula refuses the batch.
        """
        if rankings_in(batch).users is None:
            raise MetricInputError(
                f"{self.params['owner']}: values by user need users=, the user of each row; pass it, or "
                "leave out per_user=True"
            )
        super().check(batch)

    def update(self, batch: Outputs) -> None:
        """Add the measured values, and store them by user."""
        super().update(batch)
        self._rows.update(batch)

    def by_user(self, cutoff: int | None = None) -> tuple[Tensor, Tensor]:
        """Return users (n,) int64, ascending, and their values at a cut-off (n,) float32, nan for none."""
        users, values = self.derived("by user", lambda own: _average_rows(own._rows.tensors))
        column = self.cutoffs.index(cutoff) if cutoff is not None else 0
        return users, values[:, column]

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._rows = Kept(f"values of {self.params['owner']} by user", self._row_tensors)

    def state(self) -> NamedTensors:
        """Return a copy of sums and rows by name."""
        return {**super().state(), **self._rows.state()}

    def add_state(self, state: Mapping[str, Tensor]) -> None:
        """Add the sums of a state, and append its rows."""
        self._rows.merge_state({name: state[name] for name in _ROWS})
        self.add(**{name: value for name, value in state.items() if name not in _ROWS})

    def to(self, device: torch.device | str) -> None:
        """Move sums and rows to a device."""
        super().to(device)
        self._rows.to(device)

    def _row_tensors(self, batch: Outputs) -> NamedTensors:
        rankings = rankings_in(batch)
        measured = self._measured(rankings)
        return {
            "users": rankings.users.clone(),  # type: ignore[union-attr]  # checked
            "values": measured.values.masked_fill(measured.weights <= 0, torch.nan).float(),
            "weights": batch.weights.float(),
        }


def means_of_users(
    output: OutputFeature,
    owner: str,
    measure: Measure,
    cutoffs: tuple[int, ...] = (),
    *,
    reads: Reads = "batch",
) -> dict[str, Statistic]:
    """Create the statistics of a formula over users; with `per_user=True` they store values by user."""
    if isinstance(output, Ranking) and output.per_user:
        return {"users": UserValues(owner, measure, cutoffs), **popularity_of_users(output)}
    return {"users": UserMeans(owner, measure, cutoffs, reads=reads), **popularity_of_users(output)}


def _average_rows(rows: NamedTensors) -> tuple[Tensor, Tensor]:
    """Return each user once, with the mean of the values of its rows."""
    users, place = torch.unique(rows["users"], return_inverse=True)
    values = rows["values"].double()
    weights = torch.where(values.isnan(), 0.0, rows["weights"].double().unsqueeze(1))
    none = values.new_zeros(len(users), values.shape[1])
    total = none.index_add(0, place, values.nan_to_num() * weights)
    return users, (total / none.index_add(0, place, weights)).float()
