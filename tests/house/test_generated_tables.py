from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest
import sklearn.metrics
import torch
import torchmetrics.functional
from matrix import failures

import hpometrics
from docs._generate import other_names, outputs
from docs._generate.markdown import (
    built_in,
    metric_index,
    metric_page,
    output_page,
    table,
    with_law_meanings,
)
from docs._generate.site import TERMS, constants, found_page, public_names, with_terms
from docs._generate.texts import commands_page
from hpometrics.cli.main import main
from hpometrics.cli.metric_list import format_name
from hpometrics.metrics.features import BOXES, FEATURES
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.sample_data import ORDINARY, ordinary

ROOT = Path(__file__).parents[2]


def test_the_index_of_metrics_is_current():
    """`make index` has been run since the last change of a metric."""
    assert (ROOT / "docs/reference/metrics.md").read_text(encoding="utf8") == metric_index()


def test_the_architecture_names_each_generated_page():
    """Those that `make index` writes, in its order or another."""
    written = re.findall(r'folder / "(.*?)\.md"', (ROOT / "docs/_generate/__main__.py").read_text("utf8"))
    text = (ROOT / "docs/ARCHITECTURE.md").read_text("utf8")
    (listed,) = re.findall(r"In `docs/reference` it writes the pages(.*?), and in", text, re.DOTALL)
    assert written and sorted(re.findall(r"`(.*?)`", listed)) == sorted(written)


def test_the_first_use_of_a_term_leads_to_the_glossary():
    """Not in code, headings, links or tables; the longer term wins; a term may be filled over two lines."""
    page = """\
# An engine

`engine: x`, [an engine](engine.md) and

    engine: examples.digits:train

| engine |
|---|

The optimal engine
params of engines: an engine has several outputs.
"""
    assert with_terms(page, "terms.md").endswith(
        "The optimal [engine\nparams](terms.md#engine-params) of [engines](terms.md#engine): an engine has "
        "[several outputs](terms.md#output).\n"
    )


def test_every_built_in_metric_has_a_page(entries):
    """Under its form, with what it means and where it comes from; the index and its output lead there."""
    index, outputs = metric_index(linked=True), {name: output_page(name) for name in FEATURES}

    def check(entry):
        page, form = metric_page(entry.name), f"`{format_name(entry)}`"
        assert f"## {form} of " in page
        formulas = [line for line in page.splitlines() if line.startswith("- formula: ")]
        assert all(line.count("`") == 2 and line.endswith("`") for line in formulas)
        source = entry.source.replace("*", "\\*").replace("<", "\\<").replace("|", "\\|")
        assert source in page or "`" in entry.source
        assert f"[{form}](metrics/{entry.name}.md)" in index
        assert f"[{form}](../metrics/{entry.name}.md)" in outputs[entry.feature_type]

    assert failures((entry for entry in entries if entry.is_built_in), check) == []


def test_every_public_name_is_on_a_page_of_the_api():
    """Constants in the table of their page; Ludwig's names of a direction beside it."""
    listed = {name for names in public_names().values() for name in names}
    expected = {name for name in hpometrics.__all__ if not name.startswith("_")}
    assert expected <= listed
    assert "| `MAXIMIZE` | " in "\n".join(constants(public_names()["Direction"]))
    assert listed - expected == {"Sequence", "Set", "Text"}  # `import *` leaves those of typing as they are
    assert all(public_names().values())


def test_a_page_of_a_metric_has_its_names_elsewhere():
    """So the search finds it by them; it leads to its outputs and to the index."""
    called = other_names.also_called()
    assert {"MulticlassF1Score", "f1_macro", "F1@10"} <= set(called["f1"])
    assert {"nDCG@10", "RetrievalNormalizedDCG"} <= set(called["ndcg"])
    page = found_page("f1", called["f1"])
    assert "`MulticlassF1Score`" in page and "[binary](../outputs/binary.md)" in page
    assert "](../metrics.md)" in page and metric_page("f1").partition("\n")[2] in page


def test_every_command_is_on_the_page_of_commands():
    """With the help that the terminal shows; `make index` has been run since the last change of it."""
    page = commands_page()
    assert (ROOT / "docs/reference/cli.md").read_text(encoding="utf8") == page
    assert all(f"## hpometrics {name}\n" in page for name in main.commands)
    assert "Run a sweep up to the trials of its budget" in page


def test_the_page_of_outputs_is_current():
    """Each output has a row and a section, which on the site leads to its metrics."""
    assert (ROOT / "docs/reference/outputs.md").read_text(encoding="utf8") == outputs.page()
    linked = outputs.page(linked=True)
    for name, cls in FEATURES.items():
        assert f"| [{name}](#{name}) | `{cls.__name__}(" in linked and f"\n## {name}\n" in linked
        assert f" metrics](outputs/{name}.md)" in linked
    assert (
        "| `history` | read by `mase`" in linked and "| `item_popularity` | (items,) interactions" in linked
    )


@pytest.mark.parametrize("name", sorted(FEATURES.keys() - {BOXES}))  # whose batches need another package
def test_an_output_reads_the_shapes_on_its_page(name):
    """The batches of the tests have no other keywords, and no other number of dimensions."""
    listed = outputs.keywords(FEATURES[name])
    for keyword, value in ordinary(ORDINARY.get(name) or FEATURES[name](), 3).items():
        shapes = [one.shape for one in listed if keyword in one.names]
        assert shapes, keyword
        sizes = {len(re.findall(r"\w+", shape)) for one in shapes for shape in re.findall(r"\((.*?)\)", one)}
        assert not isinstance(value, torch.Tensor) or value.ndim in sizes, keyword


def test_boxes_are_those_of_their_metrics():
    """The mappings have the keys that the metrics read; a target has no scores."""
    predictions, target = (re.findall(r"`(\w+)`", one.shape) for one in outputs.keywords(FEATURES[BOXES]))
    assert {*re.findall(r"`(\w+)`", find_metric("map", BOXES).entries[0].shape)} == {*predictions}
    assert [*target, "scores"] == predictions


def test_what_each_law_says_is_current():
    """In the order of the laws, that of a device included."""
    page = (ROOT / "docs/explanation/laws.md").read_text(encoding="utf8")
    assert page == with_law_meanings(page)
    assert page.endswith(" |\n") and "| `row_order` | The order of the rows does not matter. |" in page


def test_every_term_is_in_the_glossary():
    """Under a heading; the words are in the order of their letters."""
    glossary = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf8")
    words = [word.lower() for word in re.findall(r"^## (.*)$", glossary, re.MULTILINE)]
    assert words == sorted(words)
    assert {term.replace("-", " ") for term in TERMS} <= {*words}


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
    """Scorers, and metrics and losses of Keras where it is installed; a name that is new is answered, too."""
    listed = {library.title: library.names.split() for library in other_names.LIBRARIES}
    installed = {
        "scikit-learn": sklearn.metrics.get_scorer_names(),
        "torchmetrics": torchmetrics.functional.__all__,
    }
    if importlib.util.find_spec("keras") is not None:
        keras = importlib.import_module("keras")
        names = {*dir(keras.metrics), *dir(keras.losses)}
        names -= {"Metric", "get", "serialize", "deserialize"}
        installed["Keras"] = sorted(name for name in names if not name.startswith("_"))
    for library, names in installed.items():
        assert [name for name in names if other_names.answer(name) is None] == []
        assert {*listed[library]} & {*names}
