"""Pooled rows: every row, in order, however they came; and their quantiles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.utils.stats import _weighted_percentile

from hpometrics.exceptions import MetricInputError, StateError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Vector
from hpometrics.metrics.statistics import scores as scores_module
from hpometrics.metrics.statistics.scores import Pooled, quantile


def batch(rows, width=2, seed=0, **options):
    """Random rows."""
    values = torch.randn(2, rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Outputs(Vector(), predictions=values[0], target=values[1], **options)


def test_many_small_batches_are_one():
    """More than are held apart: every row is there, in its order."""
    whole, pooled = batch(1300), Pooled()
    for start in range(1300):
        pooled.update(whole.rows(torch.arange(1300) == start))
    assert torch.equal(pooled.rows.preds, whole.predictions)
    assert torch.equal(pooled.rows.target, whole.target)
    pooled.update(batch(3, seed=1))
    assert len(pooled.rows.weight) == 1303


def test_rows_without_weight_are_left_out():
    """Those of weight 0 are not among the rows."""
    pooled = Pooled()
    pooled.update(batch(4, sample_weight=[1.0, 0.0, 2.0, 0.0]))
    assert pooled.rows.weight.tolist() == [1.0, 2.0]
    assert pooled.rows.preds.shape == (2, 2)


def test_nothing_is_shared_with_the_batch_or_the_state():
    """Overwriting what was handed in or out changes nothing."""
    values = torch.ones(3, 2, dtype=torch.float64)
    pooled = Pooled()
    pooled.update(Outputs(Vector(), predictions=values, target=values))
    pooled.state()["values"].zero_()
    values.zero_()
    assert pooled.rows.preds.sum() == 6


def test_other_widths_are_refused():
    """By a batch and by a merge."""
    pooled, other = Pooled(), Pooled()
    pooled.update(batch(3, 2))
    other.update(batch(3, 5))
    with pytest.raises(MetricInputError, match="2 columns, but this one has 5"):
        pooled.check(batch(3, 5))
    with pytest.raises(StateError, match=r"rows of \{'values': \(2, 2\), .* merge, got \{'values': \(2, 5\)"):
        pooled.merge(other)


def test_a_loaded_state_replaces_the_rows():
    """And an empty one forgets them."""
    pooled, other = Pooled(), Pooled()
    pooled.update(batch(3))
    other.load_state(pooled.state())
    assert torch.equal(other.rows.target, pooled.rows.target)
    other.load_state({})
    assert other.empty and other.state() == {}


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.25, 0.5, 0.77, 1.0])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_quantiles_are_those_of_scikit_learn(alpha, whole, seed):
    """Weighted, with ties, in each column."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 9, (57, 3)).astype(float)
    weight = random.integers(1, 5, 57).astype(float) if whole else random.random(57)
    expected = _weighted_percentile(values, weight, alpha * 100, average=True)
    got = quantile(torch.tensor(values), torch.tensor(weight), alpha)
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 9, 10])
def test_the_median_is_the_usual_one(rows):
    """The middle one, or the middle between the two middle ones."""
    values = torch.randn(rows, 2, generator=torch.Generator().manual_seed(rows), dtype=torch.float64)
    np.testing.assert_allclose(quantile(values, torch.ones(rows), 0.5), np.median(values, axis=0))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 10, 101])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0])
def test_quantiles_without_weights_are_those_of_equal_weights(alpha, rows):
    """Selected, not sorted: the same values to the last bit."""
    values = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows)).round(decimals=1).double()
    expected = quantile(values, torch.full((rows,), 2.0), alpha)
    assert torch.equal(quantile(values, torch.ones(rows), alpha), expected)


@pytest.mark.parametrize("alpha", [0.0, 0.001, 0.3, 0.5, 0.9995, 1.0])
@pytest.mark.parametrize("order", ["drawn", "ascending", "periodic", "tied"])
def test_places_of_many_values_are_found_by_a_sample(alpha, order, monkeypatch):
    """Where the sample is none of the values, too: the same values to the last bit."""
    monkeypatch.setattr(scores_module, "_SAMPLED", 16)
    values = torch.randn(1000, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    values = {
        "drawn": values,
        "ascending": values.sort(0).values,
        "periodic": torch.arange(1000.0).remainder(1000 // 16).double().unsqueeze(1),
        "tied": values.round(),
    }[order]
    expected = quantile(values, torch.full((1000,), 2.0), alpha)
    assert torch.equal(quantile(values, torch.ones(1000), alpha), expected)
