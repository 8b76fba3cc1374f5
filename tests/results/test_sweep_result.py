"""The result of a sweep in Python: the facts of the report, as objects, a table, figures and a page."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import plotly.graph_objects as go
import pytest
import torch
from sample_records import FOUR, many, written
from sample_sweeps import changed

from hpometrics import (
    MAXIMIZE,
    ConfigError,
    ListObjective,
    MissingExtraError,
    NoFiniteValueError,
    NotKeptError,
    SweepResult,
    compare,
    load_best,
)
from hpometrics._formatting import html_lines
from hpometrics.run import Reported
from hpometrics.selection.front_confirmation import FrontConfirmation


@pytest.fixture
def result(tmp_path):
    """Four trials: two complete ones, one pruned, one failed."""
    return SweepResult.read(written(tmp_path / "run"))


def test_its_best_and_its_trials(result):
    """As the record has them; printed it is the block of the command."""
    assert (result.best.trial, result.best.value, result.best.params) == (1, 0.8, FOUR[1].params)
    assert [trial.number for trial in result.trials] == [0, 1, 2, 3]
    assert repr(result).startswith("# engine params evaluated: 4  (ok 2, pruned 1, failed 1)")
    assert "Optimal Engine Params: (trial 1, epoch 2):" in repr(result)


def test_without_a_complete_trial_there_is_a_reason(tmp_path):
    """No best, no curve; everything else can be asked for."""
    result = SweepResult.read(written(tmp_path / "run", FOUR[3:]))
    assert result.best is None and "no trial is complete" in result.reason
    assert result.reason in repr(result) and "<table>" in result._repr_html_()
    with pytest.raises(ConfigError, match="there is no figure curves: No trial has completed an epoch"):
        result.plot.curves()


def test_what_cannot_be_loaded_is_said(result, tmp_path):
    """No checkpoint, no complete trial, no run directory; without an object the best alone is returned."""
    model = torch.nn.Linear(1, 1)
    assert load_best(result.directory) == result.best
    with pytest.raises(NotKeptError, match=r"trial 1 has no checkpoint; call run\.checkpoint"):
        load_best(result.directory, model=model)
    nothing = SweepResult.read(written(tmp_path / "other", FOUR[3:]))
    with pytest.raises(NoFiniteValueError, match="no trial is complete"):
        nothing.load_best(model=model)
    with pytest.raises(ConfigError, match="not a run directory"):
        load_best(tmp_path / "nowhere", model=model)


def test_its_table(result):
    """A row per trial; numbers are numbers, what a trial does not have is missing."""
    table = result.to_pandas()
    assert list(table.index) == [0, 1, 2, 3] and list(table["state"])[2:] == ["pruned", "failed"]
    assert list(table["values.roc_auc"])[:3] == [0.7, 0.8, 0.4] and table["value"].isna()[3]
    assert table["params.lr"].dtype == float and list(table["params.width"]) == [8, 32, 8, 32]


def test_each_figure_of_the_report(tmp_path):
    """One by one, as plotly's; where there is none the caption says why."""
    plot = SweepResult.read(written(tmp_path / "run", many(31))).plot
    for figure in (
        plot.history(),
        plot.curves(),
        plot.importances(),
        plot.parallel(),
        *plot.slices(),
        *plot.winner(),
    ):
        assert isinstance(figure, go.Figure) and figure.data
    for name, why in (("contours", "Fewer than two"), ("front", "one metric")):
        with pytest.raises(ConfigError, match=f"there is no figure {name}: {why}"):
            getattr(plot, name)()


def test_a_front_is_drawn(tmp_path):
    """Of several objectives."""
    text = changed("optimize: roc_auc", "optimize: [roc_auc, accuracy]").replace(", track: [accuracy]", "")
    assert SweepResult.read(written(tmp_path / "run", many(3), text)).plot.front().data


def test_its_page_in_a_notebook(result):
    """Headline, best, trials and the figures of the report; no text of a trial is markup."""
    page = result._repr_html_()
    assert "<h4>sweep</h4><p><b>Trial 1 is best: roc_auc 0.8.</b></p>" in page
    assert "<p>4 engine params evaluated (ok 2, pruned 1, failed 1)" in page
    assert "<caption>trial 1, epoch 2, seed 1</caption>" in page and "<td>0.8</td>" in page
    exact = repr(result.best.params["lr"])
    assert f'<td title="{exact}">{float(exact):.3g}</td>' in page
    rows = re.findall(r"<tr><td>(?:\d|-)</td><td>(\d)</td>", page)
    assert rows == ["1", "0", "2", "3"]
    assert page.count("<div data-figure></div>") == 7 and "<b>no</b>" not in page


def test_without_plotly_only_its_page_has_figures(result, monkeypatch):
    """It has plotly's script in it; objects of plotly say what to install."""
    monkeypatch.setattr("hpometrics.results.sweep_result.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert result._repr_html_().count("<div data-figure></div>") == 7
    with pytest.raises(MissingExtraError, match="plotly"):
        result.plot.history()


def test_its_report(result, tmp_path):
    """Where it is asked for, else in the directory."""
    assert result.report("md") == result.directory / "report.md"
    assert Path(result.report("md", tmp_path / "there.md")).read_text().startswith("# sweep")


def test_a_directory_may_be_a_text(tmp_path):
    """As `load_best` takes one."""
    home = written(tmp_path, FOUR)
    assert SweepResult.read(str(home)).best.trial == SweepResult.read(home).best.trial


def test_a_confirmation_and_a_comparison_show_their_lines_in_a_notebook():
    """What `print` shows, escaped; a confirmed winner also where a cell has no HTML."""
    end = FrontConfirmation({"a<b": MAXIMIZE}, (), None, 0.05, 0, 0)
    found = compare([1, 0, 1, 1], [1, 0, 0, 1], metric="accuracy", output="binary", target=[1, 0, 1, 0])
    winner = ListObjective(noisy, [{"x": 0.1}, {"x": 0.2}], metric=Reported("score", MAXIMIZE))
    settled = winner.confirm(winner.run(), repeats=3)
    for thing in (end, found, settled, settled.confirmation):
        assert thing._repr_html_() == html_lines(str(thing))
    assert "a&lt;b" in end._repr_html_() and repr(settled) == str(settled)


def noisy(params, run):
    """A score with the luck of the seed."""
    for _ in run.epochs(1):
        run.log(score=params["x"] + random.random())
