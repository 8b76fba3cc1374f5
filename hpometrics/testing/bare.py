"""Bare: torchmetrics' own classes as they are, tried by the same laws as ours."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from ..direction import Objective
from ..exceptions import MetricInputError
from ..metrics.catalogue.torchmetrics import ROWS, class_of
from ..metrics.catalogue.torchmetrics._packing import Given
from ..metrics.catalogue.torchmetrics._row import Row
from ..metrics.features import BINARY, CATEGORY, LOGITS, PREDICTIONS, PROBABILITIES, SET, InputType
from ..metrics.metric import Metric
from ..metrics.registry.entry import MetricEntry
from ..metrics.registry.index import all_entries
from ..metrics.registry.names import MetricName
from ..metrics.sample_data import Batch, draw_of
from .laws import (
    LAWS,
    LawBroken,
    check_company,
    check_device,
    check_direction,
    check_forms,
    check_ignored,
    check_inputs,
    check_policy,
    check_soft_labels,
    check_weight_scale,
    check_weightless,
    check_weights,
)
from .ordinary import ORDINARY
from .subjects import Subject

_OUR_WAYS = {
    check_forms,
    check_inputs,
    check_company,
    check_weights,
    check_weight_scale,
    check_weightless,
    check_soft_labels,
    check_ignored,
    check_policy,
    check_device,
}
BARE_LAWS = tuple(law for law in LAWS if law not in _OUR_WAYS)
"""The laws that are about what any metric has: update, compute, reset, forward, merging and saving."""

_FLOAT32 = 1e-5
"""How far values that were added up in float32 may differ, so that no law is broken by rounding alone."""
_REFUSALS = (ValueError, TypeError, RuntimeError, IndexError, AssertionError)
_OBJECTIVES = {True: Objective.MAXIMIZE, False: Objective.MINIMIZE}


class Bare:
    """A torchmetrics object behind the few names by which a law reaches a metric.

    It is given the benefit of the doubt: whatever it raises at an update is a refusal, and at `compute` an
    undefined value, whose reason is the exception or that the value is nan.
    """

    def __init__(self, row: Row, params: dict[str, Any], output: Any, inner: torchmetrics.Metric) -> None:
        self._row, self._params, self._output, self._inner = row, params, output, inner
        self.undefined_reason: str | None = None

    def to(self, device: torch.device | str) -> Bare:
        """Move the state to a device."""
        self._inner.to(device)
        return self

    def update(self, **batch: Any) -> None:
        """Hand over a batch."""
        self._feed(self._inner, batch)

    def __call__(self, **batch: Any) -> Any:
        """Give the value of a batch and go on counting."""
        caught = _Forward(self._inner)
        self._feed(caught, batch)
        return self._one_of(caught.value)

    def compute(self) -> Tensor:
        """Give the value, or nan where there is none."""
        try:
            value = self._one_of(self._inner.compute())
        except _REFUSALS as err:
            self.undefined_reason = f"{type(err).__name__}: {err}"
            return torch.tensor(torch.nan)
        self.undefined_reason = "it gives nan" if value.isnan().all() else None
        return value

    def reset(self) -> None:
        """Begin anew."""
        self._inner.reset()

    def merge(self, other: Bare) -> None:
        """Take in what another has measured."""
        self._inner.merge_state(other._inner)

    def state_dict(self) -> Any:
        """Give the state."""
        return self._inner.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Take a state over."""
        self._inner.load_state_dict(state)

    def _feed(self, inner: Any, batch: Batch) -> None:
        try:
            self._row.feed(inner, _given(self._row, self._output.type, batch))
        except (KeyError, *_REFUSALS) as err:  # a KeyError: it is not given what it reads
            raise MetricInputError(str(err)) from err

    def _one_of(self, result: Any) -> Tensor:
        reference = class_of(self._row)(**self._params)
        return reference._one_of(result)


class _Forward:
    """Stands in for a torchmetrics object whose every update is a call."""

    def __init__(self, inner: torchmetrics.Metric) -> None:
        self._inner = inner
        self.value: Any = None

    def update(self, *args: Any, **kwargs: Any) -> None:
        self.value = self._inner(*args, **kwargs)


@dataclass(frozen=True)
class BareSubject(Subject):
    """A use of a torchmetrics class, with its own word on which way is better."""

    row: Row = field(kw_only=True)
    tolerance: float = _FLOAT32

    def make(self) -> Metric:
        """Build the object."""
        params = dict(self.name.params)
        reference = class_of(self.row)(**params)
        reference.output = self.output
        classes = getattr(self.output, "num_classes", None) or getattr(self.output, "num_labels", None)
        bare: Any = Bare(self.row, params, self.output, reference.build(classes))
        return bare  # type: ignore[no-any-return]  # it has what the laws ask of a metric


def bare_subjects() -> list[BareSubject]:
    """One use of each torchmetrics class that batches of tensors can be handed to as they are drawn."""
    entries = {(entry.name, entry.feature_type): entry for entry in all_entries()}
    found = []
    for row in ROWS:
        for feature in row.features:
            entry = entries.get((row.name, feature))
            if entry is not None and not row.requires:
                found += _tried(row, entry)
    return found


def _tried(row: Row, entry: MetricEntry) -> list[BareSubject]:
    name = MetricName(row.name, tuple((p, _setting(value)) for p, value in row.params.items()))
    output = ORDINARY.get(entry.feature_type)
    if output is None:
        return []
    subject = BareSubject(entry, name, output, draw_of(class_of(row)), row=row)
    try:
        made: Any = subject.make()
        made.update(**subject.draw(8))
    except (MetricInputError, *_REFUSALS, KeyError):
        return []
    said: bool | None = getattr(made._inner, "higher_is_better", None)
    objective = None if said is None else _OBJECTIVES[said]
    return [replace(subject, entry=replace(entry, objective=objective))]


def _setting(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[0]
    return {int: 2, float: 0.5}[value] if isinstance(value, type) else value


def check_stated_direction(subject: Subject) -> None:
    """Which way is better is said, and holds."""
    if subject.entry.objective is None:
        raise LawBroken(f"{subject} does not say which way is better")
    check_direction(subject)


def _given(row: Row, feature: str, batch: Batch) -> Given:
    extras = {name: batch[name] for name in (*row.extras, *row.optional) if name in batch}
    return Given(_read(row.inputs, feature, batch), batch["target"], extras)


def _read(inputs: InputType, feature: str, batch: Batch) -> Any:
    """The output that a class reads, made of the logits without a look at what they hold."""
    if inputs.value in batch:
        return batch[inputs.value]
    logits = batch[LOGITS.value]
    if feature in (BINARY, SET):
        probabilities = logits.sigmoid()
        return probabilities if inputs is PROBABILITIES else (probabilities > 0.5).long()
    if feature == CATEGORY:
        return logits.softmax(1) if inputs is PROBABILITIES else logits.argmax(1)
    if inputs is PREDICTIONS:
        raise MetricInputError(f"no predictions of a {feature} are drawn")
    return logits
