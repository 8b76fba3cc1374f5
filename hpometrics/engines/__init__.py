"""Engine params: evaluate each of a list or a search on folds, shared stages once, and pick the optimum.

Names are loaded when they are first used: engine params are read and written without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._imports import lazy_names

if TYPE_CHECKING:
    from .adapters import as_engine
    from .cache import PrefixCache
    from .engine import Engine, Fold, Pairs
    from .engine_params import EngineParams, params_list
    from .evaluation import Evaluation
    from .evaluator import MetricEvaluator
    from .folds import fold_columns, fold_rows, split
    from .metrics import (
        AverageMetric,
        CalculatedMetric,
        MapReduceMetric,
        OptionAverageMetric,
        OptionStdevMetric,
        Score,
        StdevMetric,
        SumMetric,
        TupleMetric,
        ZeroMetric,
    )
    from .records import EvaluationInstance, Origins
    from .registered_metrics import registered
    from .result import MetricEvaluatorResult, MetricScores
    from .stages import EvaluatedFold

_HOME_OF = {
    "AverageMetric": "metrics",
    "CalculatedMetric": "metrics",
    "Engine": "engine",
    "EngineParams": "engine_params",
    "EvaluatedFold": "cache",
    "Evaluation": "evaluation",
    "EvaluationInstance": "records",
    "Fold": "engine",
    "MapReduceMetric": "metrics",
    "MetricEvaluator": "evaluator",
    "MetricEvaluatorResult": "result",
    "MetricScores": "result",
    "OptionAverageMetric": "metrics",
    "OptionStdevMetric": "metrics",
    "Origins": "records",
    "Pairs": "engine",
    "PrefixCache": "cache",
    "Score": "metrics",
    "StdevMetric": "metrics",
    "SumMetric": "metrics",
    "TupleMetric": "metrics",
    "ZeroMetric": "metrics",
    "as_engine": "adapters",
    "fold_columns": "folds",
    "fold_rows": "folds",
    "params_list": "engine_params",
    "registered": "registered_metrics",
    "split": "folds",
}

__all__ = [
    "AverageMetric",
    "CalculatedMetric",
    "Engine",
    "EngineParams",
    "EvaluatedFold",
    "Evaluation",
    "EvaluationInstance",
    "Fold",
    "MapReduceMetric",
    "MetricEvaluator",
    "MetricEvaluatorResult",
    "MetricScores",
    "OptionAverageMetric",
    "OptionStdevMetric",
    "Origins",
    "Pairs",
    "PrefixCache",
    "Score",
    "StdevMetric",
    "SumMetric",
    "TupleMetric",
    "ZeroMetric",
    "as_engine",
    "fold_columns",
    "fold_rows",
    "params_list",
    "registered",
    "split",
]
__getattr__ = lazy_names(__name__, _HOME_OF)
