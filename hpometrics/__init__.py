"""hpometrics: name any metric; it is measured exactly and optimised in the right direction under Optuna and Ray Tune.

Names are loaded when they are first used: importing the package loads neither torch nor optuna nor ray.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exceptions import (
        ConfigError as ConfigError,
        HpometricsError as HpometricsError,
        MetricInputError as MetricInputError,
        MetricNameError as MetricNameError,
        MissingExtraError as MissingExtraError,
        NoFiniteValueError as NoFiniteValueError,
        NonFiniteError as NonFiniteError,
        NotYetError as NotYetError,
        ObjectiveError as ObjectiveError,
        RecordError as RecordError,
        RegistrationError as RegistrationError,
        RunError as RunError,
        SpaceError as SpaceError,
        StateError as StateError,
        UnknownMetricError as UnknownMetricError,
    )
    from .list_objective import (
        ListObjective as ListObjective,
    )
    from .metrics.collection import (
        MetricCollection as MetricCollection,
    )
    from .metrics.features import (
        AUDIO as AUDIO,
        Audio as Audio,
        BINARY as BINARY,
        BOXES as BOXES,
        Binary as Binary,
        Boxes as Boxes,
        CATEGORY as CATEGORY,
        CLUSTERS as CLUSTERS,
        Category as Category,
        Clusters as Clusters,
        IMAGE as IMAGE,
        Image as Image,
        InputType as InputType,
        LOGITS as LOGITS,
        MASK as MASK,
        Mask as Mask,
        NUMBER as NUMBER,
        Number as Number,
        OutputFeature as OutputFeature,
        PREDICTIONS as PREDICTIONS,
        PROBABILITIES as PROBABILITIES,
        RANKING as RANKING,
        Ranking as Ranking,
        SEQUENCE as SEQUENCE,
        SET as SET,
        Sequence as Sequence,
        Set as Set,
        TEXT as TEXT,
        TIMESERIES as TIMESERIES,
        Text as Text,
        Timeseries as Timeseries,
        VECTOR as VECTOR,
        Vector as Vector,
    )
    from .metrics.metric import (
        LudwigMetric as LudwigMetric,
        MeanMetric as MeanMetric,
        Metric as Metric,
    )
    from .metrics.names import (
        MetricName as MetricName,
    )
    from .metrics.outputs import (
        Outputs as Outputs,
    )
    from .metrics.registry import (
        MetricEntry as MetricEntry,
        all_entries as all_entries,
        find_metric as find_metric,
        get_metric as get_metric,
        metric_names as metric_names,
        register_metric as register_metric,
    )
    from .metrics.statistics.statistic import (
        Statistic as Statistic,
    )
    from .metrics.wrap import (
        as_metric as as_metric,
    )
    from .objective import (
        MAXIMIZE as MAXIMIZE,
        MINIMIZE as MINIMIZE,
        Objective as Objective,
    )
    from .optuna_objective import (
        OptunaObjective as OptunaObjective,
    )
    from .ray_objective import (
        RayObjective as RayObjective,
    )
    from .run import (
        Reported as Reported,
        Run as Run,
        engine as engine,
    )
    from .search.optuna_backend import (
        OptunaReporter as OptunaReporter,
    )
    from .search.ray_backend import (
        RayReporter as RayReporter,
        TuneReporter as TuneReporter,
    )
    from .search.record import (
        EpochRecord as EpochRecord,
        TrialRecord as TrialRecord,
        TrialState as TrialState,
    )
    from .search.reporter import (
        ListReporter as ListReporter,
        Reporter as Reporter,
    )
    from .search.selection import (
        At as At,
        Best as Best,
    )
    from .search.space import (
        Choice as Choice,
        Float as Float,
        Int as Int,
        Space as Space,
        Value as Value,
    )

_HOMES = {
    "exceptions": "ConfigError HpometricsError MetricInputError MetricNameError MissingExtraError NoFiniteValueError NonFiniteError NotYetError ObjectiveError RecordError RegistrationError RunError SpaceError StateError UnknownMetricError".split(),
    "list_objective": "ListObjective".split(),
    "metrics.collection": "MetricCollection".split(),
    "metrics.features": "AUDIO Audio BINARY BOXES Binary Boxes CATEGORY CLUSTERS Category Clusters IMAGE Image InputType LOGITS MASK Mask NUMBER Number OutputFeature PREDICTIONS PROBABILITIES RANKING Ranking SEQUENCE SET Sequence Set TEXT TIMESERIES Text Timeseries VECTOR Vector".split(),
    "metrics.metric": "LudwigMetric MeanMetric Metric".split(),
    "metrics.names": "MetricName".split(),
    "metrics.outputs": "Outputs".split(),
    "metrics.registry": "MetricEntry all_entries find_metric get_metric metric_names register_metric".split(),
    "metrics.statistics.statistic": "Statistic".split(),
    "metrics.wrap": "as_metric".split(),
    "objective": "MAXIMIZE MINIMIZE Objective".split(),
    "optuna_objective": "OptunaObjective".split(),
    "ray_objective": "RayObjective".split(),
    "run": "Reported Run engine".split(),
    "search.optuna_backend": "OptunaReporter".split(),
    "search.ray_backend": "RayReporter TuneReporter".split(),
    "search.record": "EpochRecord TrialRecord TrialState".split(),
    "search.reporter": "ListReporter Reporter".split(),
    "search.selection": "At Best".split(),
    "search.space": "Choice Float Int Space Value".split(),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
