"""Likeness: what a batch that passed every check says about the next; a glance replaces the long look."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .checks import labels_of
from .features import PROBABILITIES
from .outputs import Outputs

FEW = 128  # numbers up to which a Python list is looked through or added up faster than a tensor


class Like(NamedTuple):
    """What one tensor must be like: its dtype, its width and, of labels, the largest one."""

    name: str
    dtype: torch.dtype
    width: torch.Size
    top: float | None


class Likeness:
    """The names, dtypes, widths and label ranges of a batch that passed every check.

    It is kept of batches on the CPU that hold plain tensors whose values are checked by one look at each:
    finite logits and numbers, labels in range. Nothing else is ever taken at a glance.
    """

    def __init__(self, tensors: list[Like]) -> None:
        self._tensors = tensors
        self._names = frozenset(like.name for like in tensors)

    @classmethod
    def of(cls, batch: Outputs) -> Likeness | None:
        """Return that of a batch; None if the next one must be looked at closely whatever it is like."""
        plain = batch.kind is not None and batch.weight is None and batch.target.device.type == "cpu"
        ignores = getattr(batch.feature, "ignore_index", None) is not None
        if not plain or ignores or PROBABILITIES in batch.given:
            return None
        tensors = []
        for name, tensor in (*batch.given.items(), ("target", batch.target)):
            is_label, top = labels_of(batch, name)
            if is_label and tensor.is_floating_point():
                return None
            tensors.append(Like(str(name), tensor.dtype, tensor.shape[1:], top if is_label else None))
        return cls(tensors)

    def rows_of(self, named: Mapping[str, Any], most: int) -> int:
        """How many rows a batch has, at most `most`, that is alike and sound; 0 if it needs a closer look."""
        if named.keys() != self._names:
            return 0
        rows = 0
        for name, dtype, width, top in self._tensors:
            tensor = named[name]
            if type(tensor) is not Tensor or tensor.dtype != dtype or not tensor.is_cpu:
                return 0
            shape = tensor.shape
            if not shape or shape[1:] != width or not 0 < shape[0] <= most or rows not in (0, shape[0]):
                return 0
            if not _sound(tensor, top):
                return 0
            rows = shape[0]
        return rows

    def tensors_of(self, named: Mapping[str, Any]) -> list[Tensor]:
        """The tensors of a batch that is alike, outputs first and the target last."""
        found = [named[like.name] for like in self._tensors]
        return [tensor.detach() if tensor.requires_grad else tensor for tensor in found]


def _sound(tensor: Tensor, top: float | None) -> bool:
    """Whether the values are finite, or where `top` is given labels from 0 to it."""
    few = tensor.tolist() if tensor.ndim == 1 and 0 < tensor.numel() <= FEW else None
    if top is None:
        if not tensor.dtype.is_floating_point:
            return True
        return math.isfinite(tensor.sum().item() if few is None else sum(few))
    if few is not None:
        return bool(min(few) >= 0 and max(few) <= top)
    if tensor.dtype is torch.bool or not tensor.numel():
        return tensor.dtype is torch.bool
    low, high = tensor.aminmax()
    return bool(low.item() >= 0 and high.item() <= top)
