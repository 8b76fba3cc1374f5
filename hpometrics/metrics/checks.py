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
from .features import (
    BINARY,
    CATEGORY,
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
from .outputs import Outputs

_FACT = {
    CATEGORY: "num_classes",
    SET: "num_labels",
    VECTOR: "size",
    TIMESERIES: "horizon",
    SEQUENCE: "vocab_size",
    TEXT: "vocab_size",
}
_WITH_CLASSES = (CATEGORY, SEQUENCE, TEXT)
_TARGET_DIMS = {BINARY: 1, CATEGORY: 1, SET: 2, NUMBER: 1, VECTOR: 2, TIMESERIES: 2, SEQUENCE: 2, TEXT: 2}


@dataclass(frozen=True)
class Check:
    """One question about a batch's values: its answer (on a device a flag), and what to say if it is bad."""

    bad: bool | Tensor
    explain: Callable[[], str]
    error: type[MetricInputError] = MetricInputError


def check_shapes(batch: Outputs) -> None:
    """Refuse what would broadcast or cannot belong together.

    Raises:
        MetricInputError: naming both shapes and what to do.
    """
    target, kind = batch.target, batch.feature.type
    if kind not in _TARGET_DIMS:
        return
    dims = _TARGET_DIMS[kind]
    if target.ndim != dims:
        raise MetricInputError(
            f"the target of a {kind} output has {dims} dimension(s), got shape {_shape(target)}"
        )
    for name, given in batch.given.items():
        _check_shape(name, given, target, batch.feature)
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
            yield from _probability_checks(given, batch.feature)
    if PREDICTIONS in batch.given and batch.feature.type in (*_WITH_CLASSES, BINARY, SET):
        yield from _label_checks(batch.given[PREDICTIONS], "predictions", batch)
    if batch.target.is_floating_point():
        yield _finite(batch.target, "target")
    if batch.feature.type in (*_WITH_CLASSES, BINARY, SET):
        yield from _label_checks(batch.target, "target", batch)


class Gate:
    """The door of a collection or metric: eager on the CPU, gathered on a device."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what was gathered."""
        self._flags: list[Tensor] = []
        self._names: list[list[Callable[[], str]]] = []
        self._complaint: str | None = None

    def recall(self, complaint: str | None) -> None:
        """Take over the complaint of another gate whose batches were merged in."""
        self._complaint = self._complaint or complaint

    def admit(self, batch: Outputs) -> None:
        """Let a batch in.

        Raises:
            MetricInputError: its shapes or (on the CPU) its values are not what the feature's metrics read.
        """
        check_shapes(batch)
        if not len(batch):
            return
        if batch.target.device.type != "cpu":
            self._gather(list(value_checks(batch)))
            return
        for check in value_checks(batch):
            if check.bad:
                raise check.error(check.explain())

    def _gather(self, checks: list[Check]) -> None:
        self._flags.append(torch.stack([torch.as_tensor(check.bad) for check in checks]))
        self._names.append([check.explain for check in checks])

    def verdict(self) -> str | None:
        """Read the gathered flags (this waits for the device); the first complaint, None if there is none."""
        for batch, (flags, names) in enumerate(zip(self._flags, self._names, strict=True)):
            for bad, explain in zip(flags.tolist(), names, strict=True):
                if bad:
                    return f"batch {batch}: {explain()}"
        return self._complaint


def _check_shape(name: InputType, given: Tensor, target: Tensor, feature: OutputFeature) -> None:
    with_classes = feature.type in _WITH_CLASSES and name is not PREDICTIONS
    if (given.shape[:-1] if with_classes else given.shape) != target.shape or given.ndim < 1:
        wanted = (
            f"{_shape(target)[:-1]}{',' if target.ndim > 1 else ''} classes)"
            if with_classes
            else _shape(target)
        )
        hint = _shape_hint(given, target, feature)
        raise MetricInputError(
            f"{name} of a {feature.type} output with target of shape {_shape(target)} have shape {wanted}, "
            f"got {_shape(given)}; shapes never broadcast{hint}"
        )
    fact = getattr(feature, _FACT.get(feature.type, ""), None)
    if fact is not None and (with_classes or feature.type not in _WITH_CLASSES) and given.shape[-1] != fact:
        raise MetricInputError(
            f"{feature} expects {fact} in the last dimension, got {name} of shape {_shape(given)}"
        )


def _shape_hint(given: Tensor, target: Tensor, feature: OutputFeature) -> str:
    if feature.type == BINARY and given.ndim == 2 and given.shape[1] == 2:
        return "; for two columns use Category(2), or pass the column of class 1"
    if given.numel() == target.numel():
        return f"; reshape one of them, as in x.reshape({_shape(target)})"
    return ""


def _finite(values: Tensor, name: str) -> Check:
    def explain() -> str:
        bad = ~values.isfinite()
        first = int(bad.reshape(-1).nonzero()[0])
        return f"{name} hold {int(bad.sum())} values that are nan or infinite, the first at position {first}"

    on_host = values.device.type == "cpu"
    if on_host and math.isfinite(
        values.sum().item()
    ):  # one cheap pass; a sum that overflows is looked at again
        return Check(False, explain)
    return Check(_read((~values.isfinite()).any()), explain, NonFiniteError)


def _probability_checks(values: Tensor, feature: OutputFeature) -> Iterator[Check]:
    if not values.is_floating_point():
        yield Check(True, lambda: f"probabilities are real numbers, got {values.dtype}")
        return
    low, high = map(_read, values.aminmax())
    yield Check(
        (low < 0) | (high > 1),
        lambda: (
            f"{feature.type} probabilities lie in [0, 1], got values from {float(low):.3g} to "
            f"{float(high):.3g}; "
            "if these are logits, pass them as logits="
        ),
    )
    if feature.type in _WITH_CLASSES:
        off = _read((values.sum(-1, dtype=torch.float64) - 1).abs().amax())
        yield Check(
            off > max(1e-4, 4 * values.shape[-1] * torch.finfo(values.dtype).eps),
            lambda: (
                f"each row of {feature.type} probabilities sums to 1, one is off by {float(off):.3g}; "
                "if these are logits, pass them as logits="
            ),
        )


def _label_checks(values: Tensor, name: str, batch: Outputs) -> Iterator[Check]:
    feature = batch.feature
    if values.is_floating_point():
        yield Check(
            _read((values != values.round()).any()),
            lambda: (
                f"{name} of a {feature.type} output are whole numbers, got {values.dtype} with fractions; "
                "pass scores as logits= or probabilities="
            ),
        )
    if values.dtype is torch.bool:
        return
    if feature.type in (SEQUENCE, TEXT) and name == "target":
        values = values.masked_fill(values == feature.ignore_index, 0)  # type: ignore[attr-defined]
    low, high = map(_read, values.aminmax())
    top = _top_label(batch)
    yield Check(
        (low < 0) if top is None else (low < 0) | (high > top),
        lambda: (
            f"{name} of a {feature.type} output lie in 0..{'' if top is None else top}, "
            f"got values from {float(low):g} to {float(high):g}"
        ),
    )


def _read(value: Tensor) -> Any:
    """On the CPU the plain number, which compares faster; on a device the tensor, which does not wait."""
    return value.item() if value.device.type == "cpu" else value


def _top_label(batch: Outputs) -> int | None:
    if batch.feature.type in (BINARY, SET):
        return 1
    for name, given in batch.given.items():
        if name is not PREDICTIONS:
            return int(given.shape[-1]) - 1
    count: int | None = getattr(batch.feature, _FACT[batch.feature.type])
    return None if count is None else count - 1


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
