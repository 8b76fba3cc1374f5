"""Convert the files of searches on Ray Tune: its experiments in YAML, and those of WarpRec.

The distributions and resources that they share with Ludwig, which searches there too, stand here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from functools import partial
from typing import Any

from ..backends.registry import SAMPLERS
from ..config.document import Path, parse_value
from ..config.other_spellings import line_of_text
from ..direction import MAXIMIZE
from ..exceptions import HpometricsError
from ..metrics.registry.lookup import find_metric
from ..space.values import is_whole
from .notes import ConvertedSweep, Notes, Section
from .terms import (
    Dimension,
    between,
    choice,
    duration,
    known_direction,
    normal,
    read_goal,
    split_fixed,
    stepped,
    whole_between,
    with_direction,
)

GRID = "grid_search"
TARGET = "training:train"
_RAY, _WARPREC = "Ray Tune", "WarpRec"
WRITTEN = f"write the training function yourself: train(params, run), {TARGET} in the file"
_OUTPUT = "ranking(per_user=true)"  # by which two trials are compared user by user
_PLACEHOLDER = {"metric": "loss", "direction": "minimize"}


def _bounds(section: Section) -> tuple[float, float]:
    return section.bounds("lower", "upper")


def _positive(section: Section) -> tuple[float, float]:
    return section.positive_bounds("lower", "upper")


def _below(section: Section, low: float, high: float) -> tuple[int, int]:
    """Return whole bounds, both included; Ray leaves the upper one out."""
    last = math.ceil(high) - 1
    if last < low:
        section.notes.add_error(
            (*section.path, "upper"), f"excluded by Ray, so the range from {low:g} to {high:g} is empty"
        )
        return math.ceil(low), math.ceil(low)
    return math.ceil(low), last


def _qloguniform(section: Section) -> Dimension:
    """Return multiples of a step up to the upper bound, which Ray includes if there is a step."""
    return stepped(*_positive(section), section.step(), log=True)


def _quniform(section: Section) -> Dimension:
    return stepped(*_bounds(section), section.step())


def _normal(section: Section, has_steps: bool = False) -> Dimension:
    mean, deviation = section.moments("mean", "sd")
    return normal(mean, deviation, step=section.step() if has_steps else None)


DISTRIBUTIONS: Mapping[str, Callable[[Section], Dimension]] = {
    "uniform": lambda section: between(*_bounds(section)),
    "quniform": _quniform,
    "loguniform": lambda section: between(*_positive(section), log=True),
    "qloguniform": _qloguniform,
    "randn": _normal,
    "qrandn": partial(_normal, has_steps=True),
    "randint": lambda section: whole_between(*_below(section, *_bounds(section))),
    "qrandint": _quniform,
    "lograndint": lambda section: whole_between(*_below(section, *_positive(section)), log=True),
    "qlograndint": _qloguniform,
}
"""Ray's distributions, from a section with `lower`, `upper`, `q`, `mean` and `sd`."""


def backend_of(section: Section, cpu: str, gpu: str) -> dict[str, Any] | str:
    """Return Ray with the resources of a trial.

    Args:
        section: the section with `max_concurrent_trials`.
        cpu: its key for the processors of a trial.
        gpu: its key for the accelerators of a trial.
    """
    workers = section.whole("max_concurrent_trials")
    settings: dict[str, Any] = {} if workers is None else {"workers": workers}
    keys = {"cpu": cpu, "gpu": gpu}
    resources = {
        ours: float(section.number(key)) for ours, key in keys.items() if section.mapping.get(key) is not None
    }
    if resources:
        settings["resources"] = resources
    return {"ray": settings} if settings else "ray"


def bohb(section: Section, key: str) -> str:
    """Return the sampler for BOHB: `bohb`, or `tpe` where the packages of its extra are not installed."""
    error = SAMPLERS["bohb"].missing("the sampler bohb")
    if error is not None:
        section.remark(key, f"{error}; the import writes tpe")
    return "bohb" if error is None else "tpe"


def experiments_of(data: Mapping[str, Any]) -> list[Path]:
    """Return the paths of the experiments of Ray Tune in a file: those with `run` or a grid in `config`."""
    if "config" in data and {"run", "num_samples"} & data.keys():
        return [()]
    return [
        (name,) for name, one in data.items() if isinstance(one, dict) and {"run", "config"} <= one.keys()
    ]


