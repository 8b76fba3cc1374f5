"""Weighted mean: the sum of one metric's values over rows and the sum of their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import torch
from torch import Tensor

from .._device import on_host
from ..batch import Outputs
from .statistic import Reduction, Statistic

Sums = tuple[Tensor, Tensor] | tuple[float, float]
Contribution = Callable[[Outputs], Sums]


class WeightedMean(Statistic):
    """Weighted sum and weight of the values of its owner, float64; nobody else can share it.

    Args:
        owner: the name of the metric whose values these are.
        contribution: gives a batch's weighted sum and weight, both 0-d float64 or, of a batch on the CPU,
            both plain numbers, which are added up in a tenth of the time.
        regroups: whether it may be asked for several batches as one, or for parts of one.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum", "weight": "sum"}
    weighted: ClassVar[bool] = True
    _tensors: dict[str, Tensor]
    _numbers: list[float] | None

    def __init__(self, owner: str, contribution: Contribution, *, regroups: bool = False) -> None:
        super().__init__(owner=owner)
        self._contribution = contribution
        self._block = f"contribution to {owner}"
        self.regroups = regroups

    @property
    def total(self) -> Tensor:
        """The weighted sum of the values."""
        return self._state["total"]

    @property
    def weight(self) -> Tensor:
        """The sum of the weights."""
        return self._state["weight"]

    @property
    def empty(self) -> bool:
        """True until the first batch."""
        return self._numbers is None and not self._tensors

    @property
    def mean(self) -> Tensor | None:
        """The weighted mean of the values, 0-d float64; None where nothing weighs anything."""
        if self._numbers is not None:
            total, weight = self._numbers
            return torch.tensor(total / weight, dtype=torch.float64) if weight > 0 else None
        return self.total / self.weight if self.weight > 0 else None

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
        self.take(self._measured(batch))

    def take(self, sums: Sums) -> None:
        """Add a weighted sum and its weight."""
        total, weight = sums
        here = all(map(on_host, self._tensors.values()))
        if isinstance(total, Tensor) or isinstance(weight, Tensor) or not here:
            self.add(total=_as_state(total), weight=_as_state(weight))
            return
        before = self._numbers or [tensor.item() for tensor in self._tensors.values()] or [0.0, 0.0]
        self._numbers = [before[0] + total, before[1] + weight]
        self._derived = {}

    def _measured(self, batch: Outputs) -> Sums:
        return batch.block(self._block, self._contribution)

    @property
    def _state(self) -> dict[str, Tensor]:
        """The state as tensors; whoever asks may change them, so that the numbers no longer hold."""
        if self._numbers is not None:
            self._tensors = dict(zip(self.reductions, map(_as_state, self._numbers), strict=True))
            self._numbers = None
        return self._tensors

    @_state.setter
    def _state(self, state: dict[str, Tensor]) -> None:
        self._tensors, self._numbers = state, None


def _as_state(value: Tensor | float) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
