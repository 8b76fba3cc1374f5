"""Tables of counts: those of scikit-learn and torchmetrics; never optimized."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.functional.classification as tm
from decided import SHAPES, decided, measured, quietly, same
from matrix import covering, pairs

from hpometrics.metrics.registry.lookup import find_metric

NORMALS = {"none": None, "target": "true", "predictions": "pred", "all": "all"}


@pytest.mark.parametrize(
    ("normalize", "kind", "shape", "weighted"),
    covering(
        product(NORMALS, ["binary", "category"], SHAPES, [False, True]), lambda case: pairs(*case), ids=str
    ),
)
def test_a_matrix_is_that_of_scikit_learn(normalize, kind, shape, weighted):
    """Rows are targets; a share of nothing is nan, where scikit-learn has 0."""
    epoch = decided(kind, *shape, weighted)
    options = {"labels": epoch.labels, "sample_weight": epoch.weight}
    counts = quietly(sk.confusion_matrix, epoch.target, epoch.preds, **options)
    parts = {"target": counts.sum(1, keepdims=True), "predictions": counts.sum(0), "all": counts.sum()}
    value = measured(f"confusion_matrix(normalize={normalize})", epoch)
    same(value, quietly(np.divide, counts, parts.get(normalize, 1.0)))
    options["normalize"] = NORMALS[normalize]
    same(np.nan_to_num(value), quietly(sk.confusion_matrix, epoch.target, epoch.preds, **options))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tables_of_labels_are_those_of_scikit_learn(shape, weighted):
    """[[tn, fp], [fn, tp]] of each label."""
    epoch = decided("set", *shape, weighted)
    same(measured("confusion_matrix", epoch).reshape(-1, 4), epoch.tables, 1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_counts_are_those_of_torchmetrics(shape):
    """tp, fp, tn, fn and support, of class 1 of a binary output and of each class or label of the others."""
    binary, category, labels = (decided(kind, *shape) for kind in ("binary", "category", "set"))
    tensors = [(torch.tensor(e.preds), torch.tensor(e.target)) for e in (binary, category, labels)]
    same(measured("stat_scores", binary), tm.binary_stat_scores(*tensors[0]).numpy())
    options = {"average": "none"}
    references = [
        tm.multiclass_stat_scores(*tensors[1], num_classes=shape[1], **options),
        tm.multilabel_stat_scores(*tensors[2], num_labels=shape[1], **options),
    ]
    for epoch, reference in zip((category, labels), references, strict=True):
        same(measured("stat_scores", epoch), reference.numpy())


@pytest.mark.parametrize("name", ["confusion_matrix", "stat_scores", "positive_likelihood_ratio"])
def test_what_has_no_objective_says_why(name):
    """Nothing to optimize, and the reason stands in the docs."""
    entry = find_metric(name, "binary").entries[0]
    assert entry.direction is None
    assert "It has no direction" in entry.docs
