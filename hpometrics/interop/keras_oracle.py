"""Convert the JSON of a KerasTuner search, `oracle.json` of its project or `trial.json` of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..space.values import is_number, is_whole
from .notes import ConvertedSweep, Notes, Section
from .ray_config import TARGET, WRITTEN
from .terms import Dimension, between, choice, split_fixed, stepped_between, whole_between

TOOL = "KerasTuner"
_TRIALS = 20
_MOST = 1000  # options of a range with steps that are factors
_METRIC = {"metric": "val_loss", "direction": "minimize"}
_AS_REPORTED = "optimize: {metric: val_accuracy, direction: maximize}"
"""The form for a value that is logged; `val_accuracy` alone is accuracy, which is measured."""


def is_keras(data: Mapping[str, Any]) -> bool:
    """Return whether a file holds the hyperparameters of KerasTuner."""
    hyperparameters = data.get("hyperparameters")
    return isinstance(hyperparameters, dict) and isinstance(hyperparameters.get("space"), list)


def read_keras(notes: Notes) -> ConvertedSweep:
    """Read the hyperparameters of a KerasTuner search.

    Raises:
        ImportRefused: nothing varies, or a hyperparameter is not well formed.
    """
    top = Section(notes.document.data, (), notes)
    space, fixed = _read_space(top)
    if not (space or notes.errors):
        notes.add_error(("hyperparameters", "space"), "needs a hyperparameter to search")
    notes.remark((), WRITTEN)
    seed = top.mapping.get("seed")
    config = {
        "engine": {"target": TARGET, **({"params": fixed} if fixed else {})},
        "space": space,
        "metrics": {"optimize": _objective(top)},
        "search": {**_search(top), **({"seed": seed} if is_whole(seed) and seed >= 0 else {})},
        "budget": _budget(top),
    }
    notes.check()
    return ConvertedSweep(TOOL, None, config, notes)


def _objective(top: Section) -> dict[str, str]:
    """Return the metric; no file of KerasTuner names it."""
    metrics = top.section("metrics").section("metrics")
    choices = f", one of {', '.join(metrics.mapping)}" if metrics.mapping else ""
    text = f"only the program names the objective{choices}"
    guess = f"{_METRIC['metric']}, minimized, is a guess; replace it, for example by {_AS_REPORTED}"
    top.notes.remark((), text, "no-metric", guess)
    return dict(_METRIC)


def _search(top: Section) -> dict[str, Any]:
    """Return the sampler that matches the oracle, which the keys of the file identify."""
    if "brackets" in top.mapping:
        top.remark(
            "brackets", "here hyperband stops trials by their epochs, and copies no weights between trials"
        )
        keys = {"min_epochs": "min_epochs", "eta": "factor"}
        options = {ours: value for ours, key in keys.items() if (value := top.whole(key)) is not None}
        return {"sampler": "random", "pruner": {"hyperband": options} if options else "hyperband"}
    if "alpha" in top.mapping and "beta" in top.mapping:
        top.remark("alpha", "KerasTuner's search is a Gaussian process, as gp is; the import writes tpe")
        return {"sampler": "tpe"}
    return {"sampler": "random"}


def _budget(top: Section) -> dict[str, int]:
    order = top.mapping.get("start_order")
    count = len(order) if isinstance(order, list) and order else _TRIALS
    source = "the number that the search started" if count != _TRIALS else "a guess"
    top.notes.remark((), f"only the program names max_trials; the import writes {count} trials, {source}")
    epochs = top.whole("max_epochs")
    return {"trials": count, **({} if epochs is None else {"epochs": epochs})}


def _read_space(top: Section) -> tuple[dict[str, Dimension], dict[str, Any]]:
    """Return what varies, and the values of what does not; of equal names the first counts."""
    dimensions: list[tuple[str, Dimension]] = []
    conditions: dict[str, dict[str, Any]] = {}
    front = ("hyperparameters", "space")
    entries = top.section("hyperparameters").mapping.get("space")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        kind = entry.get("class_name") if isinstance(entry, dict) else None
        if not isinstance(kind, str) or not isinstance(entry.get("config"), dict):
            top.notes.add_error((*front, index), "expected {class_name: ..., config: {...}}")
            continue
        section = Section(entry["config"], (*front, index, "config"), top.notes)
        name = section.word("name")
        if name in conditions:
            section.remark("name", f"dropped: the space already has {name} under another condition")
            continue
        dimensions.append(_dimension(kind, name, section))
        conditions[name] = _conditions(section)
    space, fixed = split_fixed(dimensions)
    for name, when in conditions.items():
        _add_condition(name, when, space, fixed, top)
    return space, fixed


def _dimension(kind: str, name: str, section: Section) -> tuple[str, Dimension]:
    if kind == "Choice":
        options = section.mapping.get("values")
        if not isinstance(options, list) or not options:
            section.notes.add_error((*section.path, "values"), f"expected a list of values, got {options!r}")
            return name, {"value": None}
        return choice(name, options, section, "values")
    if kind == "Boolean":
        return name, {"choice": [True, False]}
    if kind == "Fixed":
        return name, {"value": section.mapping.get("value")}
    if kind not in ("Int", "Float"):
        section.notes.add_error(section.path, f"{kind} is not one of Choice, Boolean, Fixed, Int, Float")
        return name, {"value": None}
    return _range(kind == "Int", name, section)


def _range(is_int: bool, name: str, section: Section) -> tuple[str, Dimension]:
    """Return a range; with `log` the step of KerasTuner is a factor."""
    sampling, step = section.word("sampling", "linear"), section.mapping.get("step")
    is_log = sampling in ("log", "reverse_log")
    read = section.positive_bounds if is_log else section.bounds
    low, high = read("min_value", "max_value")
    if sampling == "reverse_log":
        section.remark("sampling", "reverse_log is not available here; the import writes a linear scale")
    elif sampling not in ("linear", "log"):
        section.notes.add_error((*section.path, "sampling"), f"expected linear or log, got {sampling!r}")
    if step is None:
        build = whole_between if is_int else between
        return name, build(low, high, sampling == "log")
    if not is_number(step) or step <= is_log:
        section.notes.add_error((*section.path, "step"), f"a step must be above {int(is_log)}, got {step!r}")
        return name, {"value": low}
    if is_log:
        return _factors(is_int, name, section, low, high, step)
    if is_int:
        return name, whole_between(low, high, step=int(step))
    return name, stepped_between(low, high, step)


def _factors(
    is_int: bool, name: str, section: Section, low: float, high: float, factor: float
) -> tuple[str, Dimension]:
    """Return low, low * factor, low * factor ** 2 and so on: a power of an integer, else a choice."""
    values = [low]
    while values[-1] * factor <= high * (1 + 1e-9) and len(values) < _MOST:
        values.append(values[-1] * factor)
    if len(values) == 1:
        return name, {"value": low}
    if is_int and section.word("sampling") == "log" and is_whole(factor):
        return name, {"int": [low, values[-1]], "power": factor}
    section.remark("step", "no scale has this factor; the import writes a choice among the numbers")
    options = (float(f"{value:.12g}") for value in values)
    return choice(name, [int(option) if is_int else option for option in options], section, "step")


def _conditions(section: Section) -> dict[str, Any]:
    """Return the values of other hyperparameters under which this one is there."""
    when: dict[str, Any] = {}
    conditions = section.mapping.get("conditions")
    for entry in conditions if isinstance(conditions, list) else ():
        facts = entry.get("config") if isinstance(entry, dict) else None
        values = facts.get("values") if isinstance(facts, dict) else None
        if not isinstance(values, list) or not values or not isinstance(facts, dict):
            section.notes.add_error(
                (*section.path, "conditions"), "expected {config: {name: ..., values: [...]}}"
            )
            continue
        when[str(facts.get("name"))] = values if len(values) > 1 else values[0]
    return when


def _add_condition(
    name: str, when: Mapping[str, Any], space: dict[str, Dimension], fixed: dict[str, Any], top: Section
) -> None:
    """Add a condition to a dimension; one on a fixed value is decided, one of a fixed value falls away."""
    searched = {other: value for other, value in when.items() if other in space}
    applies = all(
        fixed[other] in (value if isinstance(value, list) else [value])
        for other, value in when.items()
        if other in fixed
    )
    if not applies:
        space.pop(name, None)
        fixed.pop(name, None)
    elif searched and name in space:
        space[name]["when"] = searched
    if (searched and name in fixed) or when.keys() - space.keys() - fixed.keys():
        text = f"every trial has {name}: the import dropped a condition"
        top.notes.remark(("hyperparameters", "space"), text)
