"""pytorch-tabnet's form: metric(y_true, y_score) gives a float."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics
import torch

from hpometrics.exceptions import MetricInputError, MetricNameError, RegistrationError, UnknownMetricError
from hpometrics.integrations.tabnet import (
    AUC,
    Accuracy,
    BalancedAccuracy,
    LogLoss,
    TabnetMetric,
    UnsupervisedLoss,
    tabnet_metric,
)

FORMS = {"tensors": torch.tensor, "arrays": np.array, "lists": list}


@pytest.fixture
def table():
    """Labels of three classes, and probabilities that are right more often than not."""
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=200)
    scores = rng.random((200, 3)) + np.eye(3)[labels] * 0.5
    return labels, scores / scores.sum(1, keepdims=True)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("metric", "y_true", "y_score", "value"),
    [
        (Accuracy, [0, 1, 1, 0], [0, 1, 0, 0], 0.75),
        (AUC, [0, 1, 1, 0], [0.1, 0.8, 0.7, 0.2], 1.0),
        (BalancedAccuracy, [0, 1, 1, 0], [0, 1, 0, 0], 0.75),
        (LogLoss, [0, 1], [0.1, 0.9], -math.log(0.9)),
    ],
)
def test_the_examples_of_the_document(metric, y_true, y_score, value, form):
    """To the letter, as tensors, arrays and lists, and the value is a plain float."""
    measured = metric()(form(y_true), form(y_score))
    assert type(measured) is float
    assert measured == pytest.approx(value, rel=1e-6)


def test_names_and_directions():
    """What pytorch-tabnet reads of a metric."""
    found = [(metric()._name, metric()._maximize) for metric in (Accuracy, AUC, BalancedAccuracy, LogLoss)]
    assert found == [("accuracy", True), ("auc", True), ("balanced_accuracy", True), ("logloss", False)]
    assert (tabnet_metric("rmse")._name, tabnet_metric("rmse")._maximize) == ("rmse", False)
    assert tabnet_metric("f1_macro")()._name == "f1(average=macro)"


@pytest.mark.parametrize(
    "name", "accuracy balanced_accuracy logloss auc mse mae rmse rmsle".split()
)  # unsup_loss and unsup_loss_numpy are losses of an embedding, which no table's output is
def test_a_name_of_pytorch_tabnet_is_a_metric_here(name):
    """Whatever it may be called for what pytorch-tabnet does not predict, as `auc` of a ranking."""
    assert tabnet_metric(name)()._maximize is (name in ("accuracy", "balanced_accuracy", "auc"))


def test_the_auc_of_a_table_is_that_of_its_own_class():
    """The name is canonical, the value that of `AUC`."""
    labels, chance = [0, 1, 1, 0], [0.6, 0.8, 0.5, 0.2]
    assert tabnet_metric("auc")()(labels, chance) == AUC()(labels, chance) == 0.75
    assert tabnet_metric("auc")()._name == "roc_auc"


@pytest.mark.parametrize("metric", [Accuracy, AUC, BalancedAccuracy, LogLoss, tabnet_metric("brier")])
def test_two_columns_are_the_probability_of_class_1(metric):
    """(N, 2) and (N,) of the same model have one value, and so has a column."""
    chance, labels = np.random.default_rng(1).random(50), np.arange(50) % 2
    value = metric()(labels, chance)
    assert metric()(labels, np.stack([1 - chance, chance], 1)) == pytest.approx(value, rel=1e-12)
    assert metric()(labels[:, None], chance[:, None]) == value


@pytest.mark.parametrize(
    ("metric", "reference"),
    [
        (Accuracy, lambda y, s: sklearn.metrics.accuracy_score(y, s.argmax(1))),
        (AUC, lambda y, s: sklearn.metrics.roc_auc_score(y, s, multi_class="ovr")),
        (BalancedAccuracy, lambda y, s: sklearn.metrics.balanced_accuracy_score(y, s.argmax(1))),
        (LogLoss, sklearn.metrics.log_loss),
        (tabnet_metric("f1_macro"), lambda y, s: sklearn.metrics.f1_score(y, s.argmax(1), average="macro")),
        (tabnet_metric("hits@2"), lambda y, s: sklearn.metrics.top_k_accuracy_score(y, s, k=2)),
    ],
)
def test_scikit_learn_agrees_on_three_classes(table, metric, reference):
    """(N, C) scores are probabilities of classes."""
    assert metric()(*table) == pytest.approx(reference(*table), rel=1e-9)


def test_labels_of_three_classes(table):
    """Integers of one dimension are predicted labels."""
    labels, scores = table
    guesses = scores.argmax(1)
    assert Accuracy()(labels, guesses) == Accuracy()(labels, scores)
    assert tabnet_metric("f1_macro")()(labels, guesses) == pytest.approx(
        sklearn.metrics.f1_score(labels, guesses, average="macro")
    )


def test_floats_of_one_dimension_are_the_probability_of_class_1():
    """For a metric of predictions too, and for one without a binary form; 0. and 1. decide as they are."""
    labels, chance = [0, 1, 1, 0], [0.2, 0.9, 0.4, 0.0]
    assert Accuracy()(labels, chance) == 0.75
    assert Accuracy()(labels, [0.0, 1.0, 0.0, 0.0]) == 0.75
    expected = sklearn.metrics.f1_score(labels, [0, 1, 0, 0], average="macro")
    assert tabnet_metric("f1_macro")()(labels, chance) == pytest.approx(expected)


def test_several_labels_per_row():
    """A target of two dimensions is a set: probabilities as floats, decisions as integers."""
    target, chance = [[0, 1], [1, 1]], [[0.2, 0.9], [0.8, 0.3]]
    assert tabnet_metric("hamming")()(target, chance) == 0.25
    assert tabnet_metric("hamming")()(target, [[0, 1], [1, 0]]) == 0.25


def test_numbers_and_vectors():
    """Predictions of one column or of several, in pytorch-tabnet's shape (N, 1) too."""
    mse = tabnet_metric("mse")()
    assert mse([3, -0.5, 2, 7], [2.5, 0.0, 2, 8]) == 0.375
    assert mse(np.zeros((4, 1)), np.ones((4, 1))) == 1.0
    errors = np.zeros((4, 2)), np.array([[3.0, 4.0]] * 4)
    assert tabnet_metric("rmse")()(*errors) == 3.5
    assert tabnet_metric("rmse(multioutput=pooled)")()(*errors) == pytest.approx(12.5**0.5)  # its own RMSE
    with pytest.raises(MetricInputError, match="the target of a vector output must have 2 dimension"):
        mse(np.zeros(4), np.zeros((4, 2)))
    with pytest.raises(MetricInputError, match="shapes never broadcast"):
        mse(np.zeros(4), np.zeros(3))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", ["unsup_loss", "unsup_loss_numpy", "unsupervised_loss"])
