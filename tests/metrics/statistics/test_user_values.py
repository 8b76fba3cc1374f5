from __future__ import annotations

import torch

from hpometrics.metrics.statistics.user_values import Measured

VALUES = torch.tensor([[1.0, torch.nan], [3.0, 4.0], [5.0, torch.inf]]).double()


def sums(values, own=None, weight=None):
    """Total and weight of each column."""
    return tuple(value.tolist() for value in Measured(values, own, weight).sums.values())


def test_every_row_with_a_value_weighs_1():
    """1 + 3 + 5 of three rows."""
    assert sums(VALUES[:, :1]) == ([9.0], [3.0])


def test_a_row_without_a_value_is_left_out():
    """The first row has none in the second column, which is infinite all the same."""
    assert sums(VALUES) == ([9.0, torch.inf], [3.0, 2.0])


def test_rows_and_values_have_weights():
    """A weight of 0 leaves out even what is infinite: 2 * 3 and 2 * 4."""
    rows = torch.tensor([0.0, 2.0, 0.0]).double()
    assert sums(VALUES, weight=rows) == ([6.0, 8.0], [2.0, 2.0])
    own = torch.tensor([[0.5, 1.0], [1.0, 1.0], [0.0, 0.0]])
    assert sums(VALUES, own) == ([3.5, 4.0], [1.5, 1.0])


def test_values_that_cancel_to_nan_are_values():
    """Infinite sums of one column and the next that cancel are no reason to leave a row out."""
    values = torch.tensor([[torch.inf, -torch.inf], [1.0, 2.0]]).double()
    assert sums(values) == ([torch.inf, -torch.inf], [2.0, 2.0])
