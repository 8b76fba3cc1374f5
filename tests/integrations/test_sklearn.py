"""Any metric as a scorer of scikit-learn, and an estimator as what updates a run."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    make_multilabel_classification,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import DirectionError, MetricInputError, UnknownMetricError
from hpometrics.integrations.sklearn import as_scorer, estimator_outputs
from hpometrics.metrics.features import PREDICTIONS, Binary, Category, Clusters, Number, Set, Vector
from hpometrics.metrics.metric import MeanMetric
from hpometrics.run import Run

IRIS, TUMOURS, DIABETES = (load(return_X_y=True) for load in (load_iris, load_breast_cancer, load_diabetes))
LABELED = make_multilabel_classification(n_samples=120, n_classes=4, random_state=0)
CLASSIFIER = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
FOREST = RandomForestClassifier(20, random_state=0)
EACH = OneVsRestClassifier(LogisticRegression(max_iter=300))

PAIRS = [
    ("accuracy", "accuracy", Category(3), CLASSIFIER, IRIS),
    ("f1_macro", "f1(average=macro)", Category(3), CLASSIFIER, IRIS),
    ("matthews_corrcoef", "mcc", Category(3), CLASSIFIER, IRIS),
    ("neg_log_loss", "log_loss", Category(3), CLASSIFIER, IRIS),
    ("roc_auc_ovr", "roc_auc", Category(3), CLASSIFIER, IRIS),
    ("roc_auc_ovo", "roc_auc_ovo", Category(3), CLASSIFIER, IRIS),
    ("top_k_accuracy", "hits@2", Category(10), GaussianNB(), load_digits(return_X_y=True)),
    ("f1", "f1", Binary(), CLASSIFIER, TUMOURS),
    ("roc_auc", "roc_auc", Binary(), CLASSIFIER, TUMOURS),
    ("average_precision", "average_precision", Binary(), CLASSIFIER, TUMOURS),
    ("neg_brier_score", "brier", Binary(), CLASSIFIER, TUMOURS),
    ("neg_root_mean_squared_error", "rmse", Number(), LinearRegression(), DIABETES),
    ("r2", "r2", Number(), LinearRegression(), DIABETES),
    ("f1_macro", "f1(average=macro)", Set(4), EACH, LABELED),
    ("roc_auc", "roc_auc", Set(4), EACH, LABELED),
    ("roc_auc", "roc_auc", Set(4), FOREST, LABELED),
    ("adjusted_rand_score", "adjusted_rand", Clusters(), KMeans(3, n_init=1, random_state=0), IRIS),
]


@pytest.mark.parametrize(("theirs", "name", "output", "estimator", "data"), PAIRS)
def test_scikit_learn_agrees_where_it_has_the_scorer(theirs, name, output, estimator, data):
    """Every fold's score is that of scikit-learn's own, its sign included."""
    folds = cross_validate(estimator, *data, cv=3, scoring={"own": as_scorer(name, output), "their": theirs})
    assert folds["test_own"] == pytest.approx(folds["test_their"], abs=1e-7)
    assert len(set(folds["test_own"])) > 1


def test_a_grid_search_picks_the_same():
    """By our scorer or by scikit-learn's: the same params; a metric to minimize needs no neg_ before it."""
    grid = {"logisticregression__C": [0.001, 0.1, 10.0]}
    ours = GridSearchCV(CLASSIFIER, grid, scoring=as_scorer("log_loss", "category(num_classes=3)"), cv=3)
    theirs = GridSearchCV(CLASSIFIER, grid, scoring="neg_log_loss", cv=3)
    assert ours.fit(*IRIS).best_params_ == theirs.fit(*IRIS).best_params_
    assert ours.best_score_ == pytest.approx(theirs.best_score_)


def test_labels_are_what_the_estimator_calls_them():
    """Words or numbers, in the order of `classes_` or of `labels=`: the second is class 1."""
    x, y = TUMOURS
    words = np.array(["malignant", "benign"])[y]
    named, numbered = clone(CLASSIFIER).fit(x, words), clone(CLASSIFIER).fit(x, y)
    benign = as_scorer("recall", Binary(), labels=["malignant", "benign"])
    assert benign(named, x, words) == get_scorer("recall")(numbered, x, y)
    assert as_scorer("recall", Binary())(named, x, words) == as_scorer("specificity", Binary())(
        numbered, x, y
    )


def test_a_fold_may_lack_a_class_whose_labels_are_given():
    """Its probability is 0; without `labels=` the error says what to do."""
    x, y = IRIS
    two = LogisticRegression(max_iter=300).fit(x[y < 2], y[y < 2])
    with pytest.raises(MetricInputError, match=r"there are 2 classes, \[0, 1\]; pass all of them as labels="):
        as_scorer("accuracy", Category(3))(two, x, y)
    with pytest.raises(MetricInputError, match=r"the label 2 is not one of \[0, 1\]; pass all labels"):
        as_scorer("accuracy", "category")(two, x, y)
    assert as_scorer("accuracy", Category(3), labels=[0, 1, 2])(two, x, y) == pytest.approx(2 / 3)
    assert as_scorer("hits@2", Category(3), labels=[0, 1, 2])(two, x, y) == pytest.approx(2 / 3)


