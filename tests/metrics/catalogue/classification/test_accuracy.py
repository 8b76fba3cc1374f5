"""Shares of right decisions against scikit-learn and torchmetrics, and where other systems differ."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.functional.classification as tm
from decided import SHAPES, Decided, decided, measured, quietly, same
from matrix import covering, pairs

from hpometrics.integrations.tabnet import AUC, Accuracy, BalancedAccuracy, LogLoss, tabnet_metric
from hpometrics.metrics.features import Binary, Category, Set
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

SCORES = {
    "accuracy": (sk.accuracy_score, ("binary", "category", "set")),
    "zero_one_loss": (sk.zero_one_loss, ("binary", "category", "set")),
    "hamming": (sk.hamming_loss, ("binary", "category", "set")),
    "balanced_accuracy": (sk.balanced_accuracy_score, ("binary", "category")),
}
USES = [(name, kind) for name, (_, kinds) in SCORES.items() for kind in kinds]


@pytest.mark.parametrize(
    ("use", "shape", "weighted"),
    covering(
        product(USES, SHAPES, [False, True]), lambda case: [case[0], *pairs(case[0][1], *case[1:])], ids=str
    ),
)
def test_a_share_is_that_of_scikit_learn(use, shape, weighted):
    """Odd shapes, absent classes, one row, a thousand classes; rows with and without weights."""
    epoch = decided(use[1], *shape, weighted)
    reference = quietly(SCORES[use[0]][0], epoch.target, epoch.preds, sample_weight=epoch.weight)
    same(measured(use[0], epoch), reference)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["binary", "category"])
def test_means_of_recalls(kind, shape, weighted):
    """Adjusted for chance as scikit-learn does; the geometric mean from its recalls."""
    epoch = decided(kind, *shape, weighted)
    held = sorted(set(epoch.target.tolist()))
    adjusted = measured("balanced_accuracy(adjusted=true)", epoch)
    options = {"sample_weight": epoch.weight}
    if len(held) > 1:
        same(
            adjusted,
            quietly(sk.balanced_accuracy_score, epoch.target, epoch.preds, adjusted=True, **options),
        )
    else:
        assert np.isnan(adjusted)
    recalls = quietly(sk.recall_score, epoch.target, epoch.preds, labels=held, average=None, **options)
    same(measured("geometric_mean", epoch), recalls.prod() ** (1 / len(held)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_share_of_labels_is_what_is_missing_to_the_hamming_loss(shape, weighted):
    """Of a set: 1 - hamming."""
    epoch = decided("set", *shape, weighted)
    same(
        measured("label_accuracy", epoch),
        1 - sk.hamming_loss(epoch.target, epoch.preds, sample_weight=epoch.weight),
    )


@pytest.mark.parametrize("k", [1, 2, 5])
def test_hits_with_weights_are_those_of_scikit_learn(k):
    """Without ties, where both have one order."""
    random = np.random.default_rng(k)
    scores, target, weight = random.normal(size=(200, 6)), random.integers(6, size=200), random.random(200)
    metric = get_metric(f"hits@{k}", Category(6))
    metric.update(
        logits=torch.tensor(scores), target=torch.tensor(target), sample_weight=torch.tensor(weight)
    )
    reference = sk.top_k_accuracy_score(target, scores, k=k, sample_weight=weight, labels=range(6))
    same(metric.compute().numpy(), reference)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("rows", [5, 200])
def test_hits_averaged_over_classes_are_ludwigs_hits_at_k(k, rows):
    """It is the accuracy at k of torchmetrics by default; a class that the target lacks counts in neither."""
    random = torch.Generator().manual_seed(rows + k)
    logits, target = torch.randn(rows, 7, generator=random), torch.randint(6, (rows,), generator=random)
    metric = get_metric(f"hits(average=macro)@{k}", Category(7))
    for part in (slice(3), slice(3, None)):
        metric.update(logits=logits[part], target=target[part])
    theirs = tm.multiclass_accuracy(logits, target, num_classes=7, top_k=k, average="macro")
    assert metric.compute().item() == pytest.approx(theirs.item(), rel=1e-6)


def test_hits_and_accuracy_are_shares_of_rows_where_ludwig_averages_classes():
    """Nine rows of class 0 are found, the one of class 1 is not: 0.9, where Ludwig has 0.5."""
    target = torch.tensor([0] * 9 + [1])
    scores = torch.tensor([[0.6, 0.1, 0.3]]).expand(10, 3)
    hits, accuracy = get_metric("hits@2", Category(3)), get_metric("accuracy", Category(3))
    hits.update(scores, target)
    accuracy.update(probabilities=scores, target=target)
    assert (hits.compute(), accuracy.compute()) == (0.9, 0.9)
    for top_k in (1, 2):
        ludwig = tm.multiclass_accuracy(scores, target, num_classes=3, top_k=top_k, average="macro")
        assert ludwig.item() == pytest.approx(0.5)
    for name in ("hits@2", "accuracy"):
        assert "Ludwig" in find_metric(name, "category").entries[0].deviates


def test_an_accuracy_of_several_batches_is_that_of_all_rows():
    """128 rows right and 2 wrong: 0.985, where Ludwig's mean of batch means is 0.5."""
    metric = get_metric("accuracy", Category(2))
    metric.update(torch.zeros(128, dtype=torch.int64), torch.zeros(128, dtype=torch.int64))
    metric.update(torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64))
    assert metric.compute().item() == pytest.approx(128 / 130)


