"""A Ludwig config with a `hyperopt:` section, read as a sweep of ours."""

from __future__ import annotations

from typing import Any

from .carried import Carried
from .ludwig_goal import read_optimized, read_outputs
from .ludwig_space import GRID, grid_points, read_space
from .notes import Notes, Section
from .terms import Dimension

TOOL = "Ludwig"
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
