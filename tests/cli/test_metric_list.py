from __future__ import annotations

import json

import pytest

from hpometrics.cli.metric_list import Filter, format_name, group_entries, metrics_json, metrics_table
from hpometrics.direction import LEGEND
from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.registry.index import all_entries

FILTERS = [
    Filter(),
    Filter(feature="binary"),
    Filter(inputs="logits"),
    Filter(direction="minimize"),
    Filter(direction="none"),
    Filter(family="calibration"),
    Filter("binary", "probabilities", "minimize", "calibration"),
]


@pytest.mark.parametrize("asked", FILTERS, ids=str)
def test_every_filter_that_is_given_holds(asked):
    """What is listed is like what was asked, and nothing that is like it is missing."""
    chosen = asked.entries()
    assert chosen
    for entry in all_entries():
        direction = entry.direction.value if entry.direction else "none"
        like = (
            asked.feature in (None, entry.feature_type)
            and asked.inputs in (None, entry.inputs)
            and asked.direction in (None, direction)
            and (asked.family is None or asked.family in entry.families)
        )
        assert like == (entry in chosen)


def test_the_last_line_counts():
    """Names, metrics, and how many of them can be optimized."""
    chosen = Filter(feature="category").entries()
    last = metrics_table(Filter(feature="category")).splitlines()[-1]
    directed = sum(entry.direction is not None for entry in chosen)
    assert last.startswith(f"{len({e.name for e in chosen})} names, {len(chosen)} metrics (one name per")
    assert f"{directed} can be optimized, {len(chosen) - directed} tracked only" in last


def test_a_pipe_gets_whole_lines():
    """One line per metric with its name first, whatever their length."""
    lines = metrics_table(Filter()).splitlines()[2:-1]
    assert {line.split()[0].partition("(")[0].partition("@")[0] for line in lines} == {
        entry.name for entry in all_entries()
    }


@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize("feature", [None, "binary"])
def test_a_terminal_gets_whole_words(width, feature):
    """Lines fit, no name and no word of a meaning is cut, and a metric takes two or three lines."""
    lines = metrics_table(Filter(feature=feature), width).splitlines()
    words, entries = set(" ".join(lines).split()), all_entries(feature)
    assert {word for entry in entries for word in f"{format_name(entry)} {entry.summary}".split()} <= words
    assert max(map(len, lines)) <= width
    assert lines.count(LEGEND) == 1
    assert len(lines) < 2.75 * len(group_entries(entries)) + 8


def test_the_list_as_json_says_the_same():
    """A row per metric that is listed, its output features together."""
    rows = json.loads(metrics_json(Filter(feature="number")))
    assert {row["name"] for row in rows} == {entry.name for entry in all_entries("number")}
    mae = next(row for row in rows if row["name"] == "mae")
    assert (mae["objective"], mae["inputs"], mae["features"]) == ("minimize", "predictions", ["number"])


def test_what_does_not_exist_is_said():
    """A misspelled feature or family suggests the near one; filters that no metric meets list nothing."""
    with pytest.raises(MetricInputError, match=r"'binery' is not an output feature; did you mean 'binary'"):
        Filter(feature="binery").entries()
    with pytest.raises(MetricNameError, match=r"no family 'calibratio'; did you mean 'calibration'"):
        Filter(family="calibratio").entries()
    assert metrics_table(Filter("number", "logits")) == "no metric matches"


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_gets_no_line_that_is_too_long(width):
    """Below the width of a table the meaning stands under the name."""
    text = metrics_table(Filter(feature="clusters"), width)
    assert max(map(len, text.splitlines())) <= width
    assert "\nadjusted_rand  maximize ^, reads predictions; clusters\n    Rand index" in text
