"""Engine params as in PredictionIO: naive Bayes on digits, and texts by vectorizer, classifier and vote.

hpometrics eval examples.engine_params:PrecisionEvaluation examples.engine_params:LAMBDAS
hpometrics eval examples.engine_params:TextEvaluation
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from sysconfig import get_path
from typing import Any

from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from hpometrics import MAXIMIZE, Category, Engine, EngineParams, Evaluation
from hpometrics.evaluation import AverageMetric, Fold, OptionAverageMetric, as_engine, fold_columns

DIGITS = as_engine(
    lambda: load_digits(return_X_y=True),
    estimator={"naive": lambda **params: MultinomialNB(alpha=params["lambda"])},
)
"""1,797 images of 8 x 8 counts, in five folds; `lambda` smooths as in PredictionIO's template."""

LAMBDAS = [
    EngineParams(data_source={"folds": 5}, algorithms=[("naive", {"lambda": smoothing})])
    for smoothing in (10.0, 100.0, 1000.0)
]


@dataclass(frozen=True)
class Precision(OptionAverageMetric):
    """The share of the queries predicted to be `label` that are; about others it does not care."""

    label: int

    direction = MAXIMIZE

    def calculate(self, query: Any, predicted: int, actual: int) -> bool | None:
        """1 or 0 of a query predicted to be `label`, else None."""
        return predicted == actual if predicted == self.label else None


class Accuracy(AverageMetric):
    """The share of the queries that are predicted right."""

    direction = MAXIMIZE

    def calculate(self, query: Any, predicted: int, actual: int) -> bool:
        """1 or 0."""
        return predicted == actual


class PrecisionEvaluation(Evaluation):
    """Judges the digits by the precision of one of them."""

    engine_metric = (DIGITS, Precision(label=8))
    engine_params_list = LAMBDAS


class AccuracyEvaluation(Evaluation):
    """Judges the same engine by another metric; it takes the same list."""

    engine_metric = (DIGITS, Accuracy())


PACKAGES = ("asyncio", "email", "importlib", "logging", "multiprocessing", "unittest", "xml")
DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def docstrings() -> tuple[list[str], list[int]]:
    """Return docstrings of standard packages, each once, and the index of the package of each."""
    owner: dict[str, int] = {}
    for index, package in enumerate(PACKAGES):
        for path in sorted(Path(get_path("stdlib"), package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
                if text:
                    owner.setdefault(text, index)
    return list(owner), list(owner.values())


class Docstrings:
    """The data source: which texts, in how many folds."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.folds = params["folds"]

    def read_eval(self) -> Iterator[Fold]:
        """Each package has the same share of all folds."""
        texts, packages = docstrings()
        return fold_columns(texts, packages, self.folds, seed=0, stratify=packages)


class Vectorizer:
    """A preparator: weights of words or of pieces of words, learned on the training texts of a fold."""

    def __init__(self, analyzer: str, params: Mapping[str, Any]) -> None:
        self.vectorizer = TfidfVectorizer(analyzer=analyzer, ngram_range=(1, params["longest"]))

    def prepare(self, training: tuple[list[str], list[int]]) -> tuple[Any, list[int], TfidfVectorizer]:
        """Return the weights, the packages, and the function that treats a query alike."""
        texts, packages = training
        return self.vectorizer.fit_transform(texts), packages, self.vectorizer


class Classifier:
    """An algorithm: a classifier of scikit-learn."""

    def __init__(self, make: Callable[..., Any], params: Mapping[str, Any]) -> None:
        self.classifier = make(**params)

    def train(self, prepared: tuple[Any, list[int], TfidfVectorizer]) -> TfidfVectorizer:
        """Learn from the weights of a fold."""
        weights, packages, vectorizer = prepared
        self.classifier.fit(weights, packages)
        return vectorizer

    def predict(self, vectorizer: TfidfVectorizer, texts: Sequence[str]) -> list[int]:
        """Predict the package of each text."""
        predicted: list[int] = self.classifier.predict(vectorizer.transform(texts)).tolist()
        return predicted


class Vote:
    """The serving: what most algorithms say; the first of them where they are even."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        """There is nothing to choose."""

    def serve(self, text: str, predictions: Sequence[int]) -> int:
        """Count the votes."""
        return Counter(predictions).most_common(1)[0][0]


class TextEngine(Engine):
    """Which package a docstring is from."""

    data_sources = {"": Docstrings}
    preparators = {"words": partial(Vectorizer, "word"), "pieces": partial(Vectorizer, "char_wb")}
    algorithms = {
        "naive": partial(Classifier, MultinomialNB),
        "margin": partial(Classifier, LinearSVC),
        "nearest": partial(Classifier, KNeighborsClassifier),
    }
    servings = {"": Vote}


NAIVE, MARGIN, NEAREST = ("naive", {"alpha": 0.1}), ("margin", {"C": 1.0}), ("nearest", {"n_neighbors": 5})


class TextEvaluation(Evaluation):
    """Two vectorizers by three classifiers, and all three by vote, which takes no further training."""

    engine_metrics = (TextEngine, "f1(average=macro)", ("accuracy",))
    output = Category(len(PACKAGES))
    engine_params_list = tuple(
        EngineParams({"folds": 3}, vectorizer, algorithms)
        for vectorizer in (("words", {"longest": 1}), ("pieces", {"longest": 3}))
        for algorithms in ([NAIVE], [MARGIN], [NEAREST], [NAIVE, MARGIN, NEAREST])
    )
