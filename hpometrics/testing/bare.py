"""The classes of torchmetrics as they are, tried by the same laws as ours."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from ..direction import Direction
from ..exceptions import MetricInputError
from ..metrics.catalogue.torchmetrics import class_of
from ..metrics.catalogue.torchmetrics._row import MetricInputs, Row
from ..metrics.catalogue.torchmetrics._wrapper import REFUSALS
from ..metrics.features import BINARY, CATEGORY, LOGITS, PREDICTIONS, PROBABILITIES, SET, InputType
from ..metrics.metric import Metric
from ..metrics.registry.index import MetricEntry, all_entries
from ..metrics.registry.names import MetricName
from ..metrics.sample_data import ORDINARY, Batch, draw_of
from .laws import (
    LAWS,
    LawBroken,
    check_company,
    check_device,
    check_direction,
    check_forms,
    check_ignored,
    check_inputs,
    check_no_hits,
    check_policy,
    check_soft_labels,
    check_weight_scale,
    check_weightless,
    check_weights,
)
from .peers import EVERY_ROW
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
    check_no_hits,
    check_device,
}
BARE_LAWS = tuple(law for law in LAWS if law not in _OUR_WAYS)
"""The laws of what every metric has: update, compute, reset, forward, merging and saving."""

_FLOAT32 = 1e-5
"""The tolerance of values that were summed in float32, so that rounding alone breaks no law."""
_DIRECTIONS = {True: Direction.MAXIMIZE, False: Direction.MINIMIZE}


class Bare:
    """A torchmetrics object behind the few names by which a law uses a metric.

    It gets the benefit of the doubt: any exception of an update is a refusal, and one of `compute` is an
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
        """Update the metric with a batch."""
        self._feed(self._inner, batch)

    def __call__(self, **batch: Any) -> Any:
        """Return the value of a batch and add it to the state."""
        caught = _Forward(self._inner)
        self._feed(caught, batch)
        return self._select_component(caught.value)

    def compute(self) -> Tensor:
        """Return the value, or nan if there is none."""
        try:
            value = self._select_component(self._inner.compute())
        except REFUSALS as err:
            self.undefined_reason = f"{type(err).__name__}: {err}"
            return torch.tensor(torch.nan)
        self.undefined_reason = "it returns nan" if value.isnan().all() else None
        return value

    def reset(self) -> None:
        """Reset the state."""
        self._inner.reset()

    def merge(self, other: Bare) -> None:
        """Merge the state of another one."""
        self._inner.merge_state(other._inner)

    def state_dict(self) -> Any:
        """Return the state."""
        return self._inner.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Load a state."""
        self._inner.load_state_dict(state)

    def _feed(self, inner: Any, batch: Batch) -> None:
        try:
            self._row.feed(inner, _inputs_of(self._row, self._output.type, batch))
        except (KeyError, *REFUSALS) as err:  # a KeyError: the batch lacks what it reads
            raise MetricInputError(str(err)) from err

    def _select_component(self, result: Any) -> Tensor:
        reference = class_of(self._row)(**self._params)
        return reference._select_component(result)


class _Forward:
    """A torchmetrics object whose every update is a call."""

    def __init__(self, inner: torchmetrics.Metric) -> None:
        self._inner = inner
        self.value: Any = None

    def update(self, *args: Any, **kwargs: Any) -> None:
        self.value = self._inner(*args, **kwargs)


@dataclass(frozen=True)
class BareSubject(Subject):
    """A use of a torchmetrics class, with its own direction."""

    row: Row = field(kw_only=True)
    tolerance: float = _FLOAT32

    def make(self) -> Metric:
        """Create the object."""
        params = dict(self.name.params)
        reference = class_of(self.row)(**params)
        reference.output = self.output
        classes = getattr(self.output, "num_classes", None) or getattr(self.output, "num_labels", None)
        bare: Any = Bare(self.row, params, self.output, reference.build(classes))
        return bare  # type: ignore[no-any-return]  # it has what the laws ask of a metric


def bare_subjects() -> list[BareSubject]:
    """Return one use of each torchmetrics class that takes batches of tensors as they are drawn."""
    entries = {(entry.name, entry.feature_type): entry for entry in all_entries()}
    subjects = []
    for row in EVERY_ROW:
        for feature in row.features:
            entry = entries.get((row.name, feature))
            if entry is not None and not row.requires:
                subjects += _subjects_of(row, entry)
    return subjects


def _subjects_of(row: Row, entry: MetricEntry) -> list[BareSubject]:
    name = MetricName(row.name, tuple((p, _setting(value)) for p, value in row.params.items()))
    output = ORDINARY.get(entry.feature_type)
    if output is None:
        return []
    subject = BareSubject(entry, name, output, draw_of(class_of(row)), row=row)
    try:
        metric: Any = subject.make()
        metric.update(**subject.draw(8))
    except (MetricInputError, *REFUSALS, KeyError):
        return []
    higher_is_better: bool | None = getattr(metric._inner, "higher_is_better", None)
    direction = None if higher_is_better is None else _DIRECTIONS[higher_is_better]
    return [replace(subject, entry=replace(entry, direction=direction))]


def _setting(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[0]
    return {int: 2, float: 0.5}[value] if isinstance(value, type) else value


def check_stated_direction(subject: Subject) -> None:
    """The class has a direction, and it holds."""
    if subject.entry.direction is None:
        raise LawBroken(f"{subject} does not state a direction")
    check_direction(subject)


def _inputs_of(row: Row, feature: str, batch: Batch) -> MetricInputs:
    extras = {name: batch[name] for name in (*row.extras, *row.optional) if name in batch}
    return MetricInputs(_read_output(row.inputs, feature, batch), batch["target"], extras)


def _read_output(inputs: InputType, feature: str, batch: Batch) -> Any:
    """Return the output that a class reads, derived from the logits whatever their values."""
    if inputs.value in batch:
        return batch[inputs.value]
    logits = batch[LOGITS.value]
    if feature in (BINARY, SET):
        probabilities = logits.sigmoid()
        return probabilities if inputs is PROBABILITIES else (probabilities > 0.5).long()
    if feature == CATEGORY:
        return logits.softmax(1) if inputs is PROBABILITIES else logits.argmax(1)
    if inputs is PREDICTIONS:
        raise MetricInputError(f"no predictions can be drawn for a {feature}")
    return logits
