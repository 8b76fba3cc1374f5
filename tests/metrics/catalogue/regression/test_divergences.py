"""Divergences and the critical success index against scipy, torch and torchmetrics."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.special
import torch
import torchmetrics.functional.regression as reference
from real_outputs import SHAPES, draw, fed, value, weights

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Number, Vector
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric


def distributions(rows=60, width=5, seed=0):
    """Two distributions a row."""
    random = np.random.default_rng(seed)
    return tuple(torch.tensor(random.dirichlet(np.ones(width), rows)) for _ in range(2))


@pytest.mark.parametrize("seed", range(3))
def test_kullback_leibler(seed):
    """Scipy's relative entropy, torch's batchmean, and torchmetrics' with p the target."""
    preds, target = distributions(seed=seed)
    weight = weights(60)
    by_row = scipy.special.rel_entr(target.numpy(), preds.numpy()).sum(1)
    got = value("kl_divergence", preds, target)
    assert got == pytest.approx(by_row.mean(), rel=1e-12)
    assert got == pytest.approx(torch.nn.functional.kl_div(preds.log(), target, reduction="batchmean").item())
    assert got == pytest.approx(reference.kl_divergence(target, preds).item(), rel=1e-6)
    weighed = value("kl_divergence", preds, target, sample_weight=weight)
    assert weighed == pytest.approx(np.average(by_row, weights=weight), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_jensen_shannon(seed):
    """Scipy gives its root; torchmetrics the same; it does not matter which is the target."""
    preds, target = distributions(seed=seed)
    by_row = scipy.spatial.distance.jensenshannon(preds.numpy(), target.numpy(), axis=1) ** 2
    got = value("js_divergence", preds, target)
    assert got == pytest.approx(by_row.mean(), rel=1e-9)
    assert got == pytest.approx(reference.jensen_shannon_divergence(preds, target).item(), rel=1e-6)
    assert got == pytest.approx(value("js_divergence", target, preds), rel=1e-12)


def test_a_zero_where_the_target_has_none_is_an_infinite_divergence():
    """Undefined with the reason; the other way round it adds nothing."""
    certain, even = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    metric = fed("kl_divergence", Vector(), predictions=certain, target=even)
    assert metric.compute().isnan() and "infinite divergence" in metric.undefined_reason
    assert value("kl_divergence", even, certain) == pytest.approx(np.log(2))


@pytest.mark.parametrize("name", ["kl_divergence", "js_divergence"])
@pytest.mark.parametrize("bad", [[[0.5, 0.6]], [[1.5, -0.5]], [[3.0, 1.0]]])
def test_a_row_is_a_distribution(name, bad):
    """Logits and counts are refused with what came."""
    metric = get_metric(name, Vector())
    with pytest.raises(MetricInputError, match=f"{name} reads rows of probabilities from 0 that sum to 1"):
        metric.update(torch.tensor(bad), torch.tensor([[0.5, 0.5]]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threshold", [2.0, 5.0])
def test_critical_success(threshold, shape):
    """torchmetrics', over all values together; a whole weight is a repetition."""
    preds, target = draw(shape, 2)
    expected = reference.critical_success_index(preds, target, threshold).item()
    name = f"csi(threshold={threshold})"
    got = value(name, preds, target)
    assert got == pytest.approx(expected, rel=1e-6) or ((preds < threshold) & (target < threshold)).all()
    if len(target) > 2:
        times = torch.randint(0, 3, (len(target),), generator=torch.Generator().manual_seed(0))
        repeated = value(name, preds.repeat_interleave(times, 0), target.repeat_interleave(times, 0))
        assert value(name, preds, target, sample_weight=times) == pytest.approx(repeated)


def test_no_event_no_success():
    """Undefined where nothing came and nothing was predicted, where torchmetrics gives 0."""
    metric = fed("csi(threshold=5)", Number(), predictions=torch.ones(3), target=torch.ones(3))
    assert metric.compute().isnan()
    assert metric.undefined_reason == "no prediction and no target reaches 5"


@pytest.mark.parametrize(
    ("alias", "name", "feature"),
    [
        ("jensen_shannon_divergence", "js_divergence", "vector"), ("kl_div", "kl_divergence", "vector"),
        ("critical_success_index(threshold=1)", "csi(threshold=1.0)", "number"),
    ],
)  # fmt: skip
def test_the_names_of_others(alias, name, feature):
    """Torchmetrics' and torch's."""
    assert str(find_metric(alias, feature).name) == name
