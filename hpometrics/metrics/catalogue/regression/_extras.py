"""Base class of metrics of real outputs that read further tensors by keyword."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from ....exceptions import MetricInputError, NonFiniteError
from ..._device import on_host
from ...batch import Outputs, as_tensor
from ...metric import Metric
from ...statistics.errors import columns
from .errors import ErrorMean


class ExtraMean(ErrorMean):
    """Base class of means over rows and columns of a function of prediction, target and extra tensors.

    A subclass defines `get_current_value(preds, target, <extras>)`, elementwise in the shape of the target or
    one value per row; every tensor is float64. An extra has the shape of the target, unless it is listed in
    `wide` (one dimension more), in `by_row` ((N,)) or in `free` (passed on unchanged).
    """

    regroups = False
    wide: ClassVar[tuple[str, ...]] = ()
    by_row: ClassVar[tuple[str, ...]] = ()
    free: ClassVar[tuple[str, ...]] = ()

    def measure(self, batch: Outputs) -> Tensor:
        """Check the extras, then return the value of each row."""
        extras = {name: self._extra(name, batch) for name in self._extra_names(batch)}
        preds, target, _ = (values.view(batch.target.shape) for values in columns(batch))
        value: Any = self.get_current_value(preds, target, **extras)
        by_row: Tensor = value if value.ndim == 1 else value.mean(-1)
        return by_row

    def _extra_names(self, batch: Outputs) -> list[str]:
        """Return the names of the extras of this batch.

        Raises:
            MetricInputError: a required extra is missing.
        """
        names = _extras_of(type(self))
        missing = [name for name, needed in names.items() if needed and batch.extras.get(name) is None]
        if missing:
            raise MetricInputError(
                f"{self.name} reads {', '.join(f'{name}=' for name in names if names[name])} beside "
                f"predictions and target; {', '.join(f'{name}=' for name in missing)} is missing"
            )
        return [name for name in names if batch.extras.get(name) is not None]

    def _extra(self, name: str, batch: Outputs) -> Any:
        if name in self.free:
            return batch.extras[name]
        values = read_extra(self, name, batch.extras[name], batch.target.device)
        shape = batch.target.shape[:1] if name in self.by_row else batch.target.shape
        fits = values.shape[:-1] == shape if name in self.wide else values.shape == shape
        if not fits or not values.numel():
            expected = ", ".join([*map(str, shape), *(["any number"] if name in self.wide else [])])
            raise MetricInputError(
                f"{self.name} reads {name}= of shape ({expected}), got {tuple(values.shape)}"
            )
        return values


def read_extra(metric: Metric, name: str, extra: Any, device: torch.device) -> Tensor:
    """Return an extra as float64 numbers, which on the CPU must be finite.

    Raises:
        MetricInputError: it is on another device, or holds nan or infinite numbers.
    """
    values = as_tensor(extra).double()
    if values.device != device:
        raise MetricInputError(f"{metric.name}: {name}= is on {values.device}, the target on {device}")
    check_finite(metric, name, values)
    return values


def check_finite(metric: Metric, name: str, values: Tensor) -> None:
    """Check, on the CPU, that an extra is finite.

    Raises:
        NonFiniteError: it holds nan or infinite numbers.
    """
    if on_host(values) and not bool(values.isfinite().all()):
        raise NonFiniteError(f"{metric.name}: {name}= holds values that are nan or infinite")


@cache
def _extras_of(cls: type[ExtraMean]) -> dict[str, bool]:
    """Return the extras that a class reads, and whether it needs each."""
    parameters = list(inspect.signature(cls.get_current_value).parameters.values())[3:]
    return {p.name: p.default is p.empty for p in parameters}
