"""Areas of whole blocks of columns equal those of each column alone, by scikit-learn as well."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from hpometrics import Category, Set
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.statistics import column_blocks, sorted_scores
from hpometrics.metrics.statistics.areas import areas_of, curves_of
from hpometrics.metrics.statistics.column_blocks import descending_keys
from hpometrics.metrics.statistics.scores import Scores
from hpometrics.metrics.statistics.sorted_scores import sort_column

ROWS, LABELS = 90, 70
DRAWN = {
    "distinct": lambda random: torch.randn(ROWS, LABELS, generator=random),
    "ties": lambda random: torch.randn(ROWS, LABELS, generator=random).round(decimals=1),
    "few values": lambda random: torch.randint(-1, 2, (ROWS, LABELS), generator=random).float(),
    "zeros of both signs": lambda random: torch.randn(ROWS, LABELS, generator=random).round() * 0.0,
    "far apart": lambda random: torch.randn(ROWS, LABELS, generator=random) ** 81,
    "float64": lambda random: torch.randn(ROWS, LABELS, generator=random).double() / 3,
    "float64, far apart": lambda random: torch.randn(ROWS, LABELS, generator=random).double() ** 701,
    "float16": lambda random: torch.randn(ROWS, LABELS, generator=random).half(),
    "bfloat16": lambda random: torch.randn(ROWS, LABELS, generator=random).bfloat16(),
}
WEIGHTS = {
    "unweighted": lambda random: None,
    "weights": lambda random: torch.rand(ROWS, generator=random).double(),
    "weights of 0": lambda random: torch.randint(3, (ROWS,), generator=random).double(),
    "weights far apart": lambda random: 10.0 ** torch.randint(-30, 30, (ROWS,), generator=random).double(),
}


@pytest.fixture(autouse=True, params=["seven columns", "parts of a column"])
def in_blocks(request, monkeypatch):
    """Keep no column sorted; measure seven columns at a time, or one (ten rows, if weighted)."""
    monkeypatch.setattr(sorted_scores, "_SMALL", 0)
    monkeypatch.setattr(sorted_scores, "FEW", 0)
    monkeypatch.setattr(column_blocks, "_MOST_COLUMNS", 7 if request.param == "seven columns" else 1)
    monkeypatch.setattr(column_blocks, "_LOOK", 10)


def stored(logits, weight=None, unknown=None):
    """Labels of a set, in two batches; the first two labels have one kind of rows only."""
    random = torch.Generator().manual_seed(5)
    target = (torch.rand(ROWS, LABELS, generator=random) < 0.3).long()
    target[:, 0], target[:, 1] = 0, 1
    if unknown is not None:
        target[unknown] = -1
    output = Set(LABELS, ignore_index=-1)
    scores = Scores()
    for part in (slice(0, 31), slice(31, ROWS)):
        own = None if weight is None else weight[part]
        scores.update(Outputs(output, logits=logits[part], target=target[part], sample_weight=own))
    return scores


def one_by_one(scores):
    """Return the areas of each column, sorted alone."""
    columns = [areas_of(sort_column(*scores.column(index))) for index in range(scores.classes)]
    return torch.tensor(columns, dtype=torch.float64).T


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("drawn", DRAWN)
def test_a_block_has_the_areas_of_its_columns(drawn, weight):
    """Ties, zeros and labels of one kind included."""
    random = torch.Generator().manual_seed(3)
    scores = stored(DRAWN[drawn](random), WEIGHTS[weight](random))
    areas = torch.stack([*curves_of(scores)])
    torch.testing.assert_close(areas, one_by_one(scores), rtol=2e-15, atol=0, equal_nan=True)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_unknown_labels_are_in_no_column(weight):
    """Each column has rows of its own, and one has none."""
    random = torch.Generator().manual_seed(3)
    unknown = torch.rand(ROWS, LABELS, generator=random) < 0.4
    unknown[:, 2] = True
    scores = stored(DRAWN["ties"](random), WEIGHTS[weight](random), unknown)
    areas = torch.stack([*curves_of(scores)])
    torch.testing.assert_close(areas, one_by_one(scores), rtol=2e-15, atol=0, equal_nan=True)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_areas_are_those_of_scikit_learn(weight):
    """An independent implementation of both areas, with ties and weights."""
    random = torch.Generator().manual_seed(3)
    logits, weights = DRAWN["ties"](random), WEIGHTS[weight](random)
    scores = stored(logits, weights)
    areas = curves_of(scores)
    for label in range(2, LABELS):
        facts = scores.target[:, label].numpy(), logits[:, label].numpy()
        assert areas.roc_auc[label].item() == pytest.approx(roc_auc_score(*facts, sample_weight=weights))
        precision = average_precision_score(*facts, sample_weight=weights)
        assert areas.average_precision[label].item() == pytest.approx(precision)


@pytest.mark.parametrize("weighted", [False, True])
def test_many_classes_are_each_against_the_rest(weighted):
    """A class without rows has no area."""
    random = torch.Generator().manual_seed(2)
    target = torch.randint(1, LABELS, (ROWS,), generator=random)
    weight = torch.rand(ROWS, generator=random) if weighted else None
    scores = Scores()
    logits = torch.randn(ROWS, LABELS, generator=random)
    scores.update(Outputs(Category(LABELS), logits=logits, target=target, sample_weight=weight))
    areas = torch.stack([*curves_of(scores)])
    torch.testing.assert_close(areas, one_by_one(scores), rtol=2e-15, atol=0, equal_nan=True)
    assert areas[:, 0].tolist()[0] == 0.0 and areas[1:, 0].isnan().all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_keys_are_in_the_order_of_the_scores(dtype):
    """Equal where scores are equal, with room for a bit; for the largest and the least numbers too."""
    limits = np.finfo(dtype)
    some = np.array([0.0, 1.0, 1.5, 2.0, 1e10, limits.max, limits.tiny, limits.smallest_subnormal], dtype)
    for numbers in (some[:5], some):
        values = np.concatenate([numbers, -numbers, numbers])
        keys = descending_keys(values.copy())
        assert np.array_equal(keys[:, None] < keys, values[:, None] > values)
        assert np.abs(keys).max() < np.iinfo(keys.dtype).max // 2
