"""Likeness: what a batch that passed every check says about the next; a glance replaces the long look."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ._checks import labels_of
from ._device import on_host
from .batch import Outputs
from .features import PROBABILITIES

FEW = 128  # numbers up to which a Python list is looked through or added up faster than an array
_SOME = 1 << 13  # numbers up to which a product with themselves is cheaper than a sum, and takes one thread
_MULTIPLIED = (np.float32, np.float64)  # types whose squares of what one meets do not overflow

Part = Tensor | npt.NDArray[Any]
"""A tensor, or the array that shares its memory: of few numbers it is read and copied in half the time."""


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
        plain = batch.kind is not None and batch.weight is None and on_host(batch.target)
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

    def parts_of(self, named: Mapping[str, Any], most: int) -> list[Part]:
        """What a batch of at most `most` rows holds, if alike and sound; nothing if it needs a closer look.

        The outputs come first and the target last.
        """
        if named.keys() != self._names:
            return []
        parts: list[Part] = []
        part: Part
        rows = 0
        for name, dtype, width, top in self._tensors:
            tensor = named[name]
            if type(tensor) is not Tensor or tensor.dtype != dtype or not on_host(tensor):
                return []
            if tensor.layout is not torch.strided or tensor.is_neg():
                return []
            shape = tensor.shape
            if not shape or shape[1:] != width or not 0 < shape[0] <= most or rows not in (0, shape[0]):
                return []
            rows = shape[0]
            if len(shape) == 1 and rows <= FEW:
                part, sound = tensor, _few_are_sound(tensor.tolist(), top)
            else:
                part = part_of(tensor)
                sound = _is_sound(tensor, part, top)
            if not sound:
                return []
            parts.append(part)
        return parts

    def tensors_of(self, named: Mapping[str, Any]) -> list[Tensor]:
        """The tensors of a batch that is alike, outputs first and the target last."""
        return [outside_of_autograd(named[like.name]) for like in self._tensors]


def outside_of_autograd(tensor: Tensor) -> Tensor:
    """The tensor, detached if it asks for a gradient; to detach each would take a while for few rows."""
    return tensor.detach() if tensor.requires_grad else tensor


def part_of(tensor: Tensor) -> Part:
    """The array that shares the memory of a tensor on the CPU; the tensor where NumPy lacks its type."""
    return tensor.numpy(force=True) if _has_array(tensor.dtype) else tensor.detach()


@functools.cache
def _has_array(dtype: torch.dtype) -> bool:
    try:
        torch.empty(0, dtype=dtype).numpy()
    except TypeError:
        return False
    return True


def _few_are_sound(values: list[Any], top: float | None) -> bool:
    """Whether numbers are finite, or where `top` is given labels from 0 to it."""
    if top is None:
        return math.isfinite(sum(values))
    return bool(min(values) >= 0 and max(values) <= top)


def _is_sound(tensor: Tensor, part: Part, top: float | None) -> bool:
    """The same of a tensor of any size."""
    if top is None:
        return not tensor.dtype.is_floating_point or math.isfinite(_finite_if_all_are(tensor, part))
    if tensor.dtype is torch.bool or not tensor.numel():
        return tensor.dtype is torch.bool
    low, high = tensor.aminmax()
    return bool(low.item() >= 0 and high.item() <= top)


def _finite_if_all_are(tensor: Tensor, part: Part) -> float:
    """A number that is finite only where all values are; of huge ones it may be infinite all the same."""
    if isinstance(part, np.ndarray) and part.size <= _SOME and part.dtype in _MULTIPLIED:
        return float(np.vdot(part, part))
    return tensor.sum().item()
