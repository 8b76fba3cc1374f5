from __future__ import annotations

import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics as sk
import torch
import torchmetrics.functional.classification as tm
from matrix import covering, pairs
from scored import SEEDS, epoch, measured, over_columns

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

AVERAGES = ("micro", "macro", "weighted", "none")
FEATURES = ("binary", "category", "set")


def roc_auc(target, scores, sample_weight=None, max_fpr=None):
    """The area of scikit-learn, nan without its warning where a class is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sk.roc_auc_score(target, scores, sample_weight=sample_weight, max_fpr=max_fpr)


def average_precision(target, scores, sample_weight=None):
    """That of scikit-learn, nan in the place of its 0 where no row is positive."""
    weight = np.ones(len(target)) if sample_weight is None else sample_weight
    return sk.average_precision_score(target, scores, sample_weight=weight) if target @ weight else np.nan


@pytest.mark.parametrize(
    ("name", "target", "weight", "area"),
    [
        ("roc_auc", [0, 1, 0], [1e-13, 1e3, 1e-13], 0.5),
        ("average_precision", [1, 0, 1], [1.0, 1e3, 1e-14], 1 / 1001),
    ],
)
def test_areas_of_weights_of_many_sizes(name, target, weight, area):
    """A difference of sums loses the small ones among importance weights: 0.47 it gave here, and 5e279."""
    metric = get_metric(name, "binary")
    metric.update(
        logits=torch.arange(3.0), target=torch.tensor(target), sample_weight=torch.tensor(weight).double()
    )
    assert metric.compute().item() == pytest.approx(area, rel=1e-12)


@pytest.mark.parametrize(
    ("feature", "average", "weighted", "drawn"),
    covering(product(FEATURES, AVERAGES, [False, True], SEEDS), lambda case: pairs(*case), ids=str),
)
def test_areas_agree_with_scikit_learn(feature, average, weighted, drawn):
    """ROC areas, Gini and average precision, by every average, with and without sample weights."""
    case = epoch(feature, *drawn)
    weight = case.weight if weighted else None
    area = over_columns(roc_auc, case, average, weight)
    precision = over_columns(average_precision, case, average, weight)
    for name, expected in {"roc_auc": area, "gini": 2 * area - 1, "average_precision": precision}.items():
        got = measured(f"{name}(average={average})", case, weighted)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("feature", "max_fpr", "drawn"),
    covering(product(FEATURES, [0.05, 0.1, 0.37, 1.0], SEEDS), lambda case: pairs(*case), ids=str),
)
def test_partial_areas_agree_with_scikit_learn(feature, max_fpr, drawn):
    """The standardized partial area, also with weights and micro averaged."""
    case = epoch(feature, *drawn)
    score = partial(roc_auc, max_fpr=max_fpr)
    for average in ("macro", "micro"):
        for weight in (None, case.weight):
            got = measured(f"roc_auc(average={average}, max_fpr={max_fpr})", case, weight is not None)
            expected = over_columns(score, case, average, weight)
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("rows", "seed", "ties"), SEEDS)
@pytest.mark.parametrize("average", ["macro", "weighted"])
@pytest.mark.parametrize("classes", [3, 7])
def test_pairs_of_classes_agree_with_scikit_learn(classes, average, rows, seed, ties):
    """Hand & Till's mean over pairs; scikit-learn needs every class in the target."""
    case = epoch("category", max(rows, 60), seed, ties, classes)
    expected = sk.roc_auc_score(case.target, case.probabilities, multi_class="ovo", average=average)
    name = f"roc_auc_ovo(average={average})"
    np.testing.assert_allclose(measured(name, case), expected, atol=1e-12)
    np.testing.assert_allclose(measured(name, case, form="probabilities"), expected, atol=1e-12)


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_pairs_of_classes_know_weights(average):
    """An integer weight is a repeated row, which is all that scikit-learn can say of weights here."""
    case = epoch("category", 200, 5, ties=True)
    again = np.repeat(np.arange(200), case.weight.astype(int))
    expected = sk.roc_auc_score(
        case.target[again], case.probabilities[again], multi_class="ovo", average=average
    )
    got = measured(f"roc_auc_ovo(average={average})", case, weighted=True)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_a_class_without_rows_is_in_no_pair():
    """What is left is the value of the other classes; with one class only there is none."""
    case = epoch("category", 80, 6)
    case.target[case.target == 3] = 0
    metric = get_metric("roc_auc_ovo", "category")
    metric.update(probabilities=torch.tensor(case.probabilities), target=torch.tensor(case.target))
    pairs = [
        roc_auc(case.target[held] == a, case.probabilities[held, a])
        for a in range(3)
        for b in range(3)
        if a != b and (held := np.isin(case.target, [a, b])).any()
    ]
    assert metric.compute().item() == pytest.approx(np.mean(pairs), rel=1e-12)
    metric.reset()
    metric.update(probabilities=torch.tensor(case.probabilities), target=torch.zeros(80).long())
    assert metric.compute().isnan() and "a single class" in metric.undefined_reason


