"""hpometrics: any metric by name, measured exactly, optimised in its own direction under Optuna and Ray Tune.

Names are loaded when they are first used: importing the package loads neither torch nor optuna nor ray.
What a type checker sees of them is in `__init__.pyi`.
"""

from __future__ import annotations

from typing import Any

from ._imports import lazy_names

_NAMES_BY_HOME = {
    "backends.local": ("ListObjective",),
    "backends.optuna.objective": ("OptunaObjective",),
    "backends.optuna.reporter": ("OptunaReporter",),
    "backends.ray.objective": (
        "RayObjective",
        "best_result",
        "tune_config",
    ),
    "backends.ray.reporter": (
        "RayReporter",
        "TuneReporter",
    ),
    "direction": (
        "MAXIMIZE",
        "MINIMIZE",
        "Objective",
    ),
    "engines.engine": ("Engine",),
    "engines.engine_params": ("EngineParams",),
    "engines.evaluation": ("Evaluation",),
    "engines.evaluator": ("MetricEvaluator",),
    "exceptions": (
        "AdditionError",
        "ConfigError",
        "EngineError",
        "EngineParamsError",
        "HpometricsError",
        "LoggerError",
        "MetricInputError",
        "MetricNameError",
        "MissingExtraError",
        "NewerFormatError",
        "NoFiniteValueError",
        "NonFiniteError",
        "NotKeptError",
        "NotYetError",
        "ObjectiveError",
        "RankError",
        "RecordError",
        "RegistrationError",
        "RunError",
        "SpaceError",
        "StateError",
        "UnknownMetricError",
    ),
    "loggers.base": (
        "EpochLogger",
        "Standing",
    ),
    "loggers.report": ("nice_report",),
    "metrics.additive": (
        "Additive",
        "AverageMetric",
        "DistinctMetric",
        "FixedMetric",
        "GlobalAverageMetric",
        "GlobalFixedMetric",
        "GlobalSumMetric",
        "GlobalTimerMetric",
        "MacroAverageMetric",
        "SumMetric",
        "TimerMetric",
    ),
    "metrics.as_metric": ("as_metric",),
    "metrics.batch": ("Outputs",),
    "metrics.collection": ("MetricCollection",),
    "metrics.features": (
        "AUDIO",
        "Audio",
        "BINARY",
        "BOXES",
        "Binary",
        "Boxes",
        "CATEGORY",
        "CLUSTERS",
        "Category",
        "Clusters",
        "IMAGE",
        "Image",
        "InputType",
        "LOGITS",
        "MASK",
        "Mask",
        "NUMBER",
        "Number",
        "OutputFeature",
        "PREDICTIONS",
        "PROBABILITIES",
        "RANKING",
        "Ranking",
        "SEQUENCE",
        "SET",
        "Sequence",
        "Set",
        "TEXT",
        "TIMESERIES",
        "Text",
        "Timeseries",
        "VECTOR",
        "Vector",
    ),
    "metrics.metric": (
        "LudwigMetric",
        "MeanMetric",
        "Metric",
    ),
    "metrics.registry.names": ("MetricName",),
    "metrics.registry.register": (
        "MetricEntry",
        "all_entries",
        "find_metric",
        "get_metric",
        "metric_names",
        "register_metric",
    ),
    "metrics.reports": (
        "Metrics",
        "Teacher",
        "aggregate_named_reports",
        "aggregate_unnamed_reports",
    ),
    "metrics.retrieval.base": (
        "BaseMetric",
        "ListMetric",
        "RatingMetric",
        "TopKMetric",
        "UserAverageTopKMetric",
    ),
    "metrics.retrieval.blocks": (
        "Block",
        "MetricBlock",
    ),
    "metrics.retrieval.candidates": (
        "Candidates",
        "sample_candidates",
    ),
    "metrics.retrieval.comparison": (
        "Comparison",
        "compare",
    ),
    "metrics.retrieval.per_user": (
        "PerUser",
        "strata",
    ),
    "metrics.statistics.statistic": ("Statistic",),
    "records.trial_record": (
        "EpochRecord",
        "TrialRecord",
        "TrialState",
    ),
    "run.reporter": (
        "ListReporter",
        "Reporter",
    ),
    "run.run": ("Run",),
    "run.spec": (
        "Reported",
        "RunSpec",
        "engine",
    ),
    "run.trial": ("run_trial",),
    "selection.selection": (
        "At",
        "Best",
    ),
    "space.space": (
        "Choice",
        "Float",
        "Int",
        "Space",
        "Value",
    ),
}
_HOME_OF = {name: home for home, names in _NAMES_BY_HOME.items() for name in names}

_HIDING = {"Sequence", "Set", "Text"}
"""Public names that `from hpometrics import *` leaves out, since they would hide those of `typing`.

It leaves out the names of the built-in metrics too, which are constants, as `TOKEN_ACCURACY`. Ludwig's are
there as well: `MEAN_SQUARED_ERROR` is the name here of the metric that Ludwig calls so, `mse`.
"""

__all__ = sorted(_HOME_OF.keys() - _HIDING)
__version__ = "0.1.0"
_load = lazy_names(__name__, _HOME_OF)


def __getattr__(name: str) -> Any:
    if name.isupper() and name not in _HOME_OF:
        from .metrics.registry.index import constants  # no other name needs the index

        if name in constants():
            return constants()[name]
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