def test_what_an_estimator_lacks_is_named():
    """Margins are logits only where the user says so; then the order of rows is scikit-learn's."""
    x, y = TUMOURS
    margins = make_pipeline(StandardScaler(), LinearSVC()).fit(x, y)
    with pytest.raises(MetricInputError, match="roc_auc reads probabilities, and Pipeline has no predict"):
        as_scorer("roc_auc", Binary())(margins, x, y)
    asked = as_scorer("roc_auc", Binary(), response_method="decision_function")
    assert asked(margins, x, y) == pytest.approx(get_scorer("roc_auc")(margins, x, y), abs=1e-12)
    with pytest.raises(MetricInputError, match="hinge reads logits, and RandomForestClassifier has no deci"):
        as_scorer("hinge", Binary())(RandomForestClassifier(2).fit(x, y), x, y)
    with pytest.raises(MetricInputError, match=r"fitted on, \[0, 1\], in this order; got labels=\[1, 0\]"):
        as_scorer("hinge", Binary(), labels=[1, 0])(margins, x, y)


def test_a_scorer_refuses_what_it_cannot_maximize():
    """No direction and no such metric are errors where the scorer is made."""
    with pytest.raises(DirectionError, match="confidence has no direction"):
        as_scorer("confidence", Binary())
    with pytest.raises(UnknownMetricError, match="Did you mean 'brier'"):
        as_scorer("brir", Binary())


class Within(MeanMetric):
    """Share of predictions off by at most 50."""

    direction = MAXIMIZE
    inputs = PREDICTIONS

    def get_current_value(self, preds, target):
        return (preds - target).abs() <= 50


def test_a_metric_of_ones_own_is_a_scorer():
    """A class goes where a name goes, and the scorer crosses to other processes."""
    scorer = as_scorer(Within, Number())
    fitted = LinearRegression().fit(*DIABETES)
    value = np.mean(np.abs(fitted.predict(DIABETES[0]) - DIABETES[1]) <= 50)
    assert scorer(fitted, *DIABETES) == pytest.approx(value)
    assert pickle.loads(pickle.dumps(scorer))(fitted, *DIABETES) == scorer(fitted, *DIABETES)
    assert repr(as_scorer("rmse", Number())) == "as_scorer('rmse', output='number')"
    assert cross_val_score(LinearRegression(), *DIABETES, scoring=scorer, n_jobs=1).shape == (5,)


def test_rows_may_weigh():
    """A row of weight 0 is none."""
    x, y = IRIS
    fitted, scorer = CLASSIFIER.fit(x, y), as_scorer("log_loss", Category(3))
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    kept = weight > 0
    assert scorer(fitted, x, y, sample_weight=weight) == pytest.approx(scorer(fitted, x[kept], y[kept]))


def test_undefined_is_nan():
    """The AUC of one class, which no search takes for a score."""
    fitted = CLASSIFIER.fit(*TUMOURS)
    assert math.isnan(as_scorer("roc_auc", Binary())(fitted, TUMOURS[0][:1], TUMOURS[1][:1]))


def test_vectors_are_predictions():
    """Several numbers per row."""
    x, y = DIABETES[0], np.stack([DIABETES[1], -DIABETES[1]], 1)
    fitted = LinearRegression().fit(x, y)
    right = get_scorer("neg_mean_absolute_error")(fitted, x, y)
    assert as_scorer("mae", Vector(2))(fitted, x, y) == pytest.approx(right)


def test_an_estimator_that_learns_by_epochs_reports_each():
    """`partial_fit` in the loop of a run: measured as by scorers, and what it decides is its own."""
    x, y = IRIS
    model = SGDClassifier(loss="log_loss", random_state=0)
    run = Run(metric="log_loss", output=Category(3), track=["accuracy"])
    for epoch in run.epochs(4):
        model.partial_fit(x, y, classes=[0, 1, 2])
        run.update(**estimator_outputs(model, x, y, run.spec.output))
        assert as_scorer("accuracy", Category(3))(model, x, y) == pytest.approx(model.score(x, y)), epoch
    assert run.history[-1].values["accuracy"] == pytest.approx(model.score(x, y))
    assert run.spec.direction is MINIMIZE and len(run.history) == 4
    margins = LinearSVC().fit(x, y)
    assert set(estimator_outputs(margins, x, y, "category")) == {"predictions", "target"}


@pytest.mark.parametrize("constant", [0, 1])
def test_a_label_that_no_row_of_a_fold_tells_apart_has_its_probability(constant):
    """A forest gives one column for a label that is the same in all rows."""
    x, y = LABELED
    y = np.where(np.arange(4) == 2, constant, y)
    outputs = estimator_outputs(clone(FOREST).fit(x, y), x, y, Set(4))
    assert outputs["probabilities"].shape == (120, 4)
    assert (outputs["probabilities"][:, 2] == constant).all()
