"""Precision, recall and kin against scikit-learn, with and without weights, and by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.functional.classification as tm
from decided import SHAPES, Decided, decided, measured, quietly, same
from matrix import covering, pairs

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.catalogue.classification.ratios import F1, FBeta, Jaccard, Precision, Recall
from hpometrics.metrics.features import Binary, Category, Sequence, Set
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

SCORES = {
    "precision": sk.precision_score,
    "recall": sk.recall_score,
    "f1": sk.f1_score,
    "jaccard": sk.jaccard_score,
    "fbeta": lambda *args, **options: sk.fbeta_score(*args, beta=2.0, **options),
}
AVERAGES = {
    "category": ("micro", "macro", "weighted", "none"),
    "set": ("micro", "macro", "weighted", "samples", "none"),
    "binary": ("binary", "micro", "macro", "weighted"),
}
USES = [(kind, average) for kind, averages in AVERAGES.items() for average in averages]


def spelled(name: str, **params: object) -> str:
    """A name with its parameters; fbeta has a beta of 2."""
    params |= {"beta": 2.0} if name == "fbeta" else {}
    return f"{name}({', '.join(f'{key}={value}' for key, value in params.items())})"


def by_scikit_learn(score, epoch: Decided, average: str) -> np.ndarray:
    """The library's number; nan for classes, and for averages of classes, that do not occur."""
    occurs = np.array([bool(target.any() or preds.any()) for target, preds in epoch.columns])
    options = {"sample_weight": epoch.weight, "zero_division": 0}
    if average == "none":
        each = quietly(score, epoch.target, epoch.preds, average=None, labels=epoch.labels, **options)
        return np.where(occurs, each, np.nan)
    if average == "macro" and epoch.target.ndim == 2:  # of a set it averages labels that never occur, too
        return np.mean(by_scikit_learn(score, epoch, "none")[occurs]) if occurs.any() else np.array(np.nan)
    value = quietly(score, epoch.target, epoch.preds, average=average, **options)
    if average == "weighted" and not epoch.target.any() and epoch.target.ndim == 2:
        return np.array(np.nan)
    return value


@pytest.mark.parametrize(
    ("name", "use", "shape", "weighted"),
    covering(product(SCORES, USES, SHAPES, [False, True]), lambda case: pairs(*case), ids=str),
)
def test_every_average_is_that_of_scikit_learn(name, use, shape, weighted):
    """Odd shapes, absent classes, one row, a thousand classes; rows with and without weights."""
    kind, average = use
    epoch = decided(kind, *shape, weighted)
    value = measured(spelled(name, average=average), epoch)
    if average == "binary" and np.isnan(value):  # where scikit-learn gives 0 for 0 / 0
        assert not (epoch.preds * epoch.target).any()
        return
    same(value, by_scikit_learn(SCORES[name], epoch, average))


@pytest.mark.parametrize("kind", ["binary", "category", "set"])
@pytest.mark.parametrize("name", SCORES)
def test_the_value_of_one_class_is_that_of_the_class_against_the_rest(name, kind):
    """`f1(class=1)` is the binary F1 of "it is class 1"; of a set, of label 1."""
    epoch = decided(kind, 300, 4, 7, weighted=True)
    target, preds = epoch.columns[1]
    rest = Decided(Binary(), preds.astype(int), target.astype(int), epoch.weight)
    same(measured(spelled(name, **{"class": 1}), epoch), measured(spelled(name, average="binary"), rest))


@pytest.mark.parametrize("name", ["precision", "recall", "f1"])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
def test_tokens_are_averaged_as_rows_are(name, average):
    """`token_f1` over sequences is `f1` over their tokens, those with the target `ignore_index` left out."""
    random = np.random.default_rng(5)
    target, preds = random.integers(6, size=(2, 40, 9))
    padded = random.random(target.shape) < 0.3
    tokens = Decided(Category(6), preds[~padded], target[~padded], None)
    rows = Decided(Sequence(6), preds, np.where(padded, -100, target), None)
    same(measured(f"token_{name}(average={average})", rows), measured(f"{name}(average={average})", tokens))
    weights = random.random(40)
    each = np.broadcast_to(weights[:, None], target.shape)[~padded]
    tokens = Decided(tokens.output, tokens.preds, tokens.target, each)
    rows = Decided(rows.output, rows.preds, rows.target, weights)
    same(measured(f"token_{name}(average={average})", rows), measured(f"{name}(average={average})", tokens))


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("precision_macro", tm.multiclass_precision),
        ("recall_macro", tm.multiclass_recall),
        ("f1_macro", tm.multiclass_f1_score),
        ("jaccard_macro", tm.multiclass_jaccard_index),
        ("specificity_macro", tm.multiclass_specificity),
        ("negative_predictive_value_macro", tm.multiclass_negative_predictive_value),
    ],
)
def test_torchmetrics_agrees_on_the_macro_average(name, reference):
    """In its single precision, on classes that all occur."""
    random = np.random.default_rng(1)
    target, preds = random.integers(5, size=(2, 400))
    value = reference(torch.tensor(preds), torch.tensor(target), num_classes=5, average="macro")
    same(measured(name, Decided(Category(5), preds, target, None)), value.double().numpy(), 1e-6)


