from __future__ import annotations

from pathlib import Path

import pytest

from hpometrics.guide.markdown import built_in, page, table
from hpometrics.guide.words import form

ROOT = Path(__file__).parents[2]
PAGE = page()


def test_the_page_is_printed_from_the_registry():
    """`make index` has been run since the last change of a metric."""
    assert (ROOT / "docs" / "metrics.md").read_text(encoding="utf8") == PAGE


@pytest.mark.parametrize("entry", built_in(), ids=str)
def test_every_built_in_metric_is_on_the_page(entry):
    """Under its form, with what it means and where it comes from."""
    assert f"### `{form(entry)}` of " in PAGE
    assert (
        entry.source.replace("*", "\\*").replace("<", "\\<").replace("|", "\\|") in PAGE
        or "`" in entry.source
    )


def test_the_links_lead_somewhere():
    """Each family that is named at the top is a section."""
    families = {entry.families[0] for entry in built_in()}
    assert all(f"\n## {family}\n" in PAGE and f"](#{family})" in PAGE for family in families)


def test_the_table_has_a_row_for_each_output():
    """With the count and the default metrics."""
    rows = table().splitlines()[2:]
    counts = {row.split(" | ")[0].strip("| "): int(row.split(" | ")[1]) for row in rows}
    assert sum(counts.values()) == len(built_in())
    assert "`mae` v, `rmse` v, `r2` ^" in table()
