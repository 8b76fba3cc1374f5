"""Convert RecBole's `hyper.test`: lines with the name of a param, a kind and a range."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ..config.document import Document, Mark
from ..config.yaml_text import ScalarError, read_plain
from ..space.values import is_number
from .notes import ConvertedSweep, Notes, Section
from .ray_config import DISTRIBUTIONS, TARGET, WRITTEN
from .terms import Dimension, between, choice, powers_of_e, split_fixed

TOOL = "RecBole"
_LINE = re.compile(r"(?P<name>\S+)[ \t]+(?P<kind>choice|uniform|quniform|loguniform)[ \t]+(?P<value>\S.*)")
_EVALUATIONS, _STALE = 100, 10  # of RecBole's run_hyper.py
_SCORE = {"metric": "best_valid_score", "direction": "maximize"}
"""The value that RecBole's `objective_function` returns, by its name there."""


def is_recbole(text: str) -> bool:
    """Return whether a text is a file such as `hyper.test`; comments and blank lines may come first."""
    first = next((line for line in map(str.strip, text.splitlines()) if line and line[0] != "#"), "")
    return _LINE.fullmatch(first) is not None


def read_recbole(text: str, source: str) -> ConvertedSweep:
    """Read a file of RecBole's `--params_file`.

    Raises:
        ImportRefused: a line of it is not well formed.
    """
    document = Document(source, text)
    notes = Notes(document)
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    dimensions = dict(
        one for number, line in lines for one in _read_line(line, Mark(source, number, 1), notes)
    )
    space, fixed = split_fixed(dimensions.items())
    is_grid = all("choice" in one for one in space.values())
    if not (space or notes.errors):
        notes.add_error((), "needs a param to search")
    notes.remark((), f"{WRITTEN}; RecBole's Config takes params as config_dict")
    notes.remark((), _format_score())
    trials = {} if is_grid else {"trials": _EVALUATIONS}
    limits = f"{_EVALUATIONS} trials, and stale " if trials else "stale "
    notes.remark((), f"the import writes the limits of RecBole's run_hyper.py: {limits}{_STALE}")
    config = {
        "engine": {"target": TARGET, **({"params": fixed} if fixed else {})},
        "space": space,
        "metrics": {"optimize": dict(_SCORE)},
        "search": {"sampler": "grid" if is_grid else "tpe"},
        "budget": {**trials, "stale": _STALE},
    }
    notes.check()
    return ConvertedSweep(TOOL, None, config, notes)


def _format_score() -> str:
    name = _SCORE["metric"]
    return (
        f"valid_metric is in another file: report its value with run.log({name}=...); "
        "write minimize if lower is better, as for RMSE"
    )


def _read_line(line: str, mark: Mark, notes: Notes) -> Iterator[tuple[str, Dimension]]:
    words = line.split()
    if not words or line[0] == "#":
        return
    path = (words[0],)
    notes.document.marks[path] = mark
    match = _LINE.fullmatch(line)
    if match is None:
        if len(words) > 2:
            notes.add_error(path, f"expected choice, uniform, quniform or loguniform, got {words[1]!r}")
        else:
            notes.remark(path, "dropped: RecBole skips lines with fewer than three words")
        return
    kind, text = match["kind"], "".join(match["value"].split())
    section = Section({}, path, notes)
    if kind == "choice":
        options = _literal(text)
        if not isinstance(options, list) or not options:
            notes.add_error(path, f"choice needs a list, as in [64,128], got {text}")
            return
        yield choice(match["name"], options, section, "choice")
        return
    values = [_number(part) for part in text.split(",")]
    names = ("lower", "upper", "q")[: 3 if kind == "quniform" else 2]
    if len(values) != len(names) or None in values:
        notes.add_error(path, f"{kind} needs {len(names)} numbers, {','.join(names)}, got {text}")
        return
    section = Section(dict(zip(names, values, strict=True)), path, notes)
    if kind == "loguniform":
        low, high = powers_of_e(*section.bounds("lower", "upper"))
        text = "in RecBole, bounds of loguniform are exponents of e"
        notes.remark(path, f"{text}; the import writes the values, {low:g} to {high:g}")
        yield match["name"], between(low, high, log=True)
    else:
        yield match["name"], DISTRIBUTIONS[kind](section)


def _literal(text: str) -> Any:
    """Return the value of a Python literal that JSON holds too; None for any other text."""
    try:
        return json.loads(json.dumps(ast.literal_eval(text)))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _number(text: str) -> int | float | None:
    with suppress(ScalarError):
        value = read_plain(text)
        return value if is_number(value) else None
    return None
