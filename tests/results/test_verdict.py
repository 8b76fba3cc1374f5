"""Whether the winner of a sweep is sure: computed at its end, read by everyone else."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from sample_records import trial, written
from sample_sweeps import SWEEP, changed

from hpometrics.cli.main import main
from hpometrics.config.document import read_document
from hpometrics.exceptions import NotKeptError, RecordError
from hpometrics.records.trial_record import EpochRecord, Exploit, TrialState
from hpometrics.results.best import best_text
from hpometrics.results.report.content import write_report
from hpometrics.results.report.figures import report_figures
from hpometrics.results.run_directory import RunDirectory
from hpometrics.results.status import Outcome
from hpometrics.results.verdict import _around, rows_lines, stored_verdict
from hpometrics.selection.intervals import Interval, Significance, TrialInterval

ACCURACY = changed("optimize: roc_auc, track: [accuracy]", "optimize: accuracy")
SIDES = TrialInterval(1, 2, 0.8, Interval(0.8, 0.7, 0.9)), TrialInterval(0, 1, 0.7, Interval(0.7, 0.6, 0.8))
VERDICT = Significance("roc_auc", *SIDES, Interval(0.1, -0.1, 0.3), kept="rows")


def best(*arguments):
    """`hpometrics best runs/sweep ...`."""
    return CliRunner().invoke(main, ["best", "runs/sweep", *arguments])


@pytest.fixture
def home(tmp_path):
    """Two trials and their verdict."""
    home = written(tmp_path, [trial(0, [0.5, 0.7]), trial(1, [0.6, 0.9, 0.8])])
    (home / "verdict.json").write_text(json.dumps(VERDICT.to_json()))
    return home


def test_a_sweep_ends_with_its_verdict(swept, folder):
    """By the confusion matrices; in the last block, `best`, `best.yaml` and its own file."""
    result = swept(ACCURACY)
    home = folder / "runs" / "sweep"
    told = json.loads((home / "verdict.json").read_text())
    assert told["kept"] == "matrix" and told["paired"] is False
    assert told["winner"]["interval"]["low"] <= told["winner"]["value"] <= told["winner"]["interval"]["high"]
    lines = "\n".join(Significance.from_json(told).lines())
    assert lines in result.stdout and lines in best().stdout
    assert read_document(home / "best.yaml").data["verdict"]["coin_toss"] == told["coin_toss"]


def test_the_report_of_a_run_shows_its_verdict(sweep, folder):
    """It is written once the verdict is there, by the run that computes it."""
    result = sweep(f"{ACCURACY}results: {{report: md}}\n")
    assert result.exit_code == 0, result.output
    told = json.loads((folder / "runs" / "sweep" / "verdict.json").read_text())
    lines = Significance.from_json(told).lines()
    report = (folder / "runs" / "sweep" / "report.md").read_text()
    assert len(lines) > 1 and all(line.strip() in report for line in lines)


def test_a_sweep_that_is_run_again_computes_nothing(sweep, swept, folder):
    """The picks are the same, and so is the file."""
    swept(ACCURACY)
    file = folder / "runs" / "sweep" / "verdict.json"
    before = file.stat().st_mtime_ns
    assert sweep(ACCURACY).exit_code == 0
    assert file.stat().st_mtime_ns == before


def test_rows_that_are_kept_are_paired(sweep):
    """Those of `train` have one target in every trial."""
    result = sweep(f"{SWEEP}results: {{statistics: all}}\n")
    assert "for roc_auc, over the same rows of both trials (paired)" in result.stdout


def test_what_is_not_kept_has_a_reason(swept):
    """Scores grow with the rows, so that `small` keeps none."""
    result = swept(SWEEP)
    assert (
        "Verdict: no confidence interval; "
        "roc_auc cannot be computed from a confusion matrix alone" in result.stdout
    )


def test_rows_that_are_alike_have_no_interval():
    """Its length would be 0, whatever other rows are."""
    with pytest.raises(NotKeptError, match="all rows of trial 1 have the same value"):
        _around(TrialInterval(1, 2, 0.8), Interval(0.8, 0.8, 0.8))


def test_what_the_engine_reports_has_no_rows(sweep):
    """Its values are all there is."""
    text = changed(
        "optimize: roc_auc, track: [accuracy]", "optimize: {metric: latency_ms, direction: minimize}"
    )
    told = sweep(text.replace("toy_engine:train", "toy_engine:report")).stdout
    assert "Verdict: no confidence interval; latency_ms is" in told


def test_one_trial_has_an_interval_and_no_rival(sweep):
    """The difference is left out with its reason."""
    told = sweep(changed("trials: 4", "trials: 1", ACCURACY)).stdout
    assert "Verdict: 95% intervals for accuracy" in told
    assert "  no interval for the difference; no other trial is complete" in told


def test_another_level_is_computed_on_request(swept):
    """For another metric too; a wider level has wider intervals."""
    swept(ACCURACY)
    spans = []
    for level in ("0.5", "0.99"):
        told = json.loads(best("--metric", "mcc", "--interval", level, "-f", "json").stdout)["verdict"]
        assert told["metric"] == "mcc" and told["level"] == float(level)
        spans.append(told["winner"]["interval"]["high"] - told["winner"]["interval"]["low"])
    assert spans[0] < spans[1]
    assert best("--interval", "1").exit_code == 2


def test_a_verdict_says_what_it_leaves_open(home):
    """The seed's luck is not in it; `confirm` answers, but for trials that were changed in training."""
    told = best_text(home).splitlines()
    assert told[-1] == (
        "  it compares two trained models on other rows, but another seed can reverse it: "
        f"hpometrics confirm {home} trains the best trials again"
    )
    (home / "verdict.json").unlink()
    assert best_text(home).splitlines()[-1].startswith("  another seed can reverse the order; ")
    changed_in_training = replace(trial(2, [0.1]), exploits=(Exploit(1, 0, {"lr": 0.1}),))
    written(home.parent / "pbt", [trial(0, [0.5, 0.7]), trial(1, [0.6, 0.9]), changed_in_training])
    assert "another seed" not in best_text(home.parent / "pbt")


