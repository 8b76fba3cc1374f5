"""The error of a law that a metric breaks, and the comparison of values."""

from __future__ import annotations

import torch
from torch import Tensor

from ...exceptions import HpometricsError
from ...metrics.metric import Metric
from ..subjects import Subject, value_of


class LawBroken(HpometricsError, AssertionError):
    """A metric breaks a law; the message has the law, the expected and the actual value."""


def require_same(subject: Subject, expected: Tensor, got: Tensor, how: str, tolerance: float = 1e-12) -> None:
    """Raise unless two values are equal.

    Raises:
        LawBroken: they are not; `how` describes the second one in the message.
    """
    tolerance = max(tolerance, subject.tolerance)
    if expected.shape != got.shape or not torch.allclose(
        got.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    ):
        raise LawBroken(f"{subject}: {how}: expected {expected.tolist()}, got {got.tolist()}")


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
