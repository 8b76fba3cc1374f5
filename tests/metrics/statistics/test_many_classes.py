from __future__ import annotations

import pytest
import torch
from sklearn import metrics as sklearn

from hpometrics import Category, MetricCollection, get_metric
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.statistics.confusion import ClassTotals, Confusion

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
    with pytest.raises(MetricInputError, match=r"numbers of classes, got 99999999999; if these are ids"):
        panel.update(predictions=[10**11 - 1], target=[2])
    assert panel.compute()[name].sum().item() in (1.0, 2.0)


@pytest.mark.parametrize(("name", "stated"), [("accuracy", None), ("confusion_matrix", 70_000)])
def test_a_matrix_that_no_memory_holds_is_refused(name, stated):
    """Ratios of counts go without it where the classes are stated; the table itself does not."""
    panel = MetricCollection([name], output=Category(stated))
    with pytest.raises(MetricInputError, match=r"at most 65536 classes, got 70000; of so many choose ratios"):
        panel.update(logits=torch.zeros(1, 70_000), target=[2])
