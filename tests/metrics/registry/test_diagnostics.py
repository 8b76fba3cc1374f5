"""The table of diagnostics, and what a search makes of it."""

from __future__ import annotations

import pytest

from hpometrics import MAXIMIZE, MINIMIZE, Binary, Run, RunSpec
from hpometrics.cli.metric_pages import diagnostic_text, diagnostics_table
from hpometrics.config.fields import Metric
from hpometrics.config.metric_section import read_measures
from hpometrics.exceptions import DirectionError, NoFiniteValueError, UnknownMetricError
from hpometrics.metrics.registry.diagnostics import DIAGNOSTICS, diagnostic
from hpometrics.metrics.registry.lookup import find_metric


@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_no_metric_is_called_like_a_diagnostic(name):
    """By its own name or by an alias, so that a name means one thing."""
    with pytest.raises(UnknownMetricError):
        find_metric(name)


@pytest.mark.parametrize("name", ["gnorm", "critic.gnorm", "train:gnorm", "convai2/gnorm"])
def test_a_name_is_found_whatever_it_is_of(name):
    """A split, a task or a watch in front makes no difference."""
    assert diagnostic(name) is DIAGNOSTICS["gnorm"]


@pytest.mark.parametrize("name", ["accuracy", "gnorm@3", "gnorm(p=2)", "pkg.module:gnorm", "no name"])
def test_other_names_are_none(name):
    """Metrics, and what does not follow the grammar."""
    assert diagnostic(name) is None


@pytest.mark.parametrize(
    ("name", "stated", "direction"),
    [
        ("exps", None, MAXIMIZE),
        ("ctrunc", None, MINIMIZE),
        ("gpu_mem", "minimize", MINIMIZE),
        ("lr", "max", MAXIMIZE),
    ],
)
def test_a_search_may_optimize_one(name, stated, direction):
    """By the table's direction or by one that is stated, from Python and from a file alike."""
    spec = RunSpec({"metric": name, "direction": stated}, output=Binary())
    (measure,) = read_measures(Metric(name=name, direction=stated), {None: "binary"}, steers=True)
    assert (spec.name, spec.direction, spec.reported) == (name, direction, True)
    assert (measure.name, measure.direction, measure.reported) == (name, direction, True)


@pytest.mark.parametrize(
    ("name", "stated", "told"),
    [
        (
            "gpu_mem",
            None,
            r"gpu_mem has no direction; write \{metric: gpu_mem, direction: minimize\}",
        ),
        ("exps", "minimize", "exps must be maximized, but direction minimizes it"),
    ],
)
def test_a_direction_that_is_missing_or_wrong(name, stated, told):
    """The same message from Python and from a file says what to do."""
    with pytest.raises(DirectionError, match=told):
        RunSpec(name, direction=stated)
    with pytest.raises(DirectionError, match=told):
        read_measures(Metric(name=name, direction=stated), None, steers=True)


def test_one_may_be_tracked():
    """It is recorded in any case; the name is no mistake."""
    spec = RunSpec("accuracy", output=Binary(), track=["gnorm", "brier"])
    assert spec.collections["validation"][None].names == ("accuracy", "brier")
    (measure,) = read_measures(Metric(name="gnorm"), {None: "binary"}, steers=False)
    assert measure.reported


def test_one_that_is_not_measured_says_where_it_comes_from():
    """A run without a watch has no gradient norm."""
    run = Run(metric={"metric": "gnorm", "direction": "minimize"})
    run.log(loss=1.0)
    with pytest.raises(NoFiniteValueError, match=r"in this epoch; run\.watch\(model, optimizer\) reports it"):
        run.value  # noqa: B018


def test_the_list_and_the_page_say_all():
    """A line for each, with direction and meaning."""
    lines = diagnostics_table().splitlines()
    assert [line.split()[0] for line in lines[3:]] == list(DIAGNOSTICS)
    assert max(map(len, diagnostics_table(60).splitlines())) <= 60
    assert "  comes from run.watch and run.update\n" in diagnostic_text(DIAGNOSTICS["exps"])
    assert "{metric: lr, direction: minimize}" in diagnostic_text(DIAGNOSTICS["lr"])
