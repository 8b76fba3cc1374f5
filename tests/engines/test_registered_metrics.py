from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sample_evaluations import Classification, Guess, GuessEvaluation, guesses
from sklearn.metrics import f1_score, log_loss, roc_auc_score

from hpometrics import (
    MAXIMIZE,
    MINIMIZE,
    Binary,
    Category,
    MetricCollection,
    Number,
    Ranking,
    as_metric,
    get_metric,
)
from hpometrics.engines.registered_metrics import TupleReader
from hpometrics.evaluation import Evaluation, MetricEvaluator, registered
from hpometrics.exceptions import DirectionError, HpometricsError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import parse_feature


def drawn(seed, sizes=(40, 25)):
    """Folds of class probabilities with a label."""
    rng = np.random.default_rng(seed)
    rows = [("q", rng.dirichlet([1, 1, 1]), int(rng.integers(3))) for _ in range(sum(sizes))]
    return [(0, rows[: sizes[0]]), (1, rows[sizes[0] :])], rows


def agreement(preds, target):
    """A metric of the user's own."""
    return (preds == target).double().mean()


@pytest.mark.parametrize("name", ["f1(average=macro)", "log_loss", "roc_auc", "accuracy"])
def test_folds_are_merged_by_statistics(name):
    """The pooled value is scikit-learn's over all rows, and each fold's is that over its own."""
    folds, rows = drawn(5)

    def expected(rows):
        probabilities, target = np.array([row[1] for row in rows]), [row[2] for row in rows]
        labels = probabilities.argmax(axis=1)
        return {
            "f1(average=macro)": lambda: f1_score(target, labels, average="macro"),
            "log_loss": lambda: log_loss(target, probabilities, labels=[0, 1, 2]),
            "roc_auc": lambda: roc_auc_score(target, probabilities, multi_class="ovr"),
            "accuracy": lambda: np.mean(labels == target),
        }[name]()

    measured = registered(name, output=Category(3)).measure(folds)
    assert measured.value == pytest.approx(expected(rows), rel=1e-12)
    assert measured.fold_values == pytest.approx([expected(fold) for _, fold in folds], rel=1e-12)


@pytest.mark.parametrize(
    ("output", "predicted", "inputs"),
    [
        (Category(3), 2, "predictions"),
        (Category(3), 2.0, "predictions"),
        (Category(3), [0.2, 0.1, 0.7], "probabilities"),
        (Binary(), 0.7, "probabilities"),
        (Binary(), 1, "predictions"),
        (Binary(), True, "predictions"),
        ("number", 0.7, "predictions"),
        ("text", "a text", "predictions"),
        ("set", [1, 0], "predictions"),
        ("set", [0.9, 0.2], "probabilities"),
        (Ranking(num_items=3), [0.3, 0.2, 0.1], "logits"),
    ],
)
def test_shape_and_dtype_say_what_a_predicted_result_is(output, predicted, inputs):
    """Never the values."""
    reader = TupleReader(parse_feature(output))
    assert set(reader.batch([("q", predicted, predicted)])) == {inputs, "target"}


def test_labels_may_be_anything():
    """Named classes give the index of each label; a fold that lacks one is like any other."""
    metric = registered(
        "f1(average=macro)", output=Category(3), classes=["setosa", "versicolor", "virginica"]
    )
    rows = [("q", "setosa", "setosa"), ("q", "virginica", "versicolor")]
    assert metric.score([(0, rows[:1]), (1, rows[1:])]) == pytest.approx(1 / 3)


def test_the_documents_labels_are_floats():
    """The matrix of the documents, its precision of class 1.0 by the registry."""
    matrix = [(30, 0, 60), (15, 35, 10), (0, 0, 50)]
    rows = [
        ("q", i + 1.0, j + 1.0) for i, row in enumerate(matrix) for j, n in enumerate(row) for _ in range(n)
    ]
    metric = registered("precision(class=0)", output=Category(3), classes=[1.0, 2.0, 3.0])
    assert metric.score([(0, rows[:77]), (1, rows[77:])]) == pytest.approx(1 / 3)


def test_an_unknown_label_is_refused():
    """The message names it and the classes."""
    metric = registered("accuracy", output=Category(2), classes=["no", "yes"])
    with pytest.raises(HpometricsError, match=r"label 'maybe' is not one of classes=\['no', 'yes'\]"):
        metric.score([(0, [("q", "yes", "maybe")])])


def test_results_are_read_by_functions():
    """What a predicted and an actual result hold, and a weight from the query."""
    metric = registered(
        "accuracy",
        output=Binary(),
        prediction=lambda predicted: predicted["label"],
        target=lambda actual: actual["truth"],
        columns={"sample_weight": lambda query, predicted, actual: query},
    )
    assert metric.score([(0, [(3.0, {"label": 1}, {"truth": 1}), (1.0, {"label": 1}, {"truth": 0})])]) == 0.75


