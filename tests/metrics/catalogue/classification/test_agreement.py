"""Matthews' correlation and Cohen's kappa against scikit-learn and torchmetrics, with and without weights."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.functional.classification as tm
from decided import SHAPES, Decided, decided, measured, quietly, same

from hpometrics.metrics.catalogue.classification.agreement import CohenKappa, MatthewsCorrelation
from hpometrics.metrics.features import Category

TWO_SIDED = [shape for shape in SHAPES if shape[0] > 2]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", TWO_SIDED, ids=str)
@pytest.mark.parametrize("kind", ["binary", "category"])
def test_correlation_is_that_of_scikit_learn(kind, shape, weighted):
    """A thousand classes included."""
    epoch = decided(kind, *shape, weighted)
    reference = quietly(sk.matthews_corrcoef, epoch.target, epoch.preds, sample_weight=epoch.weight)
    same(measured("mcc", epoch), reference)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", TWO_SIDED, ids=str)
@pytest.mark.parametrize("kind", ["binary", "category"])
@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappa_is_that_of_scikit_learn(weights, kind, shape, weighted):
    """With each cost of the misses; a thousand classes included."""
    epoch = decided(kind, *shape, weighted)
    options = {"labels": epoch.labels, "weights": weights, "sample_weight": epoch.weight}
    reference = quietly(sk.cohen_kappa_score, epoch.target, epoch.preds, **options)
    same(measured(f"cohen_kappa(weights={weights or 'none'})", epoch), reference)


@pytest.mark.parametrize("labels", [2, 5])
def test_torchmetrics_pools_the_labels_of_a_set(labels):
    """Its multilabel correlation is `average=micro`, in single precision."""
    epoch = decided("set", 200, labels, 3)
    reference = tm.multilabel_matthews_corrcoef(
        torch.tensor(epoch.preds), torch.tensor(epoch.target), num_labels=labels
    )
    same(measured("mcc(average=micro)", epoch), reference.double().numpy(), 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_torchmetrics_agrees_on_categories(seed):
    """In single precision."""
    epoch = decided("category", 300, 6, seed)
    tensors = torch.tensor(epoch.preds), torch.tensor(epoch.target)
    same(
        measured("mcc", epoch),
        tm.multiclass_matthews_corrcoef(*tensors, num_classes=6).double().numpy(),
        1e-6,
    )
    for weights in ("none", "linear", "quadratic"):
        reference = tm.multiclass_cohen_kappa(*tensors, num_classes=6, weights=weights).double().numpy()
        same(measured(f"cohen_kappa(weights={weights})", epoch), reference, 1e-6)


@pytest.mark.parametrize("preds", [[0, 0, 0], [0, 1, 2]])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_class_correlates_with_nothing(preds, weighted):
    """It is undefined, where scikit-learn has 0 and torchmetrics 1 or 0; so is kappa of one and the same."""
    weight = torch.tensor([0.1, 0.7, 0.3]) if weighted else None
    for metric in (MatthewsCorrelation(), CohenKappa(weights="quadratic")):
        metric.update(torch.tensor(preds), torch.tensor([0, 0, 0]), sample_weight=weight)
        undefined = isinstance(metric, MatthewsCorrelation) or preds == [0, 0, 0]
        assert bool(metric.compute().isnan()) == undefined
        assert ("class" in (metric.undefined_reason or "")) == undefined


def test_quadratic_kappa_by_hand():
    """Two misses by one class cost 2; independent labels would (0+1+4 + 1+0+1 + 4+1+0) / 3 = 4."""
    epoch = Decided(Category(3), np.array([0, 2, 1]), np.array([0, 1, 2]), None)
    same(measured("cohen_kappa(weights=quadratic)", epoch), np.array(1 - 2 / 4))