def test_a_verdict_of_other_picks_is_not_shown(home):
    """As where a later trial ranks second."""
    told = best_text(home)
    assert VERDICT.lines()[0] in told
    (home / "verdict.json").write_text(json.dumps(replace(VERDICT, runner_up=None).to_json()))
    assert "Verdict: no confidence interval; not computed for these picks" in best_text(home)


def test_the_report_has_it(home):
    """As text."""
    text = write_report(home, "md").read_text()
    assert "  difference: 0.10, -0.10 .. 0.30; not statistically significant" in text


def test_the_headline_is_the_winner_and_how_sure_it_is(home):
    """With its interval and the runner-up; a verdict on other picks is left out."""
    assert Outcome.read(home).headline == (
        "Trial 1 is best: roc_auc 0.80 (95% 0.70 to 0.90). Not distinguishable from trial 0."
    )
    (home / "verdict.json").write_text(json.dumps(replace(VERDICT, p_value=0.01).to_json()))
    assert Outcome.read(home).headline.endswith(" Better than trial 0.")
    (home / "verdict.json").unlink()
    assert Outcome.read(home).headline == "Trial 1 is best: roc_auc 0.8."


def test_the_best_ten_have_intervals_where_enough_is_stored(swept, folder):
    """They are computed when the sweep ends; the figure of the report draws each."""
    swept(ACCURACY)
    home = folder / "runs" / "sweep"
    outcome = Outcome.read(home)
    complete = [record for record in outcome.records if record.state is TrialState.COMPLETE]
    assert len(outcome.verdict.intervals) == len(complete) > 2
    figure = next(report_figures(outcome))
    winner, others = figure.drawings[0]["data"]
    assert winner["y"] == [f"trial {outcome.best.trial}"] and len(others["y"]) == len(complete) - 1
    assert all(length > 0 for length in others["error_x"]["array"])
    assert figure.caption.endswith("Each bar is the 95% interval of a value on other rows of the same kind.")
    assert "others" not in read_document(home / "best.yaml").data["verdict"]


def test_without_intervals_the_best_trials_are_dots(tmp_path):
    """The caption says why."""
    figure = next(report_figures(Outcome.read(written(tmp_path))))
    assert figure.drawings[0]["data"][1]["error_x"]["array"] == [0.0]
    assert "Trials without a bar have no interval: not computed" in figure.caption


def test_a_damaged_file_is_named(home):
    """Rather than taken for none."""
    (home / "verdict.json").write_text("{}")
    directory = RunDirectory(home)
    with pytest.raises(RecordError, match=r"verdict\.json: not a verdict"):
        stored_verdict(directory, directory.records(), directory.read())


