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
    target, kind = batch.target, batch.feature.type
    if kind not in _TARGET_DIMS:
        return
    dims = _TARGET_DIMS[kind]
    if target.ndim != dims:
        raise MetricInputError(
            f"the target of a {kind} output has {dims} dimension(s), got shape {_shape(target)}"
        )
    for name, given in batch.given.items():
        _check_kind(name, given, target)
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
        self._rules: list[str] = []
        self._batches = 0
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
            self._gather(value_checks(batch))
            return
        for check in value_checks(batch):
            if check.bad:
                raise check.error(check.explain())

    def _gather(self, checks: Iterator[Check]) -> None:
        """Keep flags and rules only: nothing of the batch stays alive."""
        for check in checks:
            self._flags.append(torch.as_tensor(check.bad))
            self._rules.append(f"batch {self._batches}: {check.rule}")
        self._batches += 1

    def verdict(self) -> str | None:
        """Read the gathered flags, once for all (this waits for the device); the first complaint, if any."""
        if self._flags:
            bad = torch.stack([flag.to(self._flags[0].device) for flag in self._flags]).tolist()
            self.recall(next((rule for rule, is_bad in zip(self._rules, bad, strict=True) if is_bad), None))
            self._flags, self._rules = [], []
        return self._complaint


def _check_kind(name: InputType, given: Tensor, target: Tensor) -> None:
    if given.device != target.device:
        raise MetricInputError(
            f"{name} are on {given.device}, the target on {target.device}; move one of them"
        )
    if given.is_complex() or target.is_complex():
        raise MetricInputError(f"{name} and target are real numbers, got {given.dtype} and {target.dtype}")


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
    rule = f"{name} must be finite numbers, not nan or infinite"

    def explain() -> str:
        bad = ~values.isfinite()
        first = int(bad.reshape(-1).nonzero()[0])
        return f"{name} hold {int(bad.sum())} values that are nan or infinite, the first at position {first}"

    on_host = values.device.type == "cpu"
    if on_host and math.isfinite(values.sum().item()):  # one cheap pass; an overflow is looked at again
        return Check(False, rule, explain)
    return Check(_read((~values.isfinite()).any()), rule, explain, NonFiniteError)


def _probability_checks(values: Tensor, feature: OutputFeature) -> Iterator[Check]:
    if not values.is_floating_point():
        rule = "probabilities are real numbers"
        yield Check(True, rule, lambda: f"{rule}, got {values.dtype}")
        return
    hint = "if these are logits, pass them as logits="
    low, high = map(_read, values.aminmax())
    within = f"{feature.type} probabilities lie in [0, 1]"
    yield Check(
        (low < 0) | (high > 1),
        within,
        lambda: f"{within}, got values from {float(low):.3g} to {float(high):.3g}; {hint}",
    )
    if feature.type in _WITH_CLASSES:
        off = _read((values.sum(-1, dtype=torch.float64) - 1).abs().amax())
        tolerance = max(1e-4, 4 * values.shape[-1] * torch.finfo(values.dtype).eps)
        sums = f"each row of {feature.type} probabilities sums to 1"
        yield Check(off > tolerance, sums, lambda: f"{sums}, one is off by {float(off):.3g}; {hint}")


def _label_checks(values: Tensor, name: str, batch: Outputs) -> Iterator[Check]:
    feature = batch.feature
    if values.is_floating_point():
        whole = f"{name} of a {feature.type} output are whole numbers"
        hint = "pass scores as logits= or probabilities="
        fractions = _read((values != values.round()).any())
        yield Check(fractions, whole, lambda: f"{whole}, got {values.dtype} with fractions; {hint}")
    if values.dtype is torch.bool:
        return
    if feature.type in (SEQUENCE, TEXT) and name == "target":
        values = values.masked_fill(values == feature.ignore_index, 0)  # type: ignore[attr-defined]  # has one
    low, high = map(_read, values.aminmax())
    top = _top_label(batch)
    within = f"{name} of a {feature.type} output lie in 0..{'' if top is None else top}"
    outside = (low < 0) if top is None else (low < 0) | (high > top)
    yield Check(outside, within, lambda: f"{within}, got values from {float(low):g} to {float(high):g}")


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
