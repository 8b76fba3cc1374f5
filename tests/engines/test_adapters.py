"""Estimators, training functions and plain functions become engines in a line."""

from __future__ import annotations

import pickle

import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hpometrics import EngineParams
from hpometrics.engines.adapters import as_engine
from hpometrics.engines.cache import PrefixCache, StageCount
from hpometrics.exceptions import EngineError

X, Y = load_iris(return_X_y=True)


def predictions(engine, params) -> list[tuple[bytes, int]]:
    """What was predicted of each row, in the order of the rows."""
    results = [result for fold in PrefixCache(engine).folds(params) for result in fold.results]
    return sorted((query.tobytes(), int(predicted)) for query, predicted, _ in results)


def by_row(values) -> list[tuple[bytes, int]]:
    """Values of all rows, in the order of the rows."""
    return sorted((row.tobytes(), int(value)) for row, value in zip(X, values, strict=True))


def test_an_estimator_predicts_as_scikit_learn_cross_validates_it():
    """Shuffled folds by the same seed: `cross_val_predict` says the same of every flower."""
    engine = as_engine((X, Y), estimator=GaussianNB)
    params = EngineParams({"folds": 3, "seed": 7}, algorithms={"var_smoothing": 1e-3})
    folds = KFold(3, shuffle=True, random_state=7)
    expected = cross_val_predict(GaussianNB(var_smoothing=1e-3), X, Y, cv=folds)
    assert predictions(engine, params) == by_row(expected)


def test_a_preparator_is_fitted_on_the_training_data_alone():
    """As in a pipeline: the mean of the tested rows does not leak."""
    engine = as_engine((X, Y), estimator=LogisticRegression, preparator=StandardScaler, stratified=True)
    params = EngineParams({"folds": 4}, {"with_std": False})
    pipeline = make_pipeline(StandardScaler(with_std=False), LogisticRegression())
    assert predictions(engine, params) == by_row(cross_val_predict(pipeline, X, Y, cv=StratifiedKFold(4)))


TEXTS = ["good fun", "bad dull", "good good", "dull bad bad", "fun", "dull"] * 4
LABELS = [1, 0, 1, 0, 1, 0] * 4


def test_vectorizers_and_classifiers_by_name_share_what_they_can():
    """Two vectorizers, two classifiers: the texts are read once and vectorized twice."""
    engine = as_engine(
        (TEXTS, LABELS),
        preparator={"counts": CountVectorizer, "tfidf": TfidfVectorizer},
        estimator={"naive": MultinomialNB, "logistic": LogisticRegression},
        folds=3,
    )
    candidates = [
        EngineParams({"seed": 1}, (vectorizer, {}), [(classifier, {})])
        for vectorizer in ("counts", "tfidf")
        for classifier in ("naive", "logistic")
    ]
    cache = PrefixCache(pickle.loads(pickle.dumps(engine)), candidates)
    for params in candidates:
        results = [result for fold in cache.folds(params) for result in fold.results]
        assert sum(predicted == actual for _, predicted, actual in results) == 24
    assert cache.counts["data_source"] == StageCount(1, 4)
    assert cache.counts["preparator"] == StageCount(2, 4)


def test_another_method_of_the_estimator_may_predict():
    """Probabilities are a row each."""
    engine = as_engine((X, Y), estimator=GaussianNB, method="predict_proba", stratified=True)
    (fold, *_) = PrefixCache(engine).folds(EngineParams())
    assert len(fold.results) == 30
    assert fold.results[0][1].sum() == pytest.approx(1)


def fitted(training, params):
    """Train one linear layer for a few steps."""
    features, target = training
    model = torch.nn.Sequential(torch.nn.Dropout(0.1), torch.nn.Linear(4, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(features), target).backward()
        optimizer.step()
    return model


def test_a_torch_training_function_and_its_module():
    """The module predicts in evaluation mode without gradients; a better learning rate is better."""
    engine = as_engine((torch.tensor(X).float(), torch.tensor(Y)), train=fitted, folds=3, stratified=True)
    shares = {}
    for lr in (0.1, 1e-6):
        folds = PrefixCache(engine).folds(EngineParams(algorithms={"lr": lr}))
        results = [result for fold in folds for result in fold.results]
        assert not any(scores.requires_grad for _, scores, _ in results)
        shares[lr] = sum(int(scores.argmax()) == int(actual) for _, scores, actual in results) / 150
    assert shares[0.1] > 0.9 > 0.6 > shares[1e-6]


def test_a_training_function_with_a_prediction_of_its_own():
    """A model may be anything that the second function understands."""
    engine = as_engine(
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]),
        train=lambda training, params: sum(training[1]) / len(training[1]) + params.pop("plus"),
        predict=lambda model, queries: [model] * len(queries),
        folds=2,
    )
    folds = PrefixCache(engine).folds(EngineParams(algorithms={"plus": 10}))
    assert [fold.results[0] for fold in folds] == [(1.0, 13.0, 1.0), (2.0, 12.0, 2.0)]


def test_plain_functions_by_name():
    """One that always says the same, and one that repeats the question."""
    engine = as_engine(
        ([1, 2, 3, 4], [1, 2, 3, 4]),
        function={
            "constant": lambda training, queries, params: [params["value"]] * len(queries),
            "echo": lambda training, queries, params: queries,
        },
        folds=2,
    )
    params = EngineParams(algorithms=[("constant", {"value": 7}), ("echo", {})])
    assert PrefixCache(engine).folds(params)[0].results == [(1, 7, 1), (3, 7, 3)]
    assert PrefixCache(engine).folds(params.copy(algorithms=("echo", {})))[0].results == [
        (1, 1, 1),
        (3, 3, 3),
    ]


def test_data_may_be_a_function_of_the_data_source_s_params():
    """`folds` and `seed` split; the rest reaches the function."""
    engine = as_engine(lambda rows: (list(range(rows)), [0] * rows), function=lambda t, queries, p: queries)
    assert [
        len(fold.results) for fold in PrefixCache(engine).folds(EngineParams({"rows": 6, "folds": 2}))
    ] == [3, 3]


def test_rows_of_one_group_are_tested_together():
    """A user is not in both the training and the test data."""
    users = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    engine = as_engine((users, users), function=lambda t, queries, p: queries, groups=users, folds=3)
    for fold in PrefixCache(engine).folds(EngineParams()):
        assert len({query for query, *_ in fold.results}) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "one of estimator=, train=, function=; got none"),
        ({"train": fitted, "estimator": GaussianNB}, "got estimator and train"),
        ({"train": fitted, "preparator": StandardScaler}, "preparator= works only with estimator="),
    ],
)
def test_an_engine_is_made_of_one_thing(arguments, message):
    """What is meant is said, not guessed from the object."""
    with pytest.raises(EngineError, match=message):
        as_engine((X, Y), **arguments)


def test_a_param_that_nobody_reads_is_refused():
    """A misspelled `folds` would otherwise be the default."""
    with pytest.raises(
        EngineError, match="the params of the data source are folds, seed and stratified, got flods"
    ):
        PrefixCache(as_engine((X, Y), estimator=GaussianNB)).folds(EngineParams({"flods": 3}))
