"""A W&B sweep file, read as a sweep of ours."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..space.dimensions import is_number, is_whole
from . import terms
from .notes import Carried, Notes, Section
from .terms import Dimension, as_reported, between, read_goal, stepped, whole_between

_SPREAD = 3.0  # deviations of a normal distribution that an even one covers in its place
_PARAMETER_KEYS = tuple("distribution value values probabilities min max mu sigma q a b parameters".split())


def read_parameters(parameters: Section) -> tuple[dict[str, Dimension], dict[str, Any]]:
    """Read parameters, nested ones by dotted names.

    Returns:
        Those that vary, and the values of those that do not.
    """
    space: dict[str, Dimension] = {}
    fixed: dict[str, Any] = {}
    for name, given in _flat(parameters):
        if isinstance(given, Section):
            called, dimension = _dimension(name, given)
            space[called] = dimension
        else:
            fixed[name] = given
    moved = {name: dimension["value"] for name, dimension in space.items() if "value" in dimension}
    return {name: one for name, one in space.items() if name not in moved}, fixed | moved


def _flat(parameters: Section, front: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in parameters.given.items():
        name = f"{front}{key}"
        if not isinstance(value, Mapping):
            parameters.notes.refuse(
                (*parameters.path, key), f"wants {{value: ...}} or the like, got {value!r}"
            )
            continue
        given = parameters.section(key)
        if "parameters" in value:
            yield from _flat(given.section("parameters"), f"{name}.")
        elif "value" in value or value.get("distribution") == "constant":
            yield name, value.get("value")
        else:
            given.unknown(_PARAMETER_KEYS, "W&B")
            yield name, given


def _dimension(name: str, given: Section) -> tuple[str, Dimension]:
    kind = given.word("distribution") or _inferred(given)
    if kind.startswith("categorical"):
        return _choice(name, given)
    build = _DISTRIBUTIONS.get(kind)
    if build is None:
        given.notes.refuse(
            given.path, f"{kind or 'this'} is no distribution of W&B's; give values, or min and max"
        )
        return name, {"value": None}
    return name, build(given)


def _inferred(given: Section) -> str:
    if "values" in given.given:
        return "categorical"
    bounds = [given.given.get(key) for key in ("min", "max")]
    if all(map(is_whole, bounds)):
        return "int_uniform"
    if all(map(is_number, bounds)):
        return "uniform"
    return "normal" if "mu" in given.given else ""


def _choice(name: str, given: Section) -> tuple[str, Dimension]:
    values = given.given.get("values")
    if not isinstance(values, list) or not values:
        given.notes.refuse(given.path, f"wants a list of values, got {values!r}")
        values = [None]
    if "probabilities" in given.given:
        given.say("probabilities", "is left out: choices are drawn evenly here")
    called, dimension = terms.choice(name, values)
    if called != name:
        given.say("values", f"a choice among lists or mappings is one of bundles, called {called}")
    return called, dimension


def _bounds(given: Section) -> tuple[float, float]:
    return given.bounds("min", "max")


def _uniform(given: Section) -> Dimension:
    return between(*_bounds(given))


def _int_uniform(given: Section) -> Dimension:
    low, high = _bounds(given)
    return whole_between(math.ceil(low), math.floor(high))


def _q_uniform(given: Section) -> Dimension:
    return stepped(*_bounds(given), _step(given))


def _log_uniform(given: Section) -> Dimension:
    return _exponents(given, *_bounds(given))


def _inv_log_uniform(given: Section) -> Dimension:
    low, high = _bounds(given)
    return _exponents(given, -high, -low)


def _exponents(given: Section, low: float, high: float) -> Dimension:
    """Bounds that are exponents of e, as the values they stand for."""
    first, last = (float(f"{math.exp(bound):.6g}") for bound in (low, high))
    given.say(
        "min", f"bounds of log_uniform are exponents of e: written as the values, {first:g} to {last:g}"
    )
    if 0 <= low and high <= 1:
        text = f"exponents {low:g} to {high:g} mean values {first:g} to {last:g}"
        given.say("distribution", f"{text}; log_uniform_values takes values", "exponents")
    return between(first, last, log=True)


def _log_values(given: Section) -> Dimension:
    low, high = _bounds(given)
    if low <= 0:
        given.notes.refuse((*given.path, "min"), f"a logarithm wants a bound above 0, got {low}")
        return {"value": low}
    return between(low, high, log=True)


def _q_log_uniform(given: Section) -> Dimension:
    return _log_steps(given, _log_uniform(given))


def _q_log_values(given: Section) -> Dimension:
    return _log_steps(given, _log_values(given))


def _log_steps(given: Section, dimension: Dimension) -> Dimension:
    """Steps on a logarithmic scale are left out; where they are whole, so are the numbers."""
    if "value" in dimension:
        return dimension
    (low, high), step = dimension["float"], _step(given)
    if step != 1:
        given.say("q", "is left out: a logarithmic range has no steps here")
    if is_whole(step) and low >= 1:
        return whole_between(round(low), round(high), log=True)
    return dimension


def _normal(given: Section) -> Dimension:
    low, high = _three_deviations(given)
    return _steps_of(given, between(low, high))


def _log_normal(given: Section) -> Dimension:
    low, high = (float(f"{math.exp(bound):.6g}") for bound in _three_deviations(given))
    return _steps_of(given, between(low, high, log=True))


def _beta(given: Section) -> Dimension:
    given.say("distribution", "is drawn evenly from 0 to 1 instead; there is no beta distribution here")
    return _steps_of(given, between(0, 1))


def _three_deviations(given: Section) -> tuple[float, float]:
    mu, sigma = given.number("mu", 0), given.number("sigma", 1)
    kind = given.word("distribution", "normal")
    given.say(
        "distribution", f"{kind} is drawn evenly over three deviations instead; there is no normal one here"
    )
    return mu - _SPREAD * sigma, mu + _SPREAD * sigma


def _steps_of(given: Section, dimension: Dimension) -> Dimension:
    if not given.word("distribution").startswith("q_") or "value" in dimension:
        return dimension
    if dimension.get("log"):
        return _log_steps(given, dimension)
    low, high = dimension["float"]
    return stepped(low, high, _step(given))


def _step(given: Section) -> float:
    step = given.number("q", 1)
    if step <= 0:
        given.notes.refuse((*given.path, "q"), f"a step is above 0, got {step}")
        return 1
    return step


_DISTRIBUTIONS: Mapping[str, Callable[[Section], Dimension]] = {
    "uniform": _uniform,
    "int_uniform": _int_uniform,
    "q_uniform": _q_uniform,
    "log_uniform": _log_uniform,
    "inv_log_uniform": _inv_log_uniform,
    "log_uniform_values": _log_values,
    "inv_log_uniform_values": _log_values,  # the logarithm of 1/x is even where that of x is
    "q_log_uniform": _q_log_uniform,
    "q_log_uniform_values": _q_log_values,
    "normal": _normal,
    "q_normal": _normal,
    "log_normal": _log_normal,
    "q_log_normal": _log_normal,
    "beta": _beta,
    "q_beta": _beta,
}


TOOL = "W&B"
_KEYS = tuple(
    (
        "program command method metric parameters early_terminate run_cap name description entity "
        "project controller job image_uri queue imageuri program_args settings root"
    ).split()
)
_LEFT_OUT = {
    "entity": "there is no account",
    "project": "there is no account; runs are kept in results.dir",
    "controller": "the sweep is its own controller",
    "job": "say in engine what is trained",
    "image_uri": "say in engine what is trained",
    "queue": "hpometrics worker DIR joins a sweep from any machine",
    "settings": "they are those of the W&B client",
}
_TRIALS = 20  # where W&B would not stop
_MACRO = re.compile(r"\$\{(?P<name>\w+)(?::(?P<of>\w+))?\}")
_PARAMS_FILE = "{params_file}"
_ARGUMENTS = ("args", "args_no_hyphens", "args_no_boolean_flags", "args_json")
_PLACEHOLDER = {"metric": "loss", "direction": "minimize"}


def read_wandb(notes: Notes) -> Carried:
    """Read a W&B sweep.

    Raises:
        ImportRefused: it is none, or a part of it is not well formed.
    """
    top = Section(notes.document.data, (), notes)
    top.unknown(_KEYS, TOOL)
    top.left_out(_LEFT_OUT)
    space, fixed = read_parameters(top.section("parameters"))
    if not (space or notes.refused):
        notes.refuse(("parameters",), "names nothing that varies")
    optimize = _optimize(top)
    engine: dict[str, Any] = {"command": _command(top)}
    if fixed:
        engine["params"] = fixed
    config: dict[str, Any] = {
        "engine": engine,
        "space": space,
        "metrics": {"optimize": optimize},
        "search": _search(top, space),
        "budget": _budget(top),
    }
    notes.check()
    return Carried(TOOL, top.given.get("name"), config, notes)


def _optimize(top: Section) -> str | dict[str, Any]:
    metric = top.section("metric")
    if "name" not in metric.given:
        top.say(
            "metric",
            "is missing, and a search needs one",
            "no-metric",
            "loss, to minimize, is a guess; change it",
        )
        return dict(_PLACEHOLDER)
    metric.unknown(("name", "goal", "target", "impute", "impute_while_running"), TOOL)
    metric.left_out(
        {"impute": "a failed trial has no value", "impute_while_running": "values are never made up"}
    )
    name = metric.word("name")
    return as_reported(name, read_goal(metric, name, TOOL), metric)


def _command(top: Section) -> list[str]:
    """Write the command of the program: it is told its params by a file, not by arguments."""
    given = top.given.get("command")
    if given is not None and not (isinstance(given, list) and all(isinstance(part, str) for part in given)):
        top.notes.refuse(("command",), f"wants a list of texts, got {given!r}")
        given = None
    program = top.word("program", "train.py")
    if "program" not in top.given and given is None:
        top.say("program", f"is missing; {program} is a guess")
    parts = given or ["${env}", "${interpreter}", "${program}", "${args}"]
    written = [text for part in parts if (text := _part(part, program, top)) is not None]
    if _PARAMS_FILE not in " ".join(written):
        written.append(_PARAMS_FILE)
    if "${args_json_file}" not in parts:
        key = "command" if given else "program"
        top.say(key, "is told its params by the JSON file that {params_file} stands for, not by arguments")
    top.say("program", "prints a JSON object of values per epoch, flushed, where it calls wandb.log")
    return written


def _part(part: str, program: str, top: Section) -> str | None:
    words = {"interpreter": "python", "program": program, "args_json_file": _PARAMS_FILE}
    found = _MACRO.fullmatch(part)
    if found is not None and (found["name"] == "env" or found["name"] in _ARGUMENTS):
        return None
    for macro in _MACRO.finditer(part):
        if macro["name"] not in words:
            top.say("command", f"{macro[0]} is left as it is; nobody fills it in here")
    return _MACRO.sub(lambda macro: words.get(macro["name"], macro[0]), part)


def _search(top: Section, space: dict[str, Dimension]) -> dict[str, Any]:
    method = top.word("method")
    search: dict[str, Any] = {"sampler": _sampler(top, method, space)}
    ending = top.section("early_terminate")
    if ending.given:
        search["pruner"] = _pruner(ending)
    return search


def _sampler(top: Section, method: str, space: dict[str, Dimension]) -> str:
    if method == "grid" and any("float" in one and "step" not in one for one in space.values()):
        top.say("method", "a grid needs parameters that are not continuous; random is written")
        return "random"
    if method in ("grid", "random"):
        return method
    if method == "bayes":
        top.say("method", "bayes is a Gaussian process at W&B; tpe is written, gp needs hpometrics[samplers]")
    elif method == "custom":
        top.say("method", "custom is a search of your own; tpe is written")
    else:
        top.notes.refuse(("method",), f"wants grid, random, bayes or custom, got {method!r}")
    return "tpe"


def _pruner(ending: Section) -> dict[str, Any] | str:
    """Write W&B's hyperband, which is asynchronous successive halving: it compares at min_iter * eta**n."""
    ending.unknown(("type", "min_iter", "max_iter", "s", "eta", "strict"), TOOL)
    if ending.word("type") not in ("hyperband", "envelope"):
        ending.notes.refuse((*ending.path, "type"), f"wants hyperband, got {ending.given.get('type')!r}")
    if ending.given.get("type") == "envelope":
        ending.say("type", "envelope is left out; median stops early too")
        return "median"
    eta = ending.whole("eta") or 3
    first, last, brackets = ending.whole("min_iter"), ending.whole("max_iter"), ending.whole("s")
    if first is None and last is None:
        ending.notes.refuse(ending.path, "hyperband wants min_iter, or max_iter and s")
    if "strict" in ending.given:
        ending.say("strict", "is left out: a trial is stopped at a rung if it is not among the best there")
    ending.say("type", "is asha here: rungs at min_epochs * eta**n, an iteration of W&B being an epoch")
    rung = first or max(1, (last or 1) // eta ** (brackets or 1))
    return {"asha": {"min_epochs": rung, "eta": eta}}


def _budget(top: Section) -> dict[str, Any]:
    budget: dict[str, Any] = {}
    if (cap := top.whole("run_cap")) is not None:
        budget["trials"] = cap
    elif top.given.get("method") != "grid":
        top.say("run_cap", "is missing, so W&B never stops", "no-end", f"{_TRIALS} trials are written")
        budget["trials"] = _TRIALS
    last = top.section("early_terminate").given.get("max_iter")
    if isinstance(last, int) and last > 0:
        budget["epochs"] = last
    if (target := top.section("metric").given.get("target")) is not None:
        budget["target"] = target
    return budget
