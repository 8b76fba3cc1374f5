"""The measures of rankings of other libraries: none is forgotten, and each has a metric here or a reason."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import plain_ranx
import pytest
import torchmetrics.retrieval

from hpometrics.guide.elsewhere import LIBRARIES, in_full, libraries_of, meant_here, page
from hpometrics.metrics.lookup import find_metric

ROOT = Path(__file__).parents[2]
RANX = {
    "average_precision": "map", "r_precision": "r-precision", "rank_biased_precision": "rbp",
    "reciprocal_rank": "mrr", "get_hit_lists": None,
}  # fmt: skip
"""Its functions whose metric is called otherwise, or that are none."""
HAVE = {
    "ir_measures": set(ir_measures.measures.registry),
    "ranx": {RANX.get(name, name) for name in plain_ranx.metrics.__all__} - {None},
    "torchmetrics": set(torchmetrics.retrieval.__all__),
}
COUNTS = {"RecBole": 16, "WarpRec": 45}
"""Of those that the tests do not install: RecBole 1.2.1, WarpRec 2.2.8."""
PAIRS = [(library, theirs) for library, told in LIBRARIES.items() for theirs in told.names]


@pytest.mark.parametrize("library", HAVE)
def test_no_measure_of_a_library_is_forgotten(library):
    """Each of its names has a metric here, or a reason why not."""
    told = LIBRARIES[library]
    assert {*told.names, *told.missing} == HAVE[library]
    assert set(told.names).isdisjoint(told.missing)


@pytest.mark.parametrize("library", COUNTS)
def test_there_are_as_many_as_the_library_has(library):
    """Of those whose list cannot be read here."""
    assert len({**LIBRARIES[library].names, **LIBRARIES[library].missing}) == COUNTS[library]
    assert {*HAVE, *COUNTS} == set(LIBRARIES)


@pytest.mark.parametrize(("library", "theirs"), PAIRS)
def test_each_has_a_metric_here(library, theirs):
    """Under its canonical name."""
    ours = LIBRARIES[library].names[theirs]
    assert str(find_metric(ours, "ranking").name) == ours


@pytest.mark.parametrize("theirs", LIBRARIES["WarpRec"].names)
def test_a_name_of_warprec_is_an_alias(theirs):
    """Of the metric that the table names."""
    ours = find_metric(LIBRARIES["WarpRec"].names[theirs], "ranking").name
    asked = theirs if ours.k is None else f"{theirs}@{ours.k}"
    assert find_metric(asked, "ranking").name == ours


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
    assert f"| `{theirs}` | {here} | {same} | {others} |" in page().splitlines()


@pytest.mark.parametrize(("library", "theirs"), PAIRS)
def test_no_name_means_something_else_here_unsaid(library, theirs):
    """A library's name that is read here as another measure than the library's has a row that says so."""
    here = meant_here(theirs)
    section = page().partition(f"\n## {library}\n")[2].splitlines()
    row = next(line for line in section if line.startswith(f"| `{theirs}`"))
    assert here is None or here == libraries_of(theirs)[library] or f"written here: `{in_full(here)}`" in row


def test_the_page_is_printed():
    """`make index` has been run since the last change of a name."""
    assert (ROOT / "docs" / "rankings.md").read_text(encoding="utf8") == page()
    assert "| `SetF` | `set_f` | Weighted harmonic mean" in page() and "| `NumQ` | - | a count" in page()
