"""Forecast distributions against the definition, torchmetrics, torch and numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch
import torchmetrics.functional as reference
from real_outputs import draw, value, weights

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Number
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric


def ensemble(preds, size, seed=0):
    """Samples around predictions."""
    random = np.random.default_rng(seed)
    return preds.unsqueeze(-1) + torch.tensor(random.normal(size=(*preds.shape, size)))


def crps(samples, target, fair):
    """All pairs, one by one: (..., S) and (...)."""
    count = samples.shape[-1]
    pairs = np.abs(samples[..., :, None] - samples[..., None, :]).sum((-1, -2))
    return np.abs(samples - target[..., None]).mean(-1) - pairs / (2 * count * (count - fair))


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("size", [2, 3, 25])
@pytest.mark.parametrize("shape", [(80,), (31, 4)])
def test_crps_is_its_definition(shape, size, fair):
    """The sorted form equals the one over all pairs, weighted and in uneven batches."""
    preds, target = draw(shape, 1)
    samples, weight = ensemble(preds, size), weights(len(target))
    expected = crps(samples.numpy(), target.numpy(), fair).reshape(len(target), -1).mean(1)
    name = f"crps(fair={str(fair).lower()})"
    assert value(name, preds, target, samples=samples) == pytest.approx(expected.mean(), rel=1e-12)
    weighed = value(name, preds, target, samples=samples, sample_weight=weight)
    assert weighed == pytest.approx(np.average(expected, weights=weight), rel=1e-12)


def test_torchmetrics_agrees():
    """continuous_ranked_probability_score of an ensemble."""
    preds, target = draw((80,), 2)
    samples = ensemble(preds, 10)
    expected = reference.regression.continuous_ranked_probability_score(samples, target).item()
    assert value("crps", preds, target, samples=samples) == pytest.approx(expected, rel=1e-9)


def test_one_sample_is_a_point():
    """Its CRPS is the absolute error; a fair one has none."""
    preds, target = draw((30,))
    assert value("crps", preds, target, samples=preds.unsqueeze(1)) == pytest.approx(
        value("mae", preds, target)
    )
    with pytest.raises(MetricInputError, match="needs at least 2 samples of each value, got 1"):
        value("crps(fair=true)", preds, target, samples=preds.unsqueeze(1))


def test_an_offset_costs_no_digits():
    """Samples around 1e6 with a deviation of 1e-3."""
    preds, target = draw((100,), 3)
    samples = ensemble(preds, 8)
    plain = value("crps", preds, target, samples=samples)
    moved = value("crps", preds, 1e6 + target / 1024, samples=1e6 + samples / 1024)
    assert 1024 * moved == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(("mean", "scale", "came"), [(0.0, 1.0, 0.3), (1.0, 2.0, -4.0), (5.0, 0.1, 5.0)])
def test_the_gaussian_by_integration(mean, scale, came):
    """The integral of (F(x) - (x >= came)) squared."""

    def gap(x):
        return (scipy.stats.norm.cdf(x, mean, scale) - (x >= came)) ** 2

    low, high = mean - 12 * scale - abs(came), mean + 12 * scale + abs(came)
    expected = scipy.integrate.quad(gap, low, came)[0] + scipy.integrate.quad(gap, came, high)[0]
    point = [torch.tensor([x], dtype=torch.float64) for x in (mean, came, scale)]
    assert value("gaussian_crps", point[0], point[1], scale=point[2]) == pytest.approx(expected, abs=1e-7)


def test_many_samples_tend_to_the_gaussian():
    """The fair score of samples of a Gaussian is an estimate of its closed form."""
    preds, target = draw((400,), 4)
    samples = ensemble(preds, 200)
    closed = value("gaussian_crps", preds, target, scale=torch.ones(400))
    assert value("crps(fair=true)", preds, target, samples=samples) == pytest.approx(closed, rel=1e-2)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(50,), (31, 4)])
def test_likelihood_is_torchs(shape, full):
    """By variance or by scale, with the small variances cut off alike; the full one is scipy's density."""
    preds, target = draw(shape, 5)
    scale = torch.tensor(np.random.default_rng(1).uniform(1e-4, 2, shape))
    name = f"gaussian_nll(full={str(full).lower()})"
    expected = torch.nn.functional.gaussian_nll_loss(preds, target, scale.square(), full=full).item()
    assert value(name, preds, target, scale=scale) == pytest.approx(expected, rel=1e-12)
    assert value(name, preds, target, variance=scale.square()) == pytest.approx(expected, rel=1e-12)
    if full:
        wide = scale + 0.1
        density = -scipy.stats.norm.logpdf(target, preds, wide).mean()
        assert value(name, preds, target, scale=wide) == pytest.approx(density, rel=1e-12)


def test_what_is_needed():
    """Each missing or wrong extra is named."""
    ones = torch.ones(3)
    with pytest.raises(MetricInputError, match=r"crps needs samples= beside .*; samples= is missing"):
        get_metric("crps", Number()).update(ones, ones)
    with pytest.raises(
        MetricInputError, match=r"gaussian_nll needs either scale= or variance= .*pass one of them"
    ):
        get_metric("gaussian_nll", Number()).update(ones, ones)
    with pytest.raises(MetricInputError, match="gaussian_crps needs a scale above 0, got 0"):
        get_metric("gaussian_crps", Number()).update(ones, ones, scale=torch.zeros(3))
    with pytest.raises(MetricInputError, match="gaussian_nll needs a variance above 0, got -1"):
        get_metric("gaussian_nll", Number()).update(ones, ones, variance=-ones)


@pytest.mark.parametrize(
    ("alias", "name"),
    [("continuous_ranked_probability_score", "crps"), ("gaussian_nll_loss", "gaussian_nll")],
)
def test_the_names_of_others(alias, name):
    """Torchmetrics' and torch's."""
    assert str(find_metric(alias, "number").name) == name
