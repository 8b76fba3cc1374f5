"""Intervals by numpy and by hand; what they need, and what a good one looks like."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from real_outputs import draw, fed, value, weights

from hpometrics.exceptions import MetricInputError, NonFiniteError
from hpometrics.metrics.features import Number
from hpometrics.metrics.registry.register import get_metric


def ends(preds, seed=0):
    """Intervals of random widths around predictions."""
    width = torch.tensor(np.random.default_rng(seed).uniform(0.1, 4, preds.shape))
    return {"lower": preds - width, "upper": preds + width / 2}


def winkler(target, lower, upper, alpha):
    """The formula, in numpy."""
    return (upper - lower) + 2 / alpha * (np.maximum(lower - target, 0) + np.maximum(target - upper, 0))


@pytest.mark.parametrize("shape", [(300,), (31, 4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_by_numpy(shape, weighted):
    """Coverage, width and score, in uneven batches."""
    preds, target = draw(shape, 1)
    batch = ends(preds)
    t, low, high = (x.numpy().reshape(len(target), -1) for x in (target, batch["lower"], batch["upper"]))
    weight = weights(len(target))
    by_row = {
        "interval_coverage": (low <= t) & (t <= high),
        "interval_width": high - low,
        "interval_score(alpha=0.2)": winkler(t, low, high, 0.2),
    }
    extras = {**batch, "sample_weight": weight} if weighted else batch
    for name, values in by_row.items():
        expected = np.average(values.mean(1), weights=weight if weighted else None)
        assert value(name, preds, target, **extras) == pytest.approx(expected, rel=1e-12)


def test_coverage_is_judged_by_its_distance_from_nominal():
    """Three of four targets inside: 0.25 below 1, and 0.15 below 0.9."""
    target = torch.tensor([0.0, 1.0, 2.0, 9.0])
    batch = {"lower": torch.zeros(4), "upper": torch.full((4,), 2.0)}
    assert value("interval_coverage", target, target, **batch) == 0.75
    assert value("interval_coverage_error", target, target, **batch) == pytest.approx(0.15)
    assert value("interval_coverage_error(alpha=0.25)", target, target, **batch) == 0.0


def test_the_best_interval_has_the_right_quantiles():
    """Of central intervals of a Gaussian the score is lowest for that of 90 %."""
    target = torch.randn(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    reach = {share: float(torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(0.5 + share / 2)))
             for share in (0.8, 0.9, 0.96)}  # fmt: skip
    scores = {
        share: value("interval_score", target, target,
                     lower=torch.full_like(target, -z), upper=torch.full_like(target, z))
        for share, z in reach.items()
    }  # fmt: skip
    assert min(scores, key=scores.__getitem__) == 0.9


@pytest.mark.parametrize("name", ["interval_coverage", "interval_width", "interval_score"])
def test_both_ends_are_needed(name):
    """The message names both and the one that is missing."""
    metric = get_metric(name, Number())
    with pytest.raises(MetricInputError, match=f"{name} needs lower=, upper= beside .*; upper= is missing"):
        metric.update(torch.ones(2), torch.ones(2), lower=torch.zeros(2))
    with pytest.raises(MetricInputError, match=r"needs lower= of shape \(2\), got \(2, 1\)"):
        metric.update(torch.ones(2), torch.ones(2), lower=torch.zeros(2, 1), upper=torch.zeros(2))
    with pytest.raises(NonFiniteError, match="lower= contains nan or infinite"):
        metric.update(torch.ones(2), torch.ones(2), lower=torch.full((2,), torch.nan), upper=torch.zeros(2))


def test_coverage_has_no_direction():
    """It is measured; its error is what can be optimized."""
    assert get_metric("interval_coverage", Number()).direction is None
    metric = fed("interval_coverage_error", Number(), predictions=torch.ones(1)[:0], target=torch.ones(1)[:0],
                 lower=torch.ones(0), upper=torch.ones(0))  # fmt: skip
    assert metric.compute().isnan() and metric.undefined_reason
