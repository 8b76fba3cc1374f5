from __future__ import annotations

import numpy as np
import pytest
import torch

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Clusters
from hpometrics.metrics.statistics.contingency import Contingency, table_of_matrix


def counted(*batches, weight=None):
    """The statistic of pairs of predictions and target."""
    statistic = Contingency()
    for preds, target in batches:
        batch = Outputs(Clusters(), predictions=preds, target=target, sample_weight=weight)
        statistic.check(batch)
        statistic.update(batch)
    return statistic


def test_a_table_by_hand():
    """Cells in the order of target, then prediction; margins beside them."""
    table = counted((torch.tensor([5, 5, -1]), torch.tensor([0, 0, 3]))).table
    assert table.cells.tolist() == [2.0, 1.0]
    assert table.rows.tolist() == [2.0, 1.0] and table.columns.tolist() == [1.0, 2.0]
    assert (table.row.tolist(), table.column.tolist()) == ([0, 1], [1, 0])
    assert table.same and table.whole and table.total == 3


@pytest.mark.parametrize("scale", [1, 10**5, 10**12])
@pytest.mark.parametrize("seed", range(3))
def test_any_partition_holds_the_same_pairs(seed, scale):
    """Near and far labels, whole or in batches or merged: the same state to the bit."""
    random = np.random.default_rng(seed)
    preds, target = (torch.tensor(random.integers(-6, 7, 200) * scale + 3) for _ in range(2))
    whole = counted((preds, target))
    parts = counted(*((preds[i : i + 13], target[i : i + 13]) for i in range(0, 200, 13)))
    first, second = counted((preds[120:], target[120:])), counted((preds[:120], target[:120]))
    first.merge(second)
    for other in (parts, first):
        assert all(torch.equal(value, other.state()[name]) for name, value in whole.state().items())
    assert whole.state()["counts"].sum() == 200


def test_memory_grows_with_pairs_not_with_labels_or_rows():
    """A million rows of labels up to 10^18 in three groups are at most nine pairs."""
    names = torch.tensor([10**18, -(10**18), 0])
    labels = names[torch.arange(1_000_000) % 3]
    state = counted((labels, labels), (labels, labels.flip(0))).state()
    assert state["pairs"].shape == (2, 5) and state["counts"].sum() == 2_000_000


def test_weights_count_and_nothing_is_kept_of_none():
    """A pair sums its weights; rows of weight 0 leave no trace."""
    weight = torch.tensor([0.5, 2.0, 0.0])
    state = counted((torch.tensor([1, 1, 7]), torch.tensor([0, 0, 8])), weight=weight).state()
    assert state["pairs"].tolist() == [[0], [1]] and state["counts"].tolist() == [2.5]


def test_a_confusion_matrix_gives_the_same_table():
    """Classes that do not occur are left out."""
    table = table_of_matrix(torch.tensor([[2, 0, 0], [0, 0, 0], [1, 0, 4]]))
    assert table.cells.tolist() == [2.0, 1.0, 4.0]
    assert table.rows.tolist() == [2.0, 5.0] and table.columns.tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("preds", "target", "message"),
    [
        (torch.tensor([0.5]), torch.tensor([1]), "whole numbers, got predictions of torch.float32"),
        (torch.tensor([1]), torch.tensor([1.0]), "whole numbers, got target of torch.float32"),
        (torch.tensor([1, 2]), torch.tensor([1]), r"one label per row, got shapes \(2,\) and \(1,\)"),
        (torch.ones(2, 2).long(), torch.ones(2, 2).long(), r"got shapes \(2, 2\) and \(2, 2\)"),
    ],
)
def test_what_are_no_labels_is_refused(preds, target, message):
    """Scores and shapes that do not match are named."""
    with pytest.raises(MetricInputError, match=message):
        counted((preds, target))
