"""Ranks and pairs, against scipy and against all pairs one by one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from hpometrics.metrics.statistics.ranks import Pairs, mean_ranks


@pytest.mark.parametrize("values", [range(1, 20), [3, 3, 3], [5, 1, 5, 2, 1], [7]])
def test_ranks_are_scipys(values):
    """Less one half, which no correlation sees."""
    ranks = mean_ranks(torch.tensor(list(values)), torch.ones(len(values)))
    np.testing.assert_allclose(ranks + 0.5, scipy.stats.rankdata(list(values)))


@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("rows", [1, 2, 3, 64, 65, 130])
def test_pairs_one_by_one(rows, levels):
    """Weighted, with many ties and with few, for any number of rows."""
    random = np.random.default_rng(rows + levels)
    x, y = random.integers(0, levels, (2, rows))
    weight = random.random(rows)
    order = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
    product = np.triu(np.outer(weight, weight), 1)
    pairs = Pairs.of(torch.tensor(x), torch.tensor(y), torch.tensor(weight))
    assert pairs.concordant == pytest.approx((product * (order > 0)).sum(), abs=1e-9)
    assert pairs.discordant == pytest.approx((product * (order < 0)).sum(), abs=1e-9)
    assert pairs.groups == min(len(set(x)), len(set(y)))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("rows", [1, 2, 31, 32, 33, 64, 65, 700])
def test_pairs_without_weights(rows, kind):
    """All pairs one by one, with ties, both zeros, and numbers that float32 or float64 cannot hold."""
    random = np.random.default_rng(rows)
    x, y = random.integers(-3, 40, (2, rows)).astype(kind)
    x *= random.choice([-1, 1], rows).astype(kind)  # a zero of either sign
    y = y / 7 if kind is np.float64 else y + (1 << 53 if kind is np.int64 else 0)
    order = np.sign((x[:, None] > x).astype(int) - (x[:, None] < x)) * (
        (y[:, None] > y).astype(int) - (y[:, None] < y)
    )
    pairs = Pairs.of(torch.tensor(x), torch.tensor(y), torch.ones(rows))
    assert pairs.concordant == np.count_nonzero(np.triu(order, 1) > 0)
    assert pairs.discordant == np.count_nonzero(np.triu(order, 1) < 0)
    assert pairs.groups == min(len(np.unique(x)), len(np.unique(y)))
    assert pairs.total == rows**2
    assert (pairs.same_x, pairs.same_y) == tuple(
        float((np.unique(side, return_counts=True)[1] ** 2).sum()) for side in (x, y)
    )


def test_whole_numbers_stay_exact():
    """A hundred thousand rows in reverse: every pair, to the last."""
    down = torch.arange(100_000).flip(0)
    pairs = Pairs.of(torch.arange(100_000), down, torch.ones(100_000))
    assert (pairs.concordant, pairs.discordant) == (0.0, 100_000 * 99_999 / 2)