@pytest.mark.parametrize(
    ("metric", "y_true", "y_score", "value"),
    [
        (Accuracy, [0, 1, 1, 0], [0, 1, 0, 0], 0.75),
        (Accuracy, [0, 1, 1, 0], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]], 0.75),
        (BalancedAccuracy, [0, 1, 1, 0], [0, 1, 0, 0], 0.75),
        (BalancedAccuracy, [0, 1, 1, 0], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]], 0.75),
        (AUC, [0, 1, 1, 0], [0.1, 0.8, 0.7, 0.2], 1.0),
        (LogLoss, [0, 1], [0.1, 0.9], 0.1053605),
        (tabnet_metric("mse"), [3, -0.5, 2, 7], [2.5, 0.0, 2, 8], 0.375),
        (tabnet_metric("mae"), [3, -0.5, 2, 7], [2.5, 0.0, 2, 8], 0.5),
        (tabnet_metric("rmse"), [3, -0.5, 2, 7], [2.5, 0.0, 2, 8], 0.612372),
        (tabnet_metric("rmsle"), [3, 5, 2.5, 7], [2.5, 5, 4, 8], 0.199324),
    ],
)
def test_the_numbers_of_pytorch_tabnet(metric, y_true, y_score, value):
    """Labels, scores of class 1 and scores of both classes, as its documents have them."""
    assert metric()(y_true, y_score) == pytest.approx(value, abs=5e-7)


@pytest.mark.parametrize(("name", "better"), [("accuracy", 1.0), ("zero_one_loss", 0.0)])
def test_a_set_is_right_when_every_label_is(name, better):
    """One row of two is right in both labels, then both rows."""
    target = np.array([[1, 0], [0, 1]])
    same(measured(name, Decided(Set(2), np.array([[1, 0], [1, 1]]), target, None)), np.array(0.5))
    same(measured(name, Decided(Set(2), target, target, None)), np.array(better))


def test_one_class_in_the_target_leaves_nothing_to_adjust():
    """Chance is always right, so the adjusted value is nan with the reason."""
    metric = get_metric("balanced_accuracy(adjusted=true)", Binary())
    metric.update(torch.tensor([0, 1]), torch.tensor([1, 1]))
    assert metric.compute().isnan()
    assert "the target has a single class" in metric.undefined_reason
