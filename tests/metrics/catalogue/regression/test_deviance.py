"""Deviances against scikit-learn, in every partition and with weights; what a distribution cannot have."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from matrix import covering
from real_outputs import SHAPES, draw, fed, value, weights

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.features import Number
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

POWERS = [-1.5, 0.0, 1.0, 1.5, 2.0, 2.7, 3.0]


def columns(score, preds, target, **options):
    """The mean over columns of a score that scikit-learn has for one."""
    pairs = zip(preds.reshape(len(preds), -1).T, target.reshape(len(target), -1).T, strict=True)
    return np.mean([score(t.numpy(), p.numpy(), **options) for p, t in pairs])


@pytest.mark.parametrize(
    ("power", "shape", "seed"),
    covering(product(POWERS, SHAPES, range(2)), lambda case: [case[:2]], ids=str),
)
def test_scikit_learn_agrees(power, shape, seed):
    """Of any power, with weights and without."""
    preds, target = draw(shape, seed)
    weight = weights(len(target), seed) + 0.01
    name = f"tweedie_deviance(power={power})"
    assert value(name, preds, target) == pytest.approx(
        columns(sk.mean_tweedie_deviance, preds, target, power=power), rel=1e-10
    )
    assert value(name, preds, target, sample_weight=weight) == pytest.approx(
        columns(sk.mean_tweedie_deviance, preds, target, power=power, sample_weight=weight), rel=1e-10
    )


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("shape", [(500,), (31,), (41, 4)])
def test_shares_of_deviance_agree(power, shape):
    """d2_tweedie, over uneven batches and weighted; scikit-learn keeps every row, we do not."""
    preds, target = draw(shape, 4)
    weight = weights(len(target)) + 0.01
    name = f"d2_tweedie(power={power})"
    assert value(name, preds, target) == pytest.approx(
        columns(sk.d2_tweedie_score, preds, target, power=power), rel=1e-9
    )
    assert value(name, preds, target, sample_weight=weight) == pytest.approx(
        columns(sk.d2_tweedie_score, preds, target, power=power, sample_weight=weight), rel=1e-9
    )


@pytest.mark.parametrize(("name", "power"), [("poisson_deviance", 1), ("gamma_deviance", 2)])
def test_named_powers(name, power):
    """Poisson is a power of 1, Gamma one of 2."""
    preds, target = draw((50,))
    assert value(name, preds, target) == value(f"tweedie_deviance(power={power})", preds, target)


def test_a_count_of_zero_has_a_poisson_deviance():
    """2 * prediction, where the logarithm alone would be infinite; also of a batch that is all zeros."""
    zeros = torch.zeros(3)
    assert value("poisson_deviance", torch.full((3,), 2.0), zeros) == 4.0
    metric = fed(
        "d2_tweedie(power=1)", Number(), predictions=torch.ones(3), target=torch.tensor([0.0, 0.0, 3.0])
    )
    expected = sk.d2_tweedie_score([0, 0, 3], [1, 1, 1], power=1)
    assert metric.compute().item() == pytest.approx(expected)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_a_large_offset_costs_few_digits(power):
    """Targets around 1e6 with a deviation of 1e-2: the share is that of the squared errors."""
    random = np.random.default_rng(0)
    gaps = random.normal(size=500) * 1e-2
    target, preds = torch.tensor(1e6 + gaps), torch.tensor(1e6 + gaps + random.normal(size=500) * 5e-3)
    expected = value("r2", preds, target)
    assert value(f"d2_tweedie(power={power})", preds, target) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "preds", "target", "message"),
    [
        ("poisson_deviance", 0.0, 1.0, "poisson_deviance of power 1 needs predictions above 0, got 0"),
        ("poisson_deviance", 1.0, -1.0, "of power 1 needs targets from 0, got -1"),
        ("gamma_deviance", 1.0, 0.0, "of power 2 needs targets above 0, got 0"),
        ("d2_tweedie(power=2)", -1.0, 1.0, "d2_tweedie of power 2 needs predictions above 0, got -1"),
        ("tweedie_deviance(power=-1)", -1.0, 1.0, "needs predictions above 0, got -1"),
    ],
)
def test_what_a_distribution_cannot_have(name, preds, target, message):
    """Refused with the value, and nothing of the batch is kept."""
    metric = get_metric(name, Number())
    with pytest.raises(MetricInputError, match=message):
        metric.update(torch.tensor([preds]), torch.tensor([target]))
    assert metric.compute().isnan()


def test_no_distribution_has_a_power_between_0_and_1():
    """The parameter is checked when the metric is made."""
    with pytest.raises(MetricNameError, match=r"a power between 0 and 1, got 0\.5"):
        get_metric("tweedie_deviance(power=0.5)", Number())


@pytest.mark.parametrize("target", [[1.0], [2.0, 2.0, 2.0]])
def test_no_share_of_nothing(target):
    """One row, or a constant target: undefined with the reason, where scikit-learn gives nan, 0 or 1."""
    metric = fed(
        "d2_tweedie(power=1)", Number(), predictions=torch.ones(len(target)), target=torch.tensor(target)
    )
    assert metric.compute().isnan()
    assert "at least 2 rows" in metric.undefined_reason or "the same number" in metric.undefined_reason


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("neg_mean_poisson_deviance", "poisson_deviance"), ("neg_mean_gamma_deviance", "gamma_deviance"),
        ("mean_tweedie_deviance", "tweedie_deviance"), ("tweedie_deviance_score", "tweedie_deviance"),
        ("d2_tweedie_score", "d2_tweedie"),
    ],
)  # fmt: skip
def test_the_names_of_others(alias, name):
    """The names of scikit-learn and torchmetrics."""
    assert str(find_metric(alias, "number").name) == name
