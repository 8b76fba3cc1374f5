"""Convert a Ludwig config with a `hyperopt:` section to a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..backends.registry import POPULATIONS, RAY_SCHEDULERS, REPLAY
from ..space.values import is_number, is_scalar
from . import terms
from .ludwig_metric import (
    LudwigOutputs,
    metric_and_output,
    order_alike,
    read_optimized,
    read_outputs,
    trainer_metric_of,
)
from .notes import ConvertedSweep, Notes, Section
from .ray_config import DISTRIBUTIONS, GRID, TARGET, WRITTEN, backend_of, bohb
from .terms import Dimension, duration

TOOL = "Ludwig"
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
    "trial_driver_resources": "a trial does not have its own driver",
    "kubernetes_namespace": "hpometrics worker DIR joins a sweep from any machine",
    "storage": "the study is in the run directory",
    "study_name": "a sweep has the name of its file",
}
_OPTUNA_SAMPLERS = ("gp", "tpe", "cmaes", "random")
_OPTUNA_SPACES: Mapping[str, Callable[[Section], Dimension]] = {
    "uniform": lambda section: terms.between(*section.bounds("lower", "upper")),
    "float": lambda section: terms.between(*section.bounds("lower", "upper")),
    "loguniform": lambda section: terms.between(*section.positive_bounds("lower", "upper"), log=True),
    "int": lambda section: terms.whole_between(*section.bounds("lower", "upper")),
    "randint": lambda section: terms.whole_between(*section.bounds("lower", "upper")),
    "qrandint": lambda section: terms.whole_between(*section.bounds("lower", "upper")),
}
"""The spaces of Ludwig's Optuna executor, which includes both bounds and knows no steps."""
_CHOICES = ("choice", "categorical")
_SAMPLES, _SECONDS, _EPOCHS, _EARLY_STOP = 10, 3600, 100, 5  # Ludwig's own defaults
_OPTIONS = {
    "pbt": ("quantile_fraction", "resample_probability", "perturbation_factors"),
    "pb2": ("quantile_fraction",),
}
"""The options of a population that have the same name here."""
_MUTATIONS = {"pbt": "hyperparam_mutations", "pb2": "hyperparam_bounds"}
"""The option that names the params that change."""
_POPULATION_LEFT_OUT = {
    "burn_in_period": "the first exploit comes after perturbation_interval epochs",
    "custom_explore_fn": "it is code; a changed param stays within its dimension",
    "log_config": "the record of each trial has its changes",
    "require_attrs": "each epoch has the metric",
    "metric": "the population compares the metric of the search",
    "mode": "the metric has its own direction",
}
_INTERVAL = 4  # epochs, the default of a population here
_REPLAYED = (
    f"is dropped: here {REPLAY} reads a run directory, as in search: {{pruner: {{{REPLAY}: "
    "{run: runs/NAME}}}}, not a policy_file of Ray"
)
_HALVING = ("async_hyperband", "asha", "asynchyperband")


