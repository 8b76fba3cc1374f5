from .adapters import as_engine as as_engine
from .cache import PrefixCache as PrefixCache
from .engine import Engine as Engine, EvaluatedFold as EvaluatedFold, Fold as Fold, Pairs as Pairs
from .engine_params import EngineParams as EngineParams, params_list as params_list
from .evaluation import Evaluation as Evaluation
from .evaluator import MetricEvaluator as MetricEvaluator
from .folds import fold_columns as fold_columns, fold_rows as fold_rows, split as split
from .records import EvaluationInstance as EvaluationInstance, Origins as Origins
from .registered_metrics import registered as registered
from .result import MetricEvaluatorResult as MetricEvaluatorResult, MetricScores as MetricScores
from .tuple_metrics import (
    AverageMetric as AverageMetric,
    CalculatedMetric as CalculatedMetric,
    MapReduceMetric as MapReduceMetric,
    OptionAverageMetric as OptionAverageMetric,
    OptionStdevMetric as OptionStdevMetric,
    Score as Score,
    StdevMetric as StdevMetric,
    SumMetric as SumMetric,
    TupleMetric as TupleMetric,
    ZeroMetric as ZeroMetric,
)
