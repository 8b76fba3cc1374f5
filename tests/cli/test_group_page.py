"""The page of a group: its members for each output feature, as a list of metrics takes them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from matrix import covering

from hpometrics.cli.metric_pages import metric_json, metric_text
from hpometrics.cli.metrics import metrics
from hpometrics.exceptions import MetricNameError, UnknownMetricError
from hpometrics.metrics.features import FEATURES
from hpometrics.metrics.registry.groups import group_names, members_of
from hpometrics.metrics.registry.lookup import find_metric


@pytest.mark.parametrize("group", ["calibration", "rouge", "bleu_family", "default", "all", "words"])
def test_a_group_shows_its_members_for_each_feature(group):
    """As `metrics list` prints them: name, direction, what is read, meaning; in the order of the group."""
    first, *parts = metric_text(group).split("\n\n")
    kinds = [kind for kind in FEATURES if group in group_names(kind) and (group, kind) != ("all", "boxes")]
    assert first.startswith(f"{group}\n  meaning    a group: ") and f"track: [{group}]" in first
    assert [part.partition(":")[0] for part in parts] == kinds
    for kind, part in zip(kinds, parts, strict=True):
        members = members_of(group, kind)
        head, _, _, *lines = part.splitlines()
        assert head == f"{kind}: {len(members)}"
        for name, line in zip(members, lines, strict=False):
            entry = find_metric(name, kind).entries[0]
            assert line.split()[0] == str(name) and line.endswith(entry.summary)
            assert f" {entry.direction.value if entry.direction else '-'} " in line


def test_a_group_of_one_feature():
    """The others are left out; what a list has to spell out is named."""
    text = metric_text("confusion", "mask")
    assert "\n\nmask: " in text and "\n\ncategory" not in text
    assert "  without    fbeta(beta=..., average=...), which need" in metric_text("confusion", "category")
    assert metric_text("distributions", "timeseries").endswith("which need further input")
    with pytest.raises(MetricNameError, match="there is no group 'words' for a binary output"):
        metric_text("words", "binary")
    with pytest.raises(UnknownMetricError, match="'calibration' is not a group for a ranking output; the"):
        metric_text("calibration", "ranking")


GROUPS = {kind: group_names(kind) for kind in FEATURES}


def features_of(name: str) -> list:
    """The kinds of output that have a group, and whether it says that it is a family."""
    return [tuple(kind for kind, names in GROUPS.items() if name in names), name.endswith("_family")]


@pytest.mark.parametrize("name", covering(group_names(), features_of))
def test_every_group_has_a_page(name):
    """As text and as JSON, which say the same; no use is shown of one that no list may have."""
    told = json.loads(metric_json(name))[0]
    text = metric_text(name, width=100)
    assert told["group"] == name and set(told["members"]) <= set(FEATURES)
    assert all(f"\n\n{kind}: {len(members)}\n" in text for kind, members in told["members"].items())
    for kind, members in told["members"].items():
        assert bool(members) == (f'output="{kind}"' in metric_text(name, kind))


def test_a_metric_that_is_called_as_its_family_says_how_the_group_is_written():
    """`bleu` of a text is the metric."""
    assert "  families   bleu (as a group bleu_family)" in metric_text("bleu")


def test_a_group_on_the_command_line():
    """The command shows groups as it shows metrics."""
    shown = CliRunner().invoke(metrics, ["show", "default", "--feature", "number"])
    assert shown.exit_code == 0 and "number: 3" in shown.output and "rmse" in shown.output
