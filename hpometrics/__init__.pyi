from .evaluation.engine import Engine as Engine
from .evaluation.engine_params import EngineParams as EngineParams
from .evaluation.evaluation import Evaluation as Evaluation
from .evaluation.evaluator import MetricEvaluator as MetricEvaluator
from .exceptions import (
    AdditionError as AdditionError,
    ConfigError as ConfigError,
    EngineError as EngineError,
    EngineParamsError as EngineParamsError,
    HpometricsError as HpometricsError,
    LoggerError as LoggerError,
    MetricInputError as MetricInputError,
    MetricNameError as MetricNameError,
    MissingExtraError as MissingExtraError,
    NewerFormatError as NewerFormatError,
    NoFiniteValueError as NoFiniteValueError,
    NonFiniteError as NonFiniteError,
    NotKeptError as NotKeptError,
    NotYetError as NotYetError,
    ObjectiveError as ObjectiveError,
    RankError as RankError,
    RecordError as RecordError,
    RegistrationError as RegistrationError,
    RunError as RunError,
    SpaceError as SpaceError,
    StateError as StateError,
    UnknownMetricError as UnknownMetricError,
)
from .list_objective import ListObjective as ListObjective
from .logs.logger import EpochLogger as EpochLogger, Standing as Standing
from .logs.report import nice_report as nice_report
from .metrics.additive import (
    Additive as Additive,
    AverageMetric as AverageMetric,
    DistinctMetric as DistinctMetric,
    FixedMetric as FixedMetric,
    GlobalAverageMetric as GlobalAverageMetric,
    GlobalFixedMetric as GlobalFixedMetric,
    GlobalSumMetric as GlobalSumMetric,
    GlobalTimerMetric as GlobalTimerMetric,
    MacroAverageMetric as MacroAverageMetric,
    SumMetric as SumMetric,
    TimerMetric as TimerMetric,
)
from .metrics.collection import MetricCollection as MetricCollection
from .metrics.features import (
    AUDIO as AUDIO,
    BINARY as BINARY,
    BOXES as BOXES,
    CATEGORY as CATEGORY,
    CLUSTERS as CLUSTERS,
    IMAGE as IMAGE,
    LOGITS as LOGITS,
    MASK as MASK,
    NUMBER as NUMBER,
    PREDICTIONS as PREDICTIONS,
    PROBABILITIES as PROBABILITIES,
    RANKING as RANKING,
    SEQUENCE as SEQUENCE,
    SET as SET,
    TEXT as TEXT,
    TIMESERIES as TIMESERIES,
    VECTOR as VECTOR,
    Audio as Audio,
    Binary as Binary,
    Boxes as Boxes,
    Category as Category,
    Clusters as Clusters,
    Image as Image,
    InputType as InputType,
    Mask as Mask,
    Number as Number,
    OutputFeature as OutputFeature,
    Ranking as Ranking,
    Sequence as Sequence,
    Set as Set,
    Text as Text,
    Timeseries as Timeseries,
    Vector as Vector,
)
from .metrics.metric import LudwigMetric as LudwigMetric, MeanMetric as MeanMetric, Metric as Metric
from .metrics.names import MetricName as MetricName
from .metrics.outputs import Outputs as Outputs
from .metrics.ranking.blocks import Block as Block, MetricBlock as MetricBlock
from .metrics.ranking.candidates import Candidates as Candidates, sample_candidates as sample_candidates
from .metrics.ranking.comparison import (
    Comparison as Comparison,
    compare as compare,
)
from .metrics.ranking.per_user import PerUser as PerUser
from .metrics.ranking.strata import strata as strata
from .metrics.ranking_metric import (
    BaseMetric as BaseMetric,
    ListMetric as ListMetric,
    RatingMetric as RatingMetric,
    TopKMetric as TopKMetric,
    UserAverageTopKMetric as UserAverageTopKMetric,
)
from .metrics.registry import (
    MetricEntry as MetricEntry,
    all_entries as all_entries,
    find_metric as find_metric,
    get_metric as get_metric,
    metric_names as metric_names,
    register_metric as register_metric,
)
from .metrics.report import Metrics as Metrics
from .metrics.statistics.statistic import Statistic as Statistic
from .metrics.tasks import (
    aggregate_named_reports as aggregate_named_reports,
    aggregate_unnamed_reports as aggregate_unnamed_reports,
)
from .metrics.teacher import Teacher as Teacher
from .metrics.wrap import as_metric as as_metric
from .objective import MAXIMIZE as MAXIMIZE, MINIMIZE as MINIMIZE, Objective as Objective
from .optuna_objective import OptunaObjective as OptunaObjective
from .ray_objective import RayObjective as RayObjective
from .ray_tuner import best_result as best_result, tune_config as tune_config
from .run.run import Run as Run
from .run.spec import Reported as Reported, RunSpec as RunSpec, engine as engine
from .run.trial import run_trial as run_trial
from .search.optuna_backend import OptunaReporter as OptunaReporter
from .search.ray_reporter import RayReporter as RayReporter, TuneReporter as TuneReporter
from .search.record import EpochRecord as EpochRecord, TrialRecord as TrialRecord, TrialState as TrialState
from .search.reporter import ListReporter as ListReporter, Reporter as Reporter
from .search.rules import At as At
from .search.selection import Best as Best
from .search.space import Choice as Choice, Float as Float, Int as Int, Space as Space, Value as Value

__all__: list[str]
__version__: str