_COUNTERS = re.compile(r"(.*_)?(iterations?|timesteps|steps|episodes|trials|total|time|s|lifetime)")
"""The results of Ray that count what was done and measure nothing."""
_RAY_LEFT_OUT = {
    "resources_per_trial": "write them into backend.ray.resources",
    "checkpoint_config": "the engine saves its checkpoint with run.checkpoint",
    "checkpoint_freq": "the engine saves its checkpoint with run.checkpoint",
    "checkpoint_at_end": "the engine saves its checkpoint with run.checkpoint",
    "max_failures": "budget.retries trains a failed trial again",
    "storage_path": "results.dir names the run directory",
    "local_dir": "results.dir names the run directory",
    "pass_criteria": "it tests RLlib itself",
}
_RAY_KEYS = ("run", "env", "stop", "config", "num_samples", "time_budget_s", *_RAY_LEFT_OUT)


def read_ray(notes: Notes) -> ConvertedSweep:
    """Read an experiment of Ray Tune, such as `rllib train file` takes; of several the first.

    Raises:
        ImportRefused: nothing varies in it, or a part of it is not well formed.
    """
    top = Section(notes.document.data, (), notes)
    paths = experiments_of(top.mapping)
    for path in paths[1:]:
        notes.remark(path, "dropped: a sweep has one experiment; convert this one from a separate file")
    experiment = top.section(str(paths[0][0])) if paths[0] else top
    experiment.remark_unknown(_RAY_KEYS, _RAY)
    experiment.remark_left_out(_RAY_LEFT_OUT)
    if "run" in experiment.mapping:
        experiment.remark("run", f"{experiment.mapping['run']}: {WRITTEN}")
    space: dict[str, Dimension] = {}
    fixed = {"env": experiment.mapping["env"]} if "env" in experiment.mapping else {}
    grids = _read_config(experiment.section("config"), space, fixed)
    is_grid = len(grids) == len(space)
    if not (space or notes.errors):
        notes.add_error((*experiment.path, "config"), f"needs a param to search, as in lr: {{{GRID}: [...]}}")
    budget = _samples(experiment, [space[name]["choice"] for name in grids], is_grid)
    optimize = _read_stop(experiment.section("stop"), budget)
    if "time_budget_s" in experiment.mapping:
        budget["time"] = duration(experiment.number("time_budget_s"))
    config = {
        "engine": {"target": TARGET, **({"params": fixed} if fixed else {})},
        "space": space,
        "metrics": {"optimize": optimize},
        "search": {"sampler": "grid" if is_grid else "random"},
        "backend": "ray",
        "budget": budget,
    }
    notes.check()
    return ConvertedSweep(_RAY, next(iter(paths[0]), None), config, notes)


def _read_config(
    section: Section, space: dict[str, Dimension], fixed: dict[str, Any], front: str = ""
) -> list[str]:
    """Sort a config into dimensions and fixed params by dotted names, and return the names of the grids."""
    grids: list[str] = []
    for key, value in section.mapping.items():
        name = f"{front}{key}"
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get(GRID), list):
            called, dimension = choice(name, value[GRID], section, key, is_drawn=False)
            space[called] = dimension
            grids.append(called)
        elif isinstance(value, dict) and len(value) == 1 and "eval" in value:
            line = line_of_text(str(value["eval"]))
            if not line or "randint" in line or "random.randint" in str(value["eval"]):
                section.remark(key, "dropped: eval runs code; write a dimension into space")
            else:
                space[name] = parse_value(line, "eval")
        elif isinstance(value, dict) and value:
            grids += _read_config(section.section(key), space, fixed, f"{name}.")
        elif isinstance(value, list) and GRID in str(value):
            section.remark(key, f"dropped: {GRID} is inside a list; make the whole list an option")
        else:
            fixed[name] = value
    return grids


def _samples(section: Section, grids: Iterable[Sized], is_grid: bool) -> dict[str, Any]:
    """Return the budget for `num_samples`, which Ray multiplies by the points of the grids in the space.

    Args:
        section: the section with `num_samples`.
        grids: the options of each grid.
        is_grid: whether there is nothing else.
    """
    samples = section.whole("num_samples") or 1
    if is_grid:
        if samples > 1:
            text = f"trains each point of the grid {samples} times; the import writes repeats"
            section.remark("num_samples", f"{text}, and the value of a trial is their mean")
        return {"repeats": samples} if samples > 1 else {}
    points = math.prod(map(len, grids))
    if points > 1:
        section.remark("num_samples", f"{GRID} beside other spaces becomes a choice")
    return {"trials": samples * points}


