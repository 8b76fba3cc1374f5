from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.functional.classification as tm
from matrix import covering, pairs
from scored import SEEDS, epoch, measured

from hpometrics.metrics.catalogue.classification import label_ranking
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Set

METRICS = {
    "coverage_error": sk.coverage_error,
    "label_ranking_average_precision": sk.label_ranking_average_precision_score,
    "label_ranking_loss": sk.label_ranking_loss,
}


@pytest.mark.parametrize(
    ("name", "labels", "weighted", "drawn"),
    covering(product(METRICS, [1, 2, 5, 30], [False, True], SEEDS), lambda case: pairs(*case), ids=str),
)
def test_label_ranking_agrees_with_scikit_learn(name, labels, weighted, drawn):
    """With ties, weights, one label, and rows that have no label or all of them."""
    case = epoch("set", *drawn, classes=labels)
    case.target[0], case.target[1] = 0, 1
    weight = case.weight if weighted else None
    expected = METRICS[name](case.target, case.probabilities, sample_weight=weight) if labels > 1 else None
    got = measured(name, case, weighted)
    if labels == 1:  # scikit-learn takes one column for no indicator matrix
        at_hand = {"coverage_error": np.average(case.target[:, 0], weights=weight)}
        expected = at_hand.get(name, float(name == "label_ranking_average_precision"))
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_label_ranking_agrees_with_torchmetrics(seed):
    """Without ties, where its sorts decide nothing; it counts in float32."""
    case = epoch("set", 100, seed, classes=6)
    pair = torch.tensor(case.probabilities), torch.tensor(case.target)
    for name, theirs in {
        "coverage_error": tm.multilabel_coverage_error,
        "lrap": tm.multilabel_ranking_average_precision,
        "label_ranking_loss": tm.multilabel_ranking_loss,
    }.items():
        np.testing.assert_allclose(measured(name, case), theirs(*pair, num_labels=6).item(), atol=1e-5)


def test_rows_are_sorted_once_for_all_three(monkeypatch):
    """They share a block of the batch."""
    calls = []
    sort = torch.Tensor.sort
    monkeypatch.setattr(torch.Tensor, "sort", lambda *a, **k: (calls.append(a[0].shape), sort(*a, **k))[1])
    panel = MetricCollection(list(METRICS), "set")
    panel.update(logits=torch.randn(1000, 20), target=torch.rand(1000, 20) < 0.2)
    panel.compute()
    assert calls == [(1000, 20)]


@pytest.mark.parametrize("at_once", [1, 100])
def test_rows_may_be_sorted_a_few_at_a_time(at_once, monkeypatch):
    """The values are those of all rows at once, with unknown labels and ties too."""
    logits, target = torch.randn(50, 9).round(), torch.randint(-1, 2, (50, 9))
    panel = MetricCollection(list(METRICS), Set(9, ignore_index=-1))
    panel.update(logits=logits, target=target)
    expected = panel.compute()
    panel.reset()
    monkeypatch.setattr(label_ranking, "_SORTED", at_once)
    panel.update(logits=logits, target=target)
    assert panel.compute() == expected
