"""The measures of rankings of other libraries: none is forgotten, and each has a metric here or a reason."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from matrix import failures

from docs._generate.markdown import local_meaning, rankings_page
from hpometrics.cli.other_libraries import LIBRARIES, format_full_name, libraries_of
from hpometrics.metrics.registry.lookup import find_metric

ROOT = Path(__file__).parents[2]
RANX = {
    "average_precision": "map", "r_precision": "r-precision", "rank_biased_precision": "rbp",
    "reciprocal_rank": "mrr", "get_hit_lists": None,
}  # fmt: skip
"""Its functions whose metric is called otherwise, or that are none."""
COUNTS = {"RecBole": 16, "WarpRec": 45}
"""Of those that the tests do not install: RecBole 1.2.1, WarpRec 2.2.8."""
PAIRS = [(library, theirs) for library, told in LIBRARIES.items() for theirs in told.names]


def measures_of(library: str) -> set[str]:
    """The measures that an installed library has."""
    if library == "ranx":
        metrics = importlib.import_module("plain_ranx").metrics  # which loads numba
        return {RANX.get(name, name) for name in metrics.__all__} - {None}
    if library == "ir_measures":
        return set(importlib.import_module("ir_measures").measures.registry)
    return set(importlib.import_module("torchmetrics.retrieval").__all__)


@pytest.mark.parametrize("library", ["ir_measures", "ranx", "torchmetrics"])
def test_no_measure_of_a_library_is_forgotten(library):
    """Each of its names has a metric here, or a reason why not."""
    table = LIBRARIES[library]
    assert {*table.names, *table.missing} == measures_of(library)
    assert set(table.names).isdisjoint(table.missing)


def test_there_are_as_many_as_the_library_has():
    """Of those whose list cannot be read here."""
    assert {name: len({**LIBRARIES[name].names, **LIBRARIES[name].missing}) for name in COUNTS} == COUNTS
    assert {"ir_measures", "ranx", "torchmetrics", *COUNTS} == set(LIBRARIES)


def test_each_has_a_metric_here():
    """Under its canonical name."""

    def check(ours):
        assert str(find_metric(ours, "ranking").name) == ours

    assert failures([LIBRARIES[library].names[theirs] for library, theirs in PAIRS], check) == []


def test_a_name_of_warprec_is_an_alias():
    """Of the metric that the table names."""

    def check(names):
        theirs, ours = names[0], find_metric(names[1], "ranking").name
        assert find_metric(theirs if ours.k is None else f"{theirs}@{ours.k}", "ranking").name == ours

    assert failures(LIBRARIES["WarpRec"].names.items(), check) == []


@pytest.mark.parametrize(
    ("theirs", "here", "same", "others"),
    [
        ("nDCG", "`ndcg(gain=warprec)`", "WarpRec", "ir_measures: `ndcg(gain=linear)`"),
        ("MAP", "`map(norm=min)`", "RecBole, WarpRec", "ir_measures: `map(norm=n)`"),
        ("map", "`map(norm=min)`", "-", "ranx: `map(norm=n)`"),
        ("NDCG", "-", "-", "ir_measures: `ndcg(gain=linear)`, RecBole: `ndcg(gain=binary)`"),
    ],
)
def test_the_page_says_whose_a_shared_name_is(theirs, here, same, others):
    """Two libraries call different measures so; written here it is one of them, or none."""
    assert f"| `{theirs}` | {here} | {same} | {others} |" in rankings_page().splitlines()


def test_no_name_means_something_else_here_unsaid():
    """A library's name that is read here as another measure than the library's has a row that says so."""
    text = rankings_page()

    def check(names):
        library, theirs = names
        here = local_meaning(theirs)
        section = text.partition(f"\n## {library}\n")[2].splitlines()
        row = next(line for line in section if line.startswith(f"| `{theirs}`"))
        same = here is None or here == libraries_of(theirs)[library]
        assert same or f"written here: `{format_full_name(here)}`" in row

    assert failures(PAIRS, check) == []


def test_the_page_is_printed():
    """`make index` has been run since the last change of a name."""
    assert (ROOT / "docs/reference/rankings.md").read_text(encoding="utf8") == rankings_page()
    assert (
        "| `SetF` | `set_f` | Weighted harmonic mean of the precision" in rankings_page()
        and "| `NumQ` | - | counts users" in rankings_page()
    )