def test_a_pretrainer_hands_over_the_reconstruction_first(name, form):
    """`metric(y_pred, embedded_x, obf_vars)`: (1 / 9 / 2 + 1 / 7) / 3, of variances 7 and 9."""
    metric = tabnet_metric(name)()
    assert isinstance(metric, UnsupervisedLoss)
    assert (metric._name, metric._maximize) == ("unsup_loss", False)
    loss = metric(
        form([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]),
        form([[1.0, 1.0], [2.0, 4.0], [6.0, 7.0]]),
        form([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]),
    )
    assert type(loss) is float
    assert loss == pytest.approx(0.0661376, abs=1e-7)


def test_a_mask_of_other_shape_is_refused():
    """It says which columns of which rows were hidden."""
    with pytest.raises(MetricInputError, match=r"mask= of shape \(2, 2\), got \(2, 1\)"):
        UnsupervisedLoss()(np.zeros((2, 2)), np.ones((2, 2)), np.ones((2, 1)))


def test_one_class_alone_has_no_auc():
    """Undefined is nan, which never counts as an improvement."""
    assert math.isnan(AUC()([1, 1], [0.3, 0.4]))


def test_labels_are_no_scores():
    """What a tensor is, is never guessed from its values."""
    with pytest.raises(MetricInputError, match=r"roc_auc reads \w+, but one-dimensional torch.int64 scores"):
        AUC()([0, 1, 1, 0], [0, 1, 1, 0])
    with pytest.raises(MetricInputError, match="lie in"):
        LogLoss()([0, 1], [-2.0, 3.0])
    with pytest.raises(MetricInputError, match="sum to 1,"):
        AUC()([0, 1], [[0.3, 0.3], [0.2, 0.8]])


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("acuracy", UnknownMetricError, "Did you mean 'accuracy'?"),
        (
            "token_accuracy",
            UnknownMetricError,
            "token_accuracy is a metric of sequence, text; pytorch-tabnet predicts",
        ),
        ("f1(average=none)", MetricNameError, "has one value per class; choose another average"),
    ],
)
def test_what_pytorch_tabnet_cannot_use(name, error, text):
    """The error comes where the metric is named."""
    with pytest.raises(error) as caught:
        tabnet_metric(name)
    assert text in str(caught.value)


def test_a_class_of_ones_own_may_derive_from_a_named_one():
    """Twice the area less one, as pytorch-tabnet's guide has it for a metric of one's own: 2 * 1 - 1."""

    class Gini(AUC):
        def __call__(self, y_true, y_score):
            return 2 * super().__call__(y_true, y_score) - 1

    class Named(AUC, name="area"):
        pass

    assert Gini()([0, 1, 1, 0], [0.1, 0.8, 0.7, 0.2]) == 1.0
    assert (Gini._name, Gini._maximize, Named._name) == ("auc", True, "area")


def test_a_class_that_names_no_metric_is_refused():
    """It says what to write, where Python would say that a keyword is missing."""
    with pytest.raises(RegistrationError, match=r"Own does not name a metric; write class Own"):

        class Own(TabnetMetric):
            pass
