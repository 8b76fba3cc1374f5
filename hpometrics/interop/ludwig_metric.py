"""The metric and the outputs of a Ludwig config, and the metric that its trainer watches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..exceptions import HpometricsError
from ..metrics.features import FEATURES
from ..metrics.registry.lookup import find_metric
from .notes import Section
from .terms import read_goal

COMBINED, LOSS = "combined", "loss"
"""The output of all features together, and the metric that every output has."""

_TYPES = {"numerical": "number", "category_distribution": "category"}
_LOSSES = {
    "binary": "log_loss",
    "category": "log_loss",
    "set": "log_loss",
    "sequence": "log_loss",
    "text": "log_loss",
    "number": "mse",
    "vector": "mse",
    "timeseries": "huber",
}
"""The metric that is the default loss of an output type."""
_TRAINER_METRICS = {
    "binary": "roc_auc",
    "category": "accuracy",
    "number": "mean_squared_error",
    "set": "jaccard",
    "timeseries": "mean_squared_error",
    "vector": "mean_squared_error",
}
"""The metric by which the trainer picks its weights by default, per output type; other types use the loss."""
_SQUARES = {"mean_squared_error", "root_mean_squared_error"}
"""Metrics of which each orders epochs as the other does."""
_RENAMED = {
    ("accuracy", "category"): "recall(average=macro)",
    ("hits_at_k", "category"): "hits(average=macro)@3",
    ("root_mean_squared_error", "timeseries"): "rmse(multioutput=pooled)",
    ("token_accuracy", "sequence"): "token_accuracy(average=sequence)",
    ("token_accuracy", "text"): "token_accuracy(average=sequence)",
}
"""Metrics that have another name here: means over classes, or one root of all steps of a series."""


@dataclass(frozen=True)
class LudwigOutputs:
    """The output features: the type of each name, and the value of `engine.output`."""

    types: dict[str, str]
    config_value: str | dict[str, str] | None


def read_outputs(top: Section) -> LudwigOutputs:
    """Read the output features; one of an unknown type leaves `engine.output` to the engine."""
    types: dict[str, str] = {}
    features = top.mapping.get("output_features")
    for index, feature in enumerate(features if isinstance(features, list) else ()):
        if isinstance(feature, dict) and "name" in feature:
            kind = str(feature.get("type", ""))
            types[str(feature["name"])] = _TYPES.get(kind, kind)
            if _TYPES.get(kind, kind) not in FEATURES:
                top.notes.remark(
                    ("output_features", index), f"there is no output type {kind}; state it in the engine"
                )
    if not types or not set(types.values()) <= FEATURES.keys():
        return LudwigOutputs(types, None)
    return LudwigOutputs(types, next(iter(types.values())) if len(types) == 1 else types)


def read_optimized(hyperopt: Section, outputs: LudwigOutputs, top: Section) -> str | dict[str, Any]:
    """Resolve the metric with its output; remark on its split, its goal and the trainer's own metric."""
    metric, feature = metric_and_output(hyperopt, outputs)
    if metric != (written := hyperopt.word("metric", LOSS)):
        text = f"Ludwig rejects {written}: its metric has no path"
        hyperopt.remark("metric", text, "no-such-metric", f"the import reads {metric} of {feature}")
    split = hyperopt.word("split", "validation")
    if split != "validation":
        hyperopt.remark("split", f"Ludwig scores validation, not {split}", "split", "so does the import")
    if feature == COMBINED and metric != LOSS:
        hyperopt.remark(
            "metric", f"combined has no {metric}, only a loss; name an output_feature", "no-such-metric"
        )
    if feature not in (COMBINED, *outputs.types):
        names = ", ".join(outputs.types) or "none"
        hyperopt.notes.add_error(
            ("hyperopt", "output_feature"), f"{feature!r} is not an output feature; choose from {names}"
        )
    direction = read_goal(hyperopt, metric, "Ludwig")
    _check_trainer(top, metric, outputs.types.get(feature))
    name = _format_metric(hyperopt, metric, feature, outputs)
    if name is not None and outputs.config_value is not None:
        return name
    return {"metric": name or f"ludwig_{metric}", "direction": direction.value}


def metric_and_output(hyperopt: Section, outputs: LudwigOutputs) -> tuple[str, str]:
    """Return the metric and its output, also where the metric has a path: `validation.combined.loss`."""
    metric, feature = hyperopt.word("metric", LOSS), hyperopt.word("output_feature", COMBINED)
    *path, last = metric.split(".")
    return (last, path[-1]) if path and path[-1] in (COMBINED, *outputs.types) else (metric, feature)


def _format_metric(hyperopt: Section, metric: str, feature: str, outputs: LudwigOutputs) -> str | None:
    """Return the registered name; None if there is none, so that the engine reports the metric."""
    if feature == COMBINED and len(outputs.types) > 1:
        return f"{COMBINED}.{LOSS}" if metric == LOSS else None
    name = next(iter(outputs.types), "") if feature == COMBINED else feature
    kind = outputs.types.get(name, "")
    if metric == LOSS and kind in _LOSSES:
        hyperopt.remark(
            "metric", f"the loss of a {kind} is {_LOSSES[kind]}, unless the feature sets another loss"
        )
        metric_name = _LOSSES[kind]
    else:
        metric_name = _RENAMED.get((metric, kind), metric)
        if metric_name != metric:
            hyperopt.remark("metric", f"Ludwig's {metric} of a {kind} is {metric_name} here")
    try:
        registered_name = str(find_metric(metric_name, kind or None).name)
    except HpometricsError as err:
        hyperopt.remark("metric", str(err), "no-such-metric", f"the engine must report it as ludwig_{metric}")
        return None
    return f"{name}.{registered_name}" if isinstance(outputs.config_value, dict) else registered_name


def _check_trainer(top: Section, metric: str, kind: str | None) -> None:
    """Remark on a trainer that saves the weights of another epoch than the one that is scored."""
    trainer = top.section("trainer")
    trainer_metric = trainer_metric_of(trainer, kind)
    if trainer_metric and not order_alike(trainer_metric, metric):
        place = trainer if "validation_metric" in trainer.mapping else top.section("hyperopt")
        key = "validation_metric" if "validation_metric" in trainer.mapping else "metric"
        text = f"Ludwig picks the weights by {trainer_metric} and scores by {metric}"
        place.remark(key, f"{text}: the model comes from another epoch than its score", "epoch")


def order_alike(first: str | None, second: str | None) -> bool:
    """Return whether two metrics pick the same epoch."""
    return first == second or {first, second} == _SQUARES


def trainer_metric_of(trainer: Section, kind: str | None) -> str | None:
    """Return the metric that the trainer watches; None if that depends on an output that is not known."""
    return trainer.word("validation_metric") or (kind and _TRAINER_METRICS.get(kind, LOSS))
