"""Checks of one batch before any metric reads it: first its shapes, then its values.

A check of values is a message and a flag tensor. On the CPU the flag is read at once and a bad one raises.
On a device reading it would make the host wait: flags are collected there, and `compute` raises the error,
which names the batch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..exceptions import MetricInputError, NonFiniteError
from ._derive import class_dim, expected_pass
from ._device import on_host
from .batch import KEYWORDS, Outputs
from .features import (
    BINARY,
    CATEGORY,
    CLUSTERS,
    LOGITS,
    MASK,
    NUMBER,
    PREDICTIONS,
    PROBABILITIES,
    SEQUENCE,
    SET,
    TEXT,
    TIMESERIES,
    VECTOR,
    InputType,
    OutputFeature,
)

_FACT = {
    CATEGORY: "num_classes",
    MASK: "num_classes",
    SET: "num_labels",
    VECTOR: "size",
    TIMESERIES: "horizon",
    SEQUENCE: "vocab_size",
    TEXT: "vocab_size",
}
_WITH_CLASSES = (CATEGORY, SEQUENCE, TEXT, MASK)
_OF_LABELS = (*_WITH_CLASSES, BINARY, SET)
_COUNTED_BY_CLASS = (CATEGORY, MASK)  # in a table of true by predicted class
_HEAVIEST = 1e100  # what any number of weights, and their products with values, adds up to is finite
_TARGET_DIMS = {
    BINARY: 1, CATEGORY: 1, SET: 2, NUMBER: 1, VECTOR: 2, TIMESERIES: 2, SEQUENCE: 2, TEXT: 2, MASK: 3,
    CLUSTERS: 1,
}  # fmt: skip

SHORT_LIST = 128  # numbers up to which a Python list is looked through or added up faster than an array
_SHORT_PRODUCT = 1 << 13  # numbers up to which a product with themselves is cheaper than a sum, on one thread
_MULTIPLIED = (np.float32, np.float64)  # types in which the squares of usual values do not overflow

Part = Tensor | npt.NDArray[Any]
"""A tensor, or the array that shares its memory, which is read and copied faster for few numbers."""
MOST_CLASSES = 1 << 16
"""The most classes of an output that does not state them; their confusion matrix would take 34 GB."""


@dataclass(frozen=True)
class Check:
    """One rule about the values of a batch, and whether the batch breaks it.

    Attributes:
        bad: whether the rule is broken; on a device a flag that has not been read yet.
        rule: the rule in words, without a value.
        explain: returns the rule with the values that break it; called only while the batch exists.
        error: the class of the error to raise.
    """

    bad: bool | Tensor
    rule: str
    explain: Callable[[], str]
    error: type[MetricInputError] = MetricInputError


def check_shapes(batch: Outputs) -> None:
    """Raise unless outputs, target and weights have shapes and devices that belong together.

    Raises:
        MetricInputError: naming both shapes and how to mend them.
    """
    kind = batch.feature.type
    if batch.weight is not None and batch.weight.shape != (len(batch),):
        raise MetricInputError(
            f"sample_weight must have one entry per row, shape ({len(batch)},); got {_shape(batch.weight)}"
        )
    if kind not in _TARGET_DIMS:
        return
    if batch.soft is not None:
        _check_soft(batch.soft, batch)
    if batch.has_target and batch.target.ndim != _TARGET_DIMS[kind]:
        raise MetricInputError(
            f"the target of a {kind} output must have {_TARGET_DIMS[kind]} dimension(s), got shape "
            f"{_shape(batch.target)}{_target_hint(batch.target, kind)}"
        )
    for name, output in batch.given.items():
        _check_kind(name, output, batch.target)
        if batch.has_target:
            _check_shape(name, output, batch.target, batch.feature)
        elif len(output) != len(batch):
            raise MetricInputError(f"{name} have {len(output)} rows, but the target has {len(batch)}")
        if len(batch) and not output.numel():
            raise MetricInputError(
                f"{name} of a {kind} output contain rows without a value: shape {_shape(output)}"
            )


def value_checks(batch: Outputs) -> Iterator[Check]:
    """Yield the checks of the values of one batch; no value is read from a device here."""
    for name, output in batch.given.items():
        if output.is_floating_point():
            found = expected_pass(batch) if name is LOGITS else None
            yield _finite(output, str(name), known=found is not None and found.finite)
        if name is PROBABILITIES:
            yield from _probability_checks(output, "probabilities", batch.feature)
    if PREDICTIONS in batch.given and batch.feature.type in _OF_LABELS:
        yield from _label_checks(batch.given[PREDICTIONS], "predictions", batch)
    if batch.soft is not None:
        yield _finite(batch.soft, "target_probabilities")
        yield from _probability_checks(batch.soft, "target_probabilities", batch.feature)
    yield from weight_checks(batch)
    if not batch.has_target:
        return
    if batch.target.is_floating_point():
        yield _finite(batch.target, "target")
    if batch.feature.type in _OF_LABELS:
        yield from _label_checks(batch.target, "target", batch)


def weight_checks(batch: Outputs) -> Iterator[Check]:
    """Yield the checks of the weights of the rows, if there are any."""
    weight, rule, most = (
        batch.weight,
        "sample_weight must be at least 0",
        f"sample_weight must be at most {_HEAVIEST:.0e}",
    )
    if weight is not None:
        yield _finite(weight, "sample_weight")
        yield Check(read((weight < 0).any()), rule, lambda: f"{rule}, got {weight.min():.3g}")
        yield Check(read((weight > _HEAVIEST).any()), most, lambda: f"{most}, got {weight.max():.3g}")


def labels_of(batch: Outputs, name: str) -> tuple[bool, float]:
    """Return whether a tensor of a batch, by its name, holds labels, and the largest label allowed."""
    is_label = name in (PREDICTIONS, "target") and batch.feature.type in _OF_LABELS
    top = _top_label(batch) if is_label else None
    if top is None and batch.feature.type in _COUNTED_BY_CLASS:
        top = MOST_CLASSES - 1
    return is_label, math.inf if top is None else top


def _check_soft(soft: Tensor, batch: Outputs) -> None:
    """Raise unless soft labels have the shape of the probabilities."""
    kind, outputs = batch.feature.type, [x for name, x in batch.given.items() if name is not PREDICTIONS]
    dims = _TARGET_DIMS[kind] + (kind in _WITH_CLASSES)
    if kind not in _OF_LABELS:
        raise MetricInputError(f"target_probabilities are for outputs with classes, not for a {kind} output")
    if soft.ndim != dims or (outputs and soft.shape != outputs[0].shape):
        expected = _shape(outputs[0]) if outputs else f"of {dims} dimension(s)"
        raise MetricInputError(
            f"target_probabilities of a {kind} output must have the shape of its probabilities, "
            f"{expected}; got {_shape(soft)}"
        )


def _check_kind(name: InputType, output: Tensor, target: Tensor) -> None:
    if output.device != target.device:
        raise MetricInputError(
            f"{name} are on {output.device}, the target on {target.device}; move one of them"
        )
    if output.is_complex() or target.is_complex():
        raise MetricInputError(
            f"{name} and target must be real numbers, got {output.dtype} and {target.dtype}"
        )


def _check_shape(name: InputType, output: Tensor, target: Tensor, feature: OutputFeature) -> None:
    with_classes = feature.type in _WITH_CLASSES and name is not PREDICTIONS
    where = class_dim(feature)
    if (_without(output.shape, where) if with_classes else output.shape) != target.shape or output.ndim < 1:
        sizes = [str(size) for size in target.shape]
        if with_classes:
            sizes.insert(where if where >= 0 else len(sizes), "classes")
        expected = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
        is_of_classes = feature.type in _WITH_CLASSES and _without(output.shape, where) == target.shape
        scores = f"; for scores of {output.shape[where]} classes pass logits= or probabilities="
        hint = scores if is_of_classes and output.ndim > 1 else _shape_hint(output, target, feature)
        raise MetricInputError(
            f"{name} of a {feature.type} output with a target of shape {_shape(target)} must have shape "
            f"{expected}, got {_shape(output)}; shapes never broadcast{hint}"
        )
    fact = getattr(feature, _FACT.get(feature.type, ""), None)
    if (
        fact is not None
        and (with_classes or feature.type not in _WITH_CLASSES)
        and output.shape[where] != fact
    ):
        place = "last dimension" if where < 0 else f"dimension {where}"
        raise MetricInputError(
            f"{feature} expects {fact} in the {place}, got {name} of shape {_shape(output)}"
        )


def _without(shape: torch.Size, where: int) -> torch.Size:
    """Return a shape without one of its dimensions."""
    sizes = list(shape)
    if len(sizes) > max(where, 0):
        del sizes[where]
    return torch.Size(sizes)


def _target_hint(target: Tensor, kind: str) -> str:
    """Return a hint for a target that should have one dimension and has another number of them."""
    if _TARGET_DIMS[kind] != 1 or target.ndim not in (0, 2):
        return ""
    if not target.ndim:
        return "; pass a single row as a batch of one, x.reshape(1)"
    if target.shape[1] == 1:
        return "; pass x.squeeze(1)"
    return "; for one-hot rows, pass x.argmax(1)" if kind == CATEGORY else ""


def _shape_hint(output: Tensor, target: Tensor, feature: OutputFeature) -> str:
    if feature.type == BINARY and output.ndim == 2 and output.shape[1] == 2:
        return "; for two columns use Category(2), or pass the column of class 1"
    if output.shape == target.shape:
        return "; pass a score for each class" + (", or use Binary()" if feature.type == CATEGORY else "")
    if output.numel() == target.numel():
        return f"; reshape one of them, as in x.reshape({_shape(target)})"
    return ""


def _finite(values: Tensor, name: str, known: bool = False) -> Check:
    rule = f"{name} must be finite numbers, not nan or infinite"

    def explain() -> str:
        bad = ~values.isfinite()
        first = int(bad.reshape(-1).nonzero()[0])
        return f"{name} hold {int(bad.sum())} values that are nan or infinite, the first at position {first}"

    # in one pass; an overflow is looked at again
    if known or (on_host(values) and math.isfinite(values.sum().item())):
        return Check(False, rule, explain)
    return Check(read((~values.isfinite()).any()), rule, explain, NonFiniteError)


def _probability_checks(values: Tensor, name: str, feature: OutputFeature) -> Iterator[Check]:
    if not values.is_floating_point():
        rule = f"{name} must be real numbers"
        hint = "pass x.float()" + (", or pass decisions as predictions=" if name == "probabilities" else "")
        yield Check(True, rule, lambda: f"{rule}, got {values.dtype}; {hint}")
        return
    hint = "if these are logits, pass them as logits="
    low, high = map(read, values.aminmax())
    hint = hint if name == "probabilities" else "soft labels must be probabilities"
    within = f"{feature.type} {name} lie in [0, 1]"
    yield Check(
        (low < 0) | (high > 1),
        within,
        lambda: (
            f"{within}, got values from {_format_probability(float(low))} "
            f"to {_format_probability(float(high))}; {hint}"
        ),
    )
    if feature.type in _WITH_CLASSES:
        where = class_dim(feature)
        off = read((values.sum(where, dtype=torch.float64) - 1).abs().amax())
        tolerance = max(1e-4, 4 * values.shape[where] * torch.finfo(values.dtype).eps)
        sums = f"each row of {feature.type} {name} must sum to 1"
        yield Check(off > tolerance, sums, lambda: f"{sums}, one is off by {float(off):.3g}; {hint}")


def _format_probability(value: float) -> str:
    """Return three digits; all of them where three would print as 0 or 1 and the value is neither."""
    text = f"{value:.3g}"
    return repr(value) if value != float(text) in (0.0, 1.0) else text


def _label_checks(values: Tensor, name: str, batch: Outputs) -> Iterator[Check]:
    feature = batch.feature
    if values.is_floating_point():
        whole = f"{name} of a {feature.type} output must be whole numbers"
        hint = "pass scores as logits= or probabilities="
        fractions = read((values != values.round()).any())
        yield Check(fractions, whole, lambda: f"{whole}, got {values.dtype} with fractions; {hint}")
    if values.dtype is torch.bool:
        return
    ignored: int | None = getattr(feature, "ignore_index", None)
    if ignored is not None and name == "target":
        values = values.masked_fill(values == ignored, 0)
    low, high = map(read, values.aminmax())
    top = _top_label(batch)
    within = f"{name} of a {feature.type} output must be in 0..{'' if top is None else top}"
    outside = (low < 0) if top is None else (low < 0) | (high > top)
    yield Check(
        outside,
        within,
        lambda: (
            f"{within}, got values from {float(low):g} to {float(high):g}"
            + (_ignoring_hint(feature, float(low)) if name == "target" else "")
        ),
    )
    if top is None and feature.type in _COUNTED_BY_CLASS:
        numbers = f"{name} of a {feature.type} output must be class numbers"
        yield Check(
            high >= MOST_CLASSES,
            numbers,
            lambda: (
                f"{numbers}, got {float(high):.0f}; if these are ids, number the classes from 0; if there "
                "are so many classes, state their number, as in "
                f"{feature.type}(num_classes={float(high) + 1:.0f})"
            ),
        )


def _ignoring_hint(feature: OutputFeature, low: float) -> str:
    """Return a hint about `ignore_index` for a target below 0, which may mark what does not count."""
    if low >= 0 or getattr(feature, "ignore_index", 0) is not None:
        return ""
    return f"; if {low:g} marks ignored values, pass it: {feature.type}(ignore_index={low:g})"


def read(value: Tensor) -> Any:
    """Return a plain number on the CPU, where it compares faster; on a device the tensor, without waiting."""
    return value.item() if on_host(value) else value


def _top_label(batch: Outputs) -> int | None:
    if batch.feature.type in (BINARY, SET):
        return 1
    if batch.num_classes is not None:
        return batch.num_classes - 1
    count: int | None = getattr(batch.feature, _FACT[batch.feature.type])
    return None if count is None else count - 1


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


class TensorSignature(NamedTuple):
    """The name, dtype and width of a tensor and, of labels, the largest label."""

    name: str
    dtype: torch.dtype
    width: torch.Size
    top: float | None


class BatchSignature:
    """The names, dtypes, widths and label ranges of a batch that passed every check.

    Only batches on the CPU have one, and only those with plain tensors whose values are checked by one look
    at each: finite logits and numbers, labels in range. All other batches are always validated.
    """

    def __init__(self, tensors: list[TensorSignature]) -> None:
        self._tensors = tensors
        self._names = frozenset(tensor.name for tensor in tensors)

    @classmethod
    def of(cls, batch: Outputs) -> BatchSignature | None:
        """Return the signature of a batch; None if every batch like it has to be validated."""
        plain = batch.kind is not None and batch.weight is None and all(map(on_host, batch.tensors))
        ignores = getattr(batch.feature, "ignore_index", None) is not None
        if not plain or ignores or PROBABILITIES in batch.given:
            return None
        tensors = []
        for name, tensor in (*batch.given.items(), ("target", batch.target)):
            is_label, top = labels_of(batch, name)
            if is_label and tensor.is_floating_point():
                return None
            largest = top if is_label else None
            tensors.append(TensorSignature(str(name), tensor.dtype, tensor.shape[1:], largest))
        return cls(tensors)

    def parts_of(
        self, tensors: Mapping[str, Any], max_rows: int, shows_finite: Callable[[], bool] | None = None
    ) -> list[Part]:
        """Return the tensors of a sound batch of at most `max_rows` rows, if they match; else an empty list.

        The outputs come first and the target last. `shows_finite` returns whether all numbers of a batch
        that matches are known to be finite; it is asked instead of a pass over each large tensor.
        """
        if tensors.keys() != self._names and _passed(tensors) != self._names:
            return []
        parts: list[Part] = []
        large: list[Tensor] = []
        rows = 0
        for name, dtype, width, top in self._tensors:
            tensor = tensors[name]
            if type(tensor) is not Tensor or tensor.dtype != dtype or not tensor.is_cpu:
                return []
            if tensor.layout is not torch.strided or tensor.is_neg():
                return []
            shape = tensor.shape
            rows = rows or (shape[0] if shape else 0)
            if shape != (rows, *width) or not 0 < rows <= max_rows:
                return []
            part = part_of(tensor) if tensor.numel() <= _SHORT_PRODUCT else tensor
            is_list = len(shape) == 1 and rows <= SHORT_LIST
            if part is tensor and top is None:
                large.append(tensor)
            elif not (_is_sound_list(part.tolist(), top) if is_list else _is_sound(tensor, part, top)):
                return []
            parts.append(part)
        if not large or (shows_finite is not None and shows_finite()):
            return parts
        return parts if all(_is_sound(tensor, tensor, None) for tensor in large) else []


def _passed(tensors: Mapping[str, Any]) -> set[str]:
    """Return the names of the arguments that are not None; an unknown one counts in any case."""
    return {name for name, value in tensors.items() if value is not None or name not in KEYWORDS}


def part_of(tensor: Tensor) -> Part:
    """Return the array that shares the memory of a CPU tensor; the tensor where NumPy lacks its type."""
    return tensor.numpy(force=True) if _has_array(tensor.dtype) else tensor.detach()


@functools.cache
def _has_array(dtype: torch.dtype) -> bool:
    try:
        torch.empty(0, dtype=dtype).numpy()
    except TypeError:
        return False
    return True


def _is_sound_list(values: list[Any], top: float | None) -> bool:
    """Return whether numbers are finite or, if `top` is given, labels from 0 to it."""
    if top is None:
        return math.isfinite(sum(values))
    return bool(min(values) >= 0 and max(values) <= top)


def _is_sound(tensor: Tensor, part: Part, top: float | None) -> bool:
    """Return the same as `_is_sound_list` for a tensor of any size."""
    if top is None:
        return not tensor.dtype.is_floating_point or math.isfinite(_finite_if_all_are(tensor, part))
    if tensor.dtype is torch.bool or not tensor.numel():
        return tensor.dtype is torch.bool
    low, high = tensor.aminmax()
    return bool(low.item() >= 0 and high.item() <= top)


def _finite_if_all_are(tensor: Tensor, part: Part) -> float:
    """Return a number that is finite only if all values are; huge values may make it infinite as well."""
    if isinstance(part, np.ndarray) and part.size <= _SHORT_PRODUCT and part.dtype in _MULTIPLIED:
        return float(np.vdot(part, part))
    return tensor.sum().item()
