"""Every use of a metric that its parameters allow, its data, and the comparison of its values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from ..exceptions import HpometricsError, MetricInputError
from ..metrics.features import FEATURES, OutputFeature
from ..metrics.metric import Metric
from ..metrics.registry.facts import Param
from ..metrics.registry.index import MetricEntry, all_entries
from ..metrics.registry.lookup import find_metric
from ..metrics.registry.names import MetricName, Scalar
from ..metrics.registry.register import get_metric
from ..metrics.sample_data import OUTPUTS, Batch, Draw, draw, draw_of
from .exemptions import UNTRIED

T = TypeVar("T")


@dataclass(frozen=True)
class Subject:
    """One use of a metric: its entry, its full name, its output, and the source of its data.

    Values that must be equal may differ by `tolerance`, if that is more than the law's own tolerance.
    """

    entry: MetricEntry
    name: MetricName
    output: OutputFeature
    source: Draw = draw
    tolerance: float = 0.0

    def __str__(self) -> str:
        return f"{self.name}-{self.output.type}"

    @property
    def per_class(self) -> bool:
        """Whether its value is one number per class, which has no order."""
        return ("average", "none") in self.name.params

    def make(self) -> Metric:
        """Create the metric."""
        return get_metric(self.name, self.output)

    def draw(self, rows: int, noise: float = 0.3, seed: int = 0) -> Batch:
        """Draw a batch for the metric."""
        return self.readable(self.source(self.output, rows, noise, seed))

    def readable(self, batch: Batch) -> Batch:
        """Return a batch without the extras that only other uses of the metric's class read."""
        return {name: value for name, value in batch.items() if name not in self.unread}

    @cached_property
    def unread(self) -> frozenset[str]:
        """The extras that the metric refuses because of its parameters."""
        unread: frozenset[str] = getattr(self.make(), "unread", frozenset())
        return unread

    def measure(self, *batches: Batch) -> Tensor:
        """Return the value of a new metric for batches."""
        return value_of(fed(self.make(), *batches))


def subjects_of(
    metric: str | MetricEntry, feature_type: str | None = None, source: Draw | None = None
) -> tuple[Subject, ...]:
    """Return every use of a metric that its parameters allow: each choice, 2 for a `k`, else defaults.

    Args:
        metric: its name or its entry.
        feature_type: the feature type of the entry, if the name has several.
        source: draws batches, if those of `draw` and of the metric's own `draw_batch` do not fit.
    """
    entries = (metric,) if isinstance(metric, MetricEntry) else _entries_named(metric, feature_type)
    return tuple(
        Subject(
            entry,
            find_metric(name, entry.feature_type).name,
            _output_of(entry),
            source or draw_of(entry.load()),
        )
        for entry in entries
        for name in _names_of(entry)
    )


def all_subjects(feature_type: str | None = None) -> tuple[Subject, ...]:
    """Return every use of every registered metric, or of those of one feature."""
    return tuple(subject for entry in all_entries(feature_type) for subject in subjects_of(entry))


def _entries_named(name: str, feature_type: str | None) -> tuple[MetricEntry, ...]:
    chosen = tuple(entry for entry in all_entries(feature_type) if entry.name == name)
    return chosen or find_metric(name, feature_type).entries  # raises for an unknown name


def _output_of(entry: MetricEntry) -> OutputFeature:
    return OUTPUTS.get(entry.feature_type) or FEATURES[entry.feature_type]()


def _names_of(entry: MetricEntry) -> list[MetricName]:
    """Return every combination of choices; of parameters that exclude each other, one at a time."""
    alternatives = [p for p in entry.params if p.name in entry.one_of]
    always = [p for p in entry.params if p not in alternatives and (p.choices or p.required)]
    return [
        MetricName(entry.name, tuple((p.name, value) for p, value in zip(varied, values, strict=True)))
        for varied in ([[*always, one] for one in alternatives] or [always])
        for values in itertools.product(*map(_settings, varied))
    ]


def _settings(param: Param) -> Sequence[Scalar]:
    """Return the values with which a parameter is tried."""
    by_kind: dict[str, Sequence[Scalar]] = {"int": (2,), "float": (0.5,), "bool": (True, False)}
    return param.settings or by_kind.get(param.kind, ("a",))


def is_here(entry: MetricEntry) -> bool:
    """Return whether all packages that a metric needs are installed, and it downloads nothing."""
    if not entry.requires:
        return True
    row = getattr(entry.load(), "row", None)  # of a torchmetrics class
    missing = [] if row is None else row.missing_packages
    return entry.name not in UNTRIED and not missing


def fed(metric: Metric, *batches: Batch) -> Metric:
    """Update a metric with batches and return it."""
    for batch in batches:
        metric.update(**batch)
    return metric


def value_of(metric: Metric) -> Tensor:
    """Compute a metric and return its value as a tensor."""
    return torch.as_tensor(metric.compute())


class LawBroken(HpometricsError, AssertionError):
    """A metric breaks a law; the message has the law, the expected and the actual value."""


def is_close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    """Return whether two values have one shape and are equal within a tolerance; nan equals nan."""
    return one.shape == other.shape and torch.allclose(
        one.double(), other.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


def require_same(subject: Subject, expected: Tensor, got: Tensor, how: str, tolerance: float = 1e-12) -> None:
    """Raise unless two values are equal.

    Raises:
        LawBroken: they are not; `how` describes the second one in the message.
    """
    tolerance = max(tolerance, subject.tolerance)
    if not is_close(got, expected, tolerance):
        raise LawBroken(f"{subject}: {how}: expected {expected.tolist()}, got {got.tolist()}")


def unless_refused(subject: Subject, step: Callable[[], T], what: str, word: str) -> T | None:
    """Return the result of a step; None if the metric refuses what it reads there, as it may.

    Raises:
        LawBroken: it refuses without the word that names the reason.
    """
    try:
        return step()
    except MetricInputError as err:
        if word not in str(err):
            raise LawBroken(f"{subject} refuses {what} without saying so: {err}") from err
        return None


def require_undefined(subject: Subject, metric: Metric, when: str) -> None:
    """Raise unless a metric is nan with a reason.

    Raises:
        LawBroken: it has a value, or no reason.
    """
    value = value_of(metric)
    if not value.isnan().all():
        raise LawBroken(f"{subject} is {value.tolist()} {when}, must be nan")
    if not metric.undefined_reason:
        raise LawBroken(f"{subject} is nan {when} without an undefined_reason")
