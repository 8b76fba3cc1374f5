"""What a Ludwig config predicts and optimises: outputs and metrics by the names they have here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..exceptions import HpometricsError
from ..metrics.features import FEATURES
from ..metrics.registry.lookup import find_metric
from .goals import read_goal
from .notes import Section

TOOL = "Ludwig"
_COMBINED, _LOSS = "combined", "loss"
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
"""What the loss of an output is by default, as a metric."""
_KEPT_BY = {
    "binary": "roc_auc",
    "category": "accuracy",
    "number": "mean_squared_error",
    "set": "jaccard",
    "timeseries": "mean_squared_error",
    "vector": "mean_squared_error",
}
"""By which metric of an output the trainer keeps its weights, unless it says; all others by their loss."""
_MEANT = {
    ("accuracy", "category"): "balanced_accuracy",
    ("hits_at_k", "category"): "hits(average=macro)@3",
    ("root_mean_squared_error", "timeseries"): "rmse(multioutput=pooled)",
    ("token_accuracy", "sequence"): "token_accuracy(average=sequence)",
    ("token_accuracy", "text"): "token_accuracy(average=sequence)",
}
"""Metrics that are called like another one here: means over classes, or one root of all steps of a series."""


@dataclass(frozen=True)
class LudwigOutputs:
    """The output features: name and type, and what `engine.output` says of them."""

    types: dict[str, str]
    written: str | dict[str, str] | None


def read_outputs(top: Section) -> LudwigOutputs:
    """Read the output features; one of a type that is not there leaves `engine.output` to the engine."""
    types: dict[str, str] = {}
    features = top.given.get("output_features")
    for index, feature in enumerate(features if isinstance(features, list) else ()):
        if isinstance(feature, dict) and "name" in feature:
            kind = str(feature.get("type", ""))
            types[str(feature["name"])] = _TYPES.get(kind, kind)
            if _TYPES.get(kind, kind) not in FEATURES:
                top.notes.say(
                    ("output_features", index), f"there is no output of type {kind}; the engine is to say it"
                )
    if not types or not set(types.values()) <= FEATURES.keys():
        return LudwigOutputs(types, None)
    return LudwigOutputs(types, next(iter(types.values())) if len(types) == 1 else types)


def read_optimized(hyperopt: Section, outputs: LudwigOutputs, top: Section) -> str | dict[str, Any]:
    """Settle the metric with its output; its split, its goal and the trainer's own metric are remarked on."""
    metric = hyperopt.word("metric", _LOSS)
    feature = hyperopt.word("output_feature", _COMBINED)
    split = hyperopt.word("split", "validation")
    if split != "validation":
        hyperopt.say(
            "split", f"{split} is not scored by Ludwig, which takes validation", "split", "so does this"
        )
    if feature == _COMBINED and metric != _LOSS:
        hyperopt.say(
            "metric", f"combined has no {metric}, only a loss; name an output_feature", "no-such-metric"
        )
    if feature not in (_COMBINED, *outputs.types):
        there = ", ".join(outputs.types) or "none"
        hyperopt.notes.refuse(
            ("hyperopt", "output_feature"), f"{feature!r} is no output feature; there are {there}"
        )
    objective = read_goal(hyperopt, metric, TOOL)
    _check_trainer(top, metric, outputs.types.get(feature))
    return _written(hyperopt, metric, feature, outputs) or {
        "metric": f"ludwig_{metric}",
        "direction": objective.value,
    }


def _written(hyperopt: Section, metric: str, feature: str, outputs: LudwigOutputs) -> str | None:
    """Give the name here; None where there is none, so that the engine reports the metric."""
    if feature == _COMBINED and len(outputs.types) > 1:
        return f"{_COMBINED}.{_LOSS}" if metric == _LOSS else None
    name = next(iter(outputs.types), "") if feature == _COMBINED else feature
    kind = outputs.types.get(name, "")
    if metric == _LOSS and kind in _LOSSES:
        hyperopt.say("metric", f"the loss of a {kind} is {_LOSSES[kind]} unless the feature says otherwise")
        meant = _LOSSES[kind]
    else:
        meant = _MEANT.get((metric, kind), metric)
        if meant != metric:
            hyperopt.say("metric", f"Ludwig's {metric} of a {kind} is {meant} here")
    try:
        found = str(find_metric(meant, kind or None).name)
    except HpometricsError as err:
        hyperopt.say("metric", str(err), "no-such-metric", f"the engine is to report it as ludwig_{metric}")
        return None
    return f"{name}.{found}" if isinstance(outputs.written, dict) else found


def _check_trainer(top: Section, metric: str, kind: str | None) -> None:
    """Remark on a trainer that keeps the weights of another epoch than the one that is scored."""
    trainer = top.section("trainer")
    kept = trainer.word("validation_metric") or (kind and _KEPT_BY.get(kind, _LOSS))
    if kept and kept != metric:
        place = trainer if "validation_metric" in trainer.given else top.section("hyperopt")
        key = "validation_metric" if "validation_metric" in trainer.given else "metric"
        told = f"Ludwig keeps the weights by {kept} and scores by {metric}"
        place.say(key, f"{told}: the model it leaves is of another epoch than its score", "epoch")
