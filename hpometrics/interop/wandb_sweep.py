"""Convert a W&B sweep file to a sweep."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..config.document import engine_command
from ..config.placeholders import MACROS
from ..space.values import is_number, is_whole
from .notes import ConvertedSweep, Notes, Section
from .terms import (
    Dimension,
    as_reported,
    between,
    choice,
    normal,
    powers_of_e,
    read_goal,
    split_fixed,
    stepped,
    whole_between,
)

TOOL = "W&B"
_KEYS = tuple(
    (
        "program command method metric parameters early_terminate run_cap name description entity "
        "project controller job image_uri queue imageuri program_args settings root"
    ).split()
)
_PARAMETER_KEYS = tuple("distribution value values probabilities min max mu sigma q a b parameters".split())
_LEFT_OUT = {
    "entity": "hpometrics has no accounts",
    "project": "hpometrics has no accounts; results.dir names the run directory",
    "controller": "a sweep needs no controller",
    "job": "name the training code in engine",
    "image_uri": "name the training code in engine",
    "queue": "hpometrics worker DIR joins a sweep from any machine",
    "settings": "they configure the W&B client",
}
_TRIALS = 20  # where W&B would not stop
_LONGEST_NOTE = 1000  # characters
_OTHER_VALUES = (
    "to record other values of wandb.log, name them in metrics.track, "
    "as in track: [{metric: val/acc, direction: maximize}]"
)
_MACRO = re.compile(r"\$\{(?P<name>\w+)(?::(?P<of>\w+))?\}")
_PLACEHOLDER = {"metric": "loss", "direction": "minimize"}


def read_wandb(notes: Notes) -> ConvertedSweep:
    """Read a W&B sweep.

    Raises:
        ImportRefused: the file is not a sweep, or a part of it is not well formed.
    """
    top = Section(notes.document.data, (), notes)
    top.remark_unknown(_KEYS, TOOL)
    top.remark_left_out(_LEFT_OUT)
    space, fixed = read_parameters(top.section("parameters"))
    if not (space or notes.errors):
        notes.add_error(("parameters",), "needs a parameter to search")
    optimize = _optimize(top)
    engine: dict[str, Any] = {**_program(top), "metrics_from": "wandb"}
    if fixed:
        engine["params"] = fixed
    notes.remark((), _OTHER_VALUES)
    search = _search(top, space)
    config: dict[str, Any] = {
        **_note(top),
        "engine": engine,
        "space": space,
        "metrics": {"optimize": optimize},
        "search": search,
        "budget": _budget(top, search["sampler"]),
    }
    notes.check()
    return ConvertedSweep(TOOL, top.mapping.get("name"), config, notes)


def _note(top: Section) -> dict[str, str]:
    """Return the description of the sweep as its note."""
    text = top.word("description")
    if len(text) > _LONGEST_NOTE:
        top.remark("description", f"is too long: the import writes its first {_LONGEST_NOTE} characters")
    return {"note": text[:_LONGEST_NOTE]} if text else {}


def _optimize(top: Section) -> str | dict[str, Any]:
    metric = top.section("metric")
    if "name" not in metric.mapping:
        top.remark(
            "metric",
            "is missing, but a search needs one",
            "no-metric",
            "loss, minimized, is a guess; replace it",
        )
        return dict(_PLACEHOLDER)
    metric.remark_unknown(("name", "goal", "target", "impute", "impute_while_running"), TOOL)
    metric.remark_left_out(
        {"impute": "a failed trial has no value", "impute_while_running": "hpometrics never imputes values"}
    )
    name = metric.word("name")
    metric.remark(
        "name",
        "counts at its best epoch, as in W&B's bayes; for the last, as in W&B's table: metrics: {at: last}",
    )
    return as_reported(name, read_goal(metric, name, TOOL), metric)


def _program(top: Section) -> dict[str, Any]:
    """Return the program, or its own command, whose placeholders have the same meaning here."""
    command = top.mapping.get("command")
    if command is not None and not (
        isinstance(command, list) and all(isinstance(part, str) for part in command)
    ):
        top.notes.add_error(("command",), f"expected a list of texts, got {command!r}")
        command = None
    program = top.word("program", "train.py")
    if "program" not in top.mapping and not command:
        top.remark("program", f"is missing; {program} is a guess")
    if not command:
        return {"program": program}
    for macro in (macro for part in command for macro in _MACRO.finditer(part)):
        if macro["name"] not in ("envvar", *MACROS):
            top.remark("command", f"{macro[0]} is unchanged; hpometrics does not fill it in")
    return {"command": engine_command({"program": program, "command": command})}


def _search(top: Section, space: dict[str, Dimension]) -> dict[str, Any]:
    method = top.word("method")
    search: dict[str, Any] = {"sampler": _sampler(top, method, space)}
    ending = top.section("early_terminate")
    if ending.mapping:
        search["pruner"] = _pruner(ending)
    return search


def _sampler(top: Section, method: str, space: dict[str, Dimension]) -> str:
    continuous = [one for one in space.values() if {"float", "normal"} & one.keys() and "step" not in one]
    if method == "grid" and continuous:
        top.remark("method", "a grid needs discrete parameters; the import writes random")
        return "random"
    if method in ("grid", "random"):
        return method
    if method == "bayes":
        top.remark("method", "bayes is a Gaussian process at W&B, as gp is here; the import writes tpe")
    elif method == "custom":
        top.remark("method", "custom is your own search; the import writes tpe")
    else:
        top.notes.add_error(("method",), f"expected grid, random, bayes or custom, got {method!r}")
    return "tpe"


def _pruner(ending: Section) -> dict[str, Any] | str:
    """Return W&B's hyperband, which is asynchronous successive halving: it compares at min_iter * eta**n."""
    ending.remark_unknown(("type", "min_iter", "max_iter", "s", "eta", "strict"), TOOL)
    if ending.word("type") not in ("hyperband", "envelope"):
        ending.notes.add_error(
            (*ending.path, "type"), f"expected hyperband, got {ending.mapping.get('type')!r}"
        )
    if ending.mapping.get("type") == "envelope":
        ending.remark("type", "envelope is not available here; the import writes median")
        return "median"
    eta = ending.whole("eta") or 3
    first, last, brackets = ending.whole("min_iter"), ending.whole("max_iter"), ending.whole("s")
    if first is None and last is None:
        ending.notes.add_error(ending.path, "hyperband needs min_iter, or max_iter and s")
    if "strict" in ending.mapping:
        ending.remark("strict", "dropped: asha stops a trial that is not among the best of a rung")
    ending.remark("type", "becomes asha, with rungs at min_epochs * eta**n; an iteration of W&B is an epoch")
    rung = first or max(1, (last or 1) // eta ** (brackets or 1))
    return {"asha": {"min_epochs": rung, "eta": eta}}


def _budget(top: Section, sampler: str) -> dict[str, Any]:
    budget: dict[str, Any] = {}
    if (cap := top.whole("run_cap")) is not None:
        budget["trials"] = cap
    elif sampler != "grid":
        remedy = f"the import writes {_TRIALS} trials"
        top.remark("run_cap", "is missing, so W&B never stops", "no-end", remedy)
        budget["trials"] = _TRIALS
    last = top.section("early_terminate").mapping.get("max_iter")
    if isinstance(last, int) and last > 0:
        budget["epochs"] = last
    if (target := top.section("metric").mapping.get("target")) is not None:
        budget["target"] = target
    return budget


def read_parameters(parameters: Section) -> tuple[dict[str, Dimension], dict[str, Any]]:
    """Read parameters, nested ones by dotted names.

    Returns:
        Those that vary, and the values of those that do not.
    """
    space: dict[str, Dimension] = {}
    fixed: dict[str, Any] = {}
    for name, value in _flat(parameters):
        if isinstance(value, Section):
            called, dimension = _dimension(name, value)
            space[called] = dimension
        else:
            fixed[name] = value
    space, constant = split_fixed(space.items())
    return space, fixed | constant


def _flat(parameters: Section, front: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in parameters.mapping.items():
        name = f"{front}{key}"
        if not isinstance(value, Mapping):
            parameters.notes.add_error(
                (*parameters.path, key), f"expected a mapping such as {{value: ...}}, got {value!r}"
            )
            continue
        section = parameters.section(key)
        if "parameters" in value:
            yield from _flat(section.section("parameters"), f"{name}.")
        elif "value" in value or value.get("distribution") == "constant":
            yield name, value.get("value")
        else:
            section.remark_unknown(_PARAMETER_KEYS, "W&B")
            yield name, section


def _dimension(name: str, section: Section) -> tuple[str, Dimension]:
    kind = section.word("distribution") or _inferred(section)
    if kind.startswith("categorical"):
        return _choice(name, section)
    build = _DISTRIBUTIONS.get(kind)
    if build is None:
        section.notes.add_error(
            section.path, f"{kind or 'this'} is not one of W&B's distributions; set values, or min and max"
        )
        return name, {"value": None}
    return name, build(section)


def _inferred(section: Section) -> str:
    if "values" in section.mapping:
        return "categorical"
    bounds = [section.mapping.get(key) for key in ("min", "max")]
    if all(map(is_whole, bounds)):
        return "int_uniform"
    if all(map(is_number, bounds)):
        return "uniform"
    return "normal" if "mu" in section.mapping else ""


def _choice(name: str, section: Section) -> tuple[str, Dimension]:
    values = section.mapping.get("values")
    if not isinstance(values, list) or not values:
        section.notes.add_error(section.path, f"expected a list of values, got {values!r}")
        values = [None]
    if "probabilities" not in section.mapping:
        return choice(name, values, section, "values")
    weights = section.mapping["probabilities"]
    if not isinstance(weights, list) or len(weights) != len(values) or not all(map(is_number, weights)):
        section.notes.add_error(
            (*section.path, "probabilities"), f"expected {len(values)} numbers, got {weights!r}"
        )
        return choice(name, values, section, "values")
    shares: dict[str, float] = {}  # W&B adds up those of equal values
    for value, weight in zip(values, weights, strict=True):
        text = json.dumps(value, sort_keys=True)
        shares[text] = shares.get(text, 0) + weight
    drawn = [value for value in values if shares[json.dumps(value, sort_keys=True)] > 0]
    if len(drawn) < len(values):
        section.remark("probabilities", "the import drops values with probability 0")
    called, dimension = choice(name, drawn or values, section, "values", is_drawn=False)
    positive = [share for share in shares.values() if share > 0]
    return called, {**dimension, **({"weights": positive} if len(positive) > 1 else {})}


def _bounds(section: Section) -> tuple[float, float]:
    return section.bounds("min", "max")


def _log_uniform(section: Section) -> Dimension:
    return _exponents(section, *_bounds(section))


def _inv_log_uniform(section: Section) -> Dimension:
    low, high = _bounds(section)
    return _exponents(section, -high, -low)


def _exponents(section: Section, low: float, high: float) -> Dimension:
    """Return the range of values for bounds that are exponents of e."""
    first, last = powers_of_e(low, high)
    section.remark(
        "min", f"bounds of log_uniform are exponents of e; the import writes values, {first:g} to {last:g}"
    )
    if 0 <= low and high <= 1:
        text = f"exponents {low:g} to {high:g} mean values {first:g} to {last:g}"
        section.remark("distribution", f"{text}; log_uniform_values reads values", "exponents")
    return between(first, last, log=True)


def _log_values(section: Section) -> Dimension:
    return between(*section.positive_bounds("min", "max"), log=True)


def _log_steps(section: Section, dimension: Dimension) -> Dimension:
    """Return a logarithmic range with its steps; whole ones make it a range of whole numbers."""
    if "value" in dimension:
        return dimension
    (low, high), step = dimension["float"], section.step()
    if low < step / 2:
        section.remark("min", f"W&B rounds its lowest draws to 0; here the lowest value is {step:g}")
    return stepped(low, high, step, log=True)


def _normal(section: Section, log: bool = False, has_steps: bool = False) -> Dimension:
    mean, deviation = section.moments("mu", "sigma")
    return normal(mean, deviation, log, section.step() if has_steps else None)


def _beta(section: Section) -> Dimension:
    section.remark("distribution", "beta is not available here; the import writes a uniform one from 0 to 1")
    return _steps_of(section, between(0, 1))


def _steps_of(section: Section, dimension: Dimension) -> Dimension:
    if not section.word("distribution").startswith("q_") or "value" in dimension:
        return dimension
    low, high = dimension["float"]
    return stepped(low, high, section.step())


_DISTRIBUTIONS: Mapping[str, Callable[[Section], Dimension]] = {
    "uniform": lambda section: between(*_bounds(section)),
    "int_uniform": lambda section: whole_between(*_bounds(section)),
    "q_uniform": lambda section: stepped(*_bounds(section), section.step()),
    "log_uniform": _log_uniform,
    "inv_log_uniform": _inv_log_uniform,
    "log_uniform_values": _log_values,
    "inv_log_uniform_values": _log_values,  # the logarithm of 1/x is even where that of x is
    "q_log_uniform": lambda section: _log_steps(section, _log_uniform(section)),
    "q_log_uniform_values": lambda section: _log_steps(section, _log_values(section)),
    "normal": _normal,
    "q_normal": partial(_normal, has_steps=True),
    "log_normal": partial(_normal, log=True),
    "q_log_normal": partial(_normal, log=True, has_steps=True),
    "beta": _beta,
    "q_beta": _beta,
}
