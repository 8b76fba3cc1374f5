"""Convert a Ludwig config with a `hyperopt:` section to a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..exceptions import HpometricsError
from ..metrics.features import FEATURES
from ..metrics.registry.lookup import find_metric
from . import terms
from .notes import ConvertedSweep, Notes, Section
from .ray_config import DISTRIBUTIONS, GRID, TARGET, WRITTEN, backend_of
from .terms import Dimension, read_goal

TOOL = "Ludwig"
_COMBINED, _LOSS = "combined", "loss"
_WHOLE = "."
_KEYS = tuple("goal metric output_feature split eval_split parameters search_alg executor".split())
_EXECUTOR = tuple(
    (
        "type num_samples time_budget_s max_concurrent_trials cpu_resources_per_trial "
        "gpu_resources_per_trial trial_driver_resources kubernetes_namespace scheduler sampler pruner "
        "study_name storage"
    ).split()
)
_PARAMETER_KEYS = ("space", "type", "categories", "values", "lower", "upper", "q", "base", "mean", "sd")
_LEFT_OUT = {
    "trial_driver_resources": "a trial has no driver of its own",
    "kubernetes_namespace": "hpometrics worker DIR joins a sweep from any machine",
    "storage": "the study is in the run directory",
    "study_name": "a sweep has the name of its file",
}
_SAMPLES, _SECONDS, _EPOCHS = 10, 3600, 100  # Ludwig's own defaults
_HALVING = ("async_hyperband", "asha", "asynchyperband")
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
_RENAMED = {
    ("accuracy", "category"): "balanced_accuracy",
    ("hits_at_k", "category"): "hits(average=macro)@3",
    ("root_mean_squared_error", "timeseries"): "rmse(multioutput=pooled)",
    ("token_accuracy", "sequence"): "token_accuracy(average=sequence)",
    ("token_accuracy", "text"): "token_accuracy(average=sequence)",
}
"""Metrics that have another name here: means over classes, or one root of all steps of a series."""


def read_ludwig(notes: Notes) -> ConvertedSweep:
    """Read a Ludwig config.

    Raises:
        ImportRefused: the config has no such section, or a part of it is not well formed.
    """
    top = Section(notes.document.data, (), notes)
    hyperopt = top.section("hyperopt")
    hyperopt.remark_unknown(_KEYS, TOOL)
    if hyperopt.mapping.get("eval_split") is not None:
        hyperopt.remark("eval_split", 'is left out: update a run with split="test" to measure it')
    parameters, executor = hyperopt.section("parameters"), hyperopt.section("executor")
    executor.remark_unknown(_EXECUTOR, TOOL)
    executor.remark_left_out(_LEFT_OUT)
    space = read_space(parameters)
    if not (space or notes.errors):
        notes.add_error(("hyperopt", "parameters"), "names nothing that varies")
    outputs = read_outputs(top)
    output_keys: dict[str, Any] = {} if outputs.config_value is None else {"output": outputs.config_value}
    model = "input_features" if "input_features" in top.mapping else "hyperopt"
    top.remark(model, WRITTEN)
    budget = _budget(top, executor, grid_points(parameters))
    config: dict[str, Any] = {
        "engine": {"target": TARGET, **output_keys},
        "space": space,
        "metrics": {"optimize": read_optimized(hyperopt, outputs, top)},
        "search": _search(hyperopt, executor, parameters, space),
        "backend": _backend(executor),
        "budget": budget,
    }
    notes.check()
    return ConvertedSweep(TOOL, None, config, notes)


def _search(
    hyperopt: Section, executor: Section, parameters: Section, space: dict[str, Dimension]
) -> dict[str, Any]:
    kinds = [one.get("space") for one in parameters.mapping.values() if isinstance(one, dict)]
    if kinds and all(kind == GRID for kind in kinds):
        search: dict[str, Any] = {"sampler": "grid"}
    else:
        if GRID in kinds:
            hyperopt.remark("parameters", "grid_search beside other spaces is drawn as a choice")
        search = {"sampler": _sampler(hyperopt.section("search_alg"))}
    pruner = _pruner(executor)
    return search if pruner is None else {**search, "pruner": pruner}


def _sampler(algorithm: Section) -> str:
    kind = algorithm.word("type", "variant_generator")
    if others := [key for key in algorithm.mapping if key != "type"]:
        algorithm.remark(
            others[0], f"Ludwig drops the options of search_alg: {', '.join(others)}", "unknown-key"
        )
    if kind in ("variant_generator", "random"):
        return "random"
    if kind not in ("optuna", "hyperopt"):
        algorithm.remark("type", f"{kind} is not there; tpe is written")
    return "tpe"


def _pruner(executor: Section) -> dict[str, Any] | str | None:
    if executor.mapping.get("type") == "optuna":
        return _inert_pruner(executor)
    scheduler = executor.section("scheduler")
    kind = scheduler.word("type", "fifo")
    first = (_counts_epochs(scheduler) and scheduler.whole("grace_period")) or 1
    eta = scheduler.whole("reduction_factor")
    for key in scheduler.mapping:
        if key not in (
            "type",
            "max_t",
            "grace_period",
            "reduction_factor",
            "min_samples_required",
            "time_attr",
        ):
            scheduler.remark(key, "is left out")
    if kind in _HALVING:
        return {"asha": {"min_epochs": first, "eta": eta or 4}}
    if kind in ("hyperband", "hb_bohb"):
        return {"hyperband": {"min_epochs": first, "eta": eta or 3}}
    if kind in ("median_stopping_rule", "medianstopping"):
        return {"median": {"warmup": first, "min_trials": scheduler.whole("min_samples_required") or 3}}
    if kind != "fifo":
        scheduler.remark("type", f"{kind} is left out; asha, hyperband and median stop early too")
    return None


def _counts_epochs(scheduler: Section) -> bool:
    """Return whether a scheduler counts epochs; otherwise its grace_period and max_t are seconds."""
    unit = scheduler.word("time_attr", "training_iteration")
    if unit != "training_iteration":
        scheduler.remark(
            "time_attr", f"{unit} is left out, with grace_period and max_t: rungs are epochs here"
        )
    return unit == "training_iteration"


def _inert_pruner(executor: Section) -> dict[str, Any] | str | None:
    """Return the pruner of Ludwig's own Optuna executor, which never reports, so that it never prunes."""
    pruner = executor.mapping.get("pruner")
    name = pruner.get("type") if isinstance(pruner, dict) else pruner
    text = "Ludwig's optuna executor trains every trial with the same params and reports no epoch"
    executor.remark("type", f"{text}: its trials are not those it names, and no pruner stops one", "inert")
    if name in ("median", "hyperband", "percentile"):
        return str(name)
    return "asha" if name in ("sha", "successive_halving") else None


