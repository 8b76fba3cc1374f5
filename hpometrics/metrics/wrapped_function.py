"""Wrapped functions: one called once on all rows of the epoch, or on each batch for a value per row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat

from ..exceptions import MetricInputError
from .metric import MeanMetric
from .outputs import as_tensor
from .wrapped import Wrapped

Function = Callable[..., Any]


class PooledFunction(Wrapped):
    """A function of all rows of the epoch; they are copied batch by batch and kept."""

    preds: list[Tensor]
    target: list[Tensor]

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(**facts)
        self.function, self.target_first = function, target_first
        self.add_state("preds", [], dist_reduce_fx="cat")
        self.add_state("target", [], dist_reduce_fx="cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Keep a copy of the rows.

        Raises:
            MetricInputError: they are of another width than those kept.
        """
        for kept, rows in ((self.preds, preds), (self.target, target)):
            if kept and kept[0].shape[1:] != rows.shape[1:]:
                raise MetricInputError(
                    f"{self.name} pools the rows of an epoch, which have one shape: the rows before had "
                    f"{tuple(kept[0].shape[1:])}, these have {tuple(rows.shape[1:])}"
                )
        self.preds.append(preds.clone())
        self.target.append(target.clone())

    def compute(self) -> Tensor:
        """Call the function once, on all rows."""
        if len(self.preds) == 0:
            return self.undefined("nothing was measured")
        preds, target = dim_zero_cat(self.preds), dim_zero_cat(self.target)
        return self.scalar(_called(self.function, preds, target, self.target_first))

    def own_state(self) -> dict[str, Any]:
        """The rows kept, in lists of their own."""
        return {"preds": list(self.preds), "target": list(self.target)}

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Append the rows of another one."""
        for name in ("preds", "target"):
            getattr(self, name).extend(rows.to(self.device) for rows in state[name])
        self.count(updates)


class RowFunction(Wrapped, MeanMetric):
    """The mean of a function's values, one per row."""

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(**facts)
        self.function, self.target_first = function, target_first

    def get_current_value(self, preds: Tensor, target: Tensor) -> Tensor:
        """Call the function on the rows of a batch.

        Raises:
            MetricInputError: it does not give one value per row.
        """
        value = as_tensor(self.picked(_called(self.function, preds, target, self.target_first)))
        if value.shape != target.shape[:1]:
            raise MetricInputError(
                f"{self.name} with per_row=True gives one value for each of {len(target)} rows, "
                f"got shape {tuple(value.shape)}"
            )
        return value.to(target.device)


def _called(function: Function, preds: Tensor, target: Tensor, target_first: bool) -> Any:
    return function(_array(target), _array(preds)) if target_first else function(preds, target)


def _array(tensor: Tensor) -> Any:
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).cpu().numpy()