def test_logits_are_said_to_be_logits():
    """Their shape is that of probabilities."""
    rows = [("q", torch.tensor([2.0, -1.0]), 0)]
    metric = registered("log_loss", output=Category(2), inputs="logits")
    assert metric.score([(0, rows)]) == pytest.approx(math.log1p(math.exp(-3)))


def test_one_name_read_in_two_ways_has_two_titles():
    """Of the same tuples, by the label and by the label the other way round."""
    flipped = registered("accuracy", output=Binary(), prediction=lambda label: 1 - label, title="flipped")
    panel = MetricEvaluator("accuracy", [flipped], output=Binary()).panel
    scores = panel.measure([(0, [("q", 1, 1), ("q", 1, 1), ("q", 0, 1)])])
    assert [metric.header for metric in panel.all] == ["accuracy", "flipped"]
    assert [score.value for score in scores.all] == pytest.approx([2 / 3, 1 / 3])


def test_empty_and_odd_folds():
    """Nothing measured and nan outputs are nan with a reason; the pooled value of the rest stands."""
    metric = registered("accuracy", output=Category(2))
    empty = metric.measure([(0, []), (1, [("q", 1, 1)])])
    assert (empty.value, empty.folds[0].reason) == (1.0, "nothing was measured")
    assert metric.measure([]).reason == "the evaluation has no tuples"
    odd = registered("log_loss", output=Category(2)).measure([(0, [("q", [math.nan, math.nan], 1)])])
    assert math.isnan(odd.value) and "nan or infinite" in odd.reason


def test_directions_and_names_are_the_registrys():
    """An alias is printed by its canonical name; a metric of the user's own comes along."""
    assert registered("f1_macro", output=Category(3)).header == "f1(average=macro)"
    assert registered("log_loss", output=Category(3)).direction is MINIMIZE
    share = as_metric(agreement, direction=MAXIMIZE, inputs="predictions")
    assert registered(share, output=Category(2)).score([(0, [("q", 1, 1), ("q", 0, 1)])]) == 0.5


def test_a_direction_may_be_supplied_and_not_overruled():
    """Confidence has none of its own; accuracy has."""
    assert registered("confidence", output=Category(2), direction="minimize").direction is MINIMIZE
    with pytest.raises(HpometricsError, match="accuracy must be maximized, but direction= minimizes it"):
        registered("accuracy", output=Category(2), direction="minimize")
    assert registered("confidence", output=Category(2), objective="minimize").objective is MINIMIZE
    with pytest.raises(DirectionError, match="confidence: direction says min, but objective says max"):
        registered("confidence", output=Category(2), direction="min", objective="max")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test:accuracy", "only validation values can steer"),
        ("convai2/accuracy", "without a split or a task"),
        ("f1(average=none)", "one value per class"),
        ("confusion_matrix", "has no direction"),
        ("acuracy", "Did you mean 'accuracy'"),
    ],
)
def test_what_cannot_be_a_score_is_refused(name, message):
    """By name, before anything is measured."""
    with pytest.raises(HpometricsError, match=message):
        registered(name, output=Category(3))


def test_a_panel_reads_and_derives_once(monkeypatch):
    """Four names given to an evaluator make one batch per fold, and one pass over it."""
    made, updated = [], []
    init, update = Outputs.__init__, MetricCollection.update
    monkeypatch.setattr(Outputs, "__init__", lambda self, *a, **k: (made.append(1), init(self, *a, **k))[1])
    monkeypatch.setattr(
        MetricCollection, "update", lambda self, **k: (updated.append(1), update(self, **k))[1]
    )
    panel = MetricEvaluator("f1(average=macro)", ["accuracy", "log_loss", "ece"], output=Category(3)).panel
    scores = panel.measure(drawn(1)[0])
    assert len(scores.others) == 3
    assert len(updated) == len(made) == 2


def test_groups_are_other_metrics():
    """`default` stands for what is measured by default of the output."""
    panel = MetricEvaluator("f1(average=weighted)", ["default"], output=Category(3)).panel
    assert "accuracy" in [metric.header for metric in panel.others]


def test_lists_of_a_ranking_are_scores():
    """Of a row with three items the relevant one is second, 1 / log2(3); lists are no item numbers."""
    tuples = [("q", [0.9, 0.5, 0.1], [0, 1, 0])]
    assert registered("ndcg@3", output="ranking").score([(0, tuples)]) == pytest.approx(1 / math.log2(3))


def test_a_metric_by_name():
    """The class says what the engine predicts."""
    assert GuessEvaluation().evaluate(guesses(0.0, 4.0), tell=[].append).best_index == 1
    assert (
        Evaluation(Guess, "rmse", ["mae"], output="number").evaluate(guesses(1.0), tell=[].append).best_index
        == 0
    )


def test_a_metric_of_the_registry_may_be_given_whole():
    """Although torchmetrics gives == of a metric a meaning of its own."""
    metric = get_metric("mae", output=Number())
    evaluation = Evaluation(Classification(), metric, output=Number())
    assert evaluation.evaluator.panel.metric.header == "mae"
