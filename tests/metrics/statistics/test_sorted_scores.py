"""Columns are sorted once for all metrics that read them, and kept only where they are little."""

from __future__ import annotations

import pytest
import torch

from hpometrics import Binary, Category, MetricCollection, Set
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.statistics import sorted_scores as ascending
from hpometrics.metrics.statistics.areas import curves_of
from hpometrics.metrics.statistics.scores import Scores
from hpometrics.metrics.statistics.sorted_scores import ranked_column

NAMES = [
    "roc_auc",
    "average_precision",
    "gini",
    "f1_max",
    "mcc_max",
    "recall_at_precision(precision=0.6)",
    "ks",
    "roc_auc(max_fpr=0.1)",
    "log_auc",
    "eer",
    "fpr_at_tpr",
]
OUTPUTS = {"binary": (Binary(), (60,)), "set": (Set(5), (60, 5))}


@pytest.fixture
def sorted_scores(monkeypatch) -> list[int]:
    """How many scores each sort has put in order, so far."""
    counts: list[int] = []
    for name in ("sort", "ascending_order"):
        own = getattr(ascending, name)
        monkeypatch.setattr(
            ascending, name, lambda values, own=own: counts.append(values.numel()) or own(values)
        )
    return counts


def measured(names, output, shape, *, weighted=False):
    """Measure some metrics of one batch; their values, and its target."""
    random = torch.Generator().manual_seed(1)
    target = torch.randint(2, shape, generator=random)
    logits = torch.randn(shape, generator=random) + target
    weight = {"sample_weight": torch.rand(shape[0], generator=random)} if weighted else {}
    panel = MetricCollection(names, output)
    panel.update(logits=logits, target=target, **weight)
    return panel.compute(), target


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("output", OUTPUTS)
def test_areas_and_thresholds_share_one_sort(sorted_scores, output, order):
    """Every score is put in order once, and every positive one once more, whoever asks first."""
    _, target = measured(NAMES[::order], *OUTPUTS[output])
    assert sum(sorted_scores) == target.numel() + target.sum()


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("output", OUTPUTS)
def test_weighed_columns_are_sorted_once_too(sorted_scores, output, order):
    """With the weights beside them."""
    _, target = measured(NAMES[::order], *OUTPUTS[output], weighted=True)
    assert sum(sorted_scores) == target.numel()


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_not_kept_has_the_same_values(monkeypatch, weighted):
    """A store beyond the limit sorts its columns for the areas, and again for the thresholds."""
    kept, _ = measured(NAMES, *OUTPUTS["set"], weighted=weighted)
    monkeypatch.setattr(ascending, "_SMALL", 0)
    anew, _ = measured(NAMES, *OUTPUTS["set"], weighted=weighted)
    assert kept == anew


@pytest.mark.parametrize("limit", [0, 3 * 24])
def test_a_large_store_keeps_no_sorted_column(monkeypatch, limit):
    """What is derived from it holds no sorted scores, where the limit is below its size."""
    monkeypatch.setattr(ascending, "_SMALL", limit)
    scores = Scores()
    scores.update(Outputs(Category(3), logits=torch.randn(24, 3), target=torch.arange(24) % 3))
    curves_of(scores)
    assert ("ascending" in scores._derived) == (limit > 0)


def test_rows_in_order_leave_the_store_as_it_was():
    """Sorting is in place on a copy: the rows keep their order, and the next update adds to them."""
    scores = Scores()
    batch = Outputs(Binary(), logits=torch.tensor([2.0, -1.0, 1.0]), target=torch.tensor([1, 0, 0]))
    scores.update(batch)
    assert curves_of(scores).roc_auc.tolist() == [1.0] and ranked_column(scores, 0).tp.tolist() == [
        1.0,
        1.0,
        1.0,
    ]
    assert scores.state()["scores"].squeeze(1).tolist() == [2.0, -1.0, 1.0]
