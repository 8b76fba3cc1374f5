"""Conversions of a drawn batch: to another precision, device or type, or to an invalid batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...metrics.sample_data import Batch

MODEL_OUTPUTS = ("logits", "probabilities", "predictions")


def over_tensors(batch: Batch, form: Callable[[Tensor], Any]) -> Batch:
    """Return a batch with each of its tensors converted."""
    return {name: form(value) if isinstance(value, Tensor) else value for name, value in batch.items()}


def cast(batch: Batch, dtype: torch.dtype) -> Batch:
    """Return a batch with its floats in another precision."""
    return over_tensors(batch, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def has_floats(batch: Batch) -> bool:
    """Return whether a cast changes anything: texts are the same in any precision."""
    return any(isinstance(value, Tensor) and value.is_floating_point() for value in batch.values())


def spoiled(batch: Batch) -> dict[str, Batch]:
    """Return batches that must be refused, by what is wrong with them."""
    output = next(name for name in batch if name in MODEL_OUTPUTS)
    batches = {
        "one target less than rows": {**batch, "target": batch["target"][1:]},
        "no target": {name: value for name, value in batch.items() if name != "target"},
    }
    floats = isinstance(batch[output], Tensor) and batch[output].is_floating_point()
    for value in (torch.nan, torch.inf) if floats else ():
        batches[f"{value} in its {output}"] = with_value(batch, output, value)
    return batches


def with_value(batch: Batch, name: str, value: float) -> Batch:
    """Return the batch with another number at the end of one of its tensors."""
    broken = batch[name].clone()
    broken.view(-1)[-1] = value
    return {**batch, name: broken}