def test_predictionio_by_hand():
    """The table (30, 0, 60 / 15, 35, 10 / 0, 0, 50) of predictions by target: 30 / 90, 30 / 45, 115 / 200."""
    table = np.array([[30, 0, 60], [15, 35, 10], [0, 0, 50]])
    preds, target = (np.repeat(side.ravel(), table.ravel()) for side in np.indices((3, 3)))
    epoch = Decided(Category(3), preds, target, None)
    found = [measured(name, epoch) for name in ("precision(class=0)", "recall(class=0)", "accuracy")]
    same(np.array(found), np.array([1 / 3, 2 / 3, 0.575]))


def test_a_row_without_labels_counts_as_0_in_the_samples_average():
    """Rows 1/1, 1/2 and 0/0: scikit-learn's 0.5; Ludwig leaves the last one out and has 0.75."""
    target, preds = np.array([[1, 0], [1, 0], [0, 0]]), np.array([[1, 0], [1, 1], [0, 0]])
    epoch = Decided(Set(2), preds, target, None)
    same(measured("jaccard_samples", epoch), np.array(0.5))
    assert "leaves out rows" in find_metric("jaccard_samples", "set").entries[0].deviates


@pytest.mark.parametrize(("name", "at_half", "at_a_third"), [("precision", 1.0, 0.5), ("recall", 0.5, 1.0)])
def test_the_threshold_of_the_output_decides(name, at_half, at_a_third):
    """Ludwig's precision and recall stay at 0.5; ours, given probabilities, follow `Binary(threshold)`."""
    batch = {"probabilities": torch.tensor([0.9, 0.4, 0.4, 0.35]), "target": torch.tensor([1, 1, 0, 0])}
    for output, value in ((Binary(), at_half), (Binary(threshold=0.33), at_a_third)):
        metric = get_metric(name, output)
        metric.update(**batch)
        assert metric.compute() == value
    assert "threshold" in find_metric(name, "binary").entries[0].deviates


@pytest.mark.parametrize(
    ("name", "output", "reason"),
    [
        ("f1(class=2)", Category(4), "class 2 occurs neither in target nor predictions"),
        ("f1(class=7)", Category(), "class 7 occurs neither in target nor predictions"),
        ("precision(class=3)", Category(4), "there is no row predicted positive"),
        ("recall(class=1)", Category(4), "there is no row whose target is positive"),
        ("specificity(class=7)", Category(), "class 7 occurs neither in target nor predictions"),
    ],
)
def test_a_class_that_does_not_occur_is_undefined_with_a_reason(name, output, reason):
    """Targets 0 and 3, predictions 0 and 1."""
    metric = get_metric(name, output)
    metric.update(torch.tensor([0, 1, 0]), torch.tensor([0, 3, 0]))
    assert metric.compute().isnan() and metric.undefined_reason == reason


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (F1, r"f1 needs exactly one of average= \(micro, .*\) and class=, as in .*; got neither"),
        (lambda: F1(average="macro", class_=1), "f1 needs exactly one of .*; got both"),
        (lambda: Precision(average="samples"), "precision: average must be one of micro, .*, got 'samples'"),
        (lambda: Recall(class_=-1), "recall: class must be a class index of at least 0, got -1"),
        (lambda: Jaccard.Binary(class_=2), "jaccard: a binary output has classes 0 and 1, got class=2"),
        (lambda: Jaccard.Binary(average="macro", class_=1), "jaccard needs exactly one of .*; got both"),
        (lambda: FBeta(beta=0.0, average="macro"), "fbeta: beta must be a number above 0, got 0"),
        (lambda: get_metric("f1", Category(3)), "f1 of category needs average= or class="),
        (lambda: get_metric("f1(average=samples)", Category(3)), "average must be one of micro, .*'samples'"),
        (
            lambda: get_metric("f1(class=3)", Category(3)).kept,
            r"f1\(class=3\): category.* has classes 0 to 2",
        ),
    ],
)
def test_what_is_not_said_or_said_twice_is_refused(make, message):
    """With the choices, in Python and by name."""
    with pytest.raises(MetricNameError, match=message):
        make()


@pytest.mark.parametrize(
    ("alias", "feature", "name"),
    [
        ("f1_samples", "set", "f1(average=samples)"),
        ("f1_macro", "binary", "f1(average=macro)"),
        ("weighted_f1", "category", "f1(average=weighted)"),
        ("dice", "binary", "f1"),
        ("class_3_f1", "category", "f1(class=3)"),
        ("class_1_prec", "category", "precision(class=1)"),
        ("recall_weighted", "set", "recall(average=weighted)"),
        ("token_f1_macro", "sequence", "token_f1(average=macro)"),
        ("sensitivity(average=macro)", "category", "recall(average=macro)"),
    ],
)
def test_names_of_other_systems(alias, feature, name):
    """Those of scikit-learn's scorers, of ParlAI and of Ludwig mean one canonical name, which is printed."""
    assert str(find_metric(alias, feature).name) == name
    assert get_metric(alias, feature).name == name