def _read_stop(stop: Section, budget: dict[str, Any]) -> str | dict[str, Any]:
    """Read the limits of a trial, and return the metric that has one."""
    metrics = []
    for key in stop.mapping:
        if key == "training_iteration":
            budget["epochs"] = stop.whole(key)
        elif key == "time_total_s":
            budget["trial_time"] = duration(stop.number(key))
        elif _COUNTERS.fullmatch(key.rpartition("/")[2]):
            stop.remark(key, "dropped: only training_iteration and time_total_s become limits of a trial")
        else:
            metrics.append(key)
            text = f"ends a trial at {stop.mapping[key]}; here, budget.target ends the whole sweep"
            stop.remark(key, text)
    if not metrics:
        stop.remark("", "names no metric, but a search needs one", "no-metric", "loss, minimized, is a guess")
        return dict(_PLACEHOLDER)
    name, known = metrics[0], known_direction(metrics[0])
    if known is None:
        stop.remark(name, "ends a trial from below, so maximize is a guess; correct it if it is wrong")
    elif known[1] is not MAXIMIZE:
        text = f"ends a trial from below, but {known[0]} must be {known[1]}d"
        stop.remark(name, text, "direction", f"the import writes {known[1]}")
    return with_direction(name, MAXIMIZE if known is None else known[1], stop)


_WARPREC_LEFT_OUT = {
    **dict.fromkeys(("reader", "splitter", "filtering"), "the engine reads and splits its data"),
    "writer": "results.dir names the run directory",
    "dashboard": "name loggers in results.loggers: tensorboard, mlflow, wandb",
    "general": "it configures WarpRec's own process",
}
_OPTIMIZATION_LEFT_OUT = {
    **dict.fromkeys(("optimizer", "lr_scheduler", "device", "num_workers"), "set it in the engine"),
    **dict.fromkeys(("block_size", "chunk_size", "eval_every_n"), "set it in the engine"),
    "custom_resources_per_trial": "write them into backend.ray.resources",
    "label_selector": "backend.ray.resources decides where a trial may run",
    "checkpoint_to_keep": "set results.checkpoints",
}
_SAMPLERS = {"grid": "grid", "random": "random", "hopt": "tpe", "optuna": "tpe", "bohb": "tpe"}


def is_warprec(data: Mapping[str, Any]) -> bool:
    """Return whether a file is a config of WarpRec, which has its models beside the data or evaluation."""
    return isinstance(data.get("models"), dict) and bool({"reader", "evaluation", "splitter"} & data.keys())


def read_warprec(notes: Notes) -> ConvertedSweep:
    """Read a config of WarpRec; of several models the first.

    Raises:
        ImportRefused: nothing varies in it, or a part of it is not well formed.
    """
    top = Section(notes.document.data, (), notes)
    top.remark_left_out(_WARPREC_LEFT_OUT)
    models = top.section("models")
    for other in list(models.mapping)[1:]:
        models.remark(other, "dropped: a sweep trains one model; convert this one from a separate file")
    name = next(iter(models.mapping), "")
    model = models.section(name)
    models.remark(name, WRITTEN)
    optimization, ending = model.section("optimization"), model.section("early_stopping")
    properties = optimization.section("properties")
    optimization.remark_left_out(_OPTIMIZATION_LEFT_OUT)
    model.remark_left_out({"meta": "best.yaml and the checkpoint of the best trial are always kept"})
    ending.remark_left_out(
        dict.fromkeys(("monitor", "grace_period", "min_delta"), "patience counts epochs without a new best")
    )
    strategy = optimization.word("strategy", "grid").lower()
    if strategy not in _SAMPLERS:
        expected = ", ".join(_SAMPLERS)
        notes.add_error((*optimization.path, "strategy"), f"expected {expected}, got {strategy!r}")
    is_grid = strategy == "grid"
    space, fixed = _read_model(model, is_grid)
    if not (space or notes.errors):
        notes.add_error(model.path, "needs a param to search, as in l2: [10, 50, 100]")
    budget = (
        _samples(optimization, (), True) if is_grid else {"trials": optimization.whole("num_samples") or 1}
    )
    sampler = bohb(optimization, "strategy") if strategy == "bohb" else _SAMPLERS.get(strategy, "tpe")
    pruner = _read_scheduler(optimization, properties)
    epochs = properties.whole("max_t") if pruner else None
    if is_whole(fixed.get("epochs")) and fixed["epochs"] > 0:
        own, most = fixed.pop("epochs"), epochs
        epochs = min(own, most or own)
        if most is not None:
            model.remark("epochs", f"budget.epochs is {epochs}, the smaller of epochs and max_t ({most})")
    if epochs is not None:
        budget["epochs"] = epochs
    if (patience := ending.whole("patience")) is not None:
        budget["patience"] = patience
    seed = properties.mapping.get("seed", 42)
    config = {
        "engine": {"target": TARGET, "output": _OUTPUT, **({"params": fixed} if fixed else {})},
        "space": space,
        "metrics": _read_evaluation(top.section("evaluation"), properties),
        "search": {"sampler": sampler, **pruner, "seed": seed},
        "backend": backend_of(optimization, cpu="cpu_per_trial", gpu="gpu_per_trial"),
        "budget": budget,
    }
    notes.check()
    return ConvertedSweep(_WARPREC, name, config, notes)


