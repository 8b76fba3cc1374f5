"""User values: the value of each user, kept beside the sums that user means are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..batch import Outputs
from ..features import OutputFeature, Ranking
from .cutoffs import rankings_in
from .kept import Kept, Taken
from .statistic import Reduction, Statistic
from .user_facts import popularity_of_users
from .user_means import Measure, UserMeans

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
