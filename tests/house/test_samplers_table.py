"""The tables of samplers and pruners in the guide say what the registry says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from hpometrics.backends.registry import (
    OPTUNA_PRUNERS as PRUNERS,
    SAMPLERS,
    backends_of,
    find_class,
    learns,
    searches_for_one,
)

GUIDES = Path(__file__).parents[2] / "docs/how-to"
PAGE = (GUIDES / "samplers-and-pruners.md").read_text(encoding="utf8")
ROWS = [re.split(r" *\| *", line)[1:-1] for line in PAGE.splitlines() if line.startswith("| `")]
SAMPLER_ROWS = {row[0].strip("`"): row[1:] for row in ROWS if len(row) == 8}
PRUNER_ROWS = {row[0].strip("`"): row[1:] for row in ROWS if len(row) == 5}
YES = {True: "yes", False: "no"}


def test_the_tables_have_every_name():
    """In the order of the registry."""
    assert [*SAMPLER_ROWS] == [*SAMPLERS]
    assert {*PRUNER_ROWS} == {*PRUNERS}
    assert len(ROWS) == len(SAMPLERS) + len(PRUNERS)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_row_says_what_a_sampler_can(name):
    """Its extra, if it needs one; every backend draws by it; several objectives; constraints."""
    _, _, extra, backends, several, constraints, _ = SAMPLER_ROWS[name]
    assert extra.strip("`") == (SAMPLERS[name].extra if SAMPLERS[name].needs else "")
    assert backends == "Optuna, Ray" and several == YES[not searches_for_one(name)]
    if SAMPLERS[name].missing(name) is None:
        sampler, _ = find_class("sampler", name, SAMPLERS)
        assert constraints == YES["constraints_func" in inspect.signature(sampler).parameters]


@pytest.mark.parametrize("name", PRUNERS)
def test_a_row_says_where_a_pruner_runs_and_by_which_words(name):
    """The words that are ours, and any other that the class has."""
    _, _, words, backends = PRUNER_ROWS[name]
    assert backends.lower().split(", ") == [one for one in backends_of(name) if one != "list"]
    pruner, _ = find_class("pruner", name, PRUNERS)
    theirs = {*inspect.signature(pruner).parameters} - {*PRUNERS[name].words.values()}
    assert {*re.findall(r"`(\w+)`", words)} <= theirs | {*PRUNERS[name].words}


def test_the_guide_names_what_learns_from_earlier_sweeps():
    """The sentence lists each sampler by name, those that learn and those that do not."""
    page = (GUIDES / "warm-start.md").read_text(encoding="utf8")
    [sentence] = re.findall(r"\n- (`tpe`, .*?) A grid\s+and a list", page, re.DOTALL)
    learning, _, others = sentence.partition(" learn; ")
    assert {*re.findall(r"`(\w+)`", learning)} == {name for name in SAMPLERS if learns(name)}
    assert {*re.findall(r"`(\w+)`", others)} == {name for name in SAMPLERS if not learns(name)} - {"grid"}
