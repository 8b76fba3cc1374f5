from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from matrix import covering, pairs
from scored import SEEDS, epoch, measured

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

CURVES = {
    "roc_curve": sk.roc_curve,
    "precision_recall_curve": sk.precision_recall_curve,
    "det_curve": sk.det_curve,
}


@pytest.mark.parametrize(
    ("name", "feature", "weighted", "drawn"),
    covering(
        product(CURVES, ["binary", "category", "set"], [False, True], SEEDS),
        lambda case: pairs(*case),
        ids=str,
    ),
)
def test_points_are_those_of_scikit_learn(name, feature, weighted, drawn):
    """All points of the curve and their thresholds, as probabilities; weights of any size."""
    rows, seed, ties = drawn
    case = epoch(feature, max(rows, 40), seed, ties)
    target, scores = case.columns[-1]
    weight = case.weight if weighted else None
    points = CURVES[name](target, scores, sample_weight=weight)
    params = "" if feature == "binary" else f"(class={len(case.columns) - 1})"
    got = measured(f"{name}{params}", case, weighted, form="probabilities")
    assert got.shape == (3, len(points[0]))
    for ours, theirs in zip(got, points, strict=True):
        np.testing.assert_allclose(ours[: len(theirs)], theirs, atol=1e-12)


def test_every_point_can_be_kept():
    """Without `drop_intermediate` the ROC curve has a point per distinct score."""
    case = epoch("binary", 200, 4, ties=True)
    expected = sk.roc_curve(case.target, case.probabilities, drop_intermediate=False)
    got = measured("roc_curve(drop_intermediate=false)", case, form="probabilities")
    np.testing.assert_allclose(got, np.stack(expected), atol=1e-12)


@pytest.mark.parametrize("feature", ["binary", "category", "set"])
def test_thresholds_are_probabilities_where_logits_were_given(feature):
    """The same curve, to the precision of a sigmoid."""
    case = epoch(feature, 90, 5)
    params = "" if feature == "binary" else "(class=1)"
    for name in CURVES:
        logits, probabilities = (measured(name + params, case, form=f) for f in ("logits", "probabilities"))
        np.testing.assert_allclose(logits, probabilities, atol=1e-12)


def test_a_curve_is_measured_and_never_optimized():
    """It has no direction, says whose it is where there are several, and is undefined with one class."""
    assert all(find_metric(name, "binary").direction is None for name in CURVES)
    with pytest.raises(MetricNameError, match="needs class="):
        get_metric("roc_curve", "category")
    with pytest.raises(MetricInputError, match=r"the classes are 0..3, so there is no class 7"):
        measured("det_curve(class=7)", epoch("category", 20, 6))
    metric = get_metric("roc_curve", "binary")
    metric.update(probabilities=torch.rand(5), target=torch.ones(5))
    assert metric.compute().isnan() and metric.undefined_reason == "the target has a single class"
