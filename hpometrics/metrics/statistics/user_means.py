"""User means: the values of one formula for each user at several cut-offs, added up over users."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..outputs import Outputs
from ..ranking.batch import RankingBatch
from ..weighing import RowValues
from .cutoffs import FormulaMeans, rankings_in

Measure = Callable[[RankingBatch, tuple[int, ...]], Tensor | tuple[Tensor, Tensor]]


class Measured(NamedTuple):
    """Values of rows and what they weigh, both (rows, columns) float64; weight 0 where there is no value."""

    values: Tensor
    weights: Tensor
    alike: bool
    """Whether each value weighs 1, and is nan where there is none."""

    @property
    def total(self) -> Tensor:
        """The weighted sum of the values of each column."""
        if self.alike:
            return self.values.nansum(0)
        return (torch.where(self.weights > 0, self.values, 0.0) * self.weights).sum(0)


class UserMeans(FormulaMeans[Measure]):
    """Sum and weight of the values of users, a column per cut-off; a user whose value is nan is left out.

    Metrics that differ in their cut-off alone share one: it measures all cut-offs at once.

    Args:
        owner: the name of the formula; the same owner means the same formula.
        measure: gives the values of a batch, (rows, cut-offs) float64, nan where there is none; or a pair of
            these and their weights.
        cutoffs: the lengths of lists to be measured; 0 is the whole ranking and comes first, none a
            formula without lists.
    """

    def check(self, batch: Outputs) -> None:
        """Measure the batch; nothing is added yet, so that the formula may refuse it."""
        self._measured(rankings_in(batch))

    def update(self, batch: Outputs) -> None:
        """Add what was measured."""
        measured = self._measured(rankings_in(batch))
        self.add(total=measured.total, weight=measured.weights.sum(0))

    def mean(self, cutoff: int | None = None) -> Tensor:
        """The mean over users at a cut-off, nan where no user has a value."""
        column = self.place(cutoff)
        mean: Tensor = self._state["total"][column] / self._state["weight"][column]
        return mean

    def of_rows(self, batch: Outputs, cutoff: int | None = None) -> RowValues:
        """Measure each row at a cut-off; one without a value weighs 0."""
        measured, column = self._measured(rankings_in(batch)), self.place(cutoff)
        return RowValues(measured.values[:, column], measured.weights[:, column])

    def _measured(self, batch: RankingBatch) -> Measured:
        """Measure the batch once, however often it is asked for."""
        return batch.block(f"users of {self.params['owner']} at {self.cutoffs}", self._weighed)

    def _weighed(self, batch: Outputs) -> Measured:
        ranked = rankings_in(batch)
        measured = self._measure(ranked, self.cutoffs)
        values, own = measured if isinstance(measured, tuple) else (measured, None)
        weights = (~values.isnan()).double()
        weights = weights if own is None else torch.where(weights > 0, own.double(), 0.0)
        if batch.weight is not None:
            weights = weights * batch.weight.unsqueeze(1)
        return Measured(values.double(), weights, alike=own is None and batch.weight is None)
