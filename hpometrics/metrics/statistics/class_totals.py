"""Class totals: how often each class was right, predicted and true; where a matrix would be too large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ..batch import Outputs
from .confusion import Counts
from .statistic import Reduction, Statistic, refuse_other_width
from .tally import tally


class ClassTotals(Statistic):
    """Per class, the tokens predicted right, predicted at all, and true: (3, C) int64, weighted float64.

    It holds what ratios of counts need of a confusion matrix, in memory that grows with the vocabulary and
    not with its square. Without a stated vocabulary it grows with the labels it meets.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"totals": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    @property
    def counts(self) -> Counts:
        """Per-class counts."""
        return self.derived("counts", _counts_of_totals)

    def reset(self) -> None:
        """Forget every token."""
        super().reset()
        self._width: int | None = None

    def check(self, batch: Outputs) -> None:
        """Refuse scores of another number of classes than before.

        Raises:
            MetricInputError: the batch has another one.
        """
        if batch.num_classes is not None:
            refuse_other_width(batch, self._width)

    def update(self, batch: Outputs) -> None:
        """Count one batch."""
        self._width = batch.num_classes or self._width
        size = self._width or getattr(batch.feature, "vocab_size", None) or 0
        target, preds, weight = batch.decided
        right = (target == preds).double() if weight is None else weight * (target == preds)
        tallies = [
            tally(*pair, size) if size else torch.bincount(*pair)
            for pair in ((target, right), (preds, weight), (target, weight))
        ]
        longest = max(map(len, tallies))
        totals = torch.stack([_padded(tally.double(), longest) for tally in tallies])
        self.merge_state({"totals": totals if weight is not None else totals.long()})

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in other totals; the shorter ones are padded."""
        if self._state and state:
            size = max(self._state["totals"].shape[1], state["totals"].shape[1])
            self._state["totals"] = _padded(self._state["totals"], size)
            state = {"totals": _padded(state["totals"], size)}
        super().merge_state(state)


def _padded(totals: Tensor, size: int) -> Tensor:
    return torch.nn.functional.pad(totals, (0, size - totals.shape[-1]))


def _counts_of_totals(own: ClassTotals) -> Counts:
    tp, predicted, actual = own._state["totals"].double()
    return Counts(tp, predicted - tp, actual - tp, actual.sum() - predicted - actual + tp)