def read_ludwig(notes: Notes) -> ConvertedSweep:
    """Read a Ludwig config.

    Raises:
        ImportRefused: the config has no such section, or a part of it is not well formed.
    """
    top = Section(notes.document.data, (), notes)
    hyperopt = top.section("hyperopt")
    hyperopt.remark_unknown(_KEYS, TOOL)
    if hyperopt.mapping.get("eval_split") is not None:
        hyperopt.remark("eval_split", 'dropped: update a run with split="test" to measure it')
    parameters, executor = hyperopt.section("parameters"), hyperopt.section("executor")
    executor.remark_unknown(_EXECUTOR, TOOL)
    executor.remark_left_out(_LEFT_OUT)
    space = read_space(parameters, has_optuna=executor.mapping.get("type") == "optuna")
    if not (space or notes.errors):
        notes.add_error(("hyperopt", "parameters"), "needs a param to search")
    outputs = read_outputs(top)
    output_keys: dict[str, Any] = {} if outputs.config_value is None else {"output": outputs.config_value}
    model = "input_features" if "input_features" in top.mapping else "hyperopt"
    top.remark(model, WRITTEN)
    search = _search(hyperopt, executor, parameters, space)
    budget = _budget(top, executor, grid_points(parameters))
    if "trainer.early_stop" not in space:
        budget |= _patience(top, hyperopt, outputs, search, budget["epochs"])
    config: dict[str, Any] = {
        "engine": {"target": TARGET, **output_keys},
        "space": space,
        "metrics": {"optimize": read_optimized(hyperopt, outputs, top)},
        "search": search,
        "backend": _backend(executor, search),
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
            hyperopt.remark("parameters", "grid_search beside other spaces becomes a choice")
        has_optuna = executor.mapping.get("type") == "optuna"
        sampler = _optuna_sampler(executor) if has_optuna else _sampler(hyperopt.section("search_alg"))
        search = {"sampler": sampler}
    pruner = _pruner(executor, space)
    return search if pruner is None else {**search, "pruner": pruner}


def _optuna_sampler(executor: Section) -> str:
    """Return the sampler of Ludwig's Optuna executor, which ignores search_alg."""
    name = executor.word("sampler", "auto")
    if name in _OPTUNA_SAMPLERS:
        return name
    text = "is Optuna's AutoSampler" if name == "auto" else f"{name} is not one of Ludwig's samplers"
    executor.remark("sampler" if "sampler" in executor.mapping else "type", f"{text}; the import writes tpe")
    return "tpe"


def _sampler(algorithm: Section) -> str:
    kind = algorithm.word("type", "variant_generator")
    if others := [key for key in algorithm.mapping if key != "type"]:
        algorithm.remark(
            others[0], f"Ludwig drops the options of search_alg: {', '.join(others)}", "unknown-key"
        )
    if kind in ("variant_generator", "random"):
        return "random"
    if kind == "bohb":
        return bohb(algorithm, "type")
    if kind not in ("optuna", "hyperopt"):
        algorithm.remark("type", f"{kind} is not available here; the import writes tpe")
    return "tpe"


def _pruner(executor: Section, space: dict[str, Dimension]) -> dict[str, Any] | str | None:
    if executor.mapping.get("type") == "optuna":
        return _inert_pruner(executor)
    scheduler = executor.section("scheduler")
    kind = scheduler.word("type", "fifo")
    if kind in POPULATIONS:
        return _population(kind, scheduler, space)
    if kind == REPLAY:
        scheduler.remark("type", f"{REPLAY} {_REPLAYED}")
        return None
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
            scheduler.remark(key, "dropped")
    if kind in _HALVING:
        return {"asha": {"min_epochs": first, "eta": eta or 4}}
    if kind in ("hyperband", "hb_bohb"):
        return {"hyperband": {"min_epochs": first, "eta": eta or 3}}
    if kind in ("median_stopping_rule", "medianstopping"):
        return {"median": {"warmup": first - 1, "min_trials": scheduler.whole("min_samples_required") or 3}}
    if kind != "fifo":
        python = "; in Python, use objective.tuner(50, scheduler=...)" if kind == "resource_changing" else ""
        scheduler.remark("type", f"{kind} is dropped; asha, hyperband and median also stop early{python}")
    return None


def _population(kind: str, scheduler: Section, space: dict[str, Dimension]) -> dict[str, Any] | None:
    """Return a population with the params that change; None if none can."""
    known = ("type", "time_attr", "perturbation_interval", "synch", _MUTATIONS[kind], *_OPTIONS[kind])
    scheduler.remark_unknown((*known, *_POPULATION_LEFT_OUT), f"Ludwig's {kind}")
    if error := RAY_SCHEDULERS[kind].missing(f"the pruner {kind}"):
        scheduler.remark("type", f"{error}; the import writes pbt")
    scheduler.remark_left_out(_POPULATION_LEFT_OUT)
    if scheduler.mapping.get("synch") is not True:
        scheduler.remark("synch", "here all trials wait for each other at each exploit, as with synch: true")
    changing = scheduler.section(_MUTATIONS[kind])
    mutate = [name for name in _flat(changing.mapping) if _changes(kind, name, changing, space)]
    if not mutate:
        scheduler.remark(
            "type", f"{kind} is dropped: {_MUTATIONS[kind]} names no param that can change in training"
        )
        return None
    options = {
        key: scheduler.mapping[key] for key in _OPTIONS[kind] if scheduler.mapping.get(key) is not None
    }
    name = "pbt" if error else kind
    return {name: {"mutate": mutate, "perturbation_interval": _interval(scheduler), **options}}


def _interval(scheduler: Section) -> int:
    """Return the epochs between two exploits; Ludwig counts seconds unless it is told otherwise."""
    unit = scheduler.word("time_attr", "time_total_s")
    epochs = scheduler.whole("perturbation_interval") if unit == "training_iteration" else None
    if epochs is None:
        text = f"counts {unit}, not epochs" if unit != "training_iteration" else "is missing"
        scheduler.remark("perturbation_interval", f"{text}; the import writes {_INTERVAL} epochs")
    return epochs or _INTERVAL


def _flat(mapping: Mapping[str, Any], front: str = "") -> dict[str, Any]:
    """Return the values by dotted names; a mapping with `space` is a value."""
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        is_nested = isinstance(value, dict) and value and "space" not in value
        values |= _flat(value, f"{front}{key}.") if is_nested else {f"{front}{key}": value}
    return values


def _changes(kind: str, name: str, changing: Section, space: dict[str, Dimension]) -> bool:
    """Return whether a param can change in training; one that only the scheduler has enters the space."""
    key = name.partition(".")[0] if name not in changing.mapping else name
    facts = _flat(changing.mapping)[name]
    if name not in space and (dimension := _mutation(name, facts, changing)) is not None:
        space[name] = dimension
        changing.remark(key, f"{name} is not a search param in Ludwig; the import wrote its range into space")
    dimension = space.get(name, {})
    is_number_of_space = bool({"float", "int", "normal"} & dimension.keys())
    if is_number_of_space or (kind == "pbt" and isinstance(dimension.get("choice"), list)):
        bounds = next((dimension[one] for one in ("float", "int") if one in dimension), None)
        if kind == "pb2" and bounds is not None and bounds != facts:
            changing.remark(key, f"{name} stays within its dimension in space, {bounds}, not within {facts}")
        return True
    changing.remark(key, f"{name} is dropped: {kind} cannot change it")
    return False


def _mutation(name: str, facts: Any, changing: Section) -> Dimension | None:
    """Return the dimension of a param that only the scheduler names; None for facts of another form."""
    if isinstance(facts, dict):
        section = Section(
            facts, (*changing.path, *((name,) if name in changing.mapping else ())), changing.notes
        )
        return _dimension(name, section)[1]
    if not isinstance(facts, list) or len(facts) < 2 or not all(map(is_scalar, facts)):
        return None
    is_range = changing.path[-1] == _MUTATIONS["pb2"] and all(map(is_number, facts))
    return terms.between(*facts[:2]) if is_range else {"choice": list(dict.fromkeys(facts))}


def _counts_epochs(scheduler: Section) -> bool:
    """Return whether a scheduler counts epochs; otherwise its grace_period and max_t are seconds."""
    unit = scheduler.word("time_attr", "training_iteration")
    if unit != "training_iteration":
        scheduler.remark(
            "time_attr", f"{unit} is dropped, with grace_period and max_t: rungs count epochs here"
        )
    return unit == "training_iteration"


def _inert_pruner(executor: Section) -> dict[str, Any] | str | None:
    """Return the pruner of Ludwig's own Optuna executor, which never reports, so that it never prunes."""
    pruner = executor.mapping.get("pruner")
    name = pruner.get("type") if isinstance(pruner, dict) else pruner
    text = "Ludwig's optuna executor trains every trial with the same params and reports no epoch"
    executor.remark("type", f"{text}: it stores params that it did not train, and never prunes", "inert")
    if name in ("median", "hyperband", "percentile"):
        return str(name)
    return "asha" if name in ("sha", "successive_halving") else None


def _backend(executor: Section, search: dict[str, Any]) -> dict[str, Any] | str:
    """Return Ray with the resources that the executor states, or Optuna for its Optuna executor."""
    if executor.mapping.get("type", "ray") == "optuna":
        return "optuna"
    backend = backend_of(executor, cpu="cpu_resources_per_trial", gpu="gpu_resources_per_trial")
    pruner = search.get("pruner")
    if isinstance(pruner, dict) and pruner.keys() & set(POPULATIONS) and isinstance(backend, dict):
        if backend["ray"].pop("workers", None) is not None:
            executor.remark("max_concurrent_trials", "dropped: all trials of a population run together")
        return backend if backend["ray"] else "ray"
    return backend


def _budget(top: Section, executor: Section, points: int) -> dict[str, Any]:
    samples = executor.whole("num_samples") or (1 if points > 1 else _SAMPLES)
    if executor.mapping.get("num_samples") is None:
        executor.remark(
            "num_samples", f"is missing; the import writes Ludwig's default, {samples * points} trials"
        )
    seconds = executor.number("time_budget_s", _SECONDS)
    if executor.mapping.get("time_budget_s") is None:
        executor.remark("time_budget_s", f"is missing; the import writes Ludwig's default, {_SECONDS} s")
    trainer, scheduler = top.section("trainer"), executor.section("scheduler")
    is_population = scheduler.word("type", "fifo") in (*POPULATIONS, REPLAY)
    most = scheduler.whole("max_t") if not is_population and _counts_epochs(scheduler) else None
    epochs = most or trainer.whole("epochs") or _EPOCHS
    time = f"{seconds / 3600:g}h" if seconds % 900 == 0 else duration(seconds)
    return {"trials": samples * points, "time": time, "epochs": epochs}


def _patience(
    top: Section, hyperopt: Section, outputs: LudwigOutputs, search: dict[str, Any], epochs: int
) -> dict[str, int]:
    """Return the patience that is the trainer's `early_stop`; none where it can end no trial, or differs."""
    trainer = top.section("trainer")
    rounds = trainer.mapping.get("early_stop")
    is_default = rounds is None
    if is_default:
        rounds = _EARLY_STOP
    elif rounds in (-1, 0):  # Ludwig's way to turn it off
        return {}
    else:
        rounds = trainer.whole("early_stop")
    if rounds is None or rounds >= epochs:
        return {}
    if reason := _why_no_patience(trainer, hyperopt, outputs, search):
        trainer.remark("early_stop", f"dropped: {reason}; budget.patience counts epochs without a new best")
        return {}
    if is_default:
        trainer.remark("early_stop", f"is missing; the import writes Ludwig's default, patience {rounds}")
    return {"patience": rounds}


def _why_no_patience(
    trainer: Section, hyperopt: Section, outputs: LudwigOutputs, search: dict[str, Any]
) -> str:
    """Return why the trainer's `early_stop` is not a patience of the sweep; empty if it is one."""
    per_epoch = trainer.mapping.get("checkpoints_per_epoch") in (None, 0, 1)
    if not per_epoch or trainer.mapping.get("steps_per_checkpoint") not in (None, 0):
        return "it counts evaluations, and an epoch may have none or several"
    metric, field = metric_and_output(hyperopt, outputs)
    if len(outputs.types) != 1 and trainer.mapping.get("validation_field") != field:
        return "it may watch another output"
    kind = outputs.types.get(field) or next(iter(outputs.types.values()), None)
    if not order_alike(trainer_metric_of(trainer, kind), metric):
        return f"it watches {trainer_metric_of(trainer, kind)}, not {metric}"
    pruner = search.get("pruner")
    is_population = isinstance(pruner, dict) and pruner.keys() & set(POPULATIONS)
    return "all trials of a population train until its end" if is_population else ""


def read_space(parameters: Section, has_optuna: bool = False) -> dict[str, Dimension]:
    """Read the parameters; later ones win, as they do in Ludwig.

    Args:
        parameters: the section.
        has_optuna: whether the executor is Ludwig's Optuna executor, whose spaces differ from Ray's.
    """
    space: dict[str, Dimension] = {}
    for path in parameters.mapping:
        called, dimension = _dimension(path, parameters.section(path), has_optuna)
        space[called] = dimension
    return space


def grid_points(parameters: Section) -> int:
    """Count the points of the grid that Ray goes through for each sample."""
    count = 1
    for one in parameters.mapping.values():
        values: Any = one.get("values") if isinstance(one, dict) and one.get("space") == GRID else None
        count *= len(values) if isinstance(values, list) and values else 1
    return count


def _dimension(path: str, section: Section, has_optuna: bool = False) -> tuple[str, Dimension]:
    kind = section.word("space", "uniform" if has_optuna else "")
    choices = _CHOICES if has_optuna else _CHOICES[:1]
    if kind in (*choices, GRID):
        return _choice(path, section, kind)
    distributions = {**DISTRIBUTIONS, **(_OPTUNA_SPACES if has_optuna else {})}
    build = distributions.get(kind)
    if build is None:
        kinds = ", ".join((*choices, GRID, *distributions))
        section.notes.add_error(
            (*section.path, "space"), f"{kind or 'nothing'} is not one of Ludwig's spaces: {kinds}"
        )
        return path, {"value": None}
    section.remark_unknown(_PARAMETER_KEYS, "Ludwig")
    return path, build(section)


def _choice(path: str, section: Section, kind: str) -> tuple[str, Dimension]:
    key = "categories" if kind in _CHOICES else "values"
    options = section.mapping.get(key)
    section.remark_unknown(("space", key), "Ludwig")
    if not isinstance(options, list) or not options:
        section.notes.add_error((*section.path, key), f"{kind} needs a list, {key}: [...], got {options!r}")
        return path, {"value": None}
    if path == _WHOLE:
        if not all(isinstance(option, dict) for option in options):
            section.notes.add_error((*section.path, key), "the path . needs mappings of the config")
            return path, {"value": None}
        section.remark("space", f"blocks of the config become bundles of {terms.CONFIG}, with dotted names")
        return terms.mappings(options)
    return terms.choice(path, options, section, key, is_drawn=kind == "choice")
