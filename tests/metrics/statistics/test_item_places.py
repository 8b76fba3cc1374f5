from __future__ import annotations

import torch

from hpometrics.metrics.statistics.item_counts import _narrow, sum_positions

NUMBERS = torch.tensor([[2, 0, -1], [1, 2, 0]])


def test_each_place_counts_once_up_to_each_cutoff():
    """Within one place stand 2 and 1, within three 0 and 2 twice and 1 once; -1 counts for nothing."""
    counts = sum_positions(NUMBERS, None, (1, 3), 3)
    assert counts.tolist() == [[0, 1, 1], [2, 1, 2]]
    assert counts.dtype is torch.float64


def test_places_are_worth_what_they_are_worth():
    """Row 0 weighs a half: what stands at -1 adds nothing, whatever it is worth."""
    worth = torch.tensor([[0.5, 0.5, 9.0], [1.0, 1.0, 1.0]]).double()
    assert sum_positions(NUMBERS, worth, (1, 3), 3).tolist() == [[0, 1, 0.5], [1.5, 1, 1.5]]


def test_another_catalogue_is_counted_anew():
    """Numbers of a larger catalogue, at the same cut-offs, do not fall on those of a smaller one."""
    assert sum_positions(NUMBERS, None, (1, 3), 4).tolist() == [[0, 1, 1, 0], [2, 1, 2, 0]]


def test_numbers_that_32_bits_do_not_hold_are_kept_in_64():
    """As many cut-offs of a large catalogue have."""
    dtypes = [_narrow(NUMBERS, most).dtype for most in (2**31 - 1, 3 * 2**30)]
    assert dtypes == [torch.int32, torch.int64]
