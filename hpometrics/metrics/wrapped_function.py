"""Wrapped functions: one called once on all rows of the epoch, or on each batch for a value per row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat

from ..exceptions import MetricInputError
from .batch import as_tensor
from .metric import NOTHING_MEASURED, MeanMetric
from .wrapped import Wrapped

Function = Callable[..., Any]
Rows = Tensor | list[Any]
"""The rows of a batch; texts, and the references of a row, come as a list."""


class PooledFunction(Wrapped):
    """A function of all rows of the epoch; they are copied batch by batch and kept, texts as JSON lines."""

    preds: list[Tensor]
    target: list[Tensor]
    texts: list[Tensor]

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(**facts)
        self.function, self.target_first = function, target_first
        self.add_state("preds", [], dist_reduce_fx="cat")
        self.add_state("target", [], dist_reduce_fx="cat")
        self.add_state("texts", [], dist_reduce_fx="cat")

    def update(self, preds: Rows, target: Rows) -> None:
        """Keep a copy of the rows.

        Raises:
            MetricInputError: they are of another width than those kept, or neither tensors nor texts.
        """
        if isinstance(preds, Tensor) and isinstance(target, Tensor):
            self._keep(preds, target)
            return
        line = f"{json.dumps([preds, target], default=self._refuse)}\n".encode()
        self.texts.append(torch.tensor(np.frombuffer(line, dtype=np.uint8), device=self.device))

    def _refuse(self, record: Any) -> None:
        raise MetricInputError(
            f"{self.name} pools tensors or texts, got rows that hold a {type(record).__name__}; let it give "
            "a value per row (per_row=True), or write a torchmetrics.Metric"
        )

    def _keep(self, preds: Tensor, target: Tensor) -> None:
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
        if len(self.texts) > 0:
            return self._value(*_read(dim_zero_cat(self.texts)))
        if len(self.preds) > 0:
            return self._value(dim_zero_cat(self.preds), dim_zero_cat(self.target))
        return self.undefined(NOTHING_MEASURED)

    def _value(self, preds: Rows, target: Rows) -> Tensor:
        return self.scalar(_called(self.function, preds, target, self.target_first))

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Append the rows of another one."""
        for name in self._defaults:
            getattr(self, name).extend(rows.to(self.device) for rows in state[name])
        self.count_updates(updates)


class RowFunction(Wrapped, MeanMetric):
    """The mean of a function's values, one per row."""

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(**facts)
        self.function, self.target_first = function, target_first

    def get_current_value(self, preds: Rows, target: Rows) -> Tensor:
        """Call the function on the rows of a batch.

        Raises:
            MetricInputError: it does not give one value per row.
        """
        value = as_tensor(self.picked(_called(self.function, preds, target, self.target_first)))
        if value.shape != (len(target),):
            raise MetricInputError(
                f"{self.name} with per_row=True gives one value for each of {len(target)} rows, "
                f"got shape {tuple(value.shape)}"
            )
        return value.to(target.device) if isinstance(target, Tensor) else value


def _read(lines: Tensor) -> tuple[list[Any], list[Any]]:
    """Give the texts that were predicted and the right ones, of all batches."""
    batches = [json.loads(line) for line in lines.cpu().numpy().tobytes().splitlines()]
    return [row for preds, _ in batches for row in preds], [row for _, target in batches for row in target]


def _called(function: Function, preds: Rows, target: Rows, target_first: bool) -> Any:
    return function(_array(target), _array(preds)) if target_first else function(preds, target)


def _array(rows: Rows) -> Any:
    if not isinstance(rows, Tensor):
        return rows
    return (rows.float() if rows.dtype is torch.bfloat16 else rows).cpu().numpy()
