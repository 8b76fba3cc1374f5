from __future__ import annotations

import pytest
import torch

from hpometrics.metrics.aggregation import weighed_rows
from hpometrics.metrics.features import Binary, Category, Number, Ranking, Sequence, Vector
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.row_values.by_row import is_mean_of_rows, measure_rows

ROWS = torch.zeros(3)
"""A target of three rows."""


def rows_of(name, output, **tensors):
    """Values and weights of the rows of a batch."""
    metric = get_metric(name, output)
    found = measure_rows([metric], metric.batch(None, tensors.pop("target"), tensors)).get(metric.name)
    return None if found is None else (found.values.tolist(), found.weights.tolist())


def test_a_mean_has_its_values_at_hand():
    """(2, 0, 1) squared, and of two columns their mean."""
    assert rows_of("mse", Number(), predictions=[2.0, 5.0, 1.0], target=[0.0, 5.0, 0.0])[0] == [4.0, 0.0, 1.0]
    assert rows_of("mae", Vector(2), predictions=[[2.0, 4.0]], target=[[0.0, 0.0]])[0] == [3.0]


def test_what_is_not_at_hand_is_measured_row_by_row():
    """A row that is not predicted 1 has no precision, so it weighs nothing."""
    values, weights = rows_of("precision", Binary(), predictions=[1, 1, 0], target=[1, 0, 1])
    assert (values[:2], weights) == ([1.0, 0.0], [1.0, 1.0, 0.0])


def test_positions_that_do_not_count_weigh_nothing():
    """One token of two is right, one of one, and a row without a token has no value."""
    values, weights = rows_of(
        "token_accuracy",
        Sequence(),
        predictions=torch.tensor([[1, 2], [3, 0], [0, 0]]),
        target=torch.tensor([[1, 9], [3, -100], [-100, -100]]),
    )
    assert (values[:2], weights) == ([0.5, 1.0], [2.0, 1.0, 0.0])


def test_users_have_their_values():
    """Of lists of two; a user without a relevant item weighs nothing."""
    scores = torch.tensor([[3.0, 2.0, 1.0]] * 3)
    for name in ("recall@2", "mae(average=user)"):
        _, weights = rows_of(name, Ranking(), logits=scores, target=[[0, 2], [1], []])
        assert weights == [1.0, 1.0, 0.0]
    assert rows_of("recall@2", Ranking(), logits=scores, target=[[0, 2], [1], []])[0][:2] == [0.5, 1.0]


@pytest.mark.parametrize("name", ["recall(average=none)", "confusion_matrix"])
def test_what_is_no_number_has_no_value_by_row(name):
    """A matrix or a value per class."""
    assert rows_of(name, Category(2), predictions=[0, 1], target=[0, 0]) is None


@pytest.mark.parametrize(
    ("measured", "values", "weights"),
    [
        (torch.tensor([1.0, 2.0, 3.0]), [1, 2, 3], [1, 1, 1]),
        ((torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, True, True])), [1, 2, 3], [1, 1, 1]),
        (torch.tensor([[1.0, 3.0], [2.0, 2.0], [0.0, 5.0]]), [2, 2, 2.5], [2, 2, 2]),
        (
            (torch.tensor([[1.0, 3.0], [2.0, 8.0], [4.0, 5.0]]), torch.tensor([[1.0, 3], [1, 0], [0, 2]])),
            [2.5, 2, 5],
            [4, 1, 2],
        ),
    ],
)
def test_several_values_of_a_row_are_averaged_by_their_weights(measured, values, weights):
    """(1 x 1 + 3 x 3) / 4 = 2.5."""
    found = weighed_rows(measured, ROWS, "m")
    assert (found.values.tolist(), found.weights.tolist()) == (values, weights)


def test_one_value_for_a_batch_is_none_of_a_row():
    """And a batch that is left out has rows that weigh nothing."""
    assert weighed_rows(torch.tensor(2.0), ROWS, "m") is None
    assert weighed_rows(None, ROWS, "m").weights.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "is_mean"), [("accuracy", True), ("precision", True), ("f1", False), ("roc_auc", False)]
)
def test_a_metric_is_the_mean_of_its_rows_or_not(name, is_mean):
    """Rows right and wrong of both kinds show it."""
    metric = get_metric(name, Binary())
    batch = metric.batch(None, [1, 0, 1, 0, 1], {"probabilities": [0.9, 0.8, 0.2, 0.1, 0.7]})
    assert is_mean_of_rows(metric, batch) is is_mean


def test_a_metric_measures_rows_in_any_state():
    """What it has measured before does not show, and its own values are those of the batch alone."""
    metric = get_metric("f1(average=micro)", Category(3))
    batch = metric.batch(None, [0, 1, 2], {"predictions": [0, 2, 2]})
    first = measure_rows([metric], batch)[metric.name].values.tolist()
    assert measure_rows([metric], batch)[metric.name].values.tolist() == first == [1.0, 0.0, 1.0]
