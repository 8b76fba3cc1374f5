from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from matrix import covering, pairs
from scored import SEEDS, epoch, measured, over_columns

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Binary
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

SCORES = {
    "f1": lambda t, p, w: sk.f1_score(t, p, sample_weight=w, zero_division=0),
    "fbeta": lambda t, p, w: sk.fbeta_score(t, p, beta=2, sample_weight=w, zero_division=0),
    "accuracy": lambda t, p, w: sk.accuracy_score(t, p, sample_weight=w),
    "balanced_accuracy": lambda t, p, w: sk.balanced_accuracy_score(t, p, sample_weight=w),
    "mcc": lambda t, p, w: sk.matthews_corrcoef(t, p, sample_weight=w),
    "jaccard": lambda t, p, w: sk.jaccard_score(t, p, sample_weight=w, zero_division=0),
}
CRITERIA = (*SCORES, "youden")
DRAWN = [(60, 0, False), (120, 1, True), (13, 3, True)]
"""Rows, seed, whether many scores tie; scikit-learn is asked once for each score."""


def brute_force(criterion):
    """The largest value over all thresholds, one by one, by scikit-learn's metric of the decisions."""

    def largest(target, scores, sample_weight=None):
        counted = np.ones(len(target), bool) if sample_weight is None else sample_weight > 0
        if len(np.unique(target[counted])) < 2:
            return np.nan
        cuts = [*np.unique(scores[counted]), np.inf]
        return max(SCORES[criterion](target, (scores >= cut).astype(int), sample_weight) for cut in cuts)

    return largest


def options(name):
    """What the metric needs beside its name."""
    return "beta=2.0" if "fbeta" in name else ""


@pytest.mark.parametrize(
    ("criterion", "weighted", "drawn"),
    covering(product(SCORES, [False, True], DRAWN), lambda case: [case[0], case[1:]], ids=str),
)
def test_the_maximum_is_that_of_a_search_by_brute_force(criterion, weighted, drawn):
    """Over every threshold, with ties and weights; predicting nothing is one of the choices."""
    case = epoch("binary", *drawn)
    expected = brute_force(criterion)(case.target, case.probabilities, case.weight if weighted else None)
    got = measured(f"{criterion}_max({options(criterion)})", case, weighted)
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("criterion", "average"),
    covering(product(SCORES, ["micro", "macro", "weighted", "none"]), lambda case: case),
)
def test_labels_of_a_set_have_a_threshold_each(criterion, average):
    """macro, weighted and none search per label, micro for all labels together."""
    case = epoch("set", 60, 4, ties=True)
    expected = over_columns(brute_force(criterion), case, average)
    params = ", ".join(filter(None, [f"average={average}", options(criterion)]))
    np.testing.assert_allclose(measured(f"{criterion}_max({params})", case), expected, atol=1e-12)


def value_at(threshold, criterion, case, form, dtype, output):
    """What the decisions of the feature itself are worth at a threshold."""
    given = torch.tensor(case.logits if form == "logits" else case.probabilities).to(dtype)
    decided = Outputs(
        output(threshold=threshold), **{form: given}, target=torch.tensor(case.target)
    ).predictions
    if criterion == "youden":
        return 2 * sk.balanced_accuracy_score(case.target, decided) - 1
    return SCORES[criterion](case.target, decided.numpy(), None)


@pytest.mark.parametrize(
    ("criterion", "form", "dtype", "drawn"),
    covering(
        product(CRITERIA, ["logits", "probabilities"], [torch.float32, torch.float64], SEEDS),
        lambda case: pairs(*case),
        ids=str,
    ),
)
def test_the_best_threshold_gives_the_maximum(criterion, form, dtype, drawn):
    """The feature with that threshold, which predicts 1 strictly above it, reaches the maximum exactly."""
    case = epoch("binary", *drawn)
    params = ", ".join(filter(None, [f"criterion={criterion}", options(criterion)]))
    threshold = float(measured(f"best_threshold({params})", case, form=form, dtype=dtype))
    largest = "balanced_accuracy" if criterion == "youden" else criterion
    maximum = float(measured(f"{largest}_max({options(criterion)})", case, form=form, dtype=dtype))
    maximum = 2 * maximum - 1 if criterion == "youden" else maximum
    assert value_at(threshold, criterion, case, form, dtype, Binary) == pytest.approx(maximum, rel=1e-12)


