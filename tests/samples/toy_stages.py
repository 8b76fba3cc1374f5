"""An engine of stages that guesses numbers, its evaluation, and metrics that judge it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hpometrics import MAXIMIZE, MINIMIZE, Engine, EngineParams, Evaluation
from hpometrics.evaluation import AverageMetric, Fold


class Numbers:
    """Two folds of answers; each reading is a line in the file `reads`."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.scale = params.get("scale", 1.0)

    def read_eval(self) -> list[Fold]:
        """The answers of fold 0 are 1 and 2, that of fold 1 is 6."""
        with Path("reads").open("a") as file:
            file.write("read\n")
        folds = [[1.0, 2.0], [6.0]]
        return [
            Fold(None, i, [("q", self.scale * answer) for answer in fold]) for i, fold in enumerate(folds)
        ]


class Constant:
    """The same guess for every query; a text crashes."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.guess = params["guess"]

    def train(self, prepared: None) -> float:
        """The guess is the model."""
        return self.guess + 0.0

    def predict(self, model: float, queries: Sequence[str]) -> list[float]:
        """Everyone gets the same."""
        return [model for _ in queries]


class Twice(Constant):
    """Twice the guess."""

    def train(self, prepared: None) -> float:
        """The guess is doubled."""
        return 2.0 * self.guess


class Guesser(Engine):
    """Guesses, once or twice."""

    data_sources: ClassVar = {"": Numbers}
    algorithms: ClassVar = {"once": Constant, "twice": Twice}


class Near(AverageMetric):
    """The share of guesses that are off by at most `within`."""

    direction = MAXIMIZE

    def __init__(self, within: float = 1.0) -> None:
        self.within = within

    def calculate(self, query: str, predicted: float, actual: float) -> bool:
        """1 or 0."""
        return abs(predicted - actual) <= self.within


class Distance(AverageMetric):
    """How far the guess is from the answer."""

    direction = MINIMIZE

    def calculate(self, query: str, predicted: float, actual: float) -> float:
        """A number from 0."""
        return abs(predicted - actual)


class GuessEvaluation(Evaluation):
    """The guesses judged by their distance."""

    engine_metrics = (Guesser, Distance(), [Near(within=2.0)])
    output = "number"


near_by_two = Near(within=2.0)
based = GuessEvaluation().vary(EngineParams(algorithms=("once", {"guess": 1.0})))
