"""Extremes: the least and the greatest error or target of each column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ..batch import Outputs
from .columns import ERROR, TARGET, check_width, columns
from .statistic import Reduction, Statistic

Of = Literal["error", "target"]


class Extremes(Statistic):
    """The least and the greatest value of each column, over the rows that weigh something.

    Args:
        of: `error` (prediction - target) or `target`.

    >>> from hpometrics.metrics.features import Number
    >>> extremes = Extremes(of="target")
    >>> extremes.update(Outputs(Number(), predictions=[1.0, 2.0], target=[1.0, 4.0]))
    >>> extremes.low.item(), extremes.high.item()
    (1.0, 4.0)
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"low": "own", "high": "own"}
    weighted: ClassVar[bool] = True
    regroups = True

    def __init__(self, of: Of) -> None:
        super().__init__(of=of)

    @property
    def low(self) -> Tensor:
        """The least value of each column: shape (D,); infinite when no row counted."""
        return self._state["low"]

    @property
    def high(self) -> Tensor:
        """The greatest value of each column: shape (D,); minus infinite when no row counted."""
        return self._state["high"]

    def check(self, batch: Outputs) -> None:
        """Refuse another number of columns.

        Raises:
            MetricInputError: naming both numbers.
        """
        check_width(batch, self._state.get("low"))

    def update(self, batch: Outputs) -> None:
        """Compare one batch with what is held."""
        values = columns(batch)[ERROR if self.params["of"] == "error" else TARGET]
        low = high = values
        if batch.weight is not None:
            counts = (batch.weight > 0).unsqueeze(-1)
            low, high = torch.where(counts, values, torch.inf), torch.where(counts, values, -torch.inf)
        self.merge_state({"low": low.amin(0), "high": high.amax(0)})

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in the extremes of other rows."""
        self._check_state(state)
        if self._state and state:
            self._check_shapes(state)
            held = self._state
            state = {
                "low": torch.minimum(held["low"], state["low"].to(held["low"].device)),
                "high": torch.maximum(held["high"], state["high"].to(held["high"].device)),
            }
        if state:
            self._state = {name: value.clone() for name, value in state.items()}
            self._derived = {}
