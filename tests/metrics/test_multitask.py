"""A collection by tasks: what it holds before any task, and what of two becomes one."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

from hpometrics.exceptions import MetricInputError, StateError
from hpometrics.metrics._validation import BatchValidator
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Binary, Category, Text
from hpometrics.metrics.multitask import TaskCollection
from hpometrics.metrics.registry.names import MetricName
from hpometrics.testing import cut, draw

TARGET = torch.tensor([1, 0, 1, 0])
DECIDED = {"predictions": torch.tensor([1, 0, 0, 0]), "target": TARGET}
LIKELY = {"probabilities": torch.tensor([0.9, 0.2, 0.8, 0.6]), "target": TARGET}


def panel(*metrics: str) -> TaskCollection:
    """Measures these, and unasked the f1 and the logarithmic loss."""
    unasked = [MetricName("f1"), MetricName("log_loss")]
    return TaskCollection(metrics or ["accuracy"], Binary(), unasked=unasked)


def test_to_compute_nothing_says_nothing_of_tasks():
    """It is nan with a reason, and the first update may name a task or none."""
    for task in ("a", None):
        measured = panel()
        assert math.isnan(measured.compute()["accuracy"]) and measured.reasons["accuracy"]
        measured.update(task=task, **DECIDED)
        assert measured.compute()["accuracy"] == 0.75


def test_of_two_parts_of_a_task_what_both_could_read_is_measured():
    """Whichever takes in the other: accuracy and f1 of all eight rows, no loss of the four."""
    one, other = panel(), panel()
    one.update(task="a", **LIKELY)
    other.update(task="a", **DECIDED)
    for first, second in ((one, other), (other, one)):
        both = first.fresh()
        both.merge_state(first.state_dict())
        both.merge_state(second.state_dict())
        assert both.compute() == {
            "a/accuracy": 0.75, "a/f1": 0.75, "accuracy": 0.75, "f1": 0.75,
        }  # fmt: skip


def test_parts_that_differ_in_what_is_asked_or_named_are_refused():
    """Metrics that only one has, and tasks that only one names."""
    one = panel()
    one.update(task="a", **DECIDED)
    with pytest.raises(StateError, match="does not match"):
        panel("accuracy", "mcc").merge_state(one.state_dict())
    other = panel()
    other.update(**DECIDED)
    with pytest.raises(MetricInputError, match="some updates name a task and some do not"):
        one.merge_state(other.state_dict())


def test_what_nobody_asked_for_refuses_no_batch():
    """The loss is left out once a batch cannot be read by it; what can stays, over the rows of both."""
    measured = panel()
    measured.update(task="a", **LIKELY)
    measured.update(task="a", **DECIDED)
    values = measured.compute()
    assert values["a/accuracy"] == 0.75 and "a/f1" in values and "a/log_loss" not in values


def test_what_nobody_asked_for_refuses_no_batch_after_others():
    """Nor where it could read the batch, but not beside those before: scores of one epoch are of one kind."""
    measured = TaskCollection(["accuracy"], Binary(), unasked=[MetricName("roc_auc"), MetricName("f1")])
    measured.update(task="a", logits=torch.tensor([2.0, -1.0]), target=TARGET[:2])
    measured.update(task="a", **LIKELY)
    values = measured.compute()
    assert values["a/accuracy"].item() == pytest.approx(5 / 6) and "a/f1" in values
    assert "a/roc_auc" not in values


def test_a_first_batch_without_rows_leaves_out_nothing():
    """What is measured unasked is then that of the rows that come after."""
    measured = panel()
    measured.update(task="a", probabilities=torch.tensor([]), target=torch.tensor([], dtype=torch.int64))
    measured.update(task="a", **LIKELY)
    assert {"a/f1", "a/log_loss"} <= measured.compute().keys()


def test_tasks_may_differ_in_what_is_measured_unasked():
    """Neither has all that the other has; what is measured over all rows has no value, and says why."""
    unasked = [MetricName("token_accuracy"), MetricName("bleu_4"), MetricName("interdistinct_1")]
    measured = TaskCollection([], Text(), unasked=unasked)
    measured.update(task="a", predictions=torch.tensor([[1, 2]]), target=torch.tensor([[1, 2]]))
    measured.update(task="b", predictions=["w x y z"], target=["w x y z"])
    values = {name: value.item() for name, value in measured.compute().items()}
    assert values["a/token_accuracy"] == values["b/bleu_4"] == values["b/interdistinct_1"] == 1.0
    assert math.isnan(values["interdistinct_1"])
    told = "interdistinct_1 could be measured only in some of the tasks"
    assert measured.reasons["interdistinct_1"] == told


def test_after_a_reset_nothing_is_left_of_the_tasks_before():
    """The values are those of the rows after it, of other tasks too."""
    measured = panel()
    for task in ("a", "b"):
        measured.update(task=task, **LIKELY)
    measured.reset()
    measured.update(task="c", **DECIDED)
    assert measured.compute()["accuracy"] == 0.75 and measured.tasks == ("c",)


@pytest.mark.parametrize(
    ("task", "told"), [([], "tasks for 0 rows"), (7, "got int"), (iter("aaaa"), "got str")]
)
def test_what_is_no_task_of_each_row_is_refused(task: object, told: str):
    """No row is dropped silently."""
    with pytest.raises(MetricInputError, match=told):
        panel().update(task=task, **DECIDED)


@pytest.mark.parametrize("index", [[1, 0, 2, 3], [4, 7, 1, 9]], ids=["shuffled", "filtered"])
def test_the_rows_of_a_column_go_by_place(index):
    """As those of a tensor beside it do, whatever the labels of its rows."""
    measured = TaskCollection(["accuracy"], Category(2))
    target = pd.Series([0, 1, 1, 0], index=index)
    measured.update(task=["a", "b", "a", "b"], predictions=torch.tensor([0, 1, 1, 1]), target=target)
    assert measured.compute() == {"a/accuracy": 1.0, "b/accuracy": 0.5, "accuracy": 0.75}


def test_a_mixed_batch_like_the_one_before_is_glanced_at(monkeypatch):
    """Of the first, the whole and the first task go through every check; of the second nothing does."""
    looks, admit = [], BatchValidator.validate
    monkeypatch.setattr(
        BatchValidator, "validate", lambda gate, *args: looks.append(len(args[0])) or admit(gate, *args)
    )
    panel = TaskCollection(["accuracy"], Category(2))
    batch = {"predictions": torch.tensor([0, 1, 1]), "target": torch.tensor([0, 1, 0])}
    for _ in range(2):
        panel.update(task=["a", "b", "b"], **batch)
    assert looks == [3, 1]
    assert {name: value.item() for name, value in panel.compute().items()} == {
        "a/accuracy": 1.0, "b/accuracy": 0.5, "accuracy": 0.75,
    }  # fmt: skip


def test_a_glance_does_not_let_a_wrong_label_through():
    """The second batch is like the first but for the label 7 of the last task; no task has taken its rows."""
    panel = TaskCollection(["accuracy"], Category(2))
    given = {"task": ["a", "b"], "predictions": torch.tensor([0, 1])}
    panel.update(**given, target=torch.tensor([0, 1]))
    with pytest.raises(MetricInputError, match="7"):
        panel.update(**given, target=torch.tensor([1, 7]))
    assert panel.compute()["a/accuracy"] == 1.0


@pytest.fixture
def validated(monkeypatch):
    """The sizes of the batches that were validated."""
    sizes: list[int] = []
    validate = BatchValidator.validate
    monkeypatch.setattr(
        BatchValidator,
        "validate",
        lambda own, batch, *rest: (sizes.append(len(batch)), validate(own, batch, *rest))[1],
    )
    return sizes


def test_the_first_batch_of_a_task_is_known_from_another_task(validated):
    """One batch is validated for all; every value is that of a collection alone, to the last bit."""
    measured, alone = TaskCollection(["log_loss", "ece"], Category(4)), {}
    for number, batch in enumerate(cut(draw(Category(4), 60), [5] * 12)):
        task = f"t{number % 3}"
        own = alone.setdefault(task, MetricCollection(["log_loss", "ece"], Category(4)))
        own.update(**batch)
        measured.update(task=task, **batch)
    assert validated == [5] * 4  # of each collection alone, and of the first task
    values = measured.compute()
    for task, own in alone.items():
        assert {name: values[f"{task}/{name}"] for name in own.names} == own.compute()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"logits": torch.zeros(2, 4), "target": torch.tensor([0, 4])}, "must be in 0..3"),
        ({"logits": torch.full((2, 4), math.inf), "target": torch.tensor([0, 1])}, "nan or infinite"),
        ({"logits": torch.zeros(2, 3), "target": torch.tensor([0, 1])}, "expects 4 in the last dimension"),
    ],
    ids=["label", "infinite", "width"],
)
def test_the_first_batch_of_a_further_task_may_be_refused(batch, message):
    """As if there were no other task; the next batch counts."""
    measured = TaskCollection(["accuracy"], Category(4))
    measured.update(task="a", logits=torch.eye(4), target=torch.arange(4))
    with pytest.raises(MetricInputError, match=message):
        measured.update(task="b", **batch)
    measured.update(task="b", logits=torch.eye(4), target=torch.arange(4).flip(0))
    assert measured.compute() == {"a/accuracy": 1, "b/accuracy": 0, "accuracy": 0.5}


@pytest.mark.parametrize("value", [7.0, math.nan], ids=["label", "not finite"])
def test_a_task_whose_first_batch_is_refused_is_none(value):
    """It has no value, and the next update may name a task or none."""
    measured = TaskCollection(["brier"], Binary())
    for task, other in ((None, "a"), ("a", None)):
        with pytest.raises(MetricInputError):
            measured.update(task=task, probabilities=[value], target=[1])
        assert measured.measured == {}
        measured.update(task=other, probabilities=[1.0], target=[1])
        assert measured.compute()["brier"] == 0
        measured.reset()
    measured.update(task="a", probabilities=[1.0], target=[1])
    with pytest.raises(MetricInputError):
        measured.update(task="b", probabilities=[value], target=[1])
    assert measured.compute() == {"a/brier": 0, "brier": 0}


def test_what_is_known_of_another_task_ends_with_a_merge(validated):
    """What was merged may not fit the next batch, so that one is validated."""
    one, other = (TaskCollection(["accuracy"], Category()) for _ in range(2))
    one.update(task="a", logits=torch.eye(4), target=torch.arange(4))
    other.update(task="b", logits=torch.eye(5), target=torch.arange(5))
    one.merge_state(other.state_dict())
    one.update(task="b", logits=torch.eye(4), target=torch.arange(4))
    assert validated == [4, 5, 4]
    assert one.measured["b"]["accuracy"].matrix.sum() == 9


def test_an_argument_of_none_is_not_passed(validated):
    """A batch with it is like one without it; an unknown one is refused, whatever it is."""
    measured, batch = TaskCollection(["accuracy"], Category(4)), draw(Category(4), 8)
    for weight in ({}, {"sample_weight": None}, {"sample_weight": None, "probabilities": None}):
        measured.update(**batch, **weight)
    assert validated == [8] and measured.measured[None].rows == 24
    with pytest.raises(MetricInputError, match="accepts weights"):
        measured.update(**batch, weights=None)
