"""Number: what an additive value is made of, a Python number or one that is still on its device."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .._redaction import excerpt
from ..exceptions import MetricInputError
from ._device import on_host

Number: TypeAlias = int | float | Tensor
"""An int is exact however large its sum becomes; a tensor is 0-dimensional, int64 or float64, on a device."""


def number(given: Any, what: str) -> Number:
    """Take one number, in double precision; one on a device is copied there and not waited for.

    Raises:
        MetricInputError: it is no number, or several; the message begins with `what`.
    """
    if isinstance(given, Tensor) and given.numel() == 1 and not given.is_complex():
        return _kept(given.detach().reshape(()))
    if isinstance(given, np.ndarray) and given.size == 1:
        given = given.reshape(-1)[0]
    if isinstance(given, (bool, np.bool_, Integral)):
        return int(given)
    if isinstance(given, Real):
        return float(given)
    came = (
        f"a tensor of shape {tuple(given.shape)}" if isinstance(given, Tensor) else excerpt(repr(given), 80)
    )
    raise MetricInputError(
        f"{what} is one number, got {came} ({type(given).__name__}); "
        "of text count something, as in int('hello' in text); several numbers are for `many`"
    )


def column(given: Any, what: str) -> list[Any]:
    """A number per row; those of a tensor on a device stay there.

    Raises:
        MetricInputError: it is no column of numbers.
    """
    if isinstance(given, (Tensor, np.ndarray)) and given.ndim != 1:
        raise MetricInputError(
            f"{what} has a number per row, shape (N,); got shape {tuple(given.shape)}; "
            "values with a mask are for `AverageMetric.from_mask`"
        )
    if isinstance(given, Tensor) and not on_host(given):
        return list(given.detach().unbind())
    if isinstance(given, (Tensor, np.ndarray)):
        return list(given.tolist())
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise MetricInputError(f"{what} has a number per row, got {given!r} ({type(given).__name__})")
    return list(given)


def table(given: Any, what: str) -> Tensor:
    """Numbers in rows as int64 or float64, on the device they are on.

    Raises:
        MetricInputError: they are complex.
    """
    values = given if isinstance(given, Tensor) else torch.as_tensor(np.asarray(given))
    if values.is_complex():
        raise MetricInputError(f"{what} reads real numbers, got {values.dtype}")
    return values.detach().to(_precision(values))


def plus(first: Number, second: Number) -> Number:
    """The sum: exact of ints, else in float64."""
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        return _tensor(first) + _tensor(second)
    return first + second


def plain(value: Number) -> int | float:
    """The number, read from its device if it is on one; every nan is the same object, which equals itself."""
    read: int | float = value.item() if isinstance(value, Tensor) else value
    return math.nan if read != read else read


def ratio(numer: Number, denom: Number) -> float:
    """The quotient; nan where there is nothing to divide by, or anything is not finite in float64."""
    above, below = plain(numer), plain(denom)
    try:
        if below == 0 or not (math.isfinite(above) and math.isfinite(below)):
            return math.nan
        quotient = above / below
    except OverflowError:  # of ints; of floats the quotient is infinite
        return math.nan
    return quotient if math.isfinite(quotient) else math.nan


def _kept(value: Tensor) -> Number:
    """A copy in double precision: whoever gave the tensor may change it in place.

    On the CPU it is read at once, since nothing has to wait there: Python's ints are exact beyond int64.
    """
    if on_host(value):
        read: int | float = value.item()
        return int(read) if value.dtype == torch.bool else read
    return value.to(_precision(value), copy=True)


def _precision(values: Tensor) -> torch.dtype:
    return torch.float64 if values.is_floating_point() else torch.int64


def _tensor(value: Number) -> Tensor:
    """As a tensor of its own dtype: beside an int64 tensor torch takes a Python float for float32."""
    if isinstance(value, Tensor):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)
