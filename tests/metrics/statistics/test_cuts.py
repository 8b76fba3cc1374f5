"""The best cut of a large column is found without sorting it, and is that of the sorted column."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, precision_recall_curve, roc_curve

from hpometrics import Binary, Category, Set, get_metric
from hpometrics.metrics.statistics import cuts, sorted_scores

NAMES = [
    "f1_max",
    "fbeta_max(beta=2.0)",
    "accuracy_max",
    "balanced_accuracy_max",
    "mcc_max",
    "jaccard_max",
    "ks",
    "eer",
    "recall_at_precision(precision=0.6)",
    "recall_at_precision(precision=1.0)",
    "precision_at_recall(recall=0.7)",
    "precision_at_recall(recall=0.0)",
    "sensitivity_at_specificity(specificity=0.8)",
    "specificity_at_sensitivity(sensitivity=0.8)",
    "fpr_at_tpr",
    "fpr_at_tpr(tpr=1.0)",
    *(f"best_threshold(criterion={criterion})" for criterion in ("f1", "mcc", "youden", "accuracy")),
]
ROWS = 1500
DRAWN = {
    "good": lambda noise, target: noise + target,
    "useless": lambda noise, target: noise,
    "wrong": lambda noise, target: noise - 2 * target,
    "perfect": lambda noise, target: noise.abs() * (2 * target - 1),
    "ties": lambda noise, target: (noise + target).round(decimals=1),
    "one score": lambda noise, target: torch.full_like(noise, 1.5),
    "zeros of both signs": lambda noise, target: (noise + target).round() * torch.where(noise > 0, 1.0, -0.0),
    "far apart": lambda noise, target: (noise + target) ** 31,
    "float64": lambda noise, target: (noise + target).double() / 3,
    "bfloat16": lambda noise, target: (noise + target).bfloat16(),
}


def draw(name):
    """Some scores and labels."""
    random = torch.Generator().manual_seed(4)
    target = (torch.rand(ROWS, generator=random) < 0.3).long()
    return DRAWN[name](torch.randn(ROWS, generator=random), target), target


def value_of(name, output, logits, target):
    """Measure a metric in two batches."""
    metric = get_metric(name, output)
    for part in (slice(0, 400), slice(400, None)):
        metric.update(logits=logits[part], target=target[part])
    return metric.compute()


@pytest.fixture
def searched(monkeypatch):
    """Count the columns that are searched, all but very short ones, in few wide bins."""
    count = []
    own = cuts.CutSearch.__init__
    monkeypatch.setattr(cuts.CutSearch, "__init__", lambda self, *of: count.append(of[1]) or own(self, *of))
    monkeypatch.setattr(cuts, "_RANKED", 50)
    monkeypatch.setattr(cuts, "_LOOK", 300)
    monkeypatch.setattr(cuts, "_BITS", 4)
    monkeypatch.setattr(sorted_scores, "_SMALL", 0)
    return count


@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("name", NAMES)
def test_the_search_finds_the_cut_of_the_sorted_column(request, name, drawn):
    """Bit by bit the same value, wherever the best cut lies and however many are as good."""
    logits, target = draw(drawn)
    of_sorted = value_of(name, Binary(), logits, target)
    searched = request.getfixturevalue("searched")
    found = value_of(name, Binary(), logits, target)
    assert searched and torch.equal(found.nan_to_num(-1), of_sorted.nan_to_num(-1))


@pytest.mark.parametrize("output", [Category(3), Set(3), Set(3, ignore_index=-1)], ids=str)
def test_each_column_is_searched(request, output):
    """A class against the rest, a label, and one of which some are unknown."""
    random = torch.Generator().manual_seed(4)
    logits = torch.randn(ROWS, 3, generator=random)
    target = (logits + torch.randn(ROWS, 3, generator=random)).argmax(1)
    if isinstance(output, Set):
        target = torch.nn.functional.one_hot(target, 3)
    if getattr(output, "ignore_index", None) is not None:
        target = target.masked_fill(torch.rand(ROWS, 3, generator=random) < 0.2, -1)
    of_sorted = value_of("ks(average=none)", output, logits, target)
    searched = request.getfixturevalue("searched")
    assert torch.equal(value_of("ks(average=none)", output, logits, target), of_sorted)
    assert searched == [0, 1, 2]


@pytest.mark.usefixtures("searched")
def test_the_best_cut_is_that_of_scikit_learn():
    """By the curves of an independent implementation, and by the decisions that a threshold makes."""
    logits, target = draw("good")
    scores = logits.double().sigmoid().numpy()
    false, true, _ = roc_curve(target, scores, drop_intermediate=False)
    assert value_of("ks", Binary(), logits, target).item() == pytest.approx(np.max(true - false), rel=1e-14)
    precision, recall, _ = precision_recall_curve(target, scores)
    best = (2 * precision * recall / np.maximum(precision + recall, 1e-300)).max()
    assert value_of("f1_max", Binary(), logits, target).item() == pytest.approx(best, rel=1e-14)
    level = value_of("recall_at_precision(precision=0.5)", Binary(), logits, target)
    assert level.item() == recall[precision >= 0.5].max()
    threshold = value_of("best_threshold(criterion=f1)", Binary(), logits, target).item()
    assert f1_score(target, scores > threshold) == pytest.approx(best, rel=1e-14)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.usefixtures("searched")
def test_one_kind_of_rows_has_no_best_cut(label):
    """As for a sorted column."""
    metric = get_metric("f1_max", Binary())
    metric.update(logits=draw("good")[0], target=torch.full((ROWS,), label))
    assert metric.compute().isnan()


def test_few_rows_are_sorted(searched, monkeypatch):
    """Of a large column only those around the best cut."""
    monkeypatch.setattr(cuts, "_BITS", 10)
    rows = []
    own = sorted_scores.sort_column
    monkeypatch.setattr(
        cuts, "sort_column", lambda values, positive: rows.append(len(values)) or own(values, positive)
    )
    random = torch.Generator().manual_seed(4)
    target = (torch.rand(20_000, generator=random) < 0.3).long()
    value_of("f1_max", Binary(), torch.randn(20_000, generator=random) + target, target)
    assert searched and sum(rows) < 1000