@pytest.mark.parametrize(
    ("form", "dtype"),
    [("probabilities", torch.float32), ("probabilities", torch.float64), ("logits", torch.float32)],
)
def test_neighboring_scores_are_parted(form, dtype):
    """Between two adjacent numbers there is no middle: the threshold is the lower of them, or its sigmoid."""
    low = torch.tensor(0.3, dtype=dtype)
    scores, target = torch.stack([low, torch.nextafter(low, torch.ones_like(low))]), torch.tensor([0, 1])
    metric = get_metric("best_threshold(criterion=accuracy)", "binary")
    metric.update(**{form: scores}, target=target)
    output = Binary(threshold=metric.compute().item())
    assert Outputs(output, **{form: scores}, target=target).predictions.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("scores", "form"),
    [(torch.tensor([38.0, 40.0, 41.0]), "logits"), (torch.tensor([0.0, 0.0, 0.5]), "probabilities")],
)
def test_a_threshold_that_no_probability_can_say_is_undefined(scores, form):
    """Logits beyond 37 have one sigmoid, 1; a probability of 0 is above no threshold."""
    target = torch.tensor([0, 1, 1]) if form == "logits" else torch.tensor([1, 1, 0])
    metric = get_metric("best_threshold(criterion=f1)", "binary")
    metric.update(**{form: scores}, target=target)
    assert metric.compute().isnan() and "no probability lies between" in metric.undefined_reason
    largest = get_metric("f1_max", "binary")
    largest.update(**{form: scores}, target=target)
    assert largest.compute().item() == (1.0 if form == "logits" else 0.8)


def test_each_label_has_its_best_threshold():
    """Each is that of the label on its own; a label that is never there has none."""
    case = epoch("set", 50, 5)
    case.target[:, 1] = 0
    every = measured("best_threshold(average=none, criterion=mcc)", case)
    for label in (0, 2, 3):
        alone = get_metric("best_threshold(criterion=mcc)", "binary")
        alone.update(logits=torch.tensor(case.logits[:, label]), target=torch.tensor(case.target[:, label]))
        assert alone.compute().item() == every[label]
    assert np.isnan(every[1])


@pytest.mark.parametrize(
    "name", [*(f"{c}_max({options(c)})" for c in SCORES), "best_threshold(criterion=f1)"]
)
def test_one_class_only_is_undefined(name):
    """There is nothing to tell apart."""
    metric = get_metric(name, "binary")
    metric.update(probabilities=torch.rand(9), target=torch.ones(9))
    assert metric.compute().isnan() and metric.undefined_reason == "the target has a single class"


def test_choices_and_beta_are_checked():
    """A threshold is of a stated criterion; beta is above 0; the threshold is never optimized."""
    with pytest.raises(MetricNameError, match="criterion must be one of f1, fbeta, mcc, youden,"):
        get_metric("best_threshold(criterion=gini)", "binary")
    with pytest.raises(MetricNameError, match="needs criterion="):
        get_metric("best_threshold", "binary")
    with pytest.raises(MetricNameError, match="fbeta_max: beta must be a number above 0, got 0"):
        get_metric("fbeta_max(beta=0.0)", "binary")
    assert find_metric("best_threshold(criterion=f1)", "binary").direction is None


def test_a_million_rows_are_searched():
    """No cut of fifty beats the maximum, and the best of them comes near it."""
    random = torch.Generator().manual_seed(0)
    scores, target = torch.rand(1_000_000, generator=random), torch.rand(1_000_000, generator=random) < 0.3
    metric = get_metric("f1_max", "binary")
    metric.update(probabilities=scores, target=target)
    predictions = (scores >= cut for cut in torch.linspace(0.001, 0.999, 50))
    looped = max(2 * (p & target).sum().item() / (p.sum() + target.sum()).item() for p in predictions)
    assert looped - 1e-12 <= metric.compute() < looped + 1e-3