@pytest.mark.parametrize(("rows", "seed", "ties"), SEEDS)
@pytest.mark.parametrize("feature", FEATURES)
def test_ks_agrees_with_scipy(feature, rows, seed, ties):
    """The two-sample statistic of the scores of the rows of a class and of the others."""

    def distance(target, scores):
        both = 0 < target.sum() < len(target)
        return scipy.stats.ks_2samp(scores[target == 1], scores[target == 0]).statistic if both else np.nan

    case = epoch(feature, rows, seed, ties)
    for average in AVERAGES:
        expected = over_columns(distance, case, average)
        np.testing.assert_allclose(measured(f"ks(average={average})", case), expected, atol=1e-12)


@pytest.mark.parametrize(("rows", "seed", "ties"), SEEDS)
@pytest.mark.parametrize(("low", "high"), [(0.001, 0.1), (0.05, 0.5), (0.01, 1.0)])
def test_log_auc_agrees_with_trapezoids_over_the_logarithm(low, high, rows, seed, ties):
    """By scikit-learn's points; torchmetrics is near, its sort mixes the points of a jump at either end."""
    case = epoch("binary", rows, seed, ties)
    fpr, tpr, _ = sk.roc_curve(case.target, case.probabilities, drop_intermediate=False)
    inside = (fpr > low) & (fpr < high)
    heights = np.concatenate([np.interp([low], fpr, tpr), tpr[inside], np.interp([high], fpr, tpr)])
    places = np.log10(np.concatenate([[low], fpr[inside], [high]]))
    got = measured(f"log_auc(min_fpr={low}, max_fpr={high})", case)
    np.testing.assert_allclose(got, np.trapezoid(heights, places) / np.log10(high / low), atol=1e-12)
    pair = torch.tensor(case.probabilities), torch.tensor(case.target)
    np.testing.assert_allclose(got, tm.binary_logauc(*pair, fpr_range=(low, high)).item(), atol=0.02)


def test_one_class_may_be_picked():
    """`class` gives one of the values of `none`; with an average, or out of range, it is refused."""
    case = epoch("category", 90, 7)
    for name in ("roc_auc", "average_precision", "gini", "ks", "log_auc"):
        every = measured(f"{name}(average=none)", case)
        assert measured(f"{name}(class=2)", case) == every[2]
    with pytest.raises(MetricNameError, match="the single class 2 is not an average"):
        get_metric("roc_auc(class=2, average=weighted)", "category")
    with pytest.raises(MetricInputError, match=r"the classes are 0..3, so there is no class 4"):
        measured("roc_auc(class=4)", case)
    with pytest.raises(MetricNameError, match=r"category\(num_classes=4\) has classes from 0 to 3"):
        measured("roc_auc(class=4)", case, output="category(num_classes=4)")


def test_the_class_of_a_binary_output_is_1():
    """Its scores are those of class 1, as they are everywhere; class 0 has none."""
    case = epoch("binary", 90, 7)
    assert measured("roc_auc(class=1)", case) == measured("roc_auc", case)
    with pytest.raises(MetricNameError, match="the scores of a binary output belong to class 1"):
        measured("average_precision(class=0)", case)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("roc_auc(max_fpr=0.0)", r"max_fpr must be a rate in \(0, 1\], got 0"),
        ("roc_auc(max_fpr=1.5)", r"max_fpr must be a rate in \(0, 1\], got 1.5"),
        ("log_auc(min_fpr=0.0)", "got 0 and 0.1"),
        ("log_auc(min_fpr=0.2)", "got 0.2 and 0.1"),
    ],
)
def test_rates_are_checked(name, message):
    """A rate out of its range is refused when the metric is made."""
    with pytest.raises(MetricNameError, match=message):
        get_metric(name, "binary")


@pytest.mark.parametrize(
    "name", ["roc_auc", "gini", "ks", "roc_auc(max_fpr=0.2)", "log_auc", "roc_auc(average=micro)"]
)
@pytest.mark.parametrize("answer", [0, 1])
def test_one_class_only_is_undefined(name, answer):
    """Undefined, with a reason, where other libraries say 0 or a half."""
    metric = get_metric(name, "binary")
    metric.update(probabilities=torch.rand(9), target=torch.full((9,), answer))
    assert metric.compute().isnan() and metric.undefined_reason == "the target has a single class"


@pytest.mark.parametrize(
    "name", ["roc_auc", "average_precision", "gini", "ks", "log_auc", "roc_auc(max_fpr=0.1)"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_logits_are_ranked_as_they_are(name, dtype):
    """From 18 to 40 a sigmoid ties what the logits tell apart."""
    metric = get_metric(name, "binary")
    metric.update(logits=torch.linspace(18, 40, 100).to(dtype), target=torch.arange(100) >= 50)
    assert metric.compute().item() == pytest.approx(1.0, abs=1e-12)


def test_names_of_other_libraries():
    """Where the numbers agree the name does too."""
    for alias, meaning in {
        "roc_auc_ovr": "roc_auc",
        "roc_auc_ovr_weighted": "roc_auc(average=weighted)",
        "roc_auc_ovo_weighted": "roc_auc_ovo(average=weighted)",
        "roc_auc_micro": "roc_auc(average=micro)",
        "anomaly_auroc": "roc_auc",
        "auc": "roc_auc",
        "average_precision_micro": "average_precision(average=micro)",
    }.items():
        assert str(find_metric(alias, "category").name) == meaning
