"""Quantile losses and their shares against scikit-learn; sets of quantiles by hand and against the CRPS."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from real_outputs import SHAPES, draw, fed, value, weights

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.features import Number, Vector
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_pinball_is_that_of_scikit_learn(alpha, shape):
    """With weights and without, in uneven batches."""
    preds, target = draw(shape, 1)
    weight, name = weights(len(target)) + 0.01, f"pinball(alpha={alpha})"
    expected = sk.mean_pinball_loss(target, preds, alpha=alpha)
    assert value(name, preds, target) == pytest.approx(expected, rel=1e-12)
    expected = sk.mean_pinball_loss(target, preds, alpha=alpha, sample_weight=weight)
    assert value(name, preds, target, sample_weight=weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("shape", [(500,), (10,), (37,), (41, 4)])
@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.5, 0.9])
def test_shares_are_those_of_scikit_learn(alpha, shape, ties):
    """d2_pinball, weighted and not; of columns that all vary."""
    preds, target = draw(shape, 2, ties=ties)
    weight, name = weights(len(target)), f"d2_pinball(alpha={alpha})"
    assert value(name, preds, target) == pytest.approx(
        sk.d2_pinball_score(target, preds, alpha=alpha), abs=1e-12
    )
    expected = sk.d2_pinball_score(target, preds, alpha=alpha, sample_weight=weight)
    assert value(name, preds, target, sample_weight=weight) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shape", [(500,), (10,), (41, 4)])
def test_the_share_of_the_absolute_error(shape):
    """d2_absolute_error is d2_pinball of a half."""
    preds, target = draw(shape, 3)
    expected = sk.d2_absolute_error_score(target, preds)
    assert value("d2_absolute_error", preds, target) == pytest.approx(expected, abs=1e-12)
    assert value("d2_pinball", preds, target) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["d2_pinball", "d2_absolute_error"])
@pytest.mark.parametrize("target", [[1.0], [2.0, 2.0, 2.0]])
def test_no_share_of_nothing(name, target):
    """One row or a constant target: undefined, with the reason."""
    metric = fed(name, Number(), predictions=torch.ones(len(target)), target=torch.tensor(target))
    assert metric.compute().isnan()
    assert "at least 2 rows" in metric.undefined_reason or "the same number" in metric.undefined_reason


@pytest.mark.parametrize("shape", [(60,), (30, 4)])
def test_a_set_of_quantiles(shape):
    """The mean of the pinball losses of each level, for levels given by row, once, or evenly spaced."""
    preds, target = draw(shape, 4)
    shares = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
    quantiles = preds.unsqueeze(-1) + torch.tensor([-1.0, 0.0, 1.0])
    expected = np.mean(
        [sk.mean_pinball_loss(target, quantiles[..., i], alpha=float(a)) for i, a in enumerate(shares)]
    )
    by_row = shares.expand(len(target), 3)
    for levels in ({}, {"levels": by_row}):
        assert value("mean_pinball", preds, target, quantiles=quantiles, **levels) == pytest.approx(expected)
    metric = get_metric("mean_pinball", Number() if len(shape) == 1 else Vector())
    metric.update(preds, target, quantiles=quantiles, levels=shares)
    assert metric.compute().item() == pytest.approx(expected)


def test_many_quantiles_tend_to_the_crps():
    """Twice the mean pinball loss of the quantiles of a Gaussian is its CRPS, in the limit."""
    preds, target = draw((50,), 5)
    levels = torch.arange(1, 2000, dtype=torch.float64) / 2000
    normal = torch.distributions.Normal(0.0, 1.0)
    quantiles = preds.unsqueeze(1) + normal.icdf(levels)
    twice = 2 * value("mean_pinball", preds, target, quantiles=quantiles)
    assert twice == pytest.approx(value("gaussian_crps", preds, target, scale=torch.ones(50)), rel=2e-3)


@pytest.mark.parametrize("name", ["pinball(alpha=1.5)", "d2_pinball(alpha=0)", "interval_score(alpha=1)"])
def test_alpha_is_a_share(name):
    """Refused when the metric is made."""
    with pytest.raises(MetricNameError, match="alpha must be a share"):
        get_metric(name, Number())


def test_quantiles_are_needed():
    """The message says under which keyword."""
    metric = get_metric("mean_pinball", Number())
    with pytest.raises(
        MetricInputError, match=r"mean_pinball needs quantiles= beside .*; quantiles= is missing"
    ):
        metric.update(torch.ones(2), torch.ones(2))
    with pytest.raises(MetricInputError, match=r"needs quantiles= of shape \(2, any number\), got \(3, 4\)"):
        metric.update(torch.ones(2), torch.ones(2), quantiles=torch.ones(3, 4))


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("mean_pinball_loss", "pinball"), ("quantile_loss", "pinball"), ("d2_pinball_score", "d2_pinball"),
        ("d2_absolute_error_score", "d2_absolute_error"),
    ],
)  # fmt: skip
def test_the_names_of_others(alias, name):
    """scikit-learn's."""
    assert str(find_metric(alias, "number").name) == name
