from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest
import sklearn.metrics
import torchmetrics.functional
from matrix import failures

from docs._generate import other_names
from docs._generate.markdown import built_in, page, table
from hpometrics.cli.metric_list import format_name

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def text() -> str:
    """The page."""
    return page()


def test_the_page_is_printed_from_the_registry(text):
    """`make index` has been run since the last change of a metric."""
    assert (ROOT / "docs/reference/metrics.md").read_text(encoding="utf8") == text


def test_every_built_in_metric_is_on_the_page(entries, text):
    """Under its form, with what it means and where it comes from."""

    def check(entry):
        assert f"### `{format_name(entry)}` of " in text
        source = entry.source.replace("*", "\\*").replace("<", "\\<").replace("|", "\\|")
        assert source in text or "`" in entry.source

    assert failures((entry for entry in entries if entry.is_built_in), check) == []


def test_the_links_lead_somewhere(text):
    """Each family that is named at the top is a section."""
    families = {entry.families[0] for entry in built_in()}
    assert all(f"\n## {family}\n" in text and f"](#{family})" in text for family in families)


def test_the_table_has_a_row_for_each_output():
    """With the count and the default metrics."""
    rows = table().splitlines()[2:]
    counts = {row.split(" | ")[0].strip("| "): int(row.split(" | ")[1]) for row in rows}
    assert sum(counts.values()) == len(built_in())
    assert "`mae` v, `rmse` v, `r2` ^" in table()


def test_the_page_of_other_names_is_current():
    """Each name of another library is read or answered, else there is no page."""
    text = other_names.page()
    assert (ROOT / "docs/reference/other-names.md").read_text(encoding="utf8") == text
    assert "| `neg_mean_squared_error` | `mse` v | here |" in text
    assert "| `successive_halving` | `asha` |" in text and "`None`" not in text


def test_the_installed_libraries_have_no_other_names():
    """Scorers, and classes of Keras where it is installed; a name that is new there is answered, too."""
    listed = {library.title: library.names.split() for library in other_names.LIBRARIES}
    installed = {
        "scikit-learn": sklearn.metrics.get_scorer_names(),
        "torchmetrics": torchmetrics.functional.__all__,
    }
    if importlib.util.find_spec("keras") is not None:
        names = dir(importlib.import_module("keras").metrics)
        installed["Keras"] = [name for name in names if name[0].isupper() and name != "Metric"]
    for library, names in installed.items():
        assert [name for name in names if other_names.answer(name) is None] == []
        assert {*listed[library]} & {*names}
