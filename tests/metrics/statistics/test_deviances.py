"""Deviance from the mean, merged: the same as of all rows at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Vector
from hpometrics.metrics.statistics.deviances import Dispersion, deviance


@pytest.mark.parametrize("power", [-1.0, 0.0, 1.0, 1.5, 2.0, 3.0])
def test_merged_parts_are_the_whole(power):
    """In any order and of any size, weighted, some rows of weight 0."""
    random = np.random.default_rng(1)
    target, weight = torch.tensor(random.gamma(2, 2, (60, 3)) + 0.1), torch.tensor(random.integers(0, 3, 60))
    parts = []
    for rows in ((40, 60), (0, 1), (1, 40)):
        parts.append(Dispersion(power))
        cut = slice(*rows)
        batch = {"predictions": target[cut], "target": target[cut], "sample_weight": weight[cut]}
        parts[-1].update(Outputs(Vector(), **batch))
    for part in parts[1:]:
        parts[0].merge(part)
    share = weight.double() / weight.sum()
    expected = weight.double() @ deviance(target, share @ target, power)
    assert parts[0].rows == weight.sum()
    np.testing.assert_allclose(parts[0].total, expected, rtol=1e-10)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_near_numbers_keep_their_digits(power):
    """A gap of 1e-7 has its square as deviance, where a difference of logarithms has few digits."""
    point = torch.tensor(1e6, dtype=torch.float64)
    got = deviance(point * (1 + 1e-7), point, power).item()
    assert got == pytest.approx(1e-14 * (1e6 if power == 1 else 1), rel=1e-2)
