"""Read the params and settings of Hydra's sweepers where each param is a mapping of facts."""

from __future__ import annotations

import math
from typing import Any

from ..space.values import is_number, is_whole
from .notes import Section
from .terms import Dimension, between, choice, normal, stepped_between, whole_between

SPACES = {"optuna": "search_space", "nevergrad": "parametrization", "ax": "ax_config.params"}
"""The section of each sweeper that older files have in place of `params`."""
NAMELESS = "the returned value has no name; print it as {{{}}}"
"""The remark on a metric, with its example."""
_TRIALS = {"optuna": 20, "nevergrad": 80, "ax": 10}  # Hydra's own defaults
_JOBS = 10  # of Nevergrad
_OPTIMIZERS = {"cma": "cmaes", "randomsearch": "random"}


def typed(kind: str, name: str, params: Section, start: dict[str, Any]) -> tuple[str, Dimension]:
    """Return the dimension of a param whose facts are a mapping, in the way of its sweeper."""
    value = params.mapping[name]
    if kind == "nevergrad" and isinstance(value, list) and value:
        return choice(name, value, params, name)
    if kind == "nevergrad" and not isinstance(value, (dict, list)):
        return name, {"value": value}
    if not isinstance(value, dict) or not value:
        facts = {"optuna": "type: float, low: 0, high: 1", "ax": "type: range, bounds: [0, 1]"}
        params.notes.add_error(
            (*params.path, name),
            f"expected a mapping, as in {{{facts.get(kind, 'lower: 0, upper: 1')}}}, got {value!r}",
        )
        return name, {"value": None}
    read = {"optuna": _optuna_dimension, "ax": _ax_dimension}.get(kind)
    section = params.section(name)
    return _scalar(name, section, start) if read is None else read(name, section)


def _optuna_dimension(name: str, section: Section) -> tuple[str, Dimension]:
    """Return the dimension of `type`, `low`, `high`, `step`, `log` and `choices`."""
    section.remark_unknown(("type", "low", "high", "step", "log", "choices"), "Hydra's optuna sweeper")
    kind = section.word("type")
    if kind == "categorical":
        return _options(name, section, "choices")
    if kind not in ("int", "float"):
        section.notes.add_error(
            (*section.path, "type"), f"expected categorical, int or float, got {kind or 'nothing'!r}"
        )
        return name, {"value": None}
    is_log = section.mapping.get("log") is True
    low, high = section.positive_bounds("low", "high") if is_log else section.bounds("low", "high")
    step = section.mapping.get("step")
    if step is not None and is_log:
        section.remark("step", "dropped: Hydra's sweeper ignores it on a log scale")
    elif step is not None and (not is_number(step) or step <= 0):
        section.notes.add_error((*section.path, "step"), f"expected a number above 0, got {step!r}")
    elif step is not None and kind == "float":
        return name, stepped_between(low, high, step)
    if kind == "int":
        return name, whole_between(low, high, is_log, 1 if is_log or step is None else int(step) or 1)
    return name, between(low, high, is_log)


def _ax_dimension(name: str, section: Section) -> tuple[str, Dimension]:
    """Return the dimension of a `type` of Ax: range, choice or fixed."""
    kind = section.word("type")
    keys = ("type", "bounds", "values", "value", "value_type", "log_scale")
    for key in section.mapping:
        if key not in keys:
            section.remark(key, "dropped: a dimension has no such setting")
    if kind == "choice":
        return _options(name, section, "values")
    if kind == "fixed":
        return name, {"value": section.mapping.get("value")}
    if kind != "range":
        section.notes.add_error(
            (*section.path, "type"), f"expected range, choice or fixed, got {kind or 'nothing'!r}"
        )
        return name, {"value": None}
    bounds = section.mapping.get("bounds")
    if not isinstance(bounds, list) or len(bounds) != 2:
        section.notes.add_error((*section.path, "bounds"), f"expected [low, high], got {bounds!r}")
        return name, {"value": None}
    is_log = section.mapping.get("log_scale") is True
    ends = Section(dict(zip(("bounds", "upper"), bounds, strict=True)), section.path, section.notes)
    low, high = ends.positive_bounds("bounds", "upper") if is_log else ends.bounds("bounds", "upper")
    is_int = all(map(is_whole, bounds))
    if section.word("value_type", "int" if is_int else "float") == "int":
        return name, whole_between(low, high, is_log)
    return name, between(low, high, is_log)


def _options(name: str, section: Section, key: str) -> tuple[str, Dimension]:
    values = section.mapping.get(key)
    if not isinstance(values, list) or not values:
        section.notes.add_error((*section.path, key), f"expected a list, {key}: [...], got {values!r}")
        return name, {"value": None}
    return choice(name, values, section, key)