def _backend(executor: Section) -> dict[str, Any] | str:
    """Return Ray with the resources that the executor states, or Optuna for its Optuna executor."""
    if executor.mapping.get("type", "ray") == "optuna":
        return "optuna"
    return backend_of(executor, cpu="cpu_resources_per_trial", gpu="gpu_resources_per_trial")


def _budget(top: Section, executor: Section, points: int) -> dict[str, Any]:
    samples = executor.whole("num_samples") or (1 if points > 1 else _SAMPLES)
    if executor.mapping.get("num_samples") is None:
        executor.remark("num_samples", f"is missing, Ludwig's default is written: {samples * points} trials")
    seconds = executor.number("time_budget_s", _SECONDS)
    if executor.mapping.get("time_budget_s") is None:
        executor.remark("time_budget_s", f"is missing, and Ludwig stops after {_SECONDS} s; time is written")
    trainer, scheduler = top.section("trainer"), executor.section("scheduler")
    most = scheduler.whole("max_t") if _counts_epochs(scheduler) else None
    epochs = most or trainer.whole("epochs") or _EPOCHS
    time = f"{seconds / 3600:g}h" if seconds % 900 == 0 else f"{seconds:g}s"
    return {"trials": samples * points, "time": time, "epochs": epochs}


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
                    ("output_features", index), f"there is no output of type {kind}; the engine must state it"
                )
    if not types or not set(types.values()) <= FEATURES.keys():
        return LudwigOutputs(types, None)
    return LudwigOutputs(types, next(iter(types.values())) if len(types) == 1 else types)


def read_optimized(hyperopt: Section, outputs: LudwigOutputs, top: Section) -> str | dict[str, Any]:
    """Resolve the metric with its output; remark on its split, its goal and the trainer's own metric."""
    metric = hyperopt.word("metric", _LOSS)
    feature = hyperopt.word("output_feature", _COMBINED)
    split = hyperopt.word("split", "validation")
    if split != "validation":
        hyperopt.remark(
            "split", f"{split} is not scored by Ludwig, which takes validation", "split", "so does this"
        )
    if feature == _COMBINED and metric != _LOSS:
        hyperopt.remark(
            "metric", f"combined has no {metric}, only a loss; name an output_feature", "no-such-metric"
        )
    if feature not in (_COMBINED, *outputs.types):
        names = ", ".join(outputs.types) or "none"
        hyperopt.notes.add_error(
            ("hyperopt", "output_feature"), f"{feature!r} is not an output feature; there are {names}"
        )
    direction = read_goal(hyperopt, metric, TOOL)
    _check_trainer(top, metric, outputs.types.get(feature))
    return _format_metric(hyperopt, metric, feature, outputs) or {
        "metric": f"ludwig_{metric}",
        "direction": direction.value,
    }