ROWS = (
    "Rows: trials were measured on different validation rows, so their values differ for more reasons than "
)


def measured_on(*rows):
    """Trials of which the second is the best, each measured on some rows."""
    return [
        replace(trial(number, [0.5, 0.9 if number == 1 else 0.7]), targets=told)
        for number, told in enumerate(rows)
    ]


@pytest.mark.parametrize("arguments", [(), ("-k", "2"), ("--interval", "0.9")])
def test_trials_on_other_rows_are_named(tmp_path, arguments, monkeypatch):
    """Wherever a pick is told: what it was compared with is no pair."""
    monkeypatch.chdir(tmp_path)
    home = written(tmp_path, measured_on("9 rows aa", "9 rows bb", "9 rows aa", None))
    told = CliRunner().invoke(main, ["best", str(home), *arguments]).output
    assert ROWS in told and "  9 rows aa: trials 0, 2\n  9 rows bb: trial 1" in told
    write_report(home, "html")
    assert ROWS in (home / "report.html").read_text()


def test_trials_on_the_same_rows_are_not_spoken_of(tmp_path):
    """Nor are those of which nobody knows the rows."""
    home = written(tmp_path, measured_on("9 rows aa", "9 rows aa", None))
    assert "Rows:" not in CliRunner().invoke(main, ["best", str(home)]).output


def test_many_trials_on_other_rows_take_few_lines(tmp_path):
    """The first of them, and how many more there are."""
    lines = rows_lines(measured_on(*("9 rows aa" for _ in range(9)), *(f"9 rows {n}" for n in range(9))))
    assert lines[1] == "  9 rows aa: trials 0, 1, 2, 3, 4, 5 and 3 more"
    assert len(lines) == 8 and lines[-1] == "  and 4 others"


def logged(**values):
    """A trial with one epoch of 359 rows, 345 of them right."""
    epoch = EpochRecord(0, {"roc_auc": 0.9, "accuracy": 345 / 359, "exs": 359, **values})
    return replace(trial(0, [0.9]), epochs=(epoch,))


@pytest.mark.parametrize("name", ["ptl/val_accuracy", "val/acc", "eval_accuracy"])
def test_a_logged_mean_of_batches_is_told(tmp_path, name):
    """Two batches of 256 and 103 rows, with 247 and 98 right; once, wherever a pick is told."""
    mean = (247 / 256 + 98 / 103) / 2
    home = written(tmp_path, [logged(**{name: mean}), replace(logged(**{name: mean}), number=1)])
    told = CliRunner().invoke(main, ["best", str(home)]).output
    line = f"Logged: {name} 0.95815 (trial 0, epoch 0) is not a share of 359 rows, as accuracy 0.961003 is"
    assert told.count("Logged:") == 1 and line in told
    write_report(home, "md")
    assert line in (home / "report.md").read_text()


@pytest.mark.parametrize(
    "values",
    [
        {"val_accuracy": float(np.float32(345 / 359))},
        {"val_accuracy": round(345 / 359, 4)},
        {"val_acc": 100 * 345 / 359},
        {"val_acc": round(100 * 345 / 359, 1)},
        {"val_accuracy": 344 / 359},  # by another threshold
        {"val_accuracy": float(np.float16(345 / 359))},
        {"val_accuracy": math.nan},
        {"val_loss": 0.1247, "train_accuracy": 0.95123456, "val_roc_auc": 0.95123456},
        {"val_accuracy": 0.95123456, "accuracy": 0.9512345},  # rows without a label are not counted
        {"val_accuracy": 0.95123456, "accuracy": 0.961003, "exs": 10**6},  # too many for single precision
    ],
)
def test_what_may_be_an_accuracy_of_the_rows_is_not_spoken_of(values):
    """Rounded, in per cent, in single or half precision; nor what is not an accuracy of these rows."""
    assert rows_lines([logged(**values)]) == []


def test_sweeps_on_other_rows_are_named(tmp_path):
    """The picks of two, which `compare` puts side by side."""
    homes = [written(tmp_path / rows[-1], measured_on(rows, rows)) for rows in ("9 rows a", "8 rows b")]
    told = CliRunner().invoke(main, ["compare", *map(str, homes)]).output
    text = f"{homes[0]} was measured on 9 rows a, {homes[1]} on 8 rows b: not only the params make"
    other = f"{homes[1]} was measured on 8 rows b, {homes[0]} on 9 rows a: not only the params make"
    assert text in told or other in told
