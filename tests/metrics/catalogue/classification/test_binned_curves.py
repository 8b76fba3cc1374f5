from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from matrix import covering, pairs
from scored import SEEDS, Epoch, epoch, measured

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.registry.register import get_metric

PAIRS = {"roc_auc_binned": "roc_auc", "average_precision_binned": "average_precision"}
AVERAGES = ("micro", "macro", "weighted", "none")


def within_bound(name, case, bins, average, weighted=False):
    """Our binned value, its distance from the exact one, and the bound that it states."""
    params = f"average={average}, bins={bins}"
    value, metric = measured(f"{name}({params})", case, weighted, form="probabilities", make=True)
    exact = measured(f"{PAIRS[name]}(average={average})", case, weighted, form="probabilities")
    return value, np.abs(value - exact), metric.error_bound.double().numpy()


@pytest.mark.parametrize(
    ("name", "feature", "bins", "weighted", "drawn"),
    covering(
        product(PAIRS, ["binary", "category", "set"], [1, 7, 100, 4096], [False, True], SEEDS),
        lambda case: pairs(*case),
        ids=str,
    ),
)
def test_the_exact_value_lies_within_the_stated_bound(name, feature, bins, weighted, drawn):
    """For every average, with ties and weights; where a class has no value neither has one."""
    for average in AVERAGES:
        _, distance, bound = within_bound(name, epoch(feature, *drawn), bins, average, weighted)
        assert (np.isnan(distance) == np.isnan(bound)).all()
        assert (np.isnan(distance) | (distance <= bound + 1e-12)).all()


def crowded(low, high, how, seed=0):
    """A thousand probabilities of a narrow range, in which order tells nothing, all, or the contrary."""
    random = np.random.default_rng(seed)
    target = (random.random(1000) < 0.3).astype(int)
    rank = {
        "noise": random.random(1000),
        "right": target + random.random(1000),
        "wrong": random.random(1000) - target,
    }
    place = rank[how].argsort().argsort() / 999
    probabilities = low + (high - low) * place
    return Epoch("binary", np.log(probabilities / (1 - probabilities)), target, np.ones(1000))


@pytest.mark.parametrize("how", ["noise", "right", "wrong"])
@pytest.mark.parametrize(
    ("low", "high"), [(0.998, 0.999), (0.5, 0.50001), (1e-9, 1e-3), (0.999999, 1 - 1e-12)]
)
@pytest.mark.parametrize("name", PAIRS)
def test_the_bound_holds_where_bins_are_blind(name, low, high, how):
    """Scores that share a few bins: the value may be far off, and the bound says so."""
    case = crowded(low, high, how)
    _, distance, bound = within_bound(name, case, 4096, "macro")
    assert distance <= bound + 1e-12
    assert bound > 0.01 or high - low > 1 / 4096


@pytest.mark.parametrize("name", PAIRS)
def test_the_bound_is_reached(name):
    """In one bin for all rows the right order is as far off as it can be: no smaller bound would do."""
    _, distance, bound = within_bound(name, crowded(0.998, 0.999, "right"), 1, "macro")
    assert distance == pytest.approx(bound, rel=1e-9)


def test_spread_scores_are_measured_to_a_millionth():
    """Ten thousand rows over 4096 bins: the bound is small, the error smaller."""
    case = epoch("binary", 10_000, 5)
    for name in PAIRS:
        _, distance, bound = within_bound(name, case, 4096, "macro")
        assert distance < 1e-4 and bound < 2e-3


def test_the_state_does_not_grow():
    """Its size is that of the histogram; where rows of two kinds are in no common bin the value is exact."""
    metric = get_metric("roc_auc_binned(bins=10)", "binary")
    for _ in range(3):
        metric.update(probabilities=torch.tensor([0.05, 0.95, 1.0]), target=torch.tensor([0, 0, 1]))
    (state,) = (statistic.state() for statistic in metric.kept.values())
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == {"rows": (2, 1, 11)}
    assert metric.compute().item() == 1.0 and metric.error_bound.item() == 0.0
    metric.reset()
    assert metric.error_bound is None


def test_thousand_bins_are_buckets_of_three_digits():
    """ParlAI's AUC: probabilities cut to three digits, by the trapezoids of its buckets."""
    case = epoch("binary", 500, 6)
    bucket = np.floor(case.probabilities * 1000)
    cuts = [np.inf, *np.unique(bucket)[::-1]]
    tpr = [(bucket[case.target == 1] >= cut).mean() for cut in cuts]
    fpr = [(bucket[case.target == 0] >= cut).mean() for cut in cuts]
    got = measured("roc_auc_binned(bins=1000)", case, form="probabilities")
    np.testing.assert_allclose(got, np.trapezoid(tpr, fpr), atol=1e-12)


def test_one_class_and_no_bins():
    """Undefined as the exact value is; a histogram has bins."""
    metric = get_metric("roc_auc_binned", "binary")
    metric.update(probabilities=torch.rand(4), target=torch.ones(4))
    assert metric.compute().isnan() and "a single class" in metric.undefined_reason
    with pytest.raises(MetricNameError, match="at least one bin, got bins=0"):
        get_metric("roc_auc_binned(bins=0)", "binary")
