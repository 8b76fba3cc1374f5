"""Weighted mean: the sum of one metric's values over rows and the sum of their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Self

from torch import Tensor

from ..outputs import Outputs
from .statistic import Reduction, Statistic

Contribution = Callable[[Outputs], tuple[Tensor, Tensor]]


class WeightedMean(Statistic):
    """Weighted sum and weight of the values of its owner, float64; nobody else can share it.

    Args:
        owner: the name of the metric whose values these are.
        contribution: gives a batch's weighted sum and weight, both 0-d float64.
        regroups: whether it may be asked for several batches as one, or for parts of one.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum", "weight": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, owner: str, contribution: Contribution, *, regroups: bool = False) -> None:
        super().__init__(owner=owner)
        self._contribution = contribution
        self.regroups = regroups

    @property
    def total(self) -> Tensor:
        """The weighted sum of the values."""
        return self._state["total"]

    @property
    def weight(self) -> Tensor:
        """The sum of the weights."""
        return self._state["weight"]

    def fresh(self) -> Self:
        """Return an empty one of the same owner."""
        return type(self)(self.params["owner"], self._contribution, regroups=self.regroups)

    def check(self, batch: Outputs) -> None:
        """Measure the batch; nothing is added yet, so that the owner may refuse it.

        Raises:
            MetricInputError: the owner does.
        """
        self._measured(batch)

    def update(self, batch: Outputs) -> None:
        """Add what was measured."""
        total, weight = self._measured(batch)
        self.add(total=total, weight=weight)

    def _measured(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        return batch.block(f"contribution to {self.params['owner']}", self._contribution)