def _format_metric(hyperopt: Section, metric: str, feature: str, outputs: LudwigOutputs) -> str | None:
    """Return the registered name; None if there is none, so that the engine reports the metric."""
    if feature == _COMBINED and len(outputs.types) > 1:
        return f"{_COMBINED}.{_LOSS}" if metric == _LOSS else None
    name = next(iter(outputs.types), "") if feature == _COMBINED else feature
    kind = outputs.types.get(name, "")
    if metric == _LOSS and kind in _LOSSES:
        hyperopt.remark(
            "metric", f"the loss of a {kind} is {_LOSSES[kind]} unless the feature says otherwise"
        )
        metric_name = _LOSSES[kind]
    else:
        metric_name = _RENAMED.get((metric, kind), metric)
        if metric_name != metric:
            hyperopt.remark("metric", f"Ludwig's {metric} of a {kind} is {metric_name} here")
    try:
        registered_name = str(find_metric(metric_name, kind or None).name)
    except HpometricsError as err:
        hyperopt.remark(
            "metric", str(err), "no-such-metric", f"the engine is to report it as ludwig_{metric}"
        )
        return None
    return f"{name}.{registered_name}" if isinstance(outputs.config_value, dict) else registered_name


def _check_trainer(top: Section, metric: str, kind: str | None) -> None:
    """Remark on a trainer that saves the weights of another epoch than the one that is scored."""
    trainer = top.section("trainer")
    trainer_metric = trainer.word("validation_metric") or (kind and _TRAINER_METRICS.get(kind, _LOSS))
    if trainer_metric and trainer_metric != metric:
        place = trainer if "validation_metric" in trainer.mapping else top.section("hyperopt")
        key = "validation_metric" if "validation_metric" in trainer.mapping else "metric"
        text = f"Ludwig keeps the weights by {trainer_metric} and scores by {metric}"
        place.remark(key, f"{text}: the model it leaves is of another epoch than its score", "epoch")


def read_space(parameters: Section) -> dict[str, Dimension]:
    """Read the parameters; later ones win, as they do in Ludwig."""
    space: dict[str, Dimension] = {}
    for path in parameters.mapping:
        called, dimension = _dimension(path, parameters.section(path))
        space[called] = dimension
    return space


def grid_points(parameters: Section) -> int:
    """Count the points of the grid that Ray goes through for each sample."""
    count = 1
    for one in parameters.mapping.values():
        values: Any = one.get("values") if isinstance(one, dict) and one.get("space") == GRID else None
        count *= len(values) if isinstance(values, list) and values else 1
    return count


def _dimension(path: str, section: Section) -> tuple[str, Dimension]:
    kind = section.word("space")
    if kind in ("choice", GRID):
        return _choice(path, section, kind)
    build = DISTRIBUTIONS.get(kind)
    if build is None:
        kinds = ", ".join(("choice", GRID, *DISTRIBUTIONS))
        section.notes.add_error(
            (*section.path, "space"), f"{kind or 'nothing'} is not one of Ludwig's spaces: {kinds}"
        )
        return path, {"value": None}
    section.remark_unknown(_PARAMETER_KEYS, "Ludwig")
    return path, build(section)


def _choice(path: str, section: Section, kind: str) -> tuple[str, Dimension]:
    key = "categories" if kind == "choice" else "values"
    options = section.mapping.get(key)
    section.remark_unknown(("space", key), "Ludwig")
    if not isinstance(options, list) or not options:
        section.notes.add_error((*section.path, key), f"{kind} takes a list, {key}: [...], got {options!r}")
        return path, {"value": None}
    if path == _WHOLE:
        if not all(isinstance(option, dict) for option in options):
            section.notes.add_error((*section.path, key), "the path . takes mappings of the config")
            return path, {"value": None}
        section.remark("space", f"blocks of the config are bundles of {terms.CONFIG}, by dotted names")
        return terms.mappings(options)
    return terms.choice(path, options, section, key)
