"""Class totals are what a confusion matrix has on its diagonal and at its margins, also of many classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn

from hpometrics import Category, MetricCollection, get_metric
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Clusters, Sequence
from hpometrics.metrics.statistics.confusion import ClassTotals, Confusion, Contingency, table_of_matrix


def batch(size: int, rows: int, seed: int, weighted: bool = False, output: Sequence | None = None) -> Outputs:
    """Random tokens, a third of them padding."""
    random = torch.Generator().manual_seed(seed)
    target, preds = torch.randint(size, (2, rows, 5), generator=random)
    target = target.masked_fill(torch.rand(rows, 5, generator=random) < 0.3, -100)
    weight = torch.rand(rows, generator=random, dtype=torch.float64) if weighted else None
    return Outputs(output or Sequence(), predictions=preds, target=target, sample_weight=weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("vocabulary", [None, 9, 2_000])
def test_they_agree_with_the_matrix(vocabulary, weighted):
    """Also when later batches hold tokens that earlier ones did not, and when parts are merged."""
    output = Sequence(vocabulary)
    totals, other, matrix = ClassTotals(), ClassTotals(), Confusion()
    for number, size in enumerate((3, 9, 5)):
        given = batch(size, 20, number, weighted, output)
        (other if number == 1 else totals).update(given)
        matrix.update(given)
    totals.merge(other)
    for name in ("tp", "fp", "fn", "tn"):
        torch.testing.assert_close(getattr(totals.counts, name), getattr(matrix.counts, name))


def test_whole_rows_are_counted_in_whole_numbers():
    """int64 without weights, float64 with them."""
    for weighted, dtype in ((False, torch.int64), (True, torch.float64)):
        totals = ClassTotals()
        totals.update(batch(4, 10, 0, weighted))
        assert totals.state()["totals"].dtype is dtype


def test_scores_of_another_width_are_refused():
    """As everywhere: a vocabulary does not change in the middle of an epoch."""
    totals = ClassTotals()
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    totals.update(Outputs(Sequence(), logits=torch.zeros(2, 3, 4), target=tokens))
    with pytest.raises(MetricInputError, match="scores of 4 classes, but this one has 5"):
        totals.check(Outputs(Sequence(), logits=torch.zeros(2, 3, 5), target=tokens))


MANY = 100_000
NAMES = ["cohen_kappa(weights=linear)", "accuracy"]


def drawn() -> tuple[torch.Tensor, torch.Tensor]:
    """Labels of a thousand rows and predictions of which half are right."""
    random = torch.Generator().manual_seed(4)
    target = torch.randint(0, MANY, (1000,), generator=random)
    guessed = torch.randint(0, MANY, (1000,), generator=random)
    return torch.where(torch.rand(1000, generator=random) < 0.5, target, guessed), target


def test_ratios_of_many_classes_need_no_matrix():
    """Of 100 000 classes a matrix would take 80 GB; their totals take a few MB and give the same values."""
    preds, target = drawn()
    panel = MetricCollection(["accuracy", "f1_macro", "mcc", "cohen_kappa"], output=Category(MANY))
    for rows in (slice(0, 300), slice(300, 1000)):
        panel.update(predictions=preds[rows], target=target[rows])
    assert {name: value.item() for name, value in panel.compute().items()} == pytest.approx(
        {
            "accuracy": sklearn.accuracy_score(target, preds),
            "f1(average=macro)": sklearn.f1_score(target, preds, average="macro"),
            "mcc": sklearn.matthews_corrcoef(target, preds),
            "cohen_kappa": sklearn.cohen_kappa_score(target, preds),
        }
    )


def test_what_was_taken_for_what_needs_the_matrix():
    """Kappa with weights reads how far apart labels are, so it keeps the matrix of as many classes."""
    panel = MetricCollection(NAMES, output=Category(5000))
    panel.update(predictions=[0, 4999, 3], target=[0, 4998, 3])
    assert panel.compute()["accuracy"].item() == pytest.approx(2 / 3)
    held = {type(get_metric(name, Category(5000)).kept["confusion"]) for name in NAMES}
    assert held == {Confusion, ClassTotals}


@pytest.mark.parametrize("name", ["accuracy", "confusion_matrix"])
def test_labels_that_are_ids_are_refused(name):
    """A label of eleven digits names no class, and the state is as it was."""
    panel = MetricCollection([name], output=Category())
    panel.update(predictions=[0, 1], target=[0, 1])
    with pytest.raises(MetricInputError, match=r"must be class numbers, got 99999999999; if these are ids"):
        panel.update(predictions=[10**11 - 1], target=[2])
    assert panel.compute()[name].sum().item() in (1.0, 2.0)


@pytest.mark.parametrize(("name", "stated"), [("accuracy", None), ("confusion_matrix", 70_000)])
def test_a_matrix_that_no_memory_holds_is_refused(name, stated):
    """Ratios of counts go without it where the classes are stated; the table itself does not."""
    panel = MetricCollection([name], output=Category(stated))
    with pytest.raises(
        MetricInputError, match=r"at most 65536 classes, got 70000; for so many, choose ratios"
    ):
        panel.update(logits=torch.zeros(1, 70_000), target=[2])


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
