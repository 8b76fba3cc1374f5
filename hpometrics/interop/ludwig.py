"""A Ludwig config with a `hyperopt:` section, read as a sweep of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..exceptions import HpometricsError
from ..metrics.features import FEATURES
from ..metrics.registry.lookup import find_metric
from ..space.dimensions import is_whole
from . import terms
from .notes import Carried, Notes, Section
from .terms import Dimension, between, read_goal, stepped, whole_between

GRID = "grid_search"
_SPREAD = 3.0  # deviations of a normal distribution that an even one covers in its place
_WHOLE = "."
_PARAMETER_KEYS = ("space", "type", "categories", "values", "lower", "upper", "q", "base", "mean", "sd")


def read_space(parameters: Section) -> dict[str, Dimension]:
    """Read the parameters; later ones win, as they do in Ludwig."""
    space: dict[str, Dimension] = {}
    for path in parameters.given:
        called, dimension = _dimension(path, parameters.section(path))
        space[called] = dimension
    return space


def _dimension(path: str, given: Section) -> tuple[str, Dimension]:
    kind = given.word("space")
    if kind in ("choice", GRID):
        return _choice(path, given, kind)
    build = _SPACES.get(kind)
    if build is None:
        known = ", ".join(("choice", GRID, *_SPACES))
        given.notes.refuse((*given.path, "space"), f"{kind or 'nothing'} is no space of Ludwig's: {known}")
        return path, {"value": None}
    given.unknown(_PARAMETER_KEYS, "Ludwig")
    return path, build(given)


def _choice(path: str, given: Section, kind: str) -> tuple[str, Dimension]:
    key = "categories" if kind == "choice" else "values"
    options = given.given.get(key)
    given.unknown(("space", key), "Ludwig")
    if not isinstance(options, list) or not options:
        given.notes.refuse((*given.path, key), f"{kind} wants a list, {key}: [...], got {options!r}")
        return path, {"value": None}
    if path == _WHOLE:
        if not all(isinstance(option, dict) for option in options):
            given.notes.refuse((*given.path, key), "the path . wants mappings of the config")
            return path, {"value": None}
        given.say("space", f"blocks of the config are bundles of {terms.CONFIG}, by dotted names")
        return terms.mappings(options)
    called, dimension = terms.choice(path, options)
    if called != path:
        given.say(key, f"a choice among lists or mappings is one of bundles, called {called}")
    return called, dimension


def _bounds(given: Section) -> tuple[float, float]:
    return given.bounds("lower", "upper")


def _positive(given: Section) -> tuple[float, float]:
    low, high = _bounds(given)
    if low <= 0:
        given.notes.refuse((*given.path, "lower"), f"a logarithm wants a bound above 0, got {low}")
        return 1, 1
    return low, high


def _randint(given: Section) -> Dimension:
    low, high = _below(given, *_bounds(given))
    return whole_between(low, high)


def _lograndint(given: Section) -> Dimension:
    low, high = _below(given, *_positive(given))
    return whole_between(low, high, log=True)


def _below(given: Section, low: float, high: float) -> tuple[int, int]:
    """Whole bounds, of which Ray leaves the upper one out."""
    last = math.ceil(high) - 1
    if last < low:
        given.notes.refuse(
            (*given.path, "upper"), f"is left out by Ray, so nothing is left from {low:g} to {high:g}"
        )
        return math.ceil(low), math.ceil(low)
    return math.ceil(low), last


def _qloguniform(given: Section) -> Dimension:
    if not (is_whole(given.number("q", 1)) and given.number("lower") >= 1):
        given.say("q", "is left out: a logarithmic range has no steps here")
        return between(*_positive(given), log=True)
    return _qlograndint(given)


def _qlograndint(given: Section) -> Dimension:
    """Whole numbers up to the upper bound, which Ray keeps where there is a step."""
    if given.number("q", 1) != 1:
        given.say("q", "is left out: a logarithmic range has no steps here")
    low, high = _positive(given)
    return whole_between(math.ceil(low), math.floor(high), log=True)


def _quniform(given: Section) -> Dimension:
    return stepped(*_bounds(given), _step(given))


def _randn(given: Section) -> Dimension:
    mean, deviation = given.number("mean", 0), given.number("sd", 1)
    kind = given.word("space")
    given.say("space", f"{kind} is drawn evenly over three deviations instead; there is no normal one here")
    low, high = mean - _SPREAD * deviation, mean + _SPREAD * deviation
    return stepped(low, high, _step(given)) if kind == "qrandn" else between(low, high)


def _step(given: Section) -> float:
    step = given.number("q", 1)
    if step <= 0:
        given.notes.refuse((*given.path, "q"), f"a step is above 0, got {step}")
        return 1
    return step


_SPACES: Mapping[str, Callable[[Section], Dimension]] = {
    "uniform": lambda given: between(*_bounds(given)),
    "quniform": _quniform,
    "loguniform": lambda given: between(*_positive(given), log=True),
    "qloguniform": _qloguniform,
    "randn": _randn,
    "qrandn": _randn,
    "randint": _randint,
    "qrandint": _quniform,
    "lograndint": _lograndint,
    "qlograndint": _qlograndint,
}


def grid_points(parameters: Section) -> int:
    """Count the points of the grid that Ray goes through for each sample."""
    count = 1
    for one in parameters.given.values():
        values: Any = one.get("values") if isinstance(one, dict) and one.get("space") == GRID else None
        count *= len(values) if isinstance(values, list) and values else 1
    return count


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


_KEYS = tuple("goal metric output_feature split eval_split parameters search_alg executor".split())
_EXECUTOR = tuple(
    (
        "type num_samples time_budget_s max_concurrent_trials cpu_resources_per_trial "
        "gpu_resources_per_trial trial_driver_resources kubernetes_namespace scheduler sampler pruner "
        "study_name storage"
    ).split()
)
_LEFT_OUT = {
    "trial_driver_resources": "a trial has no driver of its own",
    "kubernetes_namespace": "hpometrics worker DIR joins a sweep from any machine",
    "storage": "the study is in the run directory",
    "study_name": "a sweep has the name of its file",
}
_TARGET = "training:train"
_SAMPLES, _SECONDS, _EPOCHS = 10, 3600, 100  # Ludwig's own defaults
_HALVING = ("async_hyperband", "asha", "asynchyperband")


def read_ludwig(notes: Notes) -> Carried:
    """Read a Ludwig config.

    Raises:
        ImportRefused: it has no such section, or a part of it is not well formed.
    """
    top = Section(notes.document.data, (), notes)
    hyperopt = top.section("hyperopt")
    hyperopt.unknown(_KEYS, TOOL)
    if hyperopt.given.get("eval_split") is not None:
        hyperopt.say("eval_split", 'is left out: update a run with split="test" to measure it')
    parameters, executor = hyperopt.section("parameters"), hyperopt.section("executor")
    executor.unknown(_EXECUTOR, TOOL)
    executor.left_out(_LEFT_OUT)
    space = read_space(parameters)
    if not (space or notes.refused):
        notes.refuse(("hyperopt", "parameters"), "names nothing that varies")
    outputs = read_outputs(top)
    said: dict[str, Any] = {} if outputs.written is None else {"output": outputs.written}
    model = "input_features" if "input_features" in top.given else "hyperopt"
    top.say(model, f"the model is yours to write: a function train(params, run), {_TARGET} in the file")
    budget = _budget(top, executor, grid_points(parameters))
    config: dict[str, Any] = {
        "engine": {"target": _TARGET, **said},
        "space": space,
        "metrics": {"optimize": read_optimized(hyperopt, outputs, top)},
        "search": _search(hyperopt, executor, parameters, space),
        "backend": _backend(executor),
        "budget": budget,
    }
    notes.check()
    return Carried(TOOL, None, config, notes)


def _search(
    hyperopt: Section, executor: Section, parameters: Section, space: dict[str, Dimension]
) -> dict[str, Any]:
    kinds = [one.get("space") for one in parameters.given.values() if isinstance(one, dict)]
    if kinds and all(kind == GRID for kind in kinds):
        search: dict[str, Any] = {"sampler": "grid"}
    else:
        if GRID in kinds:
            hyperopt.say("parameters", "grid_search beside other spaces is drawn as a choice")
        search = {"sampler": _sampler(hyperopt.section("search_alg"))}
    pruner = _pruner(executor)
    return search if pruner is None else {**search, "pruner": pruner}


def _sampler(algorithm: Section) -> str:
    kind = algorithm.word("type", "variant_generator")
    if others := [key for key in algorithm.given if key != "type"]:
        algorithm.say(
            others[0], f"Ludwig drops the options of search_alg: {', '.join(others)}", "unknown-key"
        )
    if kind in ("variant_generator", "random"):
        return "random"
    if kind not in ("optuna", "hyperopt"):
        algorithm.say("type", f"{kind} is not there; tpe is written")
    return "tpe"


def _pruner(executor: Section) -> dict[str, Any] | str | None:
    if executor.given.get("type") == "optuna":
        return _inert_pruner(executor)
    scheduler = executor.section("scheduler")
    kind = scheduler.word("type", "fifo")
    first = (_counts_epochs(scheduler) and scheduler.whole("grace_period")) or 1
    eta = scheduler.whole("reduction_factor")
    for key in scheduler.given:
        if key not in (
            "type",
            "max_t",
            "grace_period",
            "reduction_factor",
            "min_samples_required",
            "time_attr",
        ):
            scheduler.say(key, "is left out")
    if kind in _HALVING:
        return {"asha": {"min_epochs": first, "eta": eta or 4}}
    if kind in ("hyperband", "hb_bohb"):
        return {"hyperband": {"min_epochs": first, "eta": eta or 3}}
    if kind in ("median_stopping_rule", "medianstopping"):
        return {"median": {"warmup": first, "min_trials": scheduler.whole("min_samples_required") or 3}}
    if kind != "fifo":
        scheduler.say("type", f"{kind} is left out; asha, hyperband and median stop early too")
    return None


def _counts_epochs(scheduler: Section) -> bool:
    """Say whether a scheduler counts epochs; else its grace_period and max_t are seconds."""
    unit = scheduler.word("time_attr", "training_iteration")
    if unit != "training_iteration":
        scheduler.say("time_attr", f"{unit} is left out, with grace_period and max_t: rungs are epochs here")
    return unit == "training_iteration"


def _inert_pruner(executor: Section) -> dict[str, Any] | str | None:
    """Write a pruner of Ludwig's own Optuna executor, which never reports, so that it never prunes."""
    pruner = executor.given.get("pruner")
    name = pruner.get("type") if isinstance(pruner, dict) else pruner
    text = "Ludwig's optuna executor trains every trial with the same params and reports no epoch"
    executor.say("type", f"{text}: its trials are not those it names, and no pruner stops one", "inert")
    if name in ("median", "hyperband", "percentile"):
        return str(name)
    return "asha" if name in ("sha", "successive_halving") else None


