"""The test value beside the validation value that picked it."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import pytest
from sample_records import trial, written
from sample_sweeps import SWEEP, changed, plan_of

from hpometrics.config.document import read_document
from hpometrics.direction import Direction
from hpometrics.results.best import best_text
from hpometrics.results.export import held_out, trials_csv
from hpometrics.results.leaderboard import optimal_block, result_table, trials_text
from hpometrics.results.manifest import resolve
from hpometrics.results.report.content import write_report
from hpometrics.results.run_directory import RunDirectory
from hpometrics.selection.selection import best_by

TRACKED = changed("track: [accuracy]", 'track: [accuracy, "test:roc_auc"]')


def with_test(number, values, of_test):
    """A trial with values on the test split."""
    record = trial(number, values)
    told = zip(record.epochs, of_test, strict=True)
    epochs = [replace(epoch, values={**epoch.values, "test:roc_auc": value}) for epoch, value in told]
    return replace(record, epochs=tuple(epochs))


RECORDS = [with_test(0, [0.5, 0.75], [0.9, 0.5]), trial(1, [0.6])]


@pytest.mark.parametrize(
    ("direction", "value", "of_test", "words"),
    [
        (Direction.MAXIMIZE, 0.75, 0.5, "0.25 worse than on validation, because the pick is optimistic"),
        (Direction.MINIMIZE, 0.75, 0.5, "0.25 better than on validation: no optimism"),
        (Direction.MINIMIZE, 0.5, 0.5, "as on validation"),
    ],
)
def test_optimism_is_in_the_direction_of_the_metric(direction, value, of_test, words):
    """A smaller test value is worse of what is to be large, and better of what is to be small."""
    assert held_out({"x": value, "test:x": of_test}, "x", direction, value).words == words


@pytest.mark.parametrize("values", [{}, {"test:x": math.nan}, {"test:x": [0.5]}])
def test_there_is_none_without_a_finite_number(values):
    """No update of the test split, an undefined value, a curve."""
    assert held_out(values, "x", Direction.MAXIMIZE, 0.5) is None


@pytest.mark.parametrize("text", [SWEEP, TRACKED], ids=["untracked", "tracked"])
def test_the_last_block_has_it_once(text):
    """That of the picked epoch, second; the better test value of epoch 0 has no say."""
    resolved = resolve(plan_of(text))
    block = optimal_block(best_by(RECORDS, resolved.optimized), RECORDS, resolved)
    lines = [line.split() for line in block.partition("Metrics:\n")[2].splitlines()]
    assert [line[0] for line in lines] == ["roc_auc:", "test:roc_auc:", "accuracy:"]
    assert " ".join(lines[1][1:]) == "0.5 (0.25 worse than on validation, because the pick is optimistic)"


def test_tables_have_a_column_where_a_trial_has_it():
    """A dash stands for the trial that has none; without any there is no column."""
    resolved = resolve(plan_of(SWEEP))
    head, _, first, second = result_table(RECORDS, resolved).splitlines()
    assert "roc_auc ^  test:roc_auc ^  accuracy ^" in head
    assert first.split()[2:4] == ["0.750000", "0.500000"] and second.split()[3] == "-"
    assert "test:" not in result_table(RECORDS[1:], resolved)


def test_files_have_it(tmp_path):
    """`best.yaml`, the JSON of a trial, `trials.csv` and the report."""
    home = written(tmp_path, RECORDS)
    (tmp_path / "best.yaml").write_text(best_text(home, "yaml"))
    assert read_document(tmp_path / "best.yaml").data["test"] == {"value": 0.5, "optimism": 0.25}
    told = json.loads(trials_text(home, "json"))
    assert [trial["test"] for trial in told] == [{"value": 0.5, "optimism": 0.25}, None]
    rows = list(
        csv.DictReader(trials_csv(RunDirectory(home).records(), resolve(plan_of(SWEEP))).splitlines())
    )
    assert [row["values.test:roc_auc"] for row in rows] == ["0.5", ""]
    report = write_report(home, "md").read_text()
    assert "because the pick is optimistic" in report


def test_the_report_says_what_each_metric_would_have_picked(tmp_path):
    """Trial 0 by `roc_auc`, and by `accuracy`, which gives nothing up."""
    text = write_report(written(tmp_path, RECORDS), "md").read_text()
    rows = [line.split() for line in text.partition("would have picked")[2].splitlines()[6:8]]
    assert rows == [
        ["roc_auc", "^", "0", "1", "0.750000", "0.750000", "0"],
        ["accuracy", "^", "0", "1", "0.650000", "0.750000", "0"],
    ]
