"""Forms: a drawn batch cast, moved, written otherwise, or spoiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...metrics.sample_data import Batch

MODEL_OUTPUTS = ("logits", "probabilities", "predictions")


def over_tensors(batch: Batch, form: Callable[[Tensor], Any]) -> Batch:
    """Put each tensor of a batch in another form."""
    return {name: form(value) if isinstance(value, Tensor) else value for name, value in batch.items()}


def cast(batch: Batch, dtype: torch.dtype) -> Batch:
    """Give the floats of a batch another precision."""
    return over_tensors(batch, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def has_floats(batch: Batch) -> bool:
    """Whether a cast changes anything: texts are the same batch in any precision."""
    return any(isinstance(value, Tensor) and value.is_floating_point() for value in batch.values())


def spoiled(batch: Batch) -> dict[str, Batch]:
    """Batches that must be refused, by what is wrong with them."""
    given = next(name for name in batch if name in MODEL_OUTPUTS)
    found = {
        "one target less than rows": {**batch, "target": batch["target"][1:]},
        "no target": {name: value for name, value in batch.items() if name != "target"},
    }
    floats = isinstance(batch[given], Tensor) and batch[given].is_floating_point()
    for value in (torch.nan, torch.inf) if floats else ():
        found[f"{value} in its {given}"] = with_value(batch, given, value)
    return found


def with_value(batch: Batch, given: str, value: float) -> Batch:
    """The batch with another number at the end of one of its tensors."""
    broken = batch[given].clone()
    broken.view(-1)[-1] = value
    return {**batch, given: broken}
