"""What a batch must be before any metric sees it: shapes first, then values.

A check of values is a message and a flag tensor. On the CPU the flag is read at once and raises; on a
device reading it would make the host wait, so flags are gathered and raised at `compute`, naming the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..exceptions import MetricInputError, NonFiniteError
from ._derive import class_dim
from ._device import on_host
from .batch import Outputs
from .features import (
    BINARY,
    CATEGORY,
    CLUSTERS,
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
_COUNTED = (CATEGORY, MASK)  # by class taken for class
_HEAVIEST = 1e100  # what any number of weights, and their products with values, adds up to is finite
_TARGET_DIMS = {
    BINARY: 1, CATEGORY: 1, SET: 2, NUMBER: 1, VECTOR: 2, TIMESERIES: 2, SEQUENCE: 2, TEXT: 2, MASK: 3,
    CLUSTERS: 1,
}  # fmt: skip


MOST_CLASSES = 1 << 16
"""Of an output that does not state its classes; a confusion matrix of so many takes 34 GB."""


@dataclass(frozen=True)
class Check:
    """One question about a batch's values.

    Attributes:
        bad: the answer; on a device a flag that nobody has read yet.
        rule: what must hold, in words that need no value.
        explain: the same with what came instead; only asked while the batch is at hand.
        error: what to raise.
    """

    bad: bool | Tensor
    rule: str
    explain: Callable[[], str]
    error: type[MetricInputError] = MetricInputError


def check_shapes(batch: Outputs) -> None:
    """Refuse what would broadcast or cannot belong together.

    Raises:
        MetricInputError: naming both shapes and what to do.
    """
    kind = batch.feature.type
    if batch.weight is not None and batch.weight.shape != (len(batch),):
        raise MetricInputError(
            f"sample_weight has an entry per row, shape ({len(batch)},); got {_shape(batch.weight)}"
        )
    if kind not in _TARGET_DIMS:
        return
    if batch.soft is not None:
        _check_soft(batch.soft, batch)
    if batch.has_target and batch.target.ndim != _TARGET_DIMS[kind]:
        raise MetricInputError(
            f"the target of a {kind} output has {_TARGET_DIMS[kind]} dimension(s), "
            f"got shape {_shape(batch.target)}{_target_hint(batch.target, kind)}"
        )
    for name, given in batch.given.items():
        _check_kind(name, given, batch.target)
        if batch.has_target:
            _check_shape(name, given, batch.target, batch.feature)
        elif len(given) != len(batch):
            raise MetricInputError(f"{name} have {len(given)} rows, the target {len(batch)}")
        if len(batch) and not given.numel():
            raise MetricInputError(
                f"{name} of a {kind} output have rows without a value: shape {_shape(given)}"
            )


def value_checks(batch: Outputs) -> Iterator[Check]:
    """The questions about the values of one batch; nothing is read from the device here."""
    for name, given in batch.given.items():
        if given.is_floating_point():
            yield _finite(given, str(name))
        if name is PROBABILITIES:
            yield from _probability_checks(given, "probabilities", batch.feature)
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
    """The questions about the weights of the rows, if there are any."""
    weight, rule, most = batch.weight, "sample_weight is from 0", f"sample_weight is at most {_HEAVIEST:.0e}"
    if weight is not None:
        yield _finite(weight, "sample_weight")
        yield Check(read((weight < 0).any()), rule, lambda: f"{rule}, got {weight.min():.3g}")
        yield Check(read((weight > _HEAVIEST).any()), most, lambda: f"{most}, got {weight.max():.3g}")


def labels_of(batch: Outputs, name: str) -> tuple[bool, float]:
    """Whether what a batch holds under a name are labels, and the largest that they may be."""
    is_label = name in (PREDICTIONS, "target") and batch.feature.type in _OF_LABELS
    top = _top_label(batch) if is_label else None
    if top is None and batch.feature.type in _COUNTED:
        top = MOST_CLASSES - 1
    return is_label, math.inf if top is None else top


def _check_soft(soft: Tensor, batch: Outputs) -> None:
    """Soft labels have the shape of the probabilities."""
    kind, given = batch.feature.type, [x for name, x in batch.given.items() if name is not PREDICTIONS]
    dims = _TARGET_DIMS[kind] + (kind in _WITH_CLASSES)
    if kind not in _OF_LABELS:
        raise MetricInputError(f"target_probabilities are for outputs with classes, not for a {kind} output")
    if soft.ndim != dims or (given and soft.shape != given[0].shape):
        wanted = _shape(given[0]) if given else f"of {dims} dimension(s)"
        raise MetricInputError(
            f"target_probabilities of a {kind} output have the shape of its probabilities, {wanted}; "
            f"got {_shape(soft)}"
        )


def _check_kind(name: InputType, given: Tensor, target: Tensor) -> None:
    if given.device != target.device:
        raise MetricInputError(
            f"{name} are on {given.device}, the target on {target.device}; move one of them"
        )
    if given.is_complex() or target.is_complex():
        raise MetricInputError(f"{name} and target are real numbers, got {given.dtype} and {target.dtype}")


def _check_shape(name: InputType, given: Tensor, target: Tensor, feature: OutputFeature) -> None:
    with_classes = feature.type in _WITH_CLASSES and name is not PREDICTIONS
    where = class_dim(feature)
    if (_without(given.shape, where) if with_classes else given.shape) != target.shape or given.ndim < 1:
        sizes = [str(size) for size in target.shape]
        if with_classes:
            sizes.insert(where if where >= 0 else len(sizes), "classes")
        wanted = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
        hint = _shape_hint(given, target, feature)
        raise MetricInputError(
            f"{name} of a {feature.type} output with target of shape {_shape(target)} have shape {wanted}, "
            f"got {_shape(given)}; shapes never broadcast{hint}"
        )
    fact = getattr(feature, _FACT.get(feature.type, ""), None)
    if (
        fact is not None
        and (with_classes or feature.type not in _WITH_CLASSES)
        and given.shape[where] != fact
    ):
        place = "last dimension" if where < 0 else f"dimension {where}"
        raise MetricInputError(
            f"{feature} expects {fact} in the {place}, got {name} of shape {_shape(given)}"
        )


def _without(shape: torch.Size, where: int) -> torch.Size:
    """A shape without one of its dimensions."""
    sizes = list(shape)
    if len(sizes) > max(where, 0):
        del sizes[where]
    return torch.Size(sizes)


def _target_hint(target: Tensor, kind: str) -> str:
    """What to do about a target of another number of dimensions than one."""
    if _TARGET_DIMS[kind] != 1 or target.ndim not in (0, 2):
        return ""
    if not target.ndim:
        return "; a single row is a batch of one, x.reshape(1)"
    if target.shape[1] == 1:
        return "; pass x.squeeze(1)"
    return "; of one-hot rows pass x.argmax(1)" if kind == CATEGORY else ""


def _shape_hint(given: Tensor, target: Tensor, feature: OutputFeature) -> str:
    if feature.type == BINARY and given.ndim == 2 and given.shape[1] == 2:
        return "; for two columns use Category(2), or pass the column of class 1"
    if given.shape == target.shape:
        return "; give a score for each class" + (", or use Binary()" if feature.type == CATEGORY else "")
    if given.numel() == target.numel():
        return f"; reshape one of them, as in x.reshape({_shape(target)})"
    return ""


def _finite(values: Tensor, name: str) -> Check:
    rule = f"{name} must be finite numbers, not nan or infinite"

    def explain() -> str:
        bad = ~values.isfinite()
        first = int(bad.reshape(-1).nonzero()[0])
        return f"{name} hold {int(bad.sum())} values that are nan or infinite, the first at position {first}"

    if on_host(values) and math.isfinite(values.sum().item()):  # in one pass; an overflow is looked at again
        return Check(False, rule, explain)
    return Check(read((~values.isfinite()).any()), rule, explain, NonFiniteError)


def _probability_checks(values: Tensor, name: str, feature: OutputFeature) -> Iterator[Check]:
    if not values.is_floating_point():
        rule = f"{name} are real numbers"
        hint = "pass x.float()" + (", or what was decided as predictions=" if name == "probabilities" else "")
        yield Check(True, rule, lambda: f"{rule}, got {values.dtype}; {hint}")
        return
    hint = "if these are logits, pass them as logits="
    low, high = map(read, values.aminmax())
    hint = hint if name == "probabilities" else "soft labels are probabilities"
    within = f"{feature.type} {name} lie in [0, 1]"
    yield Check(
        (low < 0) | (high > 1),
        within,
        lambda: f"{within}, got values from {_told(float(low))} to {_told(float(high))}; {hint}",
    )
    if feature.type in _WITH_CLASSES:
        where = class_dim(feature)
        off = read((values.sum(where, dtype=torch.float64) - 1).abs().amax())
        tolerance = max(1e-4, 4 * values.shape[where] * torch.finfo(values.dtype).eps)
        sums = f"each row of {feature.type} {name} sums to 1"
        yield Check(off > tolerance, sums, lambda: f"{sums}, one is off by {float(off):.3g}; {hint}")


def _told(value: float) -> str:
    """Print three digits; all of them where three would print a 0 or 1 that it is not."""
    text = f"{value:.3g}"
    return repr(value) if value != float(text) in (0.0, 1.0) else text


def _label_checks(values: Tensor, name: str, batch: Outputs) -> Iterator[Check]:
    feature = batch.feature
    if values.is_floating_point():
        whole = f"{name} of a {feature.type} output are whole numbers"
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
    within = f"{name} of a {feature.type} output lie in 0..{'' if top is None else top}"
    outside = (low < 0) if top is None else (low < 0) | (high > top)
    yield Check(
        outside,
        within,
        lambda: (
            f"{within}, got values from {float(low):g} to {float(high):g}"
            + (_ignoring_hint(feature, float(low)) if name == "target" else "")
        ),
    )
    if top is None and feature.type in _COUNTED:
        numbers = f"{name} of a {feature.type} output are numbers of classes"
        yield Check(
            high >= MOST_CLASSES,
            numbers,
            lambda: (
                f"{numbers}, got {float(high):.0f}; if these are ids, number the classes from 0; if so many "
                f"classes there are, state them, as in {feature.type}(num_classes={float(high) + 1:.0f})"
            ),
        )


def _ignoring_hint(feature: OutputFeature, low: float) -> str:
    """What to say of a target below 0, which may mark what does not count."""
    if low >= 0 or getattr(feature, "ignore_index", 0) is not None:
        return ""
    return f"; if {low:g} marks what does not count, say so: {feature.type}(ignore_index={low:g})"


def read(value: Tensor) -> Any:
    """On the CPU the plain number, which compares faster; on a device the tensor, which does not wait."""
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
