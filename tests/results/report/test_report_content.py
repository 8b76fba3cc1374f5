from __future__ import annotations

from dataclasses import replace

import pytest
from sample_records import FOUR, many, trial, written
from sample_sweeps import changed

from hpometrics.direction import Direction
from hpometrics.exceptions import ConfigError
from hpometrics.records.trial_record import TrialState
from hpometrics.results.report.content import Report, write_report
from hpometrics.selection.confirmation import (
    ConfirmationPlan,
    ConfirmationRecord,
    ConfirmSettings,
    Contender,
    FreshRun,
)
from hpometrics.selection.confirmation_plan import plan_for
from hpometrics.selection.intervals import Interval, Significance, TrialInterval
from hpometrics.selection.selection import Best


def confirmed(home):
    """The report of a sweep whose confirmation chose trial 0, though the search had picked trial 1."""
    report = Report.read(written(home, [trial(0, [0.7]), trial(1, [0.8])]))
    values = {1: (0.70, 0.71, 0.72), 0: (0.80, 0.81, 0.82)}
    runs = {(one, n): FreshRun(value) for one, each in values.items() for n, value in enumerate(each, 1)}
    plan = ConfirmationPlan(
        ConfirmSettings(top=2, repeats=3, equivalence=0.001), (Contender(1, 0.8), Contender(0, 0.7))
    )
    end = plan_for(ConfirmationRecord("roc_auc", Direction.MAXIMIZE, [plan], runs)).end
    return replace(
        report, confirmation=end, best=Best.of(report.records[end.winner], report.resolved.optimized)
    )


def test_the_headline_of_a_confirmed_sweep_has_no_params(tmp_path):
    """They have a section of their own; the lines below are those of the confirmation."""
    report = confirmed(tmp_path)
    assert report.headline == "Winner: trial 0, decided"
    assert report.remarks == report.sureness[1:] and "lr=" in report.sureness[0]


def test_digits_follow_the_interval(tmp_path):
    """Two of its half width; the exact value is beside it, and a tracked value has four digits."""
    report = Report.read(written(tmp_path, [trial(0, [0.7]), trial(1, [0.8123456])]))
    winner = TrialInterval(1, 0, 0.8123456, Interval(0.8123456, 0.77, 0.85))
    report = replace(report, verdict=Significance("roc_auc", winner))
    own, accuracy = report.rounded_values
    assert own[:2] == ("roc_auc", ("0.812", "0.8123456"))
    assert accuracy[:2] == ("accuracy", ("0.7123", repr(0.8123456 - 0.1)))
    (rate, *_) = report.rounded_params
    assert len(rate[1].text) < len(rate[1].exact) and float(rate[1].exact) == report.best.params["lr"]


def test_each_metric_picks_by_the_search_and_the_confirmed_winner_stands_apart(tmp_path):
    """No pick is better than that of the optimized metric; the last row is the winner's."""
    report = confirmed(tmp_path)
    own, accuracy, winner = report.picks[1:]
    assert (own[:2], own[-1]) == (["roc_auc ^", "1"], "0")
    assert (accuracy[:2], accuracy[-1]) == (["accuracy ^", "1"], "0")
    assert winner == ["confirmed winner", "0", "0", "0.700000", "0.700000", "0.1"]
    assert report.pick_remark.startswith(" The last row, confirmed winner, is the trial")
    assert Report.read(tmp_path).pick_remark == ""


def test_the_optimum_and_where_its_direction_came_from(tmp_path):
    """The best trial of the record, its params and values; the registry has the direction."""
    report = Report.read(written(tmp_path))
    assert report.summary == "4 engine params evaluated (ok 2, pruned 1, failed 1), 12.0s of training"
    assert report.origin == "trial 1, epoch 2, seed 1"
    assert report.params[1:] == [("depth", "3", "size=large"), ("width", "32", "size=large")]
    assert report.values == [("roc_auc", "0.8", "(maximize)"), ("accuracy", "0.7", "(maximize)")]
    assert report.direction.startswith(
        "To maximize: roc_auc. The registry states the direction of the metric."
    )


def test_a_direction_that_the_file_states_is_said_to_be_its_own(tmp_path):
    """A value that the engine reports has none in the registry."""
    text = changed("optimize: roc_auc, track: [accuracy]", "optimize: {metric: cost, direction: minimize}")
    assert (
        "minimize: cost. The sweep file states the direction"
        in Report.read(written(tmp_path, (), text)).direction
    )


def test_every_state_with_its_reasons(tmp_path):
    """In the order of the states; a reason is its first line, with the trials that have it."""
    again = trial(4, [], TrialState.FAILED, reason="ValueError: <b>no</b>")
    states = Report.read(written(tmp_path, [*FOUR, again])).states
    assert [(state.word, state.count) for state in states] == [("ok", 2), ("pruned", 1), ("failed", 2)]
    assert states[-1].reasons == [("ValueError: <b>no</b>", "3, 4")]


def test_a_long_list_of_trials_is_cut(tmp_path, monkeypatch):
    """The table has the best ones, and page and text say so in one sentence; of fewer they say nothing."""
    monkeypatch.setattr("hpometrics.results.report.content._MOST_ROWS", 4)
    report = Report.read(written(tmp_path / "all", many(4)))
    assert (len(report.table) - 1, report.extent) == (4, "")
    home = written(tmp_path / "more", many(1203))
    report = Report.read(home)
    assert [row[0] for row in report.table] == ["rank", "1", "2", "3", "4"]
    assert report.extent == "The table shows the best 4 of 1,203 trials; trials.csv has all."
    for kind in ("html", "md"):
        assert write_report(home, kind).read_text().count(report.extent) == 1
    assert "more in trials.csv" not in (home / "report.md").read_text()


def test_reasons_of_failed_trials_are_cut(tmp_path, monkeypatch):
    """Each trial may have a reason of its own."""
    monkeypatch.setattr("hpometrics.results.report.content._MOST_REASONS", 2)
    records = [trial(number, [], TrialState.FAILED, reason=f"ValueError: {number}") for number in range(5)]
    (state,) = Report.read(written(tmp_path, records)).states
    assert (state.count, state.reasons) == (5, [("ValueError: 0", "0"), ("ValueError: 1", "1")])


def test_a_sweep_without_a_complete_trial_has_a_report(tmp_path):
    """It says why there is no optimum."""
    report = Report.read(written(tmp_path, FOUR[2:]))
    assert report.best is None and report.origin.startswith("no trial is complete yet: ")
    assert report.params == report.values == []


def test_the_text_says_what_the_page_says(tmp_path):
    """The optimum, the table, the states with their reasons and the config, in blocks no text can end."""
    text = write_report(written(tmp_path), "md").read_text()
    for part in (
        "# sweep\n\n4 engine params evaluated",
        "    Optimal Engine Params: (trial 1, epoch 2):\n",
        "\n     -----",
        "- failed 1: ended with an error\n  - `ValueError: <b>no</b>`: 3\n",
        "      target: toy_engine:train\n",
        f"    hpometrics best {tmp_path}  # the optimal engine params again\n",
    ):
        assert part in text


def test_no_run_directory_is_refused(tmp_path):
    """Nothing is written."""
    with pytest.raises(ConfigError, match="is not a run directory"):
        write_report(tmp_path, "md")
    assert not list(tmp_path.iterdir())
