"""Extremes: of rows that weigh something, in any cut."""

from __future__ import annotations

import pytest
import torch

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Vector
from hpometrics.metrics.statistics.moments import Extremes

TARGET = torch.tensor([[1.0, -5.0], [4.0, 2.0], [9.0, 0.0]])


def extremes_of(rows, **options):
    """Of the targets of some rows."""
    extremes = Extremes("target")
    extremes.update(Outputs(Vector(), predictions=TARGET[rows], target=TARGET[rows], **options))
    return extremes


def test_parts_merge():
    """By column."""
    whole = extremes_of(slice(1))
    whole.merge(extremes_of(slice(1, 3)))
    assert whole.low.tolist() == [1.0, -5.0] and whole.high.tolist() == [9.0, 2.0]


def test_a_row_of_weight_0_is_no_row():
    """Neither as the least nor as the greatest."""
    extremes = extremes_of(slice(3), sample_weight=[0.0, 1.0, 0.0])
    assert extremes.low.tolist() == extremes.high.tolist() == [4.0, 2.0]


def test_another_width_is_refused():
    """Naming both."""
    batch = Outputs(Vector(), predictions=torch.ones(2, 3), target=torch.ones(2, 3))
    with pytest.raises(MetricInputError, match="2 columns, this one has 3"):
        extremes_of(slice(3)).check(batch)
