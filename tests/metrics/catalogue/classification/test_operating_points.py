from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
import torchmetrics.functional.classification as tm
from matrix import covering, pairs
from scored import SEEDS, epoch, measured, over_columns

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

LEVELS = (0.0, 0.3, 0.5, 0.9, 1.0)


def rates(target, scores, weight):
    """True and false positives at every cut, by counting."""
    weight = np.ones(len(target)) if weight is None else weight
    cuts = [np.inf, *np.unique(scores[weight > 0])[::-1]]
    tp = np.array([weight[(scores >= cut) & (target == 1)].sum() for cut in cuts])
    fp = np.array([weight[(scores >= cut) & (target == 0)].sum() for cut in cuts])
    return tp, fp


def brute_force(name, level):
    """The best rate over all cuts that keep the other at its level."""

    def best(target, scores, sample_weight=None):
        tp, fp = rates(target, scores, sample_weight)
        if not (tp[-1] and fp[-1]):
            return np.nan
        tpr, fpr = tp / tp[-1], fp / fp[-1]
        precision = np.divide(tp, tp + fp, out=np.zeros_like(tp), where=tp + fp > 0)
        return {
            "recall_at_precision": lambda: max([*tpr[1:][precision[1:] >= level], 0.0]),
            "precision_at_recall": lambda: precision[1:][tpr[1:] >= level].max(),
            "sensitivity_at_specificity": lambda: tpr[(fp[-1] - fp) / fp[-1] >= level].max(),
            "specificity_at_sensitivity": lambda: (1 - fpr)[tpr >= level].max(),
            "fpr_at_tpr": lambda: fpr[tpr >= level].min(),
        }[name]()

    return best


HELD = {
    "recall_at_precision": "precision",
    "precision_at_recall": "recall",
    "sensitivity_at_specificity": "specificity",
    "specificity_at_sensitivity": "sensitivity",
    "fpr_at_tpr": "tpr",
}


@pytest.mark.parametrize(
    ("name", "level", "weighted", "drawn"),
    covering(product(HELD, LEVELS, [False, True], SEEDS), lambda case: pairs(*case), ids=str),
)
def test_rates_at_a_level_agree_with_brute_force(name, level, weighted, drawn):
    """Over all cuts, with ties and weights, of one column and of several."""
    for feature, average in (("binary", "macro"), ("category", "macro"), ("set", "micro"), ("set", "none")):
        case = epoch(feature, *drawn)
        weight = case.weight if weighted else None
        expected = over_columns(brute_force(name, level), case, average, weight)
        got = measured(f"{name}({HELD[name]}={level}, average={average})", case, weighted)
        np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize(("rows", "seed", "ties"), SEEDS)
@pytest.mark.parametrize("level", LEVELS)
def test_rates_at_a_level_agree_with_torchmetrics(level, rows, seed, ties):
    """Its four metrics of this kind, on the exact curve; it counts in float32."""
    case = epoch("binary", rows, seed, ties)
    pair = torch.tensor(case.probabilities), torch.tensor(case.target)
    theirs = {
        "recall_at_precision": tm.binary_recall_at_fixed_precision(*pair, min_precision=level),
        "precision_at_recall": tm.binary_precision_at_fixed_recall(*pair, min_recall=level),
        "sensitivity_at_specificity": tm.binary_sensitivity_at_specificity(*pair, min_specificity=level),
        "specificity_at_sensitivity": tm.binary_specificity_at_sensitivity(*pair, min_sensitivity=level),
    }
    for name, (expected, _) in theirs.items():
        got = measured(f"{name}({HELD[name]}={level})", case)
        np.testing.assert_allclose(got, expected.item(), atol=1e-6)


@pytest.mark.parametrize(("rows", "seed", "ties"), SEEDS)
def test_equal_error_rate_agrees_with_torchmetrics(rows, seed, ties):
    """Mean of the two error rates where they come nearest, of one column and of several."""
    case = epoch("binary", rows, seed, ties)
    expected = tm.binary_eer(torch.tensor(case.probabilities), torch.tensor(case.target)).item()
    np.testing.assert_allclose(measured("eer", case), expected, atol=1e-6)
    case = epoch("category", max(rows, 40), seed, ties)
    pair = torch.tensor(case.probabilities), torch.tensor(case.target)
    expected = [tm.binary_eer(pair[0][:, c], (pair[1] == c).long()).item() for c in range(4)]
    np.testing.assert_allclose(measured("eer(average=none)", case), expected, atol=1e-6)


def test_a_level_that_is_never_reached_is_worth_nothing():
    """Where no threshold is precise enough the recall is 0, the worst, and not undefined."""
    metric = get_metric("recall_at_precision(precision=0.9)", "binary")
    metric.update(probabilities=torch.tensor([0.9, 0.8, 0.1]), target=torch.tensor([0, 0, 1]))
    assert metric.compute().item() == 0.0


def test_95_percent_is_a_share_of_the_positives():
    """19 of 20 are 95 percent, without a rounding error."""
    scores = torch.arange(40.0)
    target = (torch.arange(40) >= 20).long()
    target[20], target[10] = 0, 1
    metric = get_metric("fpr95", "binary")
    metric.update(logits=scores, target=target)
    assert metric.compute().item() == 0.0
    assert str(find_metric("fpr95", "binary").name) == "fpr_at_tpr"


@pytest.mark.parametrize("name", HELD)
def test_levels_are_rates(name):
    """A percentage is refused."""
    with pytest.raises(MetricNameError, match=rf"{HELD[name]} must be a rate in \[0, 1\], got 95"):
        get_metric(f"{name}({HELD[name]}=95)", "binary")


@pytest.mark.parametrize("name", [*(f"{name}({held}=0.5)" for name, held in HELD.items()), "eer"])
def test_one_class_only_is_undefined(name):
    """There is no rate of nothing."""
    metric = get_metric(name, "binary")
    metric.update(probabilities=torch.rand(9), target=torch.zeros(9))
    assert metric.compute().isnan() and metric.undefined_reason == "the target has a single class"
