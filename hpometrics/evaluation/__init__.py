"""Engine params: evaluate each on folds, once per shared prefix, by metrics of tuples; pick the optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .engine import Engine, Fold, Pairs
from .engine_params import EngineParams, params_list
from .evaluation import Evaluation
from .evaluator import MetricEvaluator
from .instance import EvaluationInstance
from .result import MetricEvaluatorResult, MetricScores
from .score import Score
from .tuple_metric import MapReduceMetric, TupleMetric
from .tuple_metrics import (
    AverageMetric,
    CalculatedMetric,
    OptionAverageMetric,
    OptionStdevMetric,
    StdevMetric,
    SumMetric,
    ZeroMetric,
)

if TYPE_CHECKING:
    from .registered_metric import registered

__all__ = [
    "AverageMetric",
    "CalculatedMetric",
    "Engine",
    "EngineParams",
    "Evaluation",
    "EvaluationInstance",
    "Fold",
    "MapReduceMetric",
    "MetricEvaluator",
    "MetricEvaluatorResult",
    "MetricScores",
    "OptionAverageMetric",
    "OptionStdevMetric",
    "Pairs",
    "Score",
    "StdevMetric",
    "SumMetric",
    "TupleMetric",
    "ZeroMetric",
    "params_list",
    "registered",
]


def __getattr__(name: str) -> Any:
    if name != "registered":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .registered_metric import registered  # the one name here that loads torch

    return registered
