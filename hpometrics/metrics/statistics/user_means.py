"""User means: the values of one formula for each user at several cut-offs, added up over users."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Self

import torch
from torch import Tensor

from .._device import on_host
from ..aggregation import RowValues
from ..batch import Outputs
from ..retrieval.ranking_batch import RankingBatch
from .cutoffs import FormulaMeans, rankings_in

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
