"""Targets: how often each class was right, all that a model without inputs could know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ..batch import Outputs
from ..features import BINARY
from .statistic import Reduction, Statistic, refuse_other_width


class TargetCounts(Statistic):
    """Weight of the rows of each class of a binary or category output; (C,) float64.

    With `soft`, soft labels are counted by their shares where a batch has them.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, soft: bool = False) -> None:
        super().__init__(soft=soft)
        self.soft = soft

    @property
    def shares(self) -> Tensor:
        """Each class's share of the rows."""
        rows = self._state["rows"]
        return rows / rows.sum()

    def update(self, batch: Outputs) -> None:
        """Count one batch."""
        if self.soft and batch.soft is not None:
            soft = batch.soft.double()
            shares = soft if soft.ndim == 2 else torch.stack([1 - soft, soft], 1)
            self.add(rows=(shares if batch.weight is None else shares * batch.weight.unsqueeze(1)).sum(0))
            return
        size = 2 if batch.feature.type == BINARY else batch.scores.shape[1]
        rows = torch.zeros(size, dtype=torch.float64, device=batch.index.device)
        self.add(rows=rows.index_add_(0, batch.index, batch.weights))

    def check(self, batch: Outputs) -> None:
        """Refuse another number of classes than before.

        Raises:
            MetricInputError: the batch has another one.
        """
        if batch.feature.type != BINARY:
            refuse_other_width(batch, len(self._state["rows"]) if self._state else None)