def _backend(executor: Section) -> dict[str, Any] | str:
    """Ray as Ludwig uses it, where its resources are said; else processes of this machine."""
    workers = executor.whole("max_concurrent_trials")
    resources = {
        ours: executor.number(theirs)
        for ours, theirs in (("cpu", "cpu_resources_per_trial"), ("gpu", "gpu_resources_per_trial"))
        if executor.given.get(theirs) is not None
    }
    if executor.given.get("type", "ray") == "optuna":
        return "optuna"
    told: dict[str, Any] = {} if workers is None else {"workers": workers}
    if resources:
        told["resources"] = {name: float(count) for name, count in resources.items()}
    return {"ray": told} if told else "ray"


def _budget(top: Section, executor: Section, points: int) -> dict[str, Any]:
    samples = executor.whole("num_samples") or (1 if points > 1 else _SAMPLES)
    if executor.given.get("num_samples") is None:
        executor.say("num_samples", f"is missing, Ludwig's default is written: {samples * points} trials")
    seconds = executor.number("time_budget_s", _SECONDS)
    if executor.given.get("time_budget_s") is None:
        executor.say("time_budget_s", f"is missing, and Ludwig stops after {_SECONDS} s; time is written")
    trainer, scheduler = top.section("trainer"), executor.section("scheduler")
    most = scheduler.whole("max_t") if _counts_epochs(scheduler) else None
    epochs = most or trainer.whole("epochs") or _EPOCHS
    time = f"{seconds / 3600:g}h" if seconds % 900 == 0 else f"{seconds:g}s"
    return {"trials": samples * points, "time": time, "epochs": epochs}
