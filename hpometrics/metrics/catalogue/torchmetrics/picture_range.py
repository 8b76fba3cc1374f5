"""The range of pictures: whether their values lie where a metric takes them to lie.

The target shows it: a network may overshoot the range, which is its error and is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ....exceptions import MetricInputError
from ..._checks import Check, read
from ...batch import Outputs
from ._row import Row, predictions_only, unit_predictions_only

_OVERSHOT = 1.1  # of its range: what a right picture may come to that was resampled
_MADE = 2.0  # what a made one may come to, where no right one is read


def check_range(row: Row, params: Mapping[str, Any], batch: Outputs) -> Tensor | None:
    """Refuse pictures that are wider than the range that a metric reads, as those of 0 to 255 where it is 1.

    Pictures from -1 to 1 have the range 2. Of whole numbers, the predictions are looked at as well.

    Returns:
        On a device how many kinds of pictures were found to be too wide, which nobody has read; None of a
        metric that reads any range.

    Raises:
        MetricInputError: on the CPU; naming their least and largest value.
    """
    highest = highest_of(row, params)
    if highest is None:
        return None
    found = [_check(row, params, name, batch, slack * highest) for name, slack in _looked_at(row, batch)]
    for check in found:
        if not isinstance(check.bad, Tensor) and check.bad:
            raise MetricInputError(check.explain())
    flags = [torch.as_tensor(check.bad, device=batch.target.device) for check in found]
    return torch.stack([torch.zeros((), dtype=torch.bool, device=batch.target.device), *flags]).sum()


def highest_of(row: Row, params: Mapping[str, Any]) -> float | None:
    """The largest value of the pictures that a metric reads; None if it reads any."""
    highest: float | None = params.get("data_range", row.highest)
    return highest


def range_rule(row: Row, params: Mapping[str, Any]) -> str:
    """What must hold of the pictures that a metric reads."""
    return f"{row.name} reads pictures from 0 to {highest_of(row, params)}"


def _looked_at(row: Row, batch: Outputs) -> list[tuple[str, float]]:
    """Which pictures show the range, and how many times as wide they may be."""
    made_only = row.feed in (predictions_only, unit_predictions_only)
    shown = {"predictions": batch.predictions} if made_only else {"target": batch.target}
    if not batch.predictions.is_floating_point():
        shown["predictions"] = batch.predictions
    slack = _MADE if made_only else _OVERSHOT
    return [
        (name, slack if x.is_floating_point() else 1.0)
        for name, x in shown.items()
        if x.numel() and x.dtype is not torch.bool
    ]


def _check(row: Row, params: Mapping[str, Any], name: str, batch: Outputs, most: float) -> Check:
    pictures: Tensor = getattr(batch, name)
    low, high = batch.block(f"extremes of {name}", lambda _: tuple(map(read, pictures.aminmax())))
    too_wide = (high > most) | (low < -most) | (high - low > most)
    rule = range_rule(row, params)

    def explain() -> str:
        numbers = f"{name} with values" if pictures.is_floating_point() else "whole numbers"
        least = f" from {low:.4g}" if low < 0 else ""
        return f"{rule}, got {numbers}{least} up to {high:.4g}; {_hint(row, params, low, high)}"

    return Check(too_wide, rule, explain)


def _hint(row: Row, params: Mapping[str, Any], low: float, high: float) -> str:
    """What to do about pictures of another range."""
    scale = "map them to that range" if low < 0 else "divide them by 255"
    if "data_range" not in params:
        return scale
    wide = 2 if -1 <= low < 0 and high <= 1 else 255
    return f"say what range they have, as in {row.name}(data_range={wide}), or {scale}"
