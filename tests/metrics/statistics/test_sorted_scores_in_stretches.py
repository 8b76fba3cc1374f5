"""Columns in order, stretch by stretch: the same areas as of whole columns, with little held at a time."""

from __future__ import annotations

import pytest
import torch

from hpometrics import Binary, Category, MetricCollection, Set
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.statistics import sorted_scores, sorted_scores as apart
from hpometrics.metrics.statistics.areas import curves_of, pooled_curve
from hpometrics.metrics.statistics.scores import Scores
from hpometrics.metrics.statistics.sorted_scores import PartitionedScores, can_be_partitioned

OUTPUTS = {
    "binary": (Binary(), (600,)),
    "set": (Set(3), (600, 3)),
    "set, two labels at a time": (Set(17), (600, 17)),
    "category": (Category(4), (600, 4)),
    "category, three classes at a time": (Category(25), (600, 25)),
}
ROUNDED = {"distinct": 4096.0, "ties": 4.0, "few values": 0.5, "one value": 0.0}


@pytest.fixture
def in_stretches(monkeypatch):
    """Keep no column sorted, and cut those of more than 32 rows."""
    monkeypatch.setattr(sorted_scores, "_SMALL", 0)
    monkeypatch.setattr(apart, "_STRETCH", 32)
    monkeypatch.setattr(apart, "_LOOK", (100, 100))


def stored(output, shape, steps=4096.0, dtypes=(torch.float32,) * 3):
    """Three batches of logits rounded to so many steps per unit; the first one has negatives only."""
    random = torch.Generator().manual_seed(3)
    scores = Scores()
    for number, dtype in enumerate(dtypes):
        logits = torch.randn(shape, generator=random)
        logits = ((logits * steps).round() / (steps or 1)).to(dtype)
        labels = shape[:1] if isinstance(output, Category) else shape
        top = shape[1] if isinstance(output, Category) else 2
        target = torch.randint(top, labels, generator=random) * (number > 0)
        scores.update(Outputs(output, logits=logits, target=target))
    return scores


def whole(scores):
    """The areas of columns that are sorted whole and kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_scores, "_SMALL", 1 << 30)
        scores.to("cpu")  # forgets what was derived
        return [*curves_of(scores)]


@pytest.mark.parametrize("steps", ROUNDED.values(), ids=ROUNDED)
@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.usefixtures("in_stretches")
def test_stretches_have_the_areas_of_whole_columns(name, steps):
    """Ties are never parted, and every stretch counts what lies in those before."""
    scores = stored(*OUTPUTS[name], steps)
    assert can_be_partitioned(scores)
    apart_areas = [*curves_of(scores)]
    torch.testing.assert_close(apart_areas, whole(scores), rtol=1e-14, atol=1e-15, equal_nan=True)


@pytest.mark.usefixtures("in_stretches")
def test_chunks_of_two_precisions_are_compared_in_the_higher():
    """As a joined column would be."""
    scores = stored(*OUTPUTS["binary"], dtypes=(torch.float32, torch.float64, torch.float32))
    assert curves_of(scores).roc_auc.item() == pytest.approx(whole(scores)[1].item(), rel=1e-14)


@pytest.mark.parametrize(("target", "area"), [(0, [0.0, torch.nan, torch.nan]), (1, [200.0, torch.nan, 1.0])])
@pytest.mark.usefixtures("in_stretches")
def test_one_kind_of_rows_has_no_area(target, area):
    """Nothing can be told apart, in stretches too."""
    scores = Scores()
    scores.update(Outputs(Binary(), logits=torch.randn(200), target=torch.full((200,), target)))
    found = torch.stack([*curves_of(scores)]).squeeze(1)
    torch.testing.assert_close(found, torch.tensor(area, dtype=torch.float64), equal_nan=True)


@pytest.mark.usefixtures("in_stretches")
def test_little_is_held_at_a_time():
    """A stretch of distinct scores is about its part of the column; together they are all of it, in order."""
    scores = stored(Binary(), (4000,))
    positives, stretches = next(iter(PartitionedScores(scores)))
    held = [(part.negative.copy(), part.positive.copy()) for part in stretches]
    sizes = [len(negative) + len(positive) for negative, positive in held]
    assert len(held) == 8 and sum(sizes) == 12000 and max(sizes) < 1.5 * 12000 / 8
    for kind, rows in ((0, 12000 - positives), (1, positives)):
        values = torch.cat([torch.from_numpy(part[kind]) for part in held])
        assert len(values) == rows and bool((values[1:] >= values[:-1]).all())


@pytest.mark.usefixtures("in_stretches")
def test_the_store_stays_as_it_was():
    """Rows keep their order and pairing, and a second look finds the same areas."""
    scores = stored(*OUTPUTS["set"])
    before = scores.state()
    first = whole(scores)[1], curves_of(scores).roc_auc
    assert all(torch.equal(before[name], value) for name, value in scores.state().items())
    scores.update(Outputs(Set(3), logits=torch.zeros(5, 3), target=torch.ones(5, 3, dtype=torch.int64)))
    assert not torch.equal(curves_of(scores).roc_auc, first[1])


@pytest.mark.usefixtures("in_stretches")
def test_a_binary_column_pooled_is_the_column():
    """There is nothing to pool, and no sorted copy is made for it."""
    scores = stored(*OUTPUTS["binary"])
    assert pooled_curve(scores).roc_auc == curves_of(scores).roc_auc[0]
    assert not scores.has("ascending")


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.usefixtures("in_stretches")
def test_thresholds_and_areas_agree_whoever_asks_first(order):
    """Thresholds keep a sorted copy of a binary column, which areas then read."""
    names = ["roc_auc", "average_precision", "ks", "f1_max"]
    random = torch.Generator().manual_seed(1)
    target = torch.randint(2, (500,), generator=random)
    batch = {"logits": torch.randn(500, generator=random) + target, "target": target}
    together, alone = MetricCollection(names[::order], Binary()), {}
    together.update(**batch)
    for name in names:
        metric = MetricCollection([name], Binary())
        metric.update(**batch)
        alone |= metric.compute()
    torch.testing.assert_close(together.compute(), alone, rtol=1e-14, atol=0)
