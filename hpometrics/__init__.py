"""hpometrics: any metric by name, measured exactly, optimised in its own direction under Optuna and Ray Tune.

Names are loaded when they are first used: importing the package loads neither torch nor optuna nor ray.
What a type checker sees of them is in `__init__.pyi`.
"""

from __future__ import annotations

from typing import Any

from .lazy import lazy_names

_NAMES_BY_HOME = {
    "evaluation.engine": ("Engine",),
    "evaluation.engine_params": ("EngineParams",),
    "evaluation.evaluation": ("Evaluation",),
    "evaluation.evaluator": ("MetricEvaluator",),
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
    "list_objective": ("ListObjective",),
    "logs.logger": (
        "EpochLogger",
        "Standing",
    ),
    "logs.report": ("nice_report",),
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
    "metrics.names": ("MetricName",),
    "metrics.outputs": ("Outputs",),
    "metrics.ranking.blocks": (
        "Block",
        "MetricBlock",
    ),
    "metrics.ranking.candidates": (
        "Candidates",
        "sample_candidates",
    ),
    "metrics.ranking.comparison": (
        "Comparison",
        "compare",
    ),
    "metrics.ranking.per_user": ("PerUser",),
    "metrics.ranking.strata": ("strata",),
    "metrics.ranking_metric": (
        "BaseMetric",
        "ListMetric",
        "RatingMetric",
        "TopKMetric",
        "UserAverageTopKMetric",
    ),
    "metrics.registry": (
        "MetricEntry",
        "all_entries",
        "find_metric",
        "get_metric",
        "metric_names",
        "register_metric",
    ),
    "metrics.report": ("Metrics",),
    "metrics.statistics.statistic": ("Statistic",),
    "metrics.tasks": (
        "aggregate_named_reports",
        "aggregate_unnamed_reports",
    ),
    "metrics.teacher": ("Teacher",),
    "metrics.wrap": ("as_metric",),
    "objective": (
        "MAXIMIZE",
        "MINIMIZE",
        "Objective",
    ),
    "optuna_objective": ("OptunaObjective",),
    "ray_objective": ("RayObjective",),
    "ray_tuner": (
        "best_result",
        "tune_config",
    ),
    "run.run": ("Run",),
    "run.spec": (
        "Reported",
        "RunSpec",
        "engine",
    ),
    "run.trial": ("run_trial",),
    "search.optuna_backend": ("OptunaReporter",),
    "search.ray_reporter": (
        "RayReporter",
        "TuneReporter",
    ),
    "search.record": (
        "EpochRecord",
        "TrialRecord",
        "TrialState",
    ),
    "search.reporter": (
        "ListReporter",
        "Reporter",
    ),
    "search.rules": ("At",),
    "search.selection": ("Best",),
    "search.space": (
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
        from .metrics.store import constants  # no other name needs the index

        if name in constants():
            return constants()[name]
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