def _scalar(name: str, section: Section, start: dict[str, Any]) -> tuple[str, Dimension]:
    """Return the dimension of a scalar of Nevergrad; one without bounds is normal around `init`."""
    keys = ("init", "step", "lower", "upper", "log", "integer")
    section.remark_unknown(keys, "Hydra's nevergrad sweeper")
    facts = {key: value for key, value in section.mapping.items() if value is not None}
    is_log, is_int = facts.get("log") is True, facts.get("integer") is True
    ends = [key for key in ("lower", "upper") if key in facts]
    if len(ends) == 1:
        other = "upper" if ends == ["lower"] else "lower"
        section.notes.add_error(section.path, f"{ends[0]} needs {other}; set both, or only init")
        return name, {"value": None}
    if ends:
        low, high = (section.positive_bounds if is_log else section.bounds)("lower", "upper")
        if "init" in facts and low <= section.number("init") <= high:
            start[name] = round(facts["init"]) if is_int else facts["init"]
        if "step" in facts:
            section.remark("step", "dropped: it is the width of Nevergrad's mutations")
        return name, whole_between(low, high, is_log) if is_int else between(low, high, is_log)
    mean, width = section.number("init", None if is_log else 0), section.number("step", 2 if is_log else 1)
    if is_log and (mean <= 0 or width <= 1):
        section.notes.add_error(
            section.path, f"log needs init above 0 and step above 1, got {mean} and {width}"
        )
        return name, {"value": None}
    section.remark(
        "init", "has no bounds: the import writes a normal distribution; with bounds, write float or int"
    )
    mean, width = (float(f"{math.log(one):.6g}") for one in (mean, width)) if is_log else (mean, width)
    return name, normal(mean, width, is_log, 1 if is_int else None)


def read_nevergrad(sweeper: Section) -> dict[str, Any]:
    """Return the metric, the search, the backend and the budget of the Nevergrad sweeper."""
    optim = sweeper.section("optim")
    optim.remark_unknown(
        "optimizer budget num_workers noisy maximize seed max_failure_rate".split(), "Nevergrad"
    )
    if optim.mapping.get("noisy"):
        optim.remark("noisy", "dropped: budget.repeats trains each trial under several seeds")
    optimizer = optim.word("optimizer", "NGOpt")
    sampler = _OPTIMIZERS.get(optimizer.lower(), "tpe")
    if optimizer.lower() not in _OPTIMIZERS:
        optim.remark("optimizer", f"{optimizer} is not available here; the import writes tpe")
    trials = read_trials(optim, "budget", "nevergrad")
    failures = {"failures": 1} if optim.mapping.get("max_failure_rate") == 0 else {}
    workers = optim.whole("num_workers") or _JOBS
    return {
        "metrics": {"optimize": _score(optim, "maximize", optim.mapping.get("maximize") is True)},
        "search": {"sampler": sampler, **read_seed(optim, "seed")},
        "backend": {"optuna": {"workers": workers}} if workers > 1 else "optuna",
        "budget": {"trials": trials, **failures},
    }


def read_ax(sweeper: Section) -> dict[str, Any]:
    """Return the metric, the search, the backend and the budget of the Ax sweeper."""
    ax = sweeper.section("ax_config")
    ax.remark_unknown("max_trials early_stop experiment client params is_noisy".split(), "Hydra's ax sweeper")
    experiment, ending = ax.section("experiment"), ax.section("early_stop")
    reason = "metrics.constraints limits a value; no setting limits a sum of params"
    experiment.remark_left_out(
        dict.fromkeys(("parameter_constraints", "outcome_constraints", "status_quo"), reason)
    )
    ending.remark_left_out({"epsilon": "each better value counts as a new best"})
    stale = ending.whole("max_epochs_without_improvement")
    trials, jobs = read_trials(ax, "max_trials", "ax"), sweeper.whole("max_batch_size")
    return {
        "metrics": {"optimize": _score(experiment, "minimize", experiment.mapping.get("minimize") is False)},
        "search": {"sampler": "gp", **read_seed(ax.section("client"), "random_seed")},
        "backend": "optuna" if jobs is None or jobs == 1 else {"optuna": {"workers": jobs}},
        "budget": {"trials": trials, **({} if stale is None else {"stale": stale})},
    }


def _score(section: Section, key: str, is_maximized: bool) -> dict[str, str]:
    """Return the metric that a Hydra application returns."""
    section.remark(key, NAMELESS.format('"score": ...'))
    return {"metric": "score", "direction": "maximize" if is_maximized else "minimize"}


def read_seed(section: Section, key: str) -> dict[str, int]:
    """Return `seed` if a section has one."""
    seed = section.mapping.get(key)
    return {"seed": seed} if is_whole(seed) else {}


def read_trials(section: Section, key: str, kind: str) -> int:
    """Return the number of trials; a missing one is the default of the sweeper."""
    trials = section.whole(key)
    if trials is None:
        section.remark(key, f"is missing; the import writes Hydra's default, {_TRIALS[kind]}")
    return trials or _TRIALS[kind]
