"""A W&B sweep file, read as a sweep of ours."""

from __future__ import annotations

import re
from typing import Any

from .carried import Carried
from .goals import as_reported, read_goal
from .notes import Notes, Section
from .terms import Dimension
from .wandb_space import read_parameters

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