def _read_model(model: Section, is_grid: bool) -> tuple[dict[str, Dimension], dict[str, Any]]:
    """Return what varies of a model, and what does not; a list may begin with its distribution."""
    dimensions: list[tuple[str, Dimension]] = []
    for name, value in model.mapping.items():
        if name in ("meta", "optimization", "early_stopping"):
            continue
        options = list(value) if isinstance(value, list) else [value]
        kind = options[0].lower() if options and isinstance(options[0], str) else ""
        if kind in ("choice", "grid"):
            options = options[1:]
        elif kind in DISTRIBUTIONS:
            if is_grid:
                model.notes.add_error(
                    (*model.path, name), f"a grid needs options, not {kind}; set another strategy"
                )
            dimension = DISTRIBUTIONS[kind](_with_names(kind, options[1:], model, name))
            dimensions.append((name, dimension))
            continue
        if len(options) == 1:
            dimensions.append((name, {"value": options[0]}))
        elif options:
            dimensions.append(choice(name, options, model, name))
        else:
            model.notes.add_error((*model.path, name), "expected options, got an empty list")
    return split_fixed(dimensions)


def _with_names(kind: str, arguments: list[Any], section: Section, name: str) -> Section:
    """Return the arguments of a distribution as Ray names them, in Ray's order."""
    names = ["mean", "sd"] if kind.endswith("randn") else ["lower", "upper"]
    names += ["q"] * kind.startswith("q") + ["base"] * ("log" in kind)
    if len(arguments) > len(names):
        expected = ", ".join(names)
        section.notes.add_error(
            (*section.path, name), f"{kind} needs {expected}, got {len(arguments)} values"
        )
    return Section(dict(zip(names, arguments, strict=False)), (*section.path, name), section.notes)


def _read_scheduler(optimization: Section, properties: Section) -> dict[str, Any]:
    scheduler = optimization.word("scheduler", "fifo").lower()
    if scheduler != "asha":
        if scheduler != "fifo":
            optimization.remark("scheduler", f"{scheduler} is dropped; asha stops trials early")
        return {}
    if properties.word("time_attr", "training_iteration") != "training_iteration":
        properties.remark("time_attr", "dropped: rungs count epochs here")
    first, eta = properties.whole("grace_period"), properties.whole("reduction_factor")
    return {"pruner": {"asha": {"min_epochs": first or 1, "eta": eta or 4}}}


def _read_evaluation(evaluation: Section, properties: Section) -> dict[str, Any]:
    """Return the metrics under their names here, by which WarpRec's nDCG has a gain of its own."""
    evaluation.remark_left_out(
        dict.fromkeys(("strategy", "num_negatives"), "the engine ranks all items or the sampled ones")
        | {"stat_significance": "hpometrics compare tests two runs", "complex_metrics": "name them in track"}
    )
    name = evaluation.word("validation_metric", "nDCG@5")
    mode = {"mode": "max", **properties.mapping}
    goal = Section(mode, properties.path, properties.notes)
    direction = read_goal(goal, name, _WARPREC, "mode", ("min", "max"))
    optimize = _registered(name) or with_direction(name, direction, evaluation)
    cuts, metrics = (evaluation.mapping.get(key) for key in ("top_k", "metrics"))
    track = []
    for metric in metrics if isinstance(metrics, list) else ():
        cut_names = [f"{metric}@{cut}" for cut in (cuts if isinstance(cuts, list) else [cuts])]
        names = [one for cut in (*cut_names, str(metric)) if (one := _registered(cut))]
        track += names[: len(cut_names)]
        if not names:
            evaluation.remark("metrics", f"{metric} is dropped: no metric of a ranking has this name")
    others = [one for one in dict.fromkeys(track) if one != optimize]
    return {"optimize": optimize, **({"track": others} if others else {})}


def _registered(name: str) -> str | None:
    """Return the name of a ranking's metric here; None if there is none."""
    try:
        return str(find_metric(name, "ranking").name)
    except HpometricsError:
        return None
