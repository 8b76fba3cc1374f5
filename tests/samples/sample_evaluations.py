"""The documents' classification, with the three precisions they print, and other small evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpometrics import MAXIMIZE, MINIMIZE
from hpometrics.evaluation import AverageMetric, Engine, EngineParams, Evaluation, Fold, OptionAverageMetric

POSITIVES, QUERIES = 50, 140
PREDICTED_POSITIVE = {10.0: (23, 3), 100.0: (50, 13), 1000.0: (50, 83)}
"""By lambda, how many of the right and of the wrong queries are predicted positive."""

DOCUMENTED = [
    EngineParams(data_source={"appId": 19, "evalK": 5}, algorithms=[("naive", {"lambda": lam})])
    for lam in PREDICTED_POSITIVE
]


class Classification(Engine):
    """Predicts a positive for some of the queries, and crashes where lambda is negative."""

    def read_eval(self, params: Mapping[str, Any]) -> list[Fold]:
        """Cut the queries into folds by index mod k; the first of them are positive."""
        k = params["evalK"]
        pairs = [(query, 1.0 if query < POSITIVES else 0.0) for query in range(QUERIES)]
        return [Fold(None, f"fold {i}", pairs[i::k]) for i in range(k)]

    def train(self, prepared: None, name: str, params: Mapping[str, Any]) -> tuple[int, int]:
        """Look up what the documents' algorithm would give."""
        if params["lambda"] < 0:
            raise ArithmeticError(f"lambda {params['lambda']} smooths nothing")
        return PREDICTED_POSITIVE.get(params["lambda"], (0, 0))

    def predict(self, model: tuple[int, int], queries: Sequence[int]) -> list[float]:
        """Predict the label of each query."""
        right, wrong = model
        return [1.0 if q < right or POSITIVES <= q < POSITIVES + wrong else 0.0 for q in queries]


class Accuracy(AverageMetric):
    """The documents' first example."""

    direction = MAXIMIZE

    def calculate(self, query, predicted, actual):
        return predicted == actual


@dataclass(frozen=True)
class Precision(OptionAverageMetric):
    """The documents' second example."""

    label: float

    direction = MAXIMIZE

    def calculate(self, query, predicted, actual):
        return actual == self.label if predicted == self.label else None


@dataclass(frozen=True)
class Recall(OptionAverageMetric):
    """The share of the actual ones that are found."""

    label: float

    direction = MAXIMIZE

    def calculate(self, query, predicted, actual):
        return predicted == self.label if actual == self.label else None


@dataclass(frozen=True)
class PrecisionAtK(OptionAverageMetric):
    """The recommendation template's metric."""

    k: int
    threshold: float = 4.0

    direction = MAXIMIZE
    title = "Precision@K"

    def calculate(self, query, predicted, actual):
        liked = {item for item, rating in actual.items() if rating >= self.threshold}
        if not liked:
            return None
        return sum(item in liked for item in predicted[: self.k]) / min(self.k, len(liked))


class RMSE(AverageMetric):
    """A root of a mean: what no mean of values per tuple gives."""

    direction = MINIMIZE

    def calculate(self, query, predicted, actual):
        return (predicted - actual) ** 2

    def finish(self, total, count):
        return math.sqrt(total / count)


class Guess(Engine):
    """Answers every query of two folds with its one param; `nan` and an error where they are asked for."""

    def read_eval(self, params: Mapping[str, Any]) -> list[Fold]:
        """Two folds of unequal size."""
        return [Fold(None, 0, [("a", 1.0), ("b", 2.0), ("c", 3.0)]), Fold(None, 1, [("d", 10.0)])]

    def train(self, prepared: None, name: str, params: Mapping[str, Any]) -> Any:
        """The model is the guess."""
        if params["guess"] == "crash":
            raise ValueError("the guess crashed")
        if params["guess"] == "stop":
            raise KeyboardInterrupt
        return params["guess"]

    def predict(self, model: Any, queries: Sequence[Any]) -> list[Any]:
        """Everyone gets the same."""
        return [model for _ in queries]


def guesses(*values: Any) -> list[EngineParams]:
    """Engine params of the guessing engine."""
    return [EngineParams(algorithms={"guess": value}) for value in values]


CLASSIFICATION = Classification()


class PrecisionEvaluation(Evaluation):
    """The documents' evaluation, without a list of its own."""

    engine_metric = (CLASSIFICATION, Precision(label=1.0))


class AccuracyEvaluation(Evaluation):
    """Another one of the same engine, with a list of its own and another metric beside it."""

    engine_metrics = (Classification, Accuracy, [Precision(label=1.0)])
    engine_params_list = DOCUMENTED


class GuessEvaluation(Evaluation):
    """Judged by a metric of the registry; some of its engine params are hopeless."""

    engine_metric = (Guess, "rmse")
    output = "number"
    engine_params_list = guesses(4.0, "crash")


class Loud(Guess):
    """Prints while it trains."""

    def train(self, prepared: None, name: str, params: Mapping[str, Any]) -> Any:
        """Say what it does."""
        print("guessing")
        return super().train(prepared, name, params)


class LoudEvaluation(Evaluation):
    """The evaluation of an engine that prints."""

    engine_metric = (Loud, "rmse")
    output = "number"
    engine_params_list = guesses(4.0)


HOPELESS = guesses(math.nan, "crash")
STOPPED = guesses(4.0, "stop")
