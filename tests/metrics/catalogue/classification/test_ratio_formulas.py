"""Every ratio of counts is what its printed formula says of scikit-learn's counts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.functional.classification as tm
from decided import SHAPES, Decided, decided, measured, quietly, same
from matrix import covering, pairs

from hpometrics.direction import MINIMIZE
from hpometrics.metrics.features import Binary, Category, Set
from hpometrics.metrics.registry.lookup import find_metric

NAMES = (
    "precision recall f1 jaccard fowlkes_mallows specificity negative_predictive_value false_positive_rate "
    "false_negative_rate false_discovery_rate false_omission_rate informedness markedness"
).split()
USES = [(name, kind) for name in NAMES for kind in ("binary", "category", "set")] + [("mcc", "set")]


def by_formula(name: str, kind: str, tables: np.ndarray) -> np.ndarray:
    """What the formula in the docstring gives for each row of tn, fp, fn, tp; nan for 0 / 0."""
    formula = find_metric(f"{name}{'' if kind == 'binary' else '(average=macro)'}", kind).entries[0].formula
    counts = dict(zip(("tn", "fp", "fn", "tp"), tables.T, strict=True))
    return quietly(lambda: eval(formula.replace("^", "**"), {"sqrt": np.sqrt, **counts}))


def averaged(name: str, kind: str, epoch: Decided, average: str) -> np.ndarray:
    """Average by the rule of scikit-learn with zero_division=0, or 1 where less is better."""
    worst = 1.0 if find_metric(f"{name}(average=macro)", kind).direction is MINIMIZE else 0.0
    tables = epoch.tables
    tables = tables.sum(0, keepdims=True) if average == "micro" else tables
    ratios, support = by_formula(name, kind, tables), tables[:, 2] + tables[:, 3]
    each, occurs = np.nan_to_num(ratios, nan=worst), tables[:, 1:].sum(1) > 0
    if kind == "set" or average == "micro":
        occurs = occurs | ~np.isnan(ratios)
    if average == "none":
        return np.where(occurs, each, np.nan)
    weights = support if average == "weighted" else occurs
    return np.average(each, weights=weights) if weights.any() else np.array(np.nan)


@pytest.mark.parametrize(
    ("use", "shape", "weighted"),
    covering(
        product(USES, SHAPES, [False, True]), lambda case: [case[0], *pairs(case[0][1], *case[1:])], ids=str
    ),
)
def test_a_ratio_is_its_formula(use, shape, weighted):
    """Each average, with and without weights; of binary and some classes also the class on its own."""
    epoch = decided(use[1], *shape, weighted)
    for average in ("micro", "macro", "weighted", *(() if use[1] == "binary" else ("none",))):
        same(measured(f"{use[0]}(average={average})", epoch), averaged(*use, epoch, average), 1e-10)
    for index in (0, 1) if use[1] == "binary" else (1,):
        same(measured(f"{use[0]}(class={index})", epoch), by_formula(*use, epoch.tables)[index], 1e-10)


@pytest.mark.parametrize("kind", ["category", "set", "binary"])
@pytest.mark.parametrize(
    ("rate", "share"),
    [
        ("false_positive_rate", "specificity"),
        ("false_negative_rate", "recall"),
        ("false_discovery_rate", "precision"),
        ("false_omission_rate", "negative_predictive_value"),
    ],
)
def test_a_rate_of_errors_is_what_is_missing_to_1(rate, share, kind):
    """In every average, classes with nothing to divide by included."""
    epoch = decided(kind, 41, 7, 2)
    for average in ("micro", "macro", "weighted", *(["samples"] if kind == "set" else [])):
        values = [measured(f"{name}(average={average})", epoch) for name in (rate, share)]
        same(sum(values), np.array(1.0))


def test_informedness_of_two_classes_is_the_adjusted_balanced_accuracy():
    """Youden's J is 2 x balanced accuracy - 1."""
    epoch = decided("binary", 200, 2, 3)
    adjusted = sk.balanced_accuracy_score(epoch.target, epoch.preds, adjusted=True)
    same(measured("youden_j", epoch), adjusted)
    same(measured("balanced_accuracy(adjusted=true)", epoch), adjusted)


TRUE_NEGATIVES = {"specificity": 1.0, "npv": 1.0, "fpr": 0.0, "false_omission_rate": 0.0}


@pytest.mark.parametrize(("name", "best"), TRUE_NEGATIVES.items())
@pytest.mark.parametrize("use", ["average=micro", "average=macro", "class=1"])
def test_a_label_that_no_row_has_is_all_true_negatives(name, best, use):
    """It is never predicted either, which is right in every row: that is the best value, not none."""
    nothing = np.zeros((4, 3), dtype=int)
    same(measured(f"{name}({use})", Decided(Set(3), nothing, nothing, None)), np.array(best))


@pytest.mark.parametrize("name", TRUE_NEGATIVES)
def test_the_labels_of_a_set_are_averaged_as_in_torchmetrics(name):
    """Of three labels one has a mistake, one is the label of every row, and nobody has the third."""
    target, preds = np.array([[1, 1, 0]] * 2 + [[0, 1, 0]] * 2), np.array([[1, 1, 0]] * 3 + [[0, 1, 0]])
    shares = {
        "specificity": tm.multilabel_specificity, "npv": tm.multilabel_negative_predictive_value,
        "fpr": tm.multilabel_specificity, "false_omission_rate": tm.multilabel_negative_predictive_value,
    }  # fmt: skip
    share = shares[name](torch.tensor(preds), torch.tensor(target), num_labels=3, average="macro").numpy()
    value = measured(f"{name}(average=macro)", Decided(Set(3), preds, target, None))
    same(value, share if TRUE_NEGATIVES[name] == 1 else 1 - share, 1e-6)


def test_rounding_leaves_no_true_negatives():
    """Every row is of class 1: with odd weights there is still nothing to divide by."""
    random = np.random.default_rng(0)
    preds, target = random.integers(2, size=1000), np.ones(1000, dtype=int)
    for output in (Binary(), Category(2)):
        epoch = Decided(output, preds, target, random.random(1000) * 10 ** random.uniform(-6, 6, 1000))
        assert np.isnan(measured("specificity(class=1)", epoch))
        assert np.isnan(measured("informedness(class=1)", epoch))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_likelihood_ratios_are_those_of_scikit_learn(seed, weighted):
    """Undefined where it divides by 0."""
    epoch = decided("binary", [300, 40, 8, 3][seed], 2, seed, weighted)
    reference = quietly(
        sk.class_likelihood_ratios, epoch.target, epoch.preds, labels=[0, 1], sample_weight=epoch.weight
    )
    same(measured("positive_likelihood_ratio", epoch), reference[0])
    same(measured("neg_negative_likelihood_ratio", epoch), reference[1])


@pytest.mark.parametrize(
    ("preds", "positive", "negative"), [([1, 1, 0, 0], np.nan, 0.0), ([0, 0, 1, 1], 0.0, np.nan)]
)
def test_likelihood_ratios_of_a_perfect_and_a_reversed_model(preds, positive, negative):
    """No false positive is no number for the one, no true negative for the other."""
    epoch = Decided(Binary(), np.array(preds), np.array([1, 1, 0, 0]), None)
    same(measured("positive_likelihood_ratio", epoch), np.array(positive))
    same(measured("negative_likelihood_ratio", epoch), np.array(negative))
