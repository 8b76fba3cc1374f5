from __future__ import annotations

import numpy as np
import pytest
import torch

from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Binary, Category
from hpometrics.metrics.statistics.calibration import average_precision_of, roc_auc_of
from hpometrics.metrics.statistics.cuts import probability_between
from hpometrics.metrics.statistics.scores import Scores
from hpometrics.metrics.statistics.sorted_scores import rank_column, ranked_column, ranked_pooled, sort_column


def test_by_hand():
    """Of 0.9 (yes), 0.5 (yes, no) and 0.1 (no): what lies at or above each."""
    scores, positive = torch.tensor([0.5, 0.9, 0.1, 0.5]), torch.tensor([True, True, False, False])
    column = rank_column(sort_column(scores, positive))
    assert column.scores.tolist() == pytest.approx([0.9, 0.5, 0.1])
    assert column.tp.tolist() == [1.0, 2.0, 2.0] and column.fp.tolist() == [0.0, 1.0, 2.0]
    assert [rate.tolist() for rate in column.rates] == [[0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0]]
    assert column.has_both and (column.positives, column.negatives) == (2.0, 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_whole_weights_are_repeated_rows(seed):
    """Rows of weight 0 leave no threshold behind."""
    random = np.random.default_rng(seed)
    values, positive = torch.tensor(random.integers(9, size=40) / 8), torch.tensor(random.random(40) < 0.4)
    weight = torch.tensor(random.integers(3, size=40))
    weighed = rank_column(sort_column(values, positive, weight.double()))
    repeated = rank_column(sort_column(values.repeat_interleave(weight), positive.repeat_interleave(weight)))
    for name in ("scores", "tp", "fp"):
        torch.testing.assert_close(getattr(weighed, name), getattr(repeated, name))


@pytest.mark.parametrize("weight", [None, torch.zeros(3, dtype=torch.float64)])
def test_nothing_to_rank(weight):
    """No rows, or none that weighs anything, have neither kind."""
    rows = 0 if weight is None else 3
    column = rank_column(sort_column(torch.rand(rows), torch.ones(rows).bool(), weight))
    assert not column.has_both and len(column.scores) == 0 and column.positives == 0.0


def test_a_column_is_kept_until_the_next_update():
    """The same object for all who ask; another one when rows have come."""
    scores = Scores()
    batch = Outputs(Category(3), logits=torch.randn(8, 3), target=torch.arange(8) % 3)
    scores.update(batch)
    first = ranked_column(scores, 1)
    assert ranked_column(scores, 1) is first and len(ranked_pooled(scores).scores) == 24
    scores.update(batch)
    assert ranked_column(scores, 1) is not first


def test_the_pool_of_one_column_is_the_column():
    """A binary output has nothing to pool."""
    scores = Scores()
    scores.update(Outputs(Binary(), logits=torch.randn(8), target=torch.arange(8) % 2))
    assert ranked_pooled(scores) is ranked_column(scores, 0)


@pytest.mark.parametrize("logits", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_probability_parts_two_scores(dtype, logits):
    """Compared in the type of the scores it is not below the lower and below the higher, if there is one."""
    random = torch.Generator().manual_seed(1)
    for _ in range(200):
        pair = torch.rand(2, generator=random, dtype=dtype) * (30 if logits else 1)
        low, high = pair.sort().values
        t = probability_between(low, high, logits=logits)
        wall = torch.logit(t) if logits else t
        assert low <= wall.to(dtype) < high and 0 <= t <= 1


def test_a_histogram_of_one_bin_knows_nothing():
    """All tied: an area of a half, and a bound of a half; the prevalence, between best and worst."""
    positives, negatives = torch.tensor([[0.0, 3.0]]).double(), torch.tensor([[0.0, 5.0]]).double()
    area = roc_auc_of(positives, negatives)
    assert (area.value.item(), area.error_bound.item()) == (0.5, 0.5)
    precision = average_precision_of(positives, negatives)
    assert precision.value.item() == pytest.approx(3 / 8)
    assert precision.error_bound.item() == pytest.approx(1 - 3 / 8)


def test_a_state_of_class_scores_is_read():
    """The scores of logits stay as they are."""
    output, target = Category(3), torch.tensor([0, 1, 2, 0])
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    batch = Outputs(output, logits=logits, target=target)
    first, loaded = Scores(), Scores()
    first.update(batch)
    loaded.load_state(first.state())
    assert torch.equal(loaded.state()["are_logits"], first.state()["are_logits"]) and loaded.of_classes
    assert torch.equal(loaded.state()["scores"], first.state()["scores"])
